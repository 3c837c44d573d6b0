"""`files`: what was granted, below what the client named, and nothing else."""

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.services.calls import ServiceError
from conductor.services.files import Files
from tests.services.support import grantee


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with a secret beside it."""
    (tmp_path / "secret.md").write_text("secret")
    project = tmp_path / "project"
    (project / "docs").mkdir(parents=True)
    (project / "AGENTS.md").write_text("be nice")
    (project / "docs" / "AGENTS.md").write_text("be brief")
    (project / ".env").write_text("KEY=1")
    (project / "image.md").write_bytes(b"\xff\xfe")
    return project


def reader(*roots: Path) -> Files:
    """A service whose client has named these folders."""
    files = Files()
    files.below([(str(root),) for root in roots])
    return files


def ask(one: Files, service: str, *globs: str, **params: object) -> Any:
    """Performs a request of a component granted `globs`."""
    caller = grantee(grants=[f"read:{glob}" for glob in globs or ("**",)])
    return getattr(one, service)(caller, msgspec.json.encode(params))


def refusal(one: Files, service: str, *globs: str, **params: object) -> str:
    """Why a request is refused."""
    with pytest.raises(ServiceError) as caught:
        ask(one, service, *globs, **params)
    return caught.value.reason


def test_roots_are_absolute_and_not_too_many() -> None:
    files = Files()
    files.below([("/a", "/b/../c/", "e"), ("relative", "/d\0"), ("/a", "", "/d")])
    assert ask(files, "roots") == {"roots": ["/a", "/c", "/d"]}
    files.below([tuple(f"/{n}" for n in range(1000))])
    assert len(ask(files, "roots")["roots"]) == 256
    files.below(())
    assert ask(files, "roots") == {"roots": []}


def test_reading(home: Path) -> None:
    one = reader(home)
    found = ask(one, "read", path="AGENTS.md")
    assert (found["text"], found["size"], found["more"]) == ("be nice", 7, False)
    assert found["path"] == str(home / "AGENTS.md")
    part = ask(one, "read", path=str(home / "AGENTS.md"), offset=3, maxBytes=2)
    assert (part["text"], part["more"]) == ("ni", True)
    assert ask(one, "read", path="image.md")["base64"] == "//4="
    for offset in (-1, 2**63):
        assert refusal(one, "read", path="AGENTS.md", offset=offset) == "params"


@pytest.mark.proves("a proxy reads and lists files")
@pytest.mark.parametrize(
    ("globs", "path", "reason"),
    [
        (("**",), "../secret.md", "outside"),
        (("**",), "/etc/passwd", "outside"),
        (("**",), "docs/../../secret.md", "outside"),
        (("**",), ".env", "not-granted"),
        (("docs/*",), "AGENTS.md", "not-granted"),
        (("**",), ".", "not-granted"),
        (("**",), "nothing.md", "not-found"),
        (("**",), "docs", "not-a-file"),
        (("**",), "a\0b", "params"),
        (("**",), "", "not-granted"),
    ],
)
def test_what_is_not_read(home: Path, globs: tuple[str, ...], path: str, reason: str) -> None:
    assert refusal(reader(home), "read", *globs, path=path) == reason


@pytest.mark.proves("a proxy reads and lists files")
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("../secret.md", "outside"),
        ("/etc/passwd", "outside"),
        (".env", "not-granted"),
        ("link.md", "not-found"),  # a circle
    ],
)
def test_links_do_not_lead_out(home: Path, target: str, reason: str) -> None:
    (home / "link.md").symlink_to(target)
    assert refusal(reader(home), "read", path="link.md") in (reason, "io")


@pytest.mark.proves("a proxy reads and lists files")
def test_folders_that_are_links_do_not_lead_out(home: Path) -> None:
    (home / "up").symlink_to("..")
    (home / "inner").symlink_to("docs")
    one = reader(home)
    assert refusal(one, "read", path="up/secret.md") == "outside"
    assert refusal(one, "list", path="up") == "outside"
    assert ask(one, "read", path="inner/AGENTS.md")["text"] == "be brief"


@pytest.mark.proves("a proxy reads and lists files")
def test_a_link_does_not_list_what_is_not_granted_where_it_leads(home: Path) -> None:
    (home / "private").mkdir()
    (home / "private" / "plan.md").write_text("x")
    (home / "docs" / "more").symlink_to("../private")
    one = reader(home)
    assert ask(one, "list", "docs/**", path="docs/more")["entries"] == []
    assert refusal(one, "read", "docs/**", path="docs/more/plan.md") == "not-granted"
    both = ask(one, "list", "docs/**", "private/*", path="docs/more")["entries"]
    assert [entry["path"] for entry in both] == [str(home / "docs" / "more" / "plan.md")]


@pytest.mark.proves("a proxy reads and lists files", "files and folders that become")
def test_a_folder_that_changes_into_a_link_while_it_is_listed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "plan.md").write_text("x")
    (home / "late").mkdir()
    scandir = os.scandir

    def restless(folder: int) -> Any:
        if (home / "late").is_dir() and not (home / "late").is_symlink():
            found = list(scandir(folder))
            for entry in found:
                entry.is_dir(follow_symlinks=False)  # it is a folder now
            (home / "late").rmdir()
            (home / "late").symlink_to("../outside")
            return contextlib.nullcontext(found)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", restless)
    one = reader(home)
    names = [Path(entry["path"]).name for entry in ask(one, "list")["entries"]]
    assert names == ["AGENTS.md", "docs", "image.md", "late", "AGENTS.md"]
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert refusal(one, "list", path="late") == "io"


def test_a_root_may_itself_be_a_link(home: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("project")
    one = reader(tmp_path / "alias")
    assert ask(one, "read", path="AGENTS.md")["text"] == "be nice"


def test_pipes_and_sockets_do_not_hold_it_up(home: Path) -> None:
    os.mkfifo(home / "pipe")
    assert refusal(reader(home), "read", path="pipe") == "not-a-file"
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(home / "socket"))
        assert refusal(reader(home), "read", path="socket") == "not-a-file"


def test_listing(home: Path) -> None:
    one = reader(home)
    found = ask(one, "list", "**/AGENTS.md", glob="**")
    assert [entry["path"] for entry in found["entries"]] == [
        str(home / "AGENTS.md"),
        str(home / "docs" / "AGENTS.md"),
    ]
    assert found["entries"][0]["kind"] == "file"
    names = [e["path"].rpartition("/")[2] for e in ask(one, "list")["entries"]]
    assert names == ["AGENTS.md", "docs", "image.md", "AGENTS.md"]
    assert ask(one, "list", limit=1)["more"] is True
    assert [e["size"] for e in ask(one, "list", path="docs", glob="*")["entries"]] == [8]


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"glob": "/x"}, "params"),
        ({"limit": 0}, "params"),
        ({"path": "/"}, "outside"),
        ({"path": "nothing"}, "not-found"),
        ({"path": "AGENTS.md"}, "io"),
        ({"depth": 1}, "params"),
    ],
)
def test_what_is_not_listed(home: Path, params: dict[str, object], reason: str) -> None:
    assert refusal(reader(home), "list", **params) == reason


def test_a_listing_does_not_end_at_what_cannot_be_told_or_read(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "shut").mkdir()
    (home / "shut" / "x.md").write_text("x")
    (home / "gone.md").write_text("x")
    if sys.platform == "linux":  # elsewhere no such name can be
        Path(os.fsdecode(os.fsencode(home) + b"/odd\xff.md")).write_text("x")
        Path(os.fsdecode(os.fsencode(home) + b"/odd\xff")).mkdir()
    scandir, shut = os.scandir, (home / "shut").stat().st_ino

    def restless(folder: int) -> Any:
        if os.fstat(folder).st_ino == shut:
            raise PermissionError(13, "Permission denied", folder)
        found = scandir(folder)
        (home / "gone.md").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(os, "scandir", restless)
    found = ask(reader(home), "list")
    names = [Path(entry["path"]).name for entry in found["entries"]]
    assert names == ["AGENTS.md", "docs", "image.md", "shut", "AGENTS.md"]
    assert found["more"] is False
    msgspec.json.encode(found)
    assert refusal(reader(home), "list", path="shut") == "io"
    with pytest.raises(ServiceError) as caught:
        reader(home).read(grantee(), b'{"path": "odd\\udcff.md"}')
    assert caught.value.reason == "params"


def test_hidden_folders_are_walked_where_they_are_named_only(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".git" / "objects").mkdir(parents=True)
    (home / ".git" / "x.md").write_text("x")
    walked: list[int] = []
    scandir = os.scandir

    def noted(folder: int) -> Any:
        walked.append(os.fstat(folder).st_ino)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", noted)
    one = reader(home)
    ask(one, "list")
    ask(one, "list", "**", glob=".git/*")
    ask(one, "list", ".git/*", "**")
    assert walked
    assert (home / ".git").stat().st_ino not in walked
    found = ask(one, "list", "**", ".git/*", glob=".git/*")
    assert [Path(entry["path"]).name for entry in found["entries"]] == ["objects", "x.md"]


def test_a_listing_says_when_it_looked_at_too_much(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conductor.services.files._VISITED", 3)
    found = ask(reader(home), "list")
    assert (len(found["entries"]), found["more"]) == (2, True)


def test_without_a_session_there_is_nothing() -> None:
    assert refusal(reader(), "read", path="a") == "no-root"
    assert ask(reader(), "list") == {"entries": [], "more": False}


def test_with_several_roots_a_path_is_absolute(home: Path) -> None:
    one = reader(home, home / "docs")
    assert refusal(one, "read", path="AGENTS.md") == "params"
    # The innermost root counts: what is granted is relative to that.
    assert ask(one, "read", "AGENTS.md", path=str(home / "docs/AGENTS.md"))["text"] == "be brief"


@pytest.mark.proves("a proxy reads and lists files", "files and folders that become")
def test_a_path_that_changes_into_a_link_meanwhile(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "docs" / "AGENTS.md").unlink()
    (home / "docs" / "AGENTS.md").symlink_to("../../secret.md")
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert refusal(reader(home), "read", path="docs/AGENTS.md") == "io"
