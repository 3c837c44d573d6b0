"""`files/write`: into the granted folder of a session, whole, bounded, and nowhere else."""

import fcntl
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.core import jsonrpc
from conductor.services import file_writer
from conductor.services.calls import ServiceError
from conductor.services.files import Files
from tests.services.support import grantee
from tests.services.test_files import reader

ALL = "everything"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project, with a folder beside it."""
    (tmp_path / "elsewhere").mkdir()
    project = tmp_path / "project"
    project.mkdir()
    return project


def write(one: Files, folders: str = "notes", /, **params: object) -> Any:
    """Writes as a component that was granted these folders."""
    granted = None if folders == ALL else [f"write:{each}" for each in folders.split()]
    return one.write(grantee(grants=granted), msgspec.json.encode({"text": "x", **params}))


def refusal(one: Files, folders: str = "notes", /, **params: object) -> str:
    """Why it may not."""
    with pytest.raises(ServiceError) as caught:
        write(one, folders, **params)
    return caught.value.reason


def test_a_file_is_written_whole_for_the_user_alone(home: Path) -> None:
    files = reader(home)
    done = write(files, path="notes/2025/a.md", text="é")
    path = home / "notes/2025/a.md"
    assert done == {"path": str(path), "size": 2, "used": 2, "quota": file_writer.QUOTA_BYTES}
    assert path.read_text("utf-8") == "é"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert write(files, path="notes/b", text=None, base64="/w==")["used"] == 3
    assert (home / "notes/b").read_bytes() == b"\xff"
    assert write(files, path="notes/2025/a.md", text="new")["used"] == 4
    assert path.read_text("utf-8") == "new"
    assert [one.name for one in path.parent.iterdir()] == ["a.md"], "no draft is left behind"
    # Several grants; a hidden folder is one if the grant names it; all services are granted.
    write(files, "a .b/c", path=".b/c/d")
    write(files, ALL, path=".b/e")
    assert (home / ".b/c/d").exists()


def test_what_is_not_granted_is_refused(home: Path) -> None:
    files = reader(home)
    for path in (
        "a.md",
        "notes",
        "notesy/a",
        "other/notes/a",
        "notes/.hidden",
        "notes/.git/config",
    ):
        assert refusal(files, path=path) == "not-granted", path
    for path in ("a", ".bashrc", "a/.bashrc"):
        assert refusal(files, ALL, path=path) == "not-granted", path
    assert refusal(files, "a", path="notes/a") == "not-granted"
    assert refusal(reader(), path="notes/a") == "no-root"
    assert list(home.iterdir()) == []


def test_paths_that_cannot_be(home: Path) -> None:
    files = reader(home)
    long = "/".join(["notes", *["x" * 190] * 6])
    for path in (
        "", "/etc/x", str(home / "notes/a"), "notes/../a", "notes/./a", "notes//a", "notes/",
        "../x", "notes/\0", "notes/a\nb", "notes/\u202ea", "notes/" + "x" * 201, long,
        "notes" + "/a" * 16,
    ):  # fmt: skip
        with pytest.raises(ServiceError) as caught:
            write(files, path=path)
        assert caught.value.code == jsonrpc.INVALID_PARAMS, path
    for content in (
        {"text": None},
        {"base64": "AA=="},
        {"text": None, "base64": "!"},
        {"text": None, "base64": "é"},
    ):
        assert refusal(files, path="notes/a", **content) == "params"
    assert refusal(files, path="notes/a", mode=0o777) == "params"
    for params in (b'{"path": "notes/\\udc00", "text": ""}',):
        with pytest.raises(ServiceError):
            files.write(grantee(grants=["write:notes"]), params)
    assert list(home.iterdir()) == []


@pytest.mark.proves("a proxy writes files only")
def test_what_leads_elsewhere_is_refused(home: Path) -> None:
    files, outside = reader(home), home.parent / "elsewhere"
    (home / "notes").mkdir()
    (home / "notes/link").symlink_to(outside)
    (home / "notes/file").symlink_to(outside / "new")
    (home / "linked").symlink_to(outside)
    assert refusal(files, path="notes/link/a") == "not-a-folder"
    assert refusal(files, "linked", path="linked/a") == "not-a-folder"
    assert refusal(files, path="notes/file") == "not-a-file"
    os.mkfifo(home / "notes/pipe")
    (home / "notes/folder").mkdir()
    assert refusal(files, path="notes/pipe") == "not-a-file"
    assert refusal(files, path="notes/folder") == "not-a-file"
    (home / "notes/plain").write_text("mine")
    assert refusal(files, path="notes/plain/a") == "not-a-folder"
    # A second name of a file keeps its content: the new one takes the place of the name.
    os.link(home / "notes/plain", outside / "plain")
    write(files, path="notes/plain")
    assert (outside / "plain").read_text() == "mine"
    assert [one.name for one in outside.iterdir()] == ["plain"]


def test_the_folder_of_a_session_is_named_where_there_are_several(home: Path) -> None:
    other = home.parent / "elsewhere"
    files = reader(home, other)
    assert refusal(files, path="notes/a") == "params"
    assert refusal(files, path="notes/a", root=str(home.parent)) == "outside"
    assert write(files, path="notes/a", root=str(other))["path"] == str(other / "notes/a")
    # Its own name may be a link: the client has named it.
    (home.parent / "link").symlink_to(home)
    write(reader(home.parent / "link"), path="notes/a")
    assert (home / "notes/a").exists()


@pytest.mark.proves("a proxy writes files only")
def test_a_folder_holds_so_much(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = reader(home)
    assert refusal(files, path="notes/a", text="x" * (file_writer.FILE_BYTES + 1)) == "too-large"
    monkeypatch.setattr(file_writer, "QUOTA_BYTES", 10)
    write(files, path="notes/in/a", text="x" * 6)
    assert refusal(files, path="notes/b", text="x" * 5) == "quota"
    write(files, path="notes/in/a", text="x" * 10)  # the old one does not count
    write(files, "notes other", path="other/a", text="x" * 10)  # another folder has its own
    monkeypatch.setattr(file_writer, "QUOTA_FILES", 3)
    write(files, path="notes/b", text="")
    assert refusal(files, path="notes/c", text="") == "quota"
    assert not (home / "notes/c").exists()


def test_a_draft_that_cannot_be_written_goes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    files = reader(home)
    write(files, path="notes/a", text="old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ServiceError, match="notes/a: No space left on device"):
        write(files, path="notes/a", text="new")
    assert [one.name for one in (home / "notes").iterdir()] == ["a"]
    assert (home / "notes/a").read_text() == "old"
    assert refusal(reader(home.parent / "missing"), path="notes/a") == "io"


@pytest.mark.proves("of two components that change")
def test_a_file_is_replaced_only_if_it_is_as_it_was_read(home: Path) -> None:
    files, path = reader(home), home / "notes/a"
    first, second = (hashlib.sha256(text).hexdigest() for text in (b"one", b"two"))
    assert refusal(files, path="notes/a", ifSha256=first) == "conflict"
    assert not path.exists()
    write(files, path="notes/a", text="one", ifSha256="")
    assert refusal(files, path="notes/a", ifSha256="") == "conflict"
    assert refusal(files, path="notes/a", ifSha256=second) == "conflict"
    write(files, path="notes/a", text="two", ifSha256=first)
    assert path.read_text() == "two"
    folder = os.open(path.parent, os.O_RDONLY)  # another conductor is at it
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert refusal(files, path="notes/a", ifSha256=second) == "conflict"
    os.close(folder)
    write(files, path="notes/a", text="three", ifSha256=second)
    (home / "notes/link").symlink_to(path)
    assert refusal(files, path="notes/link", ifSha256=second) == "io"
    os.mkfifo(home / "notes/pipe")
    assert refusal(files, path="notes/pipe", ifSha256=second) == "not-a-file"
