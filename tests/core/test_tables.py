"""Topology, dialects, writers, batches: small parts by themselves."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from conductor.core import DIALECTS
from conductor.core.dialects import DETECTION, ENVELOPES, ROLE_METHODS, Dialect, unwrap
from conductor.core.state import Batch
from conductor.core.writer import writers
from tests.harness.router.actors import FORMS

# -- dialects ------------------------------------------------------------------------------------


def test_the_table() -> None:
    assert list(DIALECTS) == ["acp", "sdk", "sacp", "pacp", "scp", "channel"]
    assert [dialect.name for dialect in DETECTION] == ["acp", "sdk", "sacp"]
    assert {method: d.name for method, d in ROLE_METHODS.items()} == {
        "proxy/initialize": "acp",
        "_proxy/initialize": "sdk",
    }
    assert {method: d.name for method, d in ENVELOPES.items()} == {
        "proxy/successor": "acp",
        "_proxy/successor": "sdk",
        "_proxy/successor/request": "sacp",
        "_proxy/successor/notification": "sacp",
        "_proxy/successor/send/request": "pacp",
        "_proxy/successor/send/notification": "pacp",
        "_proxy/successor/receive/request": "pacp",
        "_proxy/successor/receive/notification": "pacp",
    }


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("outer", [False, True])
def test_the_writers_of_the_enveloping_dialects(kind: str, outer: bool) -> None:
    form = FORMS[kind]
    plain, wrapping = writers(DIALECTS[kind], to_conductor=outer)
    inner = {"method": "a", "params": [1]}
    body = {"message": inner} if form.nested else inner
    down, up = (form.down_request, form.down_notification), (form.up_request, form.up_notification)
    request, notification = down if outer else up
    assert json.loads(wrapping.request(b"7", "a", b"[1]")) == {
        "jsonrpc": "2.0",
        "id": 7,
        "method": request,
        "params": body,
    }
    assert json.loads(wrapping.notification("a", Raw(b"[1]"))) == {
        "jsonrpc": "2.0",
        "method": notification,
        "params": body,
    }
    assert (
        plain.request(b"7", "a", b"[1]") == b'{"jsonrpc":"2.0","id":7,"method":"a","params":[1]}\n'
    )
    assert plain.notification("a", UNSET) == b'{"jsonrpc":"2.0","method":"a"}\n'
    for writer in (plain, wrapping):
        assert writer.answer(b"7", b"result", b"1") == b'{"jsonrpc":"2.0","id":7,"result":1}\n'
        cancel = b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}\n'
        assert writer.cancel(b"7") == cancel


@pytest.mark.parametrize(
    ("params", "held"),
    [
        (b'{"method":"a"}', ("a", UNSET, False, "")),
        (b'{"method":"a","params":{"x": 1.10}, "_meta":5}', ("a", Raw(b'{"x": 1.10}'), False, "")),
        (b'{"method":"a","meta":{},"message":{"method":"b"}}', ("a", UNSET, False, "")),
        (b'{"message":{"method":"b","params": [ ]}}', ("b", Raw(b"[ ]"), True, "")),
        (b'{"method":"\\u0061","params":["\\ud800"]}', ("a", Raw(b'["\\ud800"]'), False, "")),
        (b'{"message":{"method":"a","params":["\\ud800"]}}', ("a", Raw(b'["\\ud800"]'), True, "")),
        (b'{"method":"a","peer":"b"}', ("a", UNSET, False, "b")),
        (b'{"peer":"b","message":{"method":"a","peer":"c"}}', ("a", UNSET, True, "b")),
    ],
)
def test_opening_envelopes(params: bytes, held: tuple[str, object, bool, str]) -> None:
    assert unwrap(Raw(params)) == held


def test_dialects_are_values() -> None:
    assert Dialect("x") == Dialect("x")
    assert DIALECTS["scp"].launches
    assert DIALECTS["channel"].sideband


# -- links ---------------------------------------------------------------------------------------


@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_a_batch_gives_its_array_once(answers: list[bool]) -> None:
    batch = Batch(len(answers))
    given_ = [b"%d\n" % n if answer else None for n, answer in enumerate(answers)]
    wholes = [batch.add(answer) for answer in given_]
    assert wholes[:-1] == [None] * (len(answers) - 1)
    expected = [n for n, answer in enumerate(answers) if answer]
    last = wholes[-1]
    assert (json.loads(last) if last is not None else []) == expected
