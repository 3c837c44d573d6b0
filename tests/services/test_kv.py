"""`kv`: values of each component apart, kept from run to run, within a quota."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conductor.services import kv
from conductor.services.calls import ServiceError
from tests.services.support import grantee


def ask(store: kv.Store, who: str, service: str, **params: object) -> Any:
    """Performs a request; the result as the component would decode it."""
    result = getattr(store, service)(grantee(who), msgspec.json.encode(params))
    return msgspec.json.decode(msgspec.json.encode(result))


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "data" / "kv.sqlite")


class Opened:
    """Opens stores, and closes them all: Python 3.13 warns of databases that are left open."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._stores: list[kv.Store] = []

    def __call__(self, project: str, file: str = "") -> kv.Store:
        store = kv.Store(file or self._file, project)
        self._stores.append(store)
        return store

    def close(self) -> None:
        for store in self._stores:
            store.close()


@pytest.fixture
def opened(file: str) -> Iterator[Opened]:
    with contextlib.closing(Opened(file)) as stores:
        yield stores


def test_values_stay_and_are_private(opened: Opened, file: str) -> None:
    store = opened("/project")
    assert ask(store, "p", "get", key="a") == {"found": False}
    assert ask(store, "p", "set", key="a", value={"x": [1, None]})["used"] == 1 + 14
    assert ask(store, "p", "set", key="a", value=1)["used"] == 2
    store.close()
    again = opened("/project")
    assert ask(again, "p", "get", key="a") == {"found": True, "value": 1}
    assert ask(again, "other", "get", key="a") == {"found": False}
    assert ask(again, "p", "delete", key="a") == {"deleted": True}
    assert ask(again, "p", "delete", key="a") == {"deleted": False}
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(file)).st_mode) == 0o700


def test_numbers_keep_their_bytes(opened: Opened) -> None:
    store = opened("/")
    store.set(grantee(), b'{"key":"n","value":1.10}')
    assert msgspec.json.encode(store.get(grantee(), b'{"key":"n"}')).endswith(b":1.10}")


def test_projects_and_users_are_apart(opened: Opened) -> None:
    one, two = opened("/one"), opened("/two")
    ask(one, "p", "set", key="a", value="project")
    ask(one, "p", "set", key="a", value="user", scope="user")
    assert ask(two, "p", "get", key="a") == {"found": False}
    assert ask(two, "p", "get", key="a", scope="user")["value"] == "user"
    assert ask(one, "p", "get", key="a")["value"] == "project"


def test_listing(opened: Opened) -> None:
    store = opened("/")
    for key in ("a/2", "a/1", "b", "a%", "é"):
        ask(store, "p", "set", key=key, value=0)
    assert ask(store, "p", "list")["keys"] == ["a%", "a/1", "a/2", "b", "é"]
    assert ask(store, "p", "list", prefix="a/") == {"keys": ["a/1", "a/2"], "more": False}
    assert ask(store, "p", "list", limit=2) == {"keys": ["a%", "a/1"], "more": True}
    assert ask(store, "p", "list", after="a/2") == {"keys": ["b", "é"], "more": False}


def test_quotas(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened("/")
    monkeypatch.setattr(kv, "QUOTA_BYTES", 20)
    monkeypatch.setattr(kv, "QUOTA_KEYS", 3)
    ask(store, "p", "set", key="a", value="12345678")
    with pytest.raises(ServiceError, match="quota") as caught:
        ask(store, "p", "set", key="b", value="12345678")
    assert caught.value.reason == "quota"
    ask(store, "p", "set", key="a", value="123456789012345")  # what it replaces does not count
    ask(store, "q", "set", key="b", value="12345678")  # each has its own
    for key in ("a", "b", "c"):
        ask(store, "r", "set", key=key, value=1)
    with pytest.raises(ServiceError, match="3 keys"):
        ask(store, "r", "set", key="d", value=1)


@pytest.mark.parametrize(
    ("service", "params", "reason"),
    [
        ("get", b"{}", "params"),
        ("get", b'{"key":""}', "params"),
        ("get", b'{"key":1}', "params"),
        ("get", b'{"key":"a","scope":"all"}', "params"),
        ("get", b'{"key":"a","other":1}', "params"),
        ("set", b'{"key":"a"}', "params"),
        ("set", b'{"key":"' + b"a" * 513 + b'","value":1}', "params"),
        ("set", b'{"key":"a","value":"' + b"a" * kv.VALUE_BYTES + b'"}', "too-large"),
        ("list", b'{"limit":0}', "params"),
        ("list", b"[1]", "params"),
    ],
)
def test_what_is_refused(opened: Opened, service: str, params: bytes, reason: str) -> None:
    with pytest.raises(ServiceError) as caught:
        getattr(opened("/"), service)(grantee(), params)
    assert caught.value.reason == reason


def test_a_file_that_is_none(opened: Opened, tmp_path: Path) -> None:
    (tmp_path / "kv.sqlite").write_text("this is no database, but a text of some length" * 10)
    with pytest.raises(ServiceError, match="not a database"):
        opened("/", str(tmp_path / "kv.sqlite")).get(grantee(), b'{"key":"a"}')
    with pytest.raises(ServiceError, match=r"File exists|Not a directory"):
        opened("/", str(tmp_path / "kv.sqlite" / "x")).get(grantee(), b'{"key":"a"}')
