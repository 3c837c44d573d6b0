"""The meaning of HTTP clients' requests, as a table."""

import json
from typing import Any, Final

import pytest

from conductor.http.headers import Headers
from conductor.serve import http_rules
from conductor.serve.http_rules import End, Forward, Listen, Open, Refuse

JSON: Final = {"content-type": "application/json"}
KNOWN: Final = {**JSON, "acp-connection-id": "c"}


def frame(method: str | None = "x", **more: Any) -> bytes:
    named = {"method": method} if method is not None else {}
    return json.dumps({"jsonrpc": "2.0", **named, **more}).encode()


PROMPT: Final = frame("session/prompt", id=1, params={"sessionId": "s", "prompt": []})


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, frame(), 415),
        ({"content-type": "text/plain"}, frame(), 415),
        ({"content-type": "application/jsonp"}, frame(), 415),
        (JSON, b"", 400),
        (JSON, b"nonsense", 400),
        (JSON, b"7", 400),
        (JSON, b'"\xff"', 400),
        (JSON, b'{"jsonrpc":"2.0","method":"\xe2\x82"}', 400),
        (JSON, frame(), 400),  # no connection
        (KNOWN, frame("initialize", id=1), 400),  # a connection has one already
        (JSON, frame("initialize"), 400),
        (JSON, frame("initialize", id=None), 400),
        (KNOWN, frame("session/prompt", id=1, params={}), 400),  # no session anywhere
        ({**KNOWN, "acp-session-id": "other"}, PROMPT, 400),
        ({**KNOWN, "acp-message-number": "-1"}, frame(), 400),
        ({**KNOWN, "acp-message-number": "x"}, frame(), 400),
    ],
)
def test_posts_that_are_refused(headers: dict[str, str], body: bytes, status: int) -> None:
    ruling = http_rules.post(headers, body)
    assert isinstance(ruling, Refuse)
    assert ruling.status == status


def test_a_batch_is_refused_as_json_rpc_says() -> None:
    ruling = http_rules.post(KNOWN, b"[" + frame() + b"]")
    assert isinstance(ruling, Refuse)
    assert (ruling.status, json.loads(ruling.json)["error"]["code"]) == (400, -32600)
    assert json.loads(ruling.json)["id"] is None


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({**KNOWN, "content-type": "Application/JSON; charset=utf-8"}, frame()),
        (KNOWN, PROMPT),  # the session's header may be left out
        ({**KNOWN, "acp-session-id": "s"}, PROMPT),
        ({**KNOWN, "acp-session-id": "s"}, frame("session/cancel", params={})),
        (KNOWN, frame("session/load", id=1, params={"sessionId": "s"})),
        (KNOWN, frame(None, id=1, result={})),  # an answer needs no session
        ({**KNOWN, "acp-session-id": "s"}, frame("$/cancel_request", params={"requestId": 1})),
        (KNOWN, frame("session/new", id=1, params={})),
        (KNOWN, frame("x", params=[1])),
        (KNOWN, frame("x", params={"sessionId": 7})),
    ],
)
def test_posts_that_go_on(headers: dict[str, str], body: bytes) -> None:
    assert http_rules.post(headers, body) == Forward("c", body, None)


def test_a_message_has_its_number() -> None:
    numbered = http_rules.post({**KNOWN, "acp-message-number": "12"}, frame())
    assert numbered == Forward("c", frame(), 12)


@pytest.mark.parametrize(("id_", "known"), [(1, b"1"), ("a", b'"a"')])
def test_initialize_opens_a_connection(id_: object, known: bytes) -> None:
    body = frame("initialize", id=id_, params={})
    assert http_rules.post(JSON, body) == Open(body, known)


def named(headers: dict[str, str]) -> Headers:
    """Headers as they come."""
    return Headers((name.encode(), value.encode()) for name, value in headers.items())


EVENTS: Final = {"accept": "text/event-stream", "acp-connection-id": "c"}


@pytest.mark.parametrize(
    ("headers", "ruling"),
    [
        (EVENTS, Listen("c", None, None)),
        ({**EVENTS, "accept": "*/*"}, Listen("c", None, None)),
        ({**EVENTS, "accept": "a/b, TEXT/Event-Stream;q=1"}, Listen("c", None, None)),
        ({"acp-connection-id": "c"}, Listen("c", None, None)),
        ({**EVENTS, "acp-session-id": "s"}, Listen("c", "s", None)),
        ({**EVENTS, "last-event-id": "7"}, Listen("c", None, 7)),
    ],
)
def test_gets(headers: dict[str, str], ruling: object) -> None:
    assert http_rules.get(named(headers)) == ruling


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({**EVENTS, "accept": "text/event-streams"}, 406),
        ({**EVENTS, "accept": "application/json"}, 406),
        ({"accept": "text/event-stream"}, 400),
        ({**EVENTS, "acp-session-id": ""}, 400),
        ({**EVENTS, "acp-session-id": "s" * 1025}, 400),
        ({**EVENTS, "last-event-id": "x"}, 400),
        ({**EVENTS, "last-event-id": "9" * 19}, 400),
    ],
)
def test_gets_that_are_refused(headers: dict[str, str], status: int) -> None:
    ruling = http_rules.get(named(headers))
    assert isinstance(ruling, Refuse)
    assert ruling.status == status


def test_deletes() -> None:
    assert http_rules.delete({"acp-connection-id": "c"}) == End("c")
    assert isinstance(http_rules.delete({}), Refuse)


HERE: Final = "https://chat.example"


@pytest.mark.parametrize(
    ("headers", "origin"),
    [
        ({"origin": HERE}, HERE),
        ({"origin": "https://CHAT.example"}, "https://CHAT.example"),  # never in another spelling
        ({}, None),
        ({"origin": ""}, None),
        ({"origin": "null"}, None),
        ({"origin": "*"}, None),
        ({"origin": "http://chat.example"}, None),
        ({"origin": "https://chat.example:8443"}, None),
        ({"origin": "https://chat.example.evil"}, None),
    ],
)
def test_which_pages_can_read_an_answer(headers: dict[str, str], origin: str | None) -> None:
    shared = http_rules.for_page(headers, ["https://other.example", HERE, "null", "*"])
    assert shared.get("Access-Control-Allow-Origin") == origin
    assert bool(shared) is (origin is not None)


def test_what_pages_may_send_and_read() -> None:
    assert http_rules.for_page({"origin": HERE}, [HERE]) == {
        "Access-Control-Allow-Origin": HERE,
        "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
        "Access-Control-Allow-Headers": (
            "Content-Type, Accept, Acp-Connection-Id, Acp-Session-Id, Acp-Message-Number, "
            "Authorization, Last-Event-ID"
        ),
        "Access-Control-Expose-Headers": "Acp-Connection-Id, Acp-Session-Id, Acp-Message-Number",
        "Vary": "Origin",
    }


@pytest.mark.parametrize(
    ("method", "headers", "asks"),
    [
        ("OPTIONS", {"access-control-request-method": "POST"}, True),
        ("OPTIONS", {}, False),
        ("POST", {"access-control-request-method": "POST"}, False),
    ],
)
def test_what_is_a_preflight(method: str, headers: dict[str, str], asks: bool) -> None:
    assert http_rules.is_preflight(method, headers) is asks
