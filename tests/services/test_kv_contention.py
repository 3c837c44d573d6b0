"""Several conductors keep values in one file at once; one is killed, one holds it."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from conductor.services import kv
from conductor.services.calls import ServiceError
from tests.services.keepers import ask

WRITER = """
import sys, msgspec
from conductor.services import kv
from conductor.services.kv import Store
from tests.services.support import grantee
kv._BUSY = 90.0  # all get through in the end, on a slow disk too
path, who, rounds = sys.argv[1:]
for n in range(int(rounds)):
    if n % 10 == 0:
        store = Store(path, "/")   # a chain ends and another begins; nothing is closed
    store.set(grantee(who), msgspec.json.encode({"key": f"k{n}", "value": n}))
    print(n, flush=True)
sys.stdin.read()
"""


def writer(file: str, who: str, rounds: int) -> subprocess.Popen[bytes]:
    """Another conductor, as far as values go."""
    command = [sys.executable, "-c", WRITER, file, who, str(rounds)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def end(one: subprocess.Popen[bytes]) -> int:
    """Lets a writer end; its exit code."""
    one.communicate()
    return one.returncode


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "kv.sqlite")


@pytest.mark.proves("four conductors that keep values")
def test_four_at_once_all_get_through(file: str) -> None:
    others = [writer(file, f"p{n}", 100) for n in range(4)]
    assert [end(one) for one in others] == [0] * 4
    store = kv.Store(file, "/")
    for n in range(4):
        assert len(ask(store, f"p{n}", "list")["keys"]) == 100
        assert ask(store, f"p{n}", "get", key="k99")["value"] == 99
    store.close()
    with contextlib.closing(sqlite3.connect(file)) as db:
        assert db.execute("pragma integrity_check").fetchone() == ("ok",)


BEGINNER = """
import sys
from conductor.services.kv import Store
from tests.services.support import grantee
for folder in sys.stdin:
    try:
        store = Store(f"{folder.strip()}/kv.sqlite", "/")
        store.set(grantee("p"), b'{"key": "k", "value": 1}')
        store.list(grantee("p"), b"{}")
    except Exception as error:
        print(error)
    else:
        print("well", flush=True)
"""


def test_those_that_begin_a_new_file_at_once_all_get_it(tmp_path: Path) -> None:
    command = [sys.executable, "-uc", BEGINNER]
    pipe = subprocess.PIPE
    several = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(6)]
    said = []
    for at in range(60):
        for each in several:
            assert each.stdin is not None
            each.stdin.write(f"{tmp_path}/{at}\n")
            each.stdin.flush()
        said += [each.stdout.readline() for each in several if each.stdout is not None]
    for each in several:
        each.communicate()
    assert {*said} == {"well\n"}


@pytest.mark.proves("four conductors that keep values")
def test_a_writer_that_is_killed_loses_nothing_of_others(file: str) -> None:
    other = writer(file, "p", 1_000_000)
    assert other.stdout is not None
    for _ in range(20):
        other.stdout.readline()
    other.kill()
    other.communicate()
    store = kv.Store(file, "/")
    assert ask(store, "p", "get", key="k10")["value"] == 10
    assert ask(store, "q", "set", key="a", value=1)["used"] == 2
    store.close()


@pytest.mark.proves("four conductors that keep values")
def test_a_file_that_somebody_holds_is_an_error_that_says_so(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv, "_BUSY", 0.05)
    store = kv.Store(file, "/")
    ask(store, "p", "set", key="a", value=1)
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("begin immediate")
        with pytest.raises(ServiceError, match="locked") as caught:
            ask(store, "p", "set", key="a", value=2)
        assert caught.value.reason == "storage"
        assert ask(store, "p", "get", key="a")["value"] == 1  # reading goes on
        holder.execute("rollback")
    assert ask(store, "p", "set", key="a", value=3)["used"] == 2
    store.close()


@pytest.mark.proves("four conductors that keep values")
def test_the_file_is_not_opened_beside_sqlite(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes a file in a process takes away all of its locks on it there."""
    store, second = kv.Store(file, "/"), kv.Store(file, "/")
    ask(store, "p", "set", key="a", value=1)
    closed: list[int] = []
    close = os.close

    def noted(fd: int) -> None:
        closed.append(fd)
        close(fd)

    monkeypatch.setattr(os, "close", noted)
    ask(second, "p", "set", key="b", value=1)
    assert closed == []
    store.close()
    second.close()


COUNTER = """
import sys, msgspec
from conductor.services import kv
from conductor.services.calls import ServiceError
from tests.services.support import grantee
from tests.services.keepers import ask
kv._BUSY = 90.0
store, rounds, conflicts = kv.Store(sys.argv[1], "/"), int(sys.argv[2]), 0
while rounds:
    held = ask(store, "p", "get", key="n")
    count = held["value"] if held["found"] else 0
    try:
        ask(store, "p", "set", key="n", value=count + 1, ifRevision=held["revision"])
        rounds -= 1
    except ServiceError as error:
        assert error.reason == "conflict", error
        conflicts += 1
store.close()
"""


def test_two_that_count_in_one_value_lose_nothing(file: str) -> None:
    command = [sys.executable, "-c", COUNTER, file, "500"]
    others = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(2)]
    assert [end(one) for one in others] == [0, 0]
    store = kv.Store(file, "/")
    assert ask(store, "p", "get", key="n")["value"] == 1000
    store.close()
