"""Private folders: gone with their owner, at the latest when somebody clears away."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from conductor.transports import private
from conductor.transports.private import JOIN, MCP, Folder

OWNER: Final = """
import socket, sys
from conductor.transports.private import MCP, Folder
folder = Folder(MCP)
if "listening" in sys.argv:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(folder.socket)
    listener.listen()
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder, short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="c-") as short:
        monkeypatch.setenv("TMPDIR", short)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(short)
    monkeypatch.setattr(tempfile, "tempdir", None)


def like_ours(place: Path, name: str = MCP + "x") -> Path:
    """A folder as a conductor leaves it."""
    folder = place / name
    folder.mkdir(mode=0o700)
    (folder / "socket").touch()
    return folder


@pytest.mark.parametrize("how", ["listening", "bare"])
def test_what_a_killed_owner_leaves_is_removed_and_not_before(place: Path, how: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().strip())
        assert folder.parent == place
        private.clear()
        assert folder.exists()
        owner.kill()
        owner.wait()
    assert folder.exists()
    private.clear()
    assert list(place.iterdir()) == []


def test_an_owner_removes_its_folder_itself(place: Path) -> None:
    folder = Folder(JOIN)
    assert Path(folder.path).stat().st_mode & 0o777 == 0o700
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(folder.socket)
    folder.remove()
    folder.remove()
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("kind", [MCP, JOIN])
def test_folders_of_ours_without_an_owner(place: Path, kind: str) -> None:
    like_ours(place, kind + "left")
    (place / (kind + "empty")).mkdir(mode=0o700)
    private.clear()
    assert list(place.iterdir()) == []


def test_what_is_not_like_ours_is_left_alone(place: Path) -> None:
    like_ours(place, "conductor-else")
    like_ours(place, MCP + "open").chmod(0o755)
    (place / (MCP + "file")).touch()
    more = like_ours(place, MCP + "more")
    (more / "letter").touch()
    before = sorted(place.iterdir())
    private.clear()
    assert sorted(place.iterdir()) == before
    assert (more / "letter").exists()


def test_links_are_not_followed(place: Path) -> None:
    target = like_ours(place, "precious")
    (place / (MCP + "link")).symlink_to(target)
    inside = like_ours(place, MCP + "inside")
    (inside / "socket").unlink()
    (inside / "socket").symlink_to(target / "socket")
    private.clear()
    assert (place / (MCP + "link")).is_symlink()
    assert not inside.exists(), "of the link itself that is all"
    assert (target / "socket").exists()


def test_what_is_somebody_elses_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = like_ours(place)
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    private.clear()
    assert (folder / "socket").exists()


def test_a_conductor_that_knows_no_locks_is_seen_by_its_socket(place: Path) -> None:
    folder = like_ours(place)
    (folder / "socket").unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        private.clear()
        assert folder.exists()
    private.clear()
    assert not folder.exists()


@pytest.mark.parametrize("late", ["opened", "locked"])
def test_a_new_folder_that_is_cleared_away_at_once_is_made_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    cleared: list[str] = []
    opened, locked = private._opened, private._lock

    def clear(path: str) -> None:
        if not cleared:
            cleared.append(path)
            Path(path).rmdir()

    def open_(path: str) -> int:
        if late == "opened":
            clear(path)
        return opened(path)

    def lock(folder: int, *, wait: bool) -> bool:
        if late == "locked":
            clear(path[0])
        return locked(folder, wait=wait)

    path: list[str] = []
    make = tempfile.mkdtemp

    def made(**given: str | None) -> str:
        path[:] = [make(**given)]
        return path[0]

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    monkeypatch.setattr(private, "_opened", open_)
    monkeypatch.setattr(private, "_lock", lock)
    folder = Folder(MCP)
    assert [folder.path] == [str(one) for one in place.iterdir()] != cleared
    folder.remove()
