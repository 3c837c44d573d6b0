"""`kv`: values of each component apart, kept from run to run, within a quota: the same in the file
of a user and in the bucket of a fleet."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conductor.services import kv
from conductor.services.calls import ServiceError
from tests.harness.process.nats import Nats
from tests.services.keepers import NOTHING, Files, Fleet, Opener, ask, conflict
from tests.services.support import grantee


@pytest.fixture(params=["file", "fleet"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    if request.param == "file":
        with contextlib.closing(Files(str(tmp_path / "kv.sqlite"))) as files:
            yield files
        return
    server: Nats = request.getfixturevalue("nats")
    with contextlib.closing(Fleet(server.url)) as fleet:
        yield fleet


@pytest.mark.proves("a proxy's values belong to it")
def test_values_stay_and_are_private(opened: Opener) -> None:
    store = opened("/project")
    assert ask(store, "p", "get", key="a") == NOTHING
    assert ask(store, "p", "set", key="a", value={"x": [1, None]})["used"] == 1 + 14
    assert ask(store, "p", "set", key="a", value=1)["used"] == 2
    store.close()
    again = opened("/project")
    assert ask(again, "p", "get", key="a")["value"] == 1
    assert ask(again, "other", "get", key="a") == NOTHING
    assert ask(again, "p", "delete", key="a") == {"deleted": True}
    assert ask(again, "p", "delete", key="a") == {"deleted": False}
    assert ask(again, "p", "get", key="a") == NOTHING
    assert ask(again, "p", "list") == {"keys": [], "more": False}


@pytest.mark.parametrize("key", ["a.b", "*", ">", " ", "\n", "é€😀", "-", "x" * kv.KEY_BYTES])
def test_any_text_is_a_key(opened: Opener, key: str) -> None:
    store = opened("/")
    value = "v" * (kv.VALUE_BYTES - 2)
    assert (
        ask(store, "p", "set", key=key, value=value)["used"] == len(key.encode()) + kv.VALUE_BYTES
    )
    assert ask(store, "p", "get", key=key)["value"] == value
    assert ask(store, "p", "list") == {"keys": [key], "more": False}
    assert ask(store, "p", "delete", key=key) == {"deleted": True}


def test_numbers_keep_their_bytes(opened: Opener) -> None:
    store = opened("/")
    store.set(grantee(), b'{"key":"n","value":1.10}')
    assert msgspec.json.encode(store.get(grantee(), b'{"key":"n"}')).count(b":1.10,") == 1


@pytest.mark.proves("a proxy's values belong to it")
def test_projects_and_users_are_apart(opened: Opener) -> None:
    one, two = opened("/one"), opened("/two")
    ask(one, "p", "set", key="a", value="project")
    ask(one, "p", "set", key="a", value="user", scope="user")
    assert ask(two, "p", "get", key="a") == NOTHING
    assert ask(two, "p", "get", key="a", scope="user")["value"] == "user"
    assert ask(one, "p", "get", key="a")["value"] == "project"


def test_listing(opened: Opener) -> None:
    store = opened("/")
    ask(store, "q", "set", key="a\0b", value=0)
    assert ask(store, "q", "list", prefix="a\0")["keys"] == ["a\0b"]
    for key in ("a/2", "a/1", "b", "a%", "é"):
        ask(store, "p", "set", key=key, value=0)
    assert ask(store, "p", "list")["keys"] == ["a%", "a/1", "a/2", "b", "é"]
    assert ask(store, "p", "list", prefix="a/") == {"keys": ["a/1", "a/2"], "more": False}
    assert ask(store, "p", "list", limit=2) == {"keys": ["a%", "a/1"], "more": True}
    assert ask(store, "p", "list", after="a/2") == {"keys": ["b", "é"], "more": False}


def test_quotas(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
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
        ("list", b'{"prefix":"\\ud800"}', "params"),
        ("list", b'{"after":"\\ud800"}', "params"),
        ("get", b'{"key":"a","scope":"all"}', "params"),
        ("get", b'{"key":"a","other":1}', "params"),
        ("set", b'{"key":"a"}', "params"),
        ("set", b'{"key":"a","value":1,"ifRevision":-1}', "params"),
        ("set", b'{"key":"a","value":1,"ifRevision":1.5}', "params"),
        ("set", b'{"key":"a","value":1,"ifRevision":"2"}', "params"),
        ("set", b'{"key":"a","value":1,"ifRevision":9007199254740992}', "params"),
        ("set", b'{"key":"a","value":1,"ifRevision":7}', "conflict"),
        ("set", b'{"key":"' + b"a" * 513 + b'","value":1}', "params"),
        ("set", b'{"key":"a","value":"' + b"a" * kv.VALUE_BYTES + b'"}', "too-large"),
        ("list", b'{"limit":0}', "params"),
        ("list", b"[1]", "params"),
    ],
)
def test_what_is_refused(opened: Opener, service: str, params: bytes, reason: str) -> None:
    with pytest.raises(ServiceError) as caught:
        getattr(opened("/"), service)(grantee(), params)
    assert caught.value.reason == reason


def test_a_value_is_set_only_as_it_was(opened: Opener) -> None:
    store = opened("/")
    assert conflict(store, key="a", value=0, ifRevision=1) == 0
    first = ask(store, "p", "set", key="a", value=1, ifRevision=0)["revision"]
    assert ask(store, "p", "get", key="a") == {"found": True, "value": 1, "revision": first}
    assert conflict(store, key="a", value=2, ifRevision=0) == first
    second = ask(store, "p", "set", key="a", value=2, ifRevision=first)["revision"]
    assert conflict(store, key="a", value=3, ifRevision=first) == second
    third = ask(store, "p", "set", key="a", value=3)["revision"]
    assert len({first, second, third}) == 3
    assert ask(store, "p", "set", key="a", value=3, ifRevision=None)["revision"] != third
    assert ask(store, "p", "get", key="a")["value"] == 3


def test_no_revision_comes_twice(opened: Opener) -> None:
    store = opened("/")
    seen = []
    for value in range(3):
        seen.append(ask(store, "p", "set", key="a", value=value, ifRevision=0)["revision"])
        ask(store, "p", "delete", key="a")
        assert conflict(store, key="a", value=0, ifRevision=seen[-1]) == 0
    assert 0 < seen[0] < seen[1] < seen[2] <= kv.NUMBER


def test_two_see_what_each_sets(opened: Opener) -> None:
    one, two = opened("/"), opened("/")
    first = ask(one, "p", "set", key="a", value="one")["revision"]
    assert ask(two, "p", "get", key="a") == {"found": True, "value": "one", "revision": first}
    assert ask(two, "p", "set", key="b", value="two", ifRevision=0)["used"] == 2 * (1 + 5)
    assert ask(one, "p", "list")["keys"] == ["a", "b"]
    assert conflict(one, key="b", value="one", ifRevision=0) > first
