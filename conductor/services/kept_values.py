"""The spaces of the file of values (`kv`): their owners, their sizes, and when they go.

Whole spaces go, because a space is all that a component keeps: half of it could be worse than
nothing.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

MOST: Final = 256 * 1024 * 1024
"""The most bytes of all spaces. Those unused for longest go first, but none of the last day."""
DAY: Final = 24 * 3600.0

_BUSY: Final = 5.0
"""Seconds to wait for a conductor that is writing."""
_VALUES: Final = """
create table if not exists kv (
  space text not null, key text not null, value blob not null, revision integer not null,
  primary key (space, key)
) without rowid
"""
_SPACES: Final = """
create table if not exists spaces (
  space text primary key, component text not null, project text not null, used real not null,
  revision integer not null
) without rowid
"""
_FLOOR: Final = "create table floor (revision integer not null)"
"""One row: a revision beyond all that spaces had which have gone. So none comes twice."""
_COUNT: Final = (
    "select count(*), coalesce(sum(length(cast(key as blob)) + length(value)), 0)"
    " from kv where space = ?"
)


class Space(NamedTuple):
    """The values that one component keeps, in one project or across projects."""

    space: str
    component: str
    """The component's name when it last kept a value."""
    project: str
    """The folder; empty: across projects."""
    used: float
    """When it was last used, to the day (Unix time)."""
    values: int
    size: int
    """Bytes."""


# -- for the store ---------------------------------------------------------------------------------


def prepare(db: sqlite3.Connection, age: int) -> None:
    """Makes the tables of a new file, and removes spaces that are to go; `age` as of `kv.Store`.
    A space that cannot be removed stays. Raises `sqlite3.Error`."""
    if not _is_table(db, "floor"):
        with db:
            db.execute("begin immediate")
            if not _is_table(db, "floor"):  # else another conductor was first
                for table in (_VALUES, _SPACES, _FLOOR, "insert into floor values (1)"):
                    db.execute(table)
    with contextlib.suppress(sqlite3.OperationalError):  # another may write for long
        gone = [*_old(db, age), *_surplus(db)]
        if gone:
            remove(db, gone)


def mark(db: sqlite3.Connection, space: str) -> None:
    """Records that a space is in use. Raises `sqlite3.Error`."""
    db.execute("update spaces set used = ? where space = ?", (time.time(), space))


def name(db: sqlite3.Connection, space: str, component: str, project: str) -> int:
    """Records whose space it is, and that it is in use; the revision of the next value there, which
    none has had. Raises `sqlite3.Error`."""
    last = db.execute("select revision from spaces where space = ?", (space,)).fetchone()
    last = last or db.execute("select revision from floor").fetchone()
    revision = int(last[0]) + 1
    row = (space, component, project, time.time(), revision)
    db.execute("insert or replace into spaces values (?, ?, ?, ?, ?)", row)
    return revision


def remove(db: sqlite3.Connection, spaces: Iterable[str]) -> None:
    """Removes spaces with their values. Raises `sqlite3.Error`."""
    with db:
        db.execute("begin immediate")
        for space in spaces:
            for (last,) in db.execute("select revision from spaces where space = ?", (space,)):
                db.execute("update floor set revision = max(revision, ?)", (last,))
            db.execute("delete from kv where space = ?", (space,))
            db.execute("delete from spaces where space = ?", (space,))


def _old(db: sqlite3.Connection, age: int) -> list[str]:
    if not age:
        return []
    rows = db.execute("select space from spaces where used < ?", (_other_day(db) - age * DAY,))
    return [row[0] for row in rows]


def _other_day(db: sqlite3.Connection) -> float:
    """The last use that was recorded on an earlier day than this.

    Ages count from there: a clock that is wrong for a day makes nothing old.
    """
    last = "select coalesce(max(used), 0) from spaces where used < ?"
    return float(db.execute(last, (time.time() - DAY,)).fetchone()[0])


def _surplus(db: sqlite3.Connection) -> Iterator[str]:
    """The spaces that are too many for the file, while it is too large."""
    pages, free, size = (
        db.execute(f"pragma {each}").fetchone()[0]
        for each in ("page_count", "freelist_count", "page_size")
    )
    surplus = (pages - free) * size - MOST
    if surplus <= 0:
        return
    rows = db.execute(
        "select space from spaces where used < ? order by used", (time.time() - DAY,)
    ).fetchall()
    for (space,) in rows:
        if surplus <= 0:
            return
        surplus -= db.execute(_COUNT, (space,)).fetchone()[1]
        yield space


def _is_table(db: sqlite3.Connection, table: str) -> bool:
    found = "select 1 from sqlite_master where type = 'table' and name = ?"
    return db.execute(found, (table,)).fetchone() is not None


# -- for the user ----------------------------------------------------------------------------------


def spaces(path: str) -> list[Space]:
    """All spaces of a file, the least recently used first; none where there is no file.

    Raises `OSError`, `sqlite3.Error`.
    """
    if not os.path.lexists(path):
        return []
    with _opened(path) as db:
        if not _is_table(db, "spaces"):
            return []
        rows = db.execute("select space, component, project, used from spaces").fetchall()
        found = [Space(*row, *db.execute(_COUNT, row[:1]).fetchone()) for row in rows]
    return sorted(found, key=lambda one: one.used)


def delete(path: str, wanted: Iterable[str]) -> None:
    """Removes spaces from a file, and gives their room back. Raises `OSError`, `sqlite3.Error`."""
    with _opened(path, "rw") as db:
        remove(db, wanted)
        db.execute("vacuum")


def delete_file(path: str) -> None:
    """Removes a file that is no database, and the files that SQLite left beside it.

    Raises `BlockingIOError` while a conductor uses it, `OSError`.
    """
    import fcntl

    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # SQLite holds a part of it with such a lock
        for beside in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path + beside)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _opened(path: str, mode: str = "ro") -> Iterator[sqlite3.Connection]:
    from urllib.parse import quote

    os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
    db = sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, timeout=_BUSY)
    db.isolation_level = None
    try:
        yield db
    finally:
        db.close()
