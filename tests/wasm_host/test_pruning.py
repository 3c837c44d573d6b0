"""The compile cache stays bounded, and keeps what is used."""

import os
import time
from pathlib import Path

import pytest

from wasm_host.cache import store
from wasm_host.cache.store import Cache

HOUR = 3600.0
DAY = 24 * HOUR
NOW = 1_800_000_000.0


def made(folder: Path, name: str, size: int, age: float, *, seen: float | None = None) -> Path:
    """An entry that was made so long ago, and, if it has a note, was last used then."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}-digest.cwasm"
    path.write_bytes(bytes(size))
    os.utime(path, (NOW - age, NOW - age))
    (folder / f"{name}.json").write_text("{}", encoding="utf-8")
    if seen is not None:
        note = folder / f".{path.name}.seen"
        note.write_text("seen", encoding="utf-8")
        os.utime(note, (NOW - seen, NOW - seen))
    return path


def names(folder: Path) -> list[str]:
    """The names of the modules that are left."""
    return sorted(path.name.partition("-")[0] for path in folder.glob("*.cwasm"))


def test_what_nobody_used_for_long_goes_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    made(tmp_path, "old", 1, 40 * DAY)
    made(tmp_path, "unseen", 1, 50 * DAY, seen=31 * DAY)
    made(tmp_path, "seen", 1, 50 * DAY, seen=29 * DAY)
    made(tmp_path, "new", 1, DAY)
    gone = store.prune(tmp_path, now=NOW)
    assert [entry.path.name for entry in gone] == ["unseen-digest.cwasm", "old-digest.cwasm"]
    assert names(tmp_path) == ["new", "seen"]
    beside = {".seen-digest.cwasm.seen", "seen.json", "new.json"}
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".cwasm"} == beside


def test_the_oldest_go_where_there_is_too_much(tmp_path: Path) -> None:
    for name, size, age in (("a", 40, 3), ("b", 40, 4), ("c", 40, 5), ("d", 10, 6)):
        made(tmp_path, name, size, age * HOUR)
    assert sum(entry.size for entry in store.prune(tmp_path, most=100, now=NOW)) == 40
    assert names(tmp_path) == ["a", "b", "d"], "a small one fits where a large one does not"
    made(tmp_path, "e", 1000, 0.5 * HOUR)
    store.prune(tmp_path, most=100, now=NOW)
    assert names(tmp_path) == ["e"], "one that was just used stays, however large"


def test_what_is_used_all_the_time_stays(tmp_path: Path) -> None:
    """The use is noted once an hour only, so a note may be almost an hour older than the use."""
    path = made(tmp_path, "steady", 1000, HOUR)
    store.mark_used(path, NOW - 1)  # an hour less a second after the last note
    assert path.stat().st_mtime == NOW - HOUR
    assert store.prune(tmp_path, most=100, now=NOW + HOUR - 2) == []
    store.mark_used(path, NOW + 1)
    assert path.stat().st_mtime == NOW + 1
    assert [entry.path for entry in store.prune(tmp_path, most=100, now=NOW + 3 * HOUR)] == [path]


def test_what_killed_processes_left_behind_goes_after_a_day(tmp_path: Path) -> None:
    for name, age in ((".new-old", 2 * DAY), (".new-fresh", HOUR)):
        (tmp_path / name).write_bytes(b"half")
        os.utime(tmp_path / name, (NOW - age, NOW - age))
    store.prune(tmp_path, now=NOW)
    assert [path.name for path in tmp_path.iterdir()] == [".new-fresh"]
    assert store.prune(tmp_path / "nothing", now=NOW) == []


@pytest.mark.parametrize("size", [10, store.STAMPED_BYTES])
def test_use_is_remembered_and_an_entry_stays_unchanged(tmp_path: Path, size: int) -> None:
    cache = Cache(tmp_path / "modules", "identity")
    assert cache.store("digest", bytes(size)) == "stored"
    assert cache.holds("digest")
    assert not cache.holds("other")

    def fetch() -> str:
        return cache.fetch("digest", lambda path: Path(path).stat().st_size)[1]

    assert fetch() == "hit"
    (entry,) = store.entries(tmp_path / "modules")
    before = time.time() - 10 * DAY
    for path in (tmp_path / "modules").iterdir():
        if path.suffix == ".seen" or size < store.STAMPED_BYTES:
            os.utime(path, (before, before))
    if size < store.STAMPED_BYTES:
        assert store.entries(tmp_path / "modules")[0].used_at == before
    assert fetch() == "hit"
    (again,) = store.entries(tmp_path / "modules")
    assert again.used_at > before
    assert again.path == entry.path


def test_storing_prunes(tmp_path: Path) -> None:
    folder = tmp_path / "modules"
    path = made(folder, "old", 1, 0)
    long_ago = time.time() - 40 * DAY
    os.utime(path, (long_ago, long_ago))
    assert Cache(folder, "identity").store("digest", b"x") == "stored"
    assert not path.exists()
    assert len(store.entries(folder)) == 1
