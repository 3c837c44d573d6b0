"""Folders of ours keep what their rule says, and nothing outside of them is touched."""

import fcntl
import os
import time
from pathlib import Path

import pytest

from conductor.spec import retention
from conductor.spec.retention import DAY, Rule, prune

RULE = Rule(".log", 3, 100, DAY)


def put(folder: Path, *sizes: int, age: float = 0.0) -> list[str]:
    """Files of these sizes, the newest first, the first of which is `age` seconds old."""
    now = time.time() - age
    for at, size in enumerate(sizes):
        path = folder / f"{at}.log"
        path.write_bytes(b"x" * size)
        os.utime(path, (now - at, now - at))
    return [f"{at}.log" for at in range(len(sizes))]


def left(folder: Path) -> list[str]:
    """The names in the folder."""
    return sorted(os.listdir(folder))


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    retention.prepare(str(folder))
    return folder


def test_the_newest_stay_up_to_the_number_the_bytes_and_the_age(folder: Path) -> None:
    put(folder, 1, 1, 1, 1, 1)
    assert [one.name for one in prune(str(folder), RULE)] == ["4.log", "3.log"]
    assert left(folder) == ["0.log", "1.log", "2.log"]
    put(folder, 60, 60, 1)
    prune(str(folder), RULE)
    assert left(folder) == ["0.log"]
    put(folder, 1, age=4 * DAY)
    prune(str(folder), RULE)
    assert left(folder) == ["0.log"]  # one reading of the clock is not enough
    (folder / "now.log").touch()
    os.utime(folder / "now.log", (time.time() - 2 * DAY,) * 2)
    prune(str(folder), RULE)
    assert left(folder) == ["now.log"]


def test_a_former_file_counts_and_goes_with_the_one_in_its_place(folder: Path) -> None:
    put(folder, 1, 60)
    (folder / "1.log.1").write_bytes(b"x" * 60)
    (folder / "7.log.1").touch()
    assert [one.size for one in retention.files(str(folder), ".log")] == [1, 120]
    prune(str(folder), RULE)
    assert left(folder) == ["0.log", "7.log.1"]


def test_what_is_in_use_or_not_ours_stays(folder: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim.log"
    victim.write_text("mine")
    (folder / "link.log").symlink_to(victim)
    (folder / "folder.log").mkdir()
    (folder / "notes.txt").touch()
    os.mkfifo(folder / "pipe.log")
    put(folder, 1, 1, age=4 * DAY)
    (folder / "2.log").touch()
    os.utime(folder / "2.log", (time.time() - 2 * DAY,) * 2)
    with (folder / "1.log").open() as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        prune(str(folder), RULE)
    assert left(folder) == ["1.log", "2.log", "folder.log", "link.log", "notes.txt", "pipe.log"]
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("kind", ["link", "file", "open"])
def test_a_folder_that_others_could_have_filled_is_refused(kind: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    put(elsewhere, 1, age=2 * DAY)
    folder = tmp_path / "folder"
    match kind:
        case "link":
            folder.symlink_to(elsewhere)
        case "file":
            folder.touch()
        case _:
            folder = elsewhere
            folder.chmod(0o777)
    for work in (lambda: retention.prepare(str(folder)), lambda: prune(str(folder), RULE)):
        with pytest.raises(OSError, match=r"it is no folder|can be written by other users|exists"):
            work()
    assert left(elsewhere) == ["0.log"]


def test_of_ten_thousand_a_start_removes_some_and_the_next_ones_the_rest(folder: Path) -> None:
    for at in range(1200):
        (folder / f"{at}.log").touch()
    assert len(prune(str(folder), RULE)) == 500
    assert [len(prune(str(folder), RULE)) for _ in range(3)] == [500, 197, 0]
