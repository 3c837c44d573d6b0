"""`conductor.trace`: what becomes of one message, and of reports that make no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conductor.core import CHANNEL, UPSTREAM, Component, Note, Router, Serve, Trace
from conductor.core.policy import Policy, PolicyWords
from conductor.core.services import TRACED
from conductor.reports.lines import hop_line
from conductor.trace.file import TraceFile
from conductor.trace.tracer import Tracer

Json = dict[str, Any]

LINE_LIMIT: Final = 1 << 20


class Recording:
    """A tracer over a file of its own, and a clock that a test sets."""

    def __init__(self, path: Path, content: str = "all") -> None:
        self._path = path
        self.now = 100.0
        file = TraceFile.create(str(path), lambda *_: None)
        self.tracer = Tracer(file, content, clock=lambda: self.now)
        self.tracer.begin(
            [("x", (), ()), ("a+b+c", ("a", "b", "c"), (None, None, None)), ("last", (), ())]
        )

    def crossed(self, *fields: Any, mode: str = "agent", **sides: str) -> None:
        """A message crossed; `fields` are those of `Trace`, less its sides."""
        self.tracer.crossed(msgspec.structs.replace(Trace(*fields), **sides), mode)

    def events(self) -> list[Json]:
        """All events written, once."""
        self.tracer.close()
        found = [json.loads(line) for line in self._path.read_bytes().splitlines()]
        assert found[0]["components"][-1] in ("last", "demo")
        return [one for one in found if one["type"] != "_conductor"]


@pytest.fixture(autouse=True)
def no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event loop runs here: what is held is written at the end."""
    monkeypatch.setattr("conductor.trace.file._on_the_loop", lambda *_: None)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A recording with content."""
    return Recording(tmp_path / "t")


def hop(**changes: object) -> bytes:
    """The params of a child's report."""
    fields: Json = {
        "kind": "notification", "source": "a", "target": "b", "at": 100.0, "size": 2,
        "method": "_n", "payload": {},
    }  # fmt: skip
    return msgspec.json.encode(fields | changes)


def test_a_host_is_named_by_the_guest_that_is_concerned(recording: Recording) -> None:
    recording.crossed("notification", "x", "a+b+c", None, "_n", b"{}", False, source_side="s")
    recording.crossed("notification", "a+b+c", "last", None, "_n", b"{}", False, source_side="s")
    recording.crossed("notification", "last", "a+b+c", None, "_n", b"{}", False, target_side="s")
    recording.crossed("notification", "a+b+c", "x", None, "_n", b"{}", False, target_side="s")
    hops = [(e["from"], e["to"]) for e in recording.events()]
    assert hops == [("x", "a"), ("c", "agent"), ("agent", "c"), ("a", "x")]


def test_ends_of_the_chain(recording: Recording) -> None:
    for mode in ("agent", "proxy"):
        args = (None, "_n", b"{}", False)
        recording.crossed("notification", UPSTREAM, "x", *args, mode=mode)
        recording.crossed("notification", "last", "x", *args, mode=mode)
    recording.crossed("notification", "last", UPSTREAM, *args, mode="proxy", target_side="s")
    recording.crossed("notification", "x/successor", "a+b+c", *args, mode="agent")
    hops = [(e["from"], e["to"]) for e in recording.events()]
    assert hops == [
        ("client", "x"), ("agent", "x"), ("client", "x"), ("last", "x"), ("last", "agent"),
        ("x", "a"),
    ]  # fmt: skip


def test_a_proxy_is_never_called_like_an_end(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t")
    recording.tracer.begin([("agent", (), ()), ("demo", (), ())])
    recording.crossed("notification", "agent", "demo", None, "_n", None, False)
    (event,) = recording.events()
    assert (event["from"], event["to"]) == ("agent (proxy)", "agent")
    assert event["params"] is None


def test_both_sides_of_one_host_are_told_apart(recording: Recording) -> None:
    """In proxy mode both its ends lead to the same peer, and each is an id space of its own."""
    send: Json = {"mode": "proxy", "source_side": "s", "target_side": "s"}
    recording.crossed("request", UPSTREAM, "a+b+c", "1", "_up", b"[1]", False, mode="proxy")
    recording.crossed("request", UPSTREAM, "a+b+c", "1", "_down", b"[2]", False, **send)
    recording.crossed("response", "a+b+c", UPSTREAM, "1", "_down", b"2", False, **send)
    recording.crossed("response", "a+b+c", UPSTREAM, "1", "_up", b"1", False, mode="proxy")
    events = recording.events()
    assert [(e["from"], e["to"], e["id"]) for e in events] == [
        ("client", "a", 1), ("agent", "c", 2), ("c", "agent", 2), ("a", "client", 1),
    ]  # fmt: skip
    assert [e["_conductor"]["method"] for e in events[2:]] == ["_down", "_up"]


def test_a_response_knows_its_request(recording: Recording) -> None:
    params = b'{"sessionId": "s-1", "prompt": []}'
    recording.crossed("request", "x", "last", '"q"', "session/prompt", params, False)
    recording.now += 0.25
    body = b'{"code": -1, "message": "no"}'
    recording.crossed("response", "last", "x", '"q"', "renamed", body, True)
    asked, answered = recording.events()
    assert asked == {
        "type": "request", "ts": 0.0, "protocol": "acp", "from": "x", "to": "agent", "id": 1,
        "method": "session/prompt", "session": "s-1", "params": json.loads(params),
        "_conductor": {"bytes": len(params), "id": "q"},
    }  # fmt: skip
    assert answered == {
        "type": "response", "ts": 0.25, "from": "agent", "to": "x", "id": 1, "is_error": True,
        "error_domain": "acp", "payload": {"code": -1, "message": "no"},
        "_conductor": {
            "bytes": len(body), "id": "q", "method": "session/prompt", "ms": 250.0,
            "session": "s-1", "code": -1,
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": 1.10, "a": 1e400,\t"b": "\\u00e9\\ud800"}',
        b"[123456789012345678901234567890]",
        b"{}",
    ],
)
def test_payloads_stand_as_they_came(tmp_path: Path, payload: bytes) -> None:
    for content in ("all", "redacted"):
        recording = Recording(tmp_path / content, content)
        recording.crossed("notification", "x", "last", None, "_n", payload, False)
        recording.tracer.close()
        if content == "all" or b"\\u00" not in payload:
            assert b'"params":' + payload + b"," in (tmp_path / content).read_bytes()


def test_a_payload_is_one_line(recording: Recording) -> None:
    recording.crossed("notification", "x", "last", None, "_n", b'{"a":\n[1,\n2]}', False)
    (event,) = recording.events()
    assert event["params"] == {"a": [1, 2]}


@pytest.mark.parametrize(
    "payload", [b'{"sessionId": 7}', b'["sessionId"]', b'{"x":"\\"sessionId\\""}']
)
def test_what_is_no_session(recording: Recording, payload: bytes) -> None:
    recording.crossed("notification", "x", "last", None, "_n", payload, False)
    assert "session" not in recording.events()[0]


def test_messages_of_mcp_are_shown_in_place_of_their_carrier(recording: Recording) -> None:
    params = b'{"serverId":"m","requestId":"r","method":"tools/list","params":{"cursor":"c"}}'
    for id_, body, failed in (
        ("1", b'{"result":{"tools":[]}}', False),
        ("2", b'{"error":{"code":-32601,"message":"no"}}', False),
        ("3", b'{"code":-33001,"message":"no server"}', True),
        ("4", b'{"neither":1}', False),
    ):
        recording.crossed("request", "last", "x", id_, "mcp/message", params, False)
        recording.crossed("response", "x", "last", id_, "mcp/message", body, failed)
    found = recording.events()
    assert {e["protocol"] for e in found[::2]} == {"mcp"}
    assert found[0]["method"] == "tools/list"
    assert found[0]["params"] == {"cursor": "c"}
    assert found[0]["_conductor"] == {"bytes": len(params), "carrier": "mcp/message", "id": 1}
    assert found[1]["_conductor"]["protocol"] == "mcp"
    assert [(e["is_error"], e.get("error_domain"), e["payload"]) for e in found[1::2]] == [
        (False, None, {"tools": []}),
        (True, "mcp", {"code": -32601, "message": "no"}),
        (True, "acp", {"code": -33001, "message": "no server"}),
        (False, None, {"neither": 1}),
    ]


def test_older_carriers_and_broken_ones(recording: Recording) -> None:
    older = b'{"connectionId":"c","method":"ping"}'
    recording.crossed("request", "last", "x", "1", "_mcp/message", older, False)
    recording.crossed("response", "x", "last", "1", "_mcp/message", b'{"result":1}', False)
    recording.crossed("notification", "last", "x", None, "mcp/message", b'{"method":7}', False)
    asked, answered, broken = recording.events()
    assert (asked["protocol"], asked["method"], asked["params"]) == ("mcp", "ping", None)
    assert answered["payload"] == {"result": 1}  # in these generations it is the result itself
    assert (broken["protocol"], broken["method"]) == ("acp", "mcp/message")
    assert broken["params"] == {"method": 7}


def test_reports_of_a_child(recording: Recording) -> None:
    recording.now = 101.0
    recording.tracer.hop("a+b+c", hop(at=100.5))
    recording.crossed("notification", "x", "last", None, "_n", b"{}", False)
    recording.tracer.hop("a+b+c", hop(at=100.75))
    recording.now = 200.0
    recording.tracer.hop("a+b+c", hop(at=3.0))
    recording.tracer.hop("a+b+c", hop(at=1e300))
    # Dated by the child, but never before what stands above it, nor when it makes no sense.
    assert [e["ts"] for e in recording.events()] == [0.5, 1.0, 1.0, 100.0, 100.0]


@pytest.mark.parametrize(
    "params",
    [
        hop(source="x"), hop(target="last"), hop(target="client"), hop(kind='request","ts":1'),
        hop(size="2"), b"", b"[]", b"null", hop(at="x"), hop(method=7),
    ],
)  # fmt: skip
def test_reports_that_make_no_sense(recording: Recording, params: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        recording.tracer.hop("a+b+c", params)
    assert recording.events() == []


def policed(tmp_path: Path, *policies: Policy | None) -> Recording:
    """A recording of a host of three guests, held to these policies."""
    recording = Recording(tmp_path / "policed")
    recording.tracer.begin([("a+b+c", ("a", "b", "c"), policies), ("last", (), ())])
    return recording


def test_what_passes_a_guest_by_goes_to_the_next(tmp_path: Path) -> None:
    context, observer = (PolicyWords(one).policy() for one in ("context", "observer"))
    recording = policed(tmp_path, context, None, observer)
    down: Json = {"source_side": "p", "target_side": "p"}
    for method in ("session/prompt", "initialize"):
        recording.crossed("request", UPSTREAM, "a+b+c", "1", method, b"{}", False, **down)
        recording.crossed("response", "a+b+c", UPSTREAM, "1", method, b"{}", False, **down)
    recording.crossed("notification", "last", "a+b+c", None, "_n", b"{}", False, target_side="s")
    assert [(e["from"], e["to"]) for e in recording.events()] == [
        ("client", "a"), ("a", "client"), ("client", "b"), ("b", "client"), ("agent", "b"),
    ]  # fmt: skip


def test_a_host_says_which_guest_has_sent_what_leaves_it(tmp_path: Path) -> None:
    recording = policed(tmp_path, None, None, None)
    for source, method in (("c", "_dropped"), ("b", "_n"), ("b", "_up")):
        bare = hop(source=source, target="client", method=method, size=2, side="s")
        report = json.loads(bare)
        del report["payload"]
        recording.tracer.hop("a+b+c", json.dumps(report).encode())
    out: Json = {"source_side": "s", "target_side": "p"}
    recording.crossed("notification", "a+b+c", "last", None, "_n", b"{}", False, **out)
    recording.crossed("notification", "a+b+c", "last", None, "_unknown", b"{}", False, **out)
    recording.crossed("request", "a+b+c", "last", "7", "_up", b"{}", False, **out)
    recording.crossed("response", "last", "a+b+c", "7", "_up", b"{}", False, target_side="s")
    # The one of which nothing was heard is named as before.
    assert [(e["from"], e["to"]) for e in recording.events()] == [
        ("b", "agent"), ("c", "agent"), ("c", "agent"), ("agent", "c"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "params",
    [
        b"", b"[]", b'{"component":"x","number":1,"at":1.0}', b'{"component":"a","at":1.0}',
        b'{"component":"a","number":1,"at":1.0,"given":[1]}',
        b'{"component":"a","number":1,"at":1.0,"said":["\xff"]}',
    ],
)  # fmt: skip
def test_deliveries_that_make_no_sense(recording: Recording, params: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        recording.tracer.delivered("a+b+c", params)
    assert recording.events() == []


def test_a_delivery_cannot_break_out_of_its_line(recording: Recording) -> None:
    lines = ['p{"a":1}\n{"type":"request"}', 's{"jsonrpc":"2.0"}],"x":[', "c\r\n{}"]
    told = {"component": "a", "number": 1, "at": 100.0, "given": lines, "said": lines}
    recording.tracer.delivered("a+b+c", json.dumps(told).encode())
    assert recording.events() == []


def test_a_report_cannot_break_out_of_its_line(recording: Recording) -> None:
    for id_ in ('1,"x":2}\n{', "}", "1\n", "\n1", "[1]", ""):
        with pytest.raises(ValueError, match=r"\w"):
            recording.tracer.hop("a+b+c", hop(kind="request", id=id_))
    recording.tracer.hop("a+b+c", hop(kind="request", id='"\\n"', method='"\n'))
    recording.tracer.hop("a+b+c", hop(kind="response", id="7", method="m"))
    first, second = recording.events()
    assert (first["id"], first["method"], first["_conductor"]["id"]) == (1, '"\n', "\n")
    assert (second["id"], second["_conductor"]["method"]) == (2, "m")


def test_what_a_segment_reports() -> None:
    trace = Trace("request", "a", "b", "7", "_m", b'{"x":"\\ud800"}', False)
    line = hop_line(trace, LINE_LIMIT)
    assert line[:1] == b"c"
    assert line.endswith(b"\n")
    frame = json.loads(line[1:])
    assert frame["method"] == TRACED
    assert frame["params"].pop("at") > 0
    assert frame["params"] == {
        "kind": "request", "source": "a", "target": "b", "size": 14, "id": "7", "method": "_m",
        "payload": {"x": "\ud800"},
    }  # fmt: skip
    assert b'"payload":{"x":"\\ud800"}' in line
    # Half of what the parent takes of a line, and as deep as it takes: the payload stays here.
    too_long = hop_line(msgspec.structs.replace(trace, payload=b'"%b"' % (b"x" * 200)), 300)
    too_deep = hop_line(msgspec.structs.replace(trace, payload=b"[" * 511 + b"]" * 511), LINE_LIMIT)
    for line, size in ((too_long, 202), (too_deep, 1022)):
        assert b"payload" not in line
        assert json.loads(line[1:])["params"]["size"] == size


@pytest.mark.parametrize("payload", [b"[" * 510 + b"]" * 510, b'{"x":"\\ud800"}', b'["\\udc00"]'])
def test_reports_arrive(tmp_path: Path, recording: Recording, payload: bytes) -> None:
    """Also of the deepest payload that is not left out, and of one that is no text."""
    services = frozenset({TRACED})
    host = Component("a+b+c", dialect=CHANNEL, services=services)
    router = Router([host, Component("last")], tracing=True)
    trace = Trace("notification", "a", "b", None, "_m", payload, False)
    (serve,) = router.receive("a+b+c", hop_line(trace, LINE_LIMIT).rstrip(b"\n"))
    assert isinstance(serve, Serve)
    assert (serve.service, serve.token) == (TRACED, None)
    recording.tracer.hop("a+b+c", serve.params or b"")
    recording.tracer.close()
    assert b'"params":' + payload + b"," in (tmp_path / "t").read_bytes()


def test_only_a_host_may_report() -> None:
    guest = Component("a", dialect=CHANNEL, services=frozenset({"clock"}))
    router = Router([guest, Component("last")], tracing=True)
    (note,) = router.receive("a", b'c{"jsonrpc":"2.0","method":"trace","params":{}}')
    assert isinstance(note, Note)


def test_a_question_asked_in_another_dialect_has_both_answers() -> None:
    """A proxy that refuses one role request and takes the next: nothing is left open."""
    router = Router([Component("x"), Component("agent")], tracing=True)
    ask = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}'
    effects = [*router.receive(UPSTREAM, ask), *router.receive("x", refusal)]
    traced = [e for e in effects if isinstance(e, Trace)]
    assert [(t.kind, t.source, t.target, t.id, t.is_error) for t in traced] == [
        ("request", "client", "x", "1", False),
        ("response", "x", "client", "1", True),
        ("request", "client", "x", "1", False),
    ]
    assert [t.method for t in traced[::2]] == ["proxy/initialize", "_proxy/initialize"]
