"""The file of `kv`: private, made anew of what older conductors have kept."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor.services import kept_values, kv
from conductor.services.calls import ServiceError
from tests.services.keepers import NOTHING, Files, ask, conflict
from tests.services.support import grantee


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "kv.sqlite")


@pytest.fixture
def opened(file: str) -> Iterator[Files]:
    with contextlib.closing(Files(file)) as stores:
        yield stores


def test_values_stay_in_a_private_file(opened: Files, file: str) -> None:
    store = opened("/project")
    assert ask(store, "p", "get", key="a") == NOTHING
    assert ask(store, "p", "set", key="a", value={"x": [1, None]})["used"] == 1 + 14
    assert ask(store, "p", "set", key="a", value=1)["used"] == 2
    store.close()
    again = opened("/project")
    assert ask(again, "p", "get", key="a") == {"found": True, "value": 1, "revision": 3}
    assert ask(again, "other", "get", key="a") == NOTHING
    assert ask(again, "p", "delete", key="a") == {"deleted": True}
    assert ask(again, "p", "delete", key="a") == {"deleted": False}
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(file)).st_mode) == 0o700


def test_a_file_that_is_none(opened: Files, tmp_path: Path) -> None:
    (tmp_path / "kv.sqlite").write_text("this is no database, but a text of some length" * 10)
    with pytest.raises(ServiceError, match="not a database"):
        opened("/", str(tmp_path / "kv.sqlite")).get(grantee(), b'{"key":"a"}')
    with pytest.raises(ServiceError, match=r"File exists|Not a directory"):
        opened("/", str(tmp_path / "kv.sqlite" / "x")).get(grantee(), b'{"key":"a"}')


def test_no_revision_comes_twice(opened: Files, file: str) -> None:
    """Not for a key that is deleted, nor for a space that goes and comes again."""
    store = opened("/")
    seen = []
    for round_ in range(3):
        seen.append(ask(store, "p", "set", key="a", value=round_)["revision"])
        ask(store, "p", "delete", key="a")
        assert ask(store, "p", "get", key="a") == NOTHING
    seen.append(ask(store, "p", "set", key="a", value="last", ifRevision=0)["revision"])
    kept_values.delete(file, [one.space for one in kept_values.spaces(file)])
    assert ask(store, "p", "get", key="a") == NOTHING
    seen.append(ask(store, "p", "set", key="a", value="anew")["revision"])
    assert len(set(seen)) == 5
    assert ask(store, "q", "set", key="a", value=1)["revision"] not in (0, 1)


OLD = """
create table kv (space text not null, key text not null, value blob not null,
  primary key (space, key)) without rowid;
"""
OLD_SPACES = """
create table spaces (space text primary key, component text not null, project text not null,
  used real not null) without rowid;
"""


def older(file: str, tables: str) -> None:
    """Makes of a file what an older conductor made."""
    with contextlib.closing(sqlite3.connect(file)) as db:
        rows = db.execute("select space, key, value from kv").fetchall()
        named = db.execute("select space, component, project, used from spaces").fetchall()
        db.executescript(f"drop table kv; drop table spaces; drop table floor; {tables}")
        db.executemany("insert into kv values (?, ?, ?)", rows)
        if "spaces" in tables:
            db.executemany("insert into spaces values (?, ?, ?, ?)", named)
        db.commit()


@pytest.mark.parametrize("tables", [OLD, OLD + OLD_SPACES], ids=["without-spaces", "with-spaces"])
def test_values_of_an_older_conductor_stay(opened: Files, file: str, tables: str) -> None:
    store = opened("/")
    for key in "abc":
        ask(store, "p", "set", key=key, value=[key])
    store.close()
    older(file, tables)
    again = opened("/")
    assert ask(again, "p", "list")["keys"] == ["a", "b", "c"]
    for key in "abc":
        assert ask(again, "p", "get", key=key) == {"found": True, "value": [key], "revision": 1}
    assert conflict(again, key="a", value=0, ifRevision=0) == 1
    assert ask(again, "p", "set", key="a", value=0, ifRevision=1)["revision"] > 1
    assert conflict(again, key="a", value=0, ifRevision=1) > 1
    assert len(kept_values.spaces(file)) == 1


def test_an_older_file_that_somebody_holds_is_read(
    opened: Files, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened("/")
    ask(store, "p", "set", key="a", value=1)
    store.close()
    older(file, OLD + OLD_SPACES)
    monkeypatch.setattr(kv, "_BUSY", 0.05)
    late = opened("/")
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        assert ask(late, "p", "get", key="a") == {"found": True, "value": 1, "revision": 1}
        holder.execute("rollback")
    assert ask(late, "p", "set", key="a", value=2, ifRevision=1)["revision"] > 1
    assert ask(late, "p", "get", key="a")["value"] == 2
