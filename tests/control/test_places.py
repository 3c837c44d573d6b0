"""The folders of control sockets: only private ones are used, nothing else in them is touched."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conductor.control import places


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that is the best; the second is in the folder `state`."""
    # pytest's own folders may be too long for the address of a socket.
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{base}/runtime")
        monkeypatch.setenv("XDG_STATE_HOME", f"{base}/state")
        yield Path(base) / "runtime" / "conductor"


def test_the_folder_is_made_private(runtime: Path) -> None:
    path, whys = places.chosen()
    assert path == str(runtime / f"{os.getpid()}.sock")
    assert whys == []
    assert runtime.stat().st_mode & 0o777 == 0o700


def _open(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o750)


def _link(folder: Path) -> None:
    folder.parent.mkdir()
    folder.symlink_to(folder.parents[1])


def _file(folder: Path) -> None:
    folder.parent.mkdir()
    folder.write_text("mine")


def _foreign(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 65534, 65534)


def _long(folder: Path) -> None:
    """The folder's path is too long for a socket."""
    os.environ["XDG_RUNTIME_DIR"] = str(folder.parent / ("x" * 100))


@pytest.mark.proves("a folder that others could use")
@pytest.mark.parametrize(
    ("attack", "why"),
    [
        (_open, "can be entered by others (mode 750)"),
        (_link, "is no folder"),
        (_file, "is no folder"),
        (_foreign, "belongs to another user"),
        (_long, "has a path that is too long for a socket"),
    ],
)
def test_a_folder_that_is_not_private_is_not_used(
    runtime: Path, attack: Callable[[Path], None], why: str
) -> None:
    attack(runtime)
    path, whys = places.chosen()
    assert why in whys[0]
    # The path of a test's own folder may be too long as well: then it is the one in /tmp.
    assert path.endswith((f"/state/conductor/run/{os.getpid()}.sock", f"/{os.getpid()}.sock"))
    assert str(runtime) not in path
    assert str(runtime) not in "".join(there for _, there in places.listed())


def test_only_sockets_are_removed(runtime: Path) -> None:
    path, _ = places.chosen()
    Path(path).write_text("mine")
    places.remove(path)
    assert Path(path).read_text() == "mine"
    Path(path).unlink()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path)
    (runtime / "notes.txt").write_text("")
    for name in ("x.sock", "7-2.sock", "7-.sock", "7-0.sock", "-7.sock", "\u0667.sock"):
        (runtime / name).write_text("")
    both = [(places.Id(os.getpid()), path), (places.Id(7, 2), str(runtime / "7-2.sock"))]
    assert _listed(runtime) == sorted(both, key=lambda one: one[1])
    places.remove(path)
    assert [id_ for id_, _ in _listed(runtime)] == [(7, 2)]


def _listed(folder: Path) -> list[tuple[places.Id, str]]:
    """The sockets of one folder: the last of the folders is that of all chains of this user."""
    return [one for one in places.listed() if Path(one[1]).parent == folder]
