"""The router, one message at a time: ids, answers, cancellation, misplaced envelopes, junk."""

from typing import Any

import pytest

from conductor.core import Component, Entry
from conductor.core.router import Router, RouterOptions
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import (
    MISPLACED,
    V1,
    agent_mode,
    agent_only,
    begin,
    begin_acp,
    error,
    notification,
    proxy_mode,
    request,
    result,
)


def test_a_chain_needs_an_agent_and_names_that_differ() -> None:
    for mode in ("agent", "auto"):
        with pytest.raises(ValueError, match="needs an agent"):
            Router([], mode)
    with pytest.raises(ValueError, match="same name"):
        Router([Component("a"), Component("a")])
    with pytest.raises(ValueError, match="same name"):
        Router([Component("client")])


def test_what_the_router_tells_about_itself() -> None:
    router = Router([Component("agent")], "auto", options=RouterOptions(tracing=True))
    assert (router.mode, router.version) == ("auto", None)
    assert router.upstream is router.peers["client"]


# -- ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "id_", [b"0", b"-9223372036854775808", b"9223372036854775807", b'""', b'"a\\"\\u00e9"', b"null"]
)
def test_ids_come_back_as_they_were(id_: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", b'{"jsonrpc":"2.0","id":%b,"method":"_x","params":{"a":1.10}}' % id_)
        pb << ("agent", b'{"jsonrpc":"2.0","id":2,"method":"_x","params":{"a":1.10}}')
        pb >> ("agent", b'{"jsonrpc":"2.0","id":2,"result": [1e400, "\\ud800"] }')
        pb << ("client", b'{"jsonrpc":"2.0","id":%b,"result":[1e400, "\\ud800"]}' % id_)


@pytest.mark.parametrize(
    "id_",
    [b"1.5", b"1e-2", b"9223372036854775808", b"-9223372036854775809", b"1e99", b"true", b"[]"],
)
@pytest.mark.parametrize("peer", ["client", "agent"])
def test_what_is_no_id_is_refused_under_null(peer: str, id_: bytes) -> None:
    text = "a request id must be null, a 64-bit integer or a string"
    with begin(agent_only()) as pb:
        pb >> (peer, b'{"jsonrpc":"2.0","id":%b,"method":"_x"}' % id_)
        pb << Noted("warning", peer, text) << (peer, error(None, -32600, text))


def test_null_is_no_id_in_v2() -> None:
    text = "ACP protocol v2 request ids must be a string or an integer, not null"
    with begin(agent_only(), 2) as pb:
        pb >> ("client", request(None, "_x"))
        pb << Noted("warning", "client", text) << ("client", error(None, -32600, text))


def test_a_duplicate_id_does_not_harm_the_first() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request("a", "_x")) << ("agent", request(2, "_x"))
        pb >> ("client", b'{"jsonrpc":"2.0","id":"\\u0061","method":"_y"}')
        pb << Noted("warning", "client", "still in use")
        pb << ("client", error(None, -32600, 'request id "a" is still in use'))
        pb >> ("agent", result(2, 1)) << ("client", result("a", 1))
        pb >> ("client", request("a", "_x")) << ("agent", request(3, "_x"))


# -- params --------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [b"5", b'"a"', b"true", b"1.5"])
@pytest.mark.parametrize("peer", ["client", "agent"])
def test_params_must_be_structured(peer: str, params: bytes) -> None:
    text = "JSON-RPC params must be an object or array"
    with begin(agent_only()) as pb:
        pb >> (peer, b'{"jsonrpc":"2.0","id":1,"method":"_x","params":%b}' % params)
        pb << (peer, error(1, -32602, text))
        pb >> (peer, b'{"jsonrpc":"2.0","method":"_x","params":%b}' % params)
        pb << Noted("warning", peer, f"`_x` dropped: {text}")


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (b'"result":1,"error":{"code":1,"message":"a"}', "with both result and error"),
        (b'"error":null', "with neither result nor error"),
        (b'"more":1', "with neither result nor error"),
        (b'"error":5', "with an error that is no object"),
    ],
)
def test_a_malformed_answer_is_an_error_that_names_the_peer(answer: bytes, wrong: str) -> None:
    text = f"agent `agent` answered `_x` {wrong}"
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", b'{"jsonrpc":"2.0","id":2,%b}' % answer)
        pb << ("client", error(1, -32603, text, {"component": "agent"}))


@pytest.mark.parametrize("version", [b"", b'"jsonrpc":"1.0",', b'"jsonrpc":2,', b'"jsonrpc":2.0,'])
def test_an_answer_of_another_json_rpc(version: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", b'{%b"id":2,"result":1}' % version)
        pb << ("client", error(1, -32603, Hole("text"), {"component": "agent"}))
        assert 'without `"jsonrpc":"2.0"`' in pb.values["text"]


# -- junk ----------------------------------------------------------------------------------------

JUNK: list[tuple[bytes, int]] = [
    (b"npm notice", -32700),
    (b'{"jsonrpc":"2.0"', -32700),
    (b"\xef\xbb\xbfnpm notice", -32700),
    (b'\xef\xbb{"jsonrpc":"2.0","method":"_x"}', -32700),
    (b'{"jsonrpc":"2.0","method":"\xff"}', -32700),
    (b'{"jsonrpc":"2.0","method":"_x","params":["\xc0\x80"]}', -32700),
    (b'{"jsonrpc":"2.0","method":"_x","params":["\xed\xa0\x80"]}', -32700),
    (b'{"jsonrpc":"2.0","id":5,"method":"_x","params":[NaN]}', -32700),
    (b"\x00", -32700),
    (b"[1,", -32700),
    (b'"text"', -32600),
    (b"17", -32600),
    (b"null", -32600),
    (b"[" * 600 + b"]" * 600, -32600),
    (b'{"jsonrpc":"2.0","method":"_x","params":' + b"[" * 2000 + b"]" * 2000 + b"}", -32600),
    (b'{"jsonrpc":"2.0","method":5}', -32600),
    (b'{"method":"_x"}', -32600),
]


@pytest.mark.parametrize(("frame", "code"), JUNK)
def test_junk_is_answered_to_the_client_only(frame: bytes, code: int) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", frame) << Noted("warning", "client", "")
        pb << ("client", error(None, code, Hole("text")))
        pb >> ("agent", frame) << Noted("warning", "agent", "")


@pytest.mark.parametrize("peer", ["client", "agent"])
@pytest.mark.parametrize(
    "frame",
    [
        b'{"id":7,"method":"_x"}',
        b'{"jsonrpc":"2.1","id":7,"method":"_x"}',
        b'{"jsonrpc":2,"id":7,"method":"_x","params":{}}',
        b'{"jsonrpc":"2.0","id":7,"method":[]}',
    ],
)
def test_a_malformed_request_is_answered_under_its_id(peer: str, frame: bytes) -> None:
    with begin(agent_only()) as pb:
        pb >> (peer, frame) << Noted("warning", peer, "must be")
        pb << (peer, error(7, -32600, Hole("text")))


NEITHER = "a message must have a `method`, or a `result` or `error`"
BOTH = "a message with a `method` must have neither `result` nor `error`"
SHAPELESS: list[tuple[bytes, object, str]] = [
    (b"{}", None, NEITHER),
    (b'{"jsonrpc":"2.0"}', None, NEITHER),
    (b'{"jsonrpc":"2.0","params":{}}', None, NEITHER),
    (b'{"jsonrpc":"2.0","id":7}', 7, NEITHER),
    (b'{"jsonrpc":"2.0","id":7,"method":null,"params":{}}', 7, NEITHER),
    (b'{"id":"a","params":[]}', "a", NEITHER),
    (b'{"jsonrpc":"2.0","id":1.5}', None, NEITHER),
    (b'{"jsonrpc":"2.0","id":7,"method":"_x","result":1}', 7, BOTH),
    (b'{"jsonrpc":"2.0","id":7,"method":"initialize","params":{},"result":{}}', 7, BOTH),
    (b'{"jsonrpc":"2.0","id":7,"method":"_x","error":{"code":1,"message":"a"}}', 7, BOTH),
    (b'{"jsonrpc":"2.0","id":{},"method":"_x","error":0}', None, BOTH),
    (b'{"jsonrpc":"2.0","method":"_x","result":1}', None, BOTH),
    (b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{},"error":1}', None, BOTH),
]


@pytest.mark.parametrize(("frame", "id_", "text"), SHAPELESS)
@pytest.mark.parametrize("begun", [True, False])
def test_what_is_neither_or_both_is_refused(
    frame: bytes, id_: object, text: str, *, begun: bool
) -> None:
    with begin(agent_only()) if begun else agent_only() as pb:
        pb >> ("client", frame) << Noted("warning", "client", text)
        pb << ("client", error(id_, -32600, text))
        pb >> ("agent", frame) << Noted("warning", "agent", text)
        if id_ is not None:
            pb << ("agent", error(id_, -32600, text))


@pytest.mark.parametrize(("frame", "id_", "text"), SHAPELESS)
def test_what_is_neither_or_both_is_refused_on_each_side(
    frame: bytes, id_: object, text: str
) -> None:
    with proxy_mode("channel", "channel") as pb:
        for side in ("p", "s", "c"):
            pb >> ("p", side.encode() + frame) << Noted("warning", "p", text)
            if id_ is not None:
                pb << ("p", side, error(id_, -32600, text))
        pb >> ("client", b"s" + frame) << Noted("warning", "client", text)
        pb << ("client", "s", error(id_, -32600, text))


# -- before initialize, and misplaced -------------------------------------------------------------


def test_before_initialize() -> None:
    with agent_only() as pb:
        pb >> ("client", request(1, "session/new"))
        pb << ("client", error(1, -32600, "expected `initialize` request"))
        pb >> ("client", notification("session/cancel"))
        pb << Noted("debug", "client", "before `initialize`")
        pb >> ("client", notification("$/cancel_request", {"requestId": 1}))
        pb >> ("agent", notification("_hello")) << ("client", notification("_hello"))
    with agent_only(mode="auto") as pb:
        pb >> ("agent", request(1, "_x"))
        pb << ("agent", error(1, -32600, "`_x` before `initialize`"))
        pb >> ("agent", notification("_x")) << Noted("debug", "agent", "before `initialize`")


ENVELOPE_METHODS = (
    "proxy/successor",
    "_proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/send/request",
    "_proxy/successor/receive/notification",
)


@pytest.mark.parametrize("peer", ["client", "agent"])
@pytest.mark.parametrize("method", ENVELOPE_METHODS)
def test_envelopes_of_the_ends_are_misplaced(peer: str, method: str) -> None:
    with begin(agent_only()) as pb:
        pb >> (peer, request(1, method, {"method": "_x"}))
        pb << (peer, error(1, -32600, MISPLACED.format(method)))
        pb >> (peer, notification(method, {"method": "_x"}))
        pb << Noted("warning", peer, "is only exchanged")


def test_an_envelope_in_an_envelope_is_misplaced() -> None:
    twice = {"method": "proxy/successor", "params": {"method": "_x"}}
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "proxy/successor", twice))
        pb << ("p", error(1, -32600, MISPLACED.format("proxy/successor")))
        pb >> ("p", notification("proxy/successor", twice))
        pb << Noted("warning", "p", "is only exchanged")
    with proxy_mode("acp") as pb:
        pb >> ("client", request(1, "proxy/initialize", V1))
        pb << ("p", request(1, "proxy/initialize", V1))
        pb >> ("client", request(2, "proxy/successor", twice))
        pb << ("client", error(2, -32600, MISPLACED.format("proxy/successor")))


@pytest.mark.parametrize(
    "params", [None, [], {}, {"method": 5}, {"message": {}}, {"message": 3}, {"params": {}}]
)
def test_an_envelope_needs_a_method(params: object) -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("p", request(1, "proxy/successor", params))
        pb << ("p", error(1, -32602, "a successor envelope must hold an object with a `method`"))
        pb >> ("p", notification("proxy/successor", params))
        pb << Noted("warning", "p", "must hold")


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize", "_scp/proxy"])
def test_role_requests_are_no_notifications(method: str) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", notification(method)) << Noted("warning", "client", "misplaced")
        pb >> ("agent", notification(method)) << Noted("warning", "agent", "misplaced")


# -- cancellation --------------------------------------------------------------------------------


def cancel(id_: object) -> dict[str, Any]:
    return notification("$/cancel_request", {"requestId": id_})


@pytest.mark.parametrize(
    "params", [None, {}, [], {"requestId": "no"}, {"requestId": 1.5}, {"requestId": None}]
)
def test_unknown_cancels_are_dropped(params: object) -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("client", notification("$/cancel_request", params))
        pb >> ("agent", notification("$/cancel_request", params))


# -- messages about one connection ----------------------------------------------------------------

FORMS: list[tuple[str, str | None]] = [
    ("client", None),
    ("agent", None),
    ("p", None),
    ("p", "proxy/successor"),
    ("p", "_proxy/successor/send/request"),
]


@pytest.mark.parametrize("method", ["$/cancel_request", "$/progress", "$/"])
@pytest.mark.parametrize(("peer", "form"), FORMS)
def test_what_concerns_one_connection_is_never_asked(
    method: str, peer: str, form: str | None
) -> None:
    text = f"Method not found: `{method}` is no request; methods in `$/` are notifications"
    with begin_acp(agent_mode("acp")) as pb:
        pb >> ("client", request("c", "_x")) << ("p", request(2, "_x"))
        asked = {"requestId": "c"}
        inside = {"method": method, "params": asked}
        pb >> (peer, request(9, form, inside) if form else request(9, method, asked))
        pb << (peer, error(9, -32601, text))


@pytest.mark.parametrize(("peer", "form"), FORMS)
def test_what_is_not_known_of_one_connection_does_not_travel(peer: str, form: str | None) -> None:
    told = notification("$/progress", {"requestId": 1})
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (peer, notification(form, told) if form else told)
        pb << Noted("warning", peer, "`$/progress` dropped: it concerns one connection")


# -- batches -------------------------------------------------------------------------------------

NO_BATCHES = error(
    None,
    -32600,
    "Invalid request",
    "JSON-RPC batches are not supported; send each message individually",
)


def test_invalid_entries_are_answered_within_the_array_of_the_client() -> None:
    with begin(agent_only()) as pb:
        pb >> ("client", [1, [request(1, "_x")], {"jsonrpc": "1.0", "method": "_x"}, {"id": 5}])
        pb << Noted("warning", "client", "not a JSON object")
        pb << Noted("warning", "client", "inside a batch")
        pb << Noted("warning", "client", '"2.0"') << Noted("warning", "client", NEITHER)
        pb << (
            "client",
            [
                error(None, -32600, "message is not a JSON object"),
                error(None, -32600, "a batch inside a batch"),
                error(None, -32600, '`jsonrpc` must be "2.0"'),
                error(5, -32600, NEITHER),
            ],
        )
        pb >> ("client", [request(1.5, "_x"), request("a", "$/x", 5)])
        pb << Noted("warning", "client", "request id")
        pb << ("client", [error(None, -32600, Hole("a")), error("a", -32602, Hole("b"))])


NO_BATCH: list[object] = [
    [],
    [[]],
    ["loading", 1],
    [1, 2, 3],
    [None],
    [[request(1, "_x")]],
    [{}],
    [{"id": 5, "status": "loading"}],
    [{"id": 5, "method": "_x"}],
    [{"jsonrpc": "2.0", "id": 5}],
    [{"jsonrpc": "2.0", "id": 5, "method": None, "params": []}],
    [request(1.5, "_x")],
    [1] * 1001,
]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("junk", NO_BATCH)
def test_an_array_of_the_agent_that_is_no_batch_is_junk(junk: object, version: int) -> None:
    with begin(agent_only(), version) as pb:
        pb >> ("agent", junk) << Noted("warning", "agent", "")
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", result(2, 1)) << ("client", result(1, 1))


@pytest.mark.parametrize("version", [1, 2])
def test_junk_beside_a_message_in_an_array_of_the_agent(version: int) -> None:
    with begin(agent_only(), version) as pb:
        pb >> ("client", request(1, "_x")) << ("agent", request(2, "_x"))
        pb >> ("agent", ["loading", {"id": 2, "step": 7}, result(2, 1), request("a", "_a"), 5])
        pb << Noted("warning", "agent", "not a JSON object")
        pb << Noted("warning", "agent", NEITHER) << ("client", result(1, 1))
        pb << ("client", request(1, "_a"))
        pb << Noted("warning", "agent", "not a JSON object")
        pb >> ("client", result(1, 9)) << ("agent", [result("a", 9)])


def test_batches_are_refused_whole_in_v2() -> None:
    with begin(agent_only(), 2) as pb:
        pb >> ("client", [request(1, "_x"), notification("_n")])
        pb << Noted("warning", "client", "Invalid") << ("client", NO_BATCHES)


# -- sides ---------------------------------------------------------------------------------------


def test_lines_need_a_side() -> None:
    with proxy_mode("channel", "channel") as pb:
        pb >> ("p", b"x{}") << Noted("warning", "p", "without a side")
        pb >> ("p", b"") >> ("p", b" ") >> ("p", b"p") >> ("p", b"s \r")
        pb >> ("p", b"c{") << Noted("warning", "p", "not JSON")
        pb >> ("p", "c", [request(1, "clock")]) << Noted("warning", "p", "only single requests")
        pb >> ("p", "c", result(1, 1)) << Noted("warning", "p", "only single requests")
        pb >> ("p", "s", request(1, "proxy/successor", {"method": "_x"}))
        pb << ("p", "s", error(1, -32600, MISPLACED.format("proxy/successor")))
        pb >> ("client", b"pjunk") << Noted("warning", "client", "not JSON")
        pb << ("client", "p", error(None, -32700, Hole("text")))


# -- tracing -------------------------------------------------------------------------------------


def traced(pb: Playbook, kind: str, source: str, target: str, id_: bytes | None) -> Entry:
    """Asserts that the next effect is a trace of this."""
    effect = pb.effects.pop(0)
    assert isinstance(effect, Entry), effect
    assert (effect.kind, effect.source, effect.target, effect.id) == (kind, source, target, id_)
    return effect


def test_each_message_is_traced_once() -> None:
    with agent_only(tracing=True) as pb:
        init = request("i", "initialize", V1)
        pb >> ("client", init)
        asked = traced(pb, "request", "client", "agent", b'"i"')
        assert (asked.method, bytes(asked.payload or b"")) == (
            "initialize",
            b'{"protocolVersion": 1}',
        )
        pb << ("agent", {**init, "id": 1})
        pb >> ("client", cancel("i"))
        stopped = traced(pb, "notification", "client", "agent", None)
        assert (stopped.method, stopped.request) == ("$/cancel_request", asked.number)
        pb << ("agent", cancel(1))
        pb >> ("agent", error(1, 5, "no"))
        answer = traced(pb, "response", "agent", "client", b'"i"')
        assert (bytes(answer.payload or b""), answer.is_error) == (
            b'{"code": 5, "message": "no"}',
            True,
        )
        assert answer.request == asked.number
        pb << ("client", error("i", 5, "no"))
        pb >> ("agent", notification("_n")) << ("client", notification("_n"))
        traced(pb, "notification", "agent", "client", None)
        pb >> ("client", request(2, "_x"))
        asked = traced(pb, "request", "client", "agent", b"2")
        pb << ("agent", request(2, "_x"))
        pb >> ("agent", result(2, 1))
        assert traced(pb, "response", "agent", "client", b"2").request == asked.number
        pb << ("client", result(2, 1))
