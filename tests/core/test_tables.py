"""Topology, dialects, writers, batches: small parts by themselves."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from conductor.core import DIALECTS, Component
from conductor.core.dialects import DETECTION, ENVELOPES, ROLE_METHODS, Dialect, unwrap
from conductor.core.router import Router
from conductor.core.state import Batch, IdSpace
from conductor.core.writer import Writer, writers
from tests.harness.router.actors import FORMS


@pytest.mark.parametrize("mode", ["agent", "proxy"])
def test_the_lanes_of_a_router_are_joined_both_ways(mode: str) -> None:
    router = Router([Component("a"), Component("b"), Component("c")], mode)
    lanes = [lane for peer in router.peers.values() for lane in (peer.p, peer.s)]
    joined = [lane for lane in lanes if lane.across is not None]
    assert len(joined) == (6 if mode == "agent" else 8)
    for lane in joined:
        assert lane.across is not None
        assert lane.across is not lane
        assert lane.across.across is lane


def test_the_lanes_of_a_router_are_joined_in_order() -> None:
    router = Router([Component("a"), Component("b")], "proxy")
    lane, names = router.peers["client"].p.across, []
    while lane is not None and lane.peer is not router.upstream:
        assert lane is lane.peer.p
        names.append(lane.peer.name)
        lane = lane.peer.s.across
    assert names == ["a", "b"]
    assert lane is router.upstream.s


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


def test_without_params_an_envelope_has_none() -> None:
    writer = Writer(b"", "r", "n", nested=True)
    frame = b'{"jsonrpc":"2.0","id":1,"method":"r","params":{"message":{"method":"a"}}}\n'
    assert writer.request(b"1", "a", UNSET) == frame
    frame = b'{"jsonrpc":"2.0","method":"n","params":{"message":{"method":"a"}}}\n'
    assert writer.notification("a", UNSET) == frame


def test_the_writers_of_a_guest() -> None:
    for writer, tag in zip(writers(DIALECTS["channel"]), (b"p", b"s"), strict=True):
        assert writer.tag == tag
        frames = [writer.request(b"1", "a", UNSET), writer.notification("a", UNSET)]
        frames += [writer.cancel(b"1"), writer.answer(b"1", b"error", b"{}")]
        assert {frame[:1] for frame in frames} == {tag}


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


def test_ids_of_a_link_are_fresh() -> None:
    link = IdSpace()
    assert [link.fresh_id() for _ in range(3)] == [b"1", b"2", b"3"]


@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_a_batch_gives_its_array_once(answers: list[bool]) -> None:
    batch = Batch(len(answers))
    given_ = [b"%d\n" % n if answer else None for n, answer in enumerate(answers)]
    wholes = [batch.add(answer) for answer in given_]
    assert wholes[:-1] == [None] * (len(answers) - 1)
    expected = [n for n, answer in enumerate(answers) if answer]
    last = wholes[-1]
    assert (json.loads(last) if last is not None else []) == expected
