"""`conductor.record.trace`: the events of one message, and of reports that make no sense."""

import contextlib
import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conductor.core import CHANNEL, UPSTREAM, Component, Entry, Violated
from conductor.core.component import Side
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.router import Router, RouterOptions
from conductor.record.trace import events
from conductor.record.trace.hops import Crossings, Departure
from conductor.record.turns import edits, reader
from conductor.record.turns.model import Change
from conductor.run.host_record import Crossed, HostRecord, RecordReader
from conductor.run.log import Chain, ChainLog, Ended, Item, OfHost
from conductor.run.report_checks import check_entry
from conductor.telemetry.recorded import Recorded
from conductor.transports.framing import LINE_LIMIT
from tests.record.trace.files import traced

Json = dict[str, Any]

NUMBERS: Final = range(1000, 2000)
"""The numbers of the messages that the host `a+b+c` names as its guests'."""


class Recording:
    """A tracer over a file of its own, and a clock that a test sets."""

    def __init__(self, path: Path, content: str = "all") -> None:
        self._path = path
        self._number = self._asked = 0
        self.now = 100.0
        self.tracer = traced(path, content)
        peers = [("x", (), None), ("a+b+c", ("a", "b", "c"), NUMBERS), ("last", (), None)]
        self.takes(Chain(peers))

    def takes(self, item: Item, mode: str = "agent") -> None:
        """Something happened now."""
        self.tracer.take(item, self.now, mode)

    def crossed(
        self,
        kind: str,
        source: str,
        target: str,
        id: str | None = None,  # noqa: A002 - as an entry has it
        method: str = "",
        payload: bytes | None = None,
        *,
        mode: str = "agent",
        **more: Any,
    ) -> None:
        """A message crossed. A response with no `request` answers the request before it."""
        self._number += 1
        entry = made(kind, source, target, id, method, payload, **{"number": self._number, **more})
        if entry.kind == "request":
            self._asked = entry.number
        elif entry.kind == "response" and not entry.request:
            entry = msgspec.structs.replace(entry, request=self._asked)
        self.takes(entry, mode)

    def hop(self, host: str, entry: Entry, at: float) -> None:
        """A host reports a message. Raises `ValueError` for nonsense."""
        lines: list[bytes] = []
        record = HostRecord(LINE_LIMIT, lines.append)
        record.crossed(entry)
        record.send()
        for crossed in RecordReader().read(lines[0].rstrip(b"\n")):
            assert isinstance(crossed, Crossed)
            check_entry(crossed, host, ("a", "b", "c"), NUMBERS)
            timed = msgspec.structs.replace(crossed, at=at)
            self.tracer.take(OfHost(host, timed), at, "agent")

    def times(self) -> list[float]:
        """For how long the sender of each response had it."""
        self.tracer.close()
        rows = reader.opened(str(self._path)).rows()
        return [row.ms_in for row in rows if row.kind == "response"]

    def events(self) -> list[Json]:
        """All events written, once."""
        self.tracer.close()
        found = [json.loads(line) for line in self._path.read_bytes().splitlines()]
        assert found[0]["components"][-1] in ("last", "demo")
        return [one for one in found if one["type"] != "_conductor"]


def made(
    kind: str,
    source: str,
    target: str,
    id: str | None = None,  # noqa: A002 - as an entry has it
    method: str = "",
    payload: bytes | None = None,
    *,
    number: int,
    **more: Any,
) -> Entry:
    """An entry."""
    sides = more.pop("source_side", Side.P), more.pop("target_side", Side.P)
    raw = None if id is None else id.encode(errors="surrogatepass")
    return Entry(kind, source, sides[0], target, sides[1], number, method, payload, raw, **more)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """A recording with content."""
    return Recording(tmp_path / "t")


def hop(at: float = 100.0, **changes: object) -> tuple[Entry, float]:
    """A message within a host, and its time."""
    fields: Json = {
        "kind": "notification", "source": "a", "target": "b", "method": "_n", "payload": b"{}",
        "number": 1000,
    }  # fmt: skip
    return made(**fields | changes), at


def test_who_changed_a_secret_shows_though_the_trace_hides_it(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t", "redacted")
    secret = f"ghp_{'1a' * 18}"
    passed_on = (f'{{"b":"{secret}","a":1}}', f'{{ "a":1, "b":"{secret}" }}',
                 '{"a":1,"b":"[redacted]"}', '{"a":1,"b":"[redacted: github-token]"}')  # fmt: skip
    recording.crossed("request", UPSTREAM, "x", method="_m", id="0", payload=passed_on[0].encode())
    for n, params in enumerate(passed_on, 2):
        payload = params.encode()
        recording.crossed("request", "x", "last", method="_m", id=f"{n}", payload=payload, passes=1)
    recording.tracer.close()
    made = reader.opened(str(tmp_path / "t"))
    assert secret.encode() not in (tmp_path / "t").read_bytes()
    changes = [made.change(row.n) for row in made.rows()]
    assert changes == [None, Change.SAME, Change.SAME, Change.CHANGED, Change.CHANGED]
    shown = [bytes(line.params) for _, line in made.of_turn(made.turns[0]) if line.is_event]
    seen = [edits.in_words(edits.of_changed(shown[0], shown[n])) for n in (3, 4)]
    assert seen == ["changed 1 part that the trace hides", "changed 1 secret"]


def test_what_crosses_a_border_is_one_hop(recording: Recording) -> None:
    """The router sees a message go into the host, or come out; the host knows its guest."""
    empty: Json = {"payload": b"{}", "method": "_n"}
    recording.crossed("notification", "x", "a+b+c", number=1, source_side=Side.S, **empty)
    recording.hop("a+b+c", *hop(source=UPSTREAM, target="b", number=1))
    recording.hop("a+b+c", *hop(source="b", target="c", number=1001, passes=1))
    recording.hop("a+b+c", *hop(source="c", target=UPSTREAM, number=1002, passes=1001))
    recording.crossed("notification", "a+b+c", "last", number=1002, source_side=Side.S, **empty)
    found = recording.events()
    assert [(e["from"], e["to"]) for e in found] == [("x", "b"), ("b", "c"), ("c", "agent")]
    numbers = [(e["_conductor"]["n"], e["_conductor"].get("passes")) for e in found]
    assert numbers == [(1, None), (1001, 1), (1002, 1001)]


def test_the_time_in_a_component(recording: Recording) -> None:
    """From given to passed on, and from returned to answered; also when that happens twice."""
    recording.crossed("request", UPSTREAM, "x", "1", "_m", b"{}", number=1)
    for again in (0, 10):
        recording.now += 1
        recording.crossed("request", "x", "last", "2", "_m", b"{}", number=2 + again, passes=1)
        recording.now += 5
        asked: Json = {"number": 3 + again, "request": 2 + again}
        recording.crossed("response", "last", "x", "2", "_m", b"{}", **asked)
        recording.now += 0.25
    more: Json = {"number": 14, "request": 1, "passes": 13}
    recording.crossed("response", "x", UPSTREAM, "1", "_m", b"{}", **more)
    assert recording.times() == [5000.0, 5000.0, 2500.0]


def test_the_time_in_a_component_that_answers_before_those_it_asked(recording: Recording) -> None:
    recording.crossed("request", UPSTREAM, "x", "1", "_m", b"{}", number=1)
    recording.now += 1
    recording.crossed("request", "x", "last", "2", "_m", b"{}", number=2, passes=1)
    recording.now += 5
    recording.crossed("response", "x", UPSTREAM, "1", "_m", b"{}", request=1, own=True)
    recording.crossed("response", "last", "x", "2", "_m", b"{}", request=2, lost=True)
    first, second = (e["_conductor"] for e in recording.events() if e["type"] == "response")
    assert (first["by"], second["lost"]) == ("conductor", True)
    assert recording.times() == [1000.0, 5000.0]


def test_a_request_that_is_taken_back_goes_on_from_who_sent_it(recording: Recording) -> None:
    recording.hop("a+b+c", *hop(kind="request", source="c", target=UPSTREAM, number=1001, id="1"))
    asked: Json = {"number": 1001, "method": "_m", "payload": b"{}"}
    recording.crossed("request", "a+b+c", "x", "2", source_side=Side.S, **asked)
    answer: Json = {"request": 1001, "lost": True, "is_error": True, "method": "_m"}
    recording.crossed("response", "x", "a+b+c", "2", target_side=Side.S, **answer)
    recording.crossed("request", "a+b+c", "last", "2", source_side=Side.S, **asked)
    hops = [(e["from"], e["to"]) for e in recording.events()]
    assert hops == [("c", "x"), ("x", "c"), ("c", "agent")]


def test_what_is_answered_by_the_conductor_itself(recording: Recording) -> None:
    recording.crossed("request", "x", "", "1", "_m", b"{}")
    recording.crossed("response", "", "x", "1", "_m", b"{}", is_error=True, own=True)
    recording.crossed("notification", "", "last", method="$/cancel_request", own=True, request=9)
    found = recording.events()
    ends = [("x", "conductor"), ("conductor", "x"), ("conductor", "agent")]
    assert [(e["from"], e["to"]) for e in found] == ends
    assert [e["_conductor"].get("by") for e in found] == [None, "conductor", "conductor"]
    assert found[-1]["_conductor"]["of"] == 9


def test_ends_of_the_chain(recording: Recording) -> None:
    for mode in ("agent", "proxy"):
        args = (None, "_n", b"{}")
        recording.crossed("notification", UPSTREAM, "x", *args, mode=mode)
        recording.crossed("notification", "last", "x", *args, mode=mode)
    recording.crossed("notification", "last", UPSTREAM, *args, mode="proxy", target_side=Side.S)
    recording.crossed("notification", "x/successor", "last", *args, mode="agent")
    hops = [(e["from"], e["to"]) for e in recording.events()]
    assert hops == [
        ("client", "x"), ("agent", "x"), ("client", "x"), ("last", "x"), ("last", "agent"),
        ("x", "agent"),
    ]  # fmt: skip


def test_a_proxy_is_never_called_like_an_end(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "t")
    recording.takes(Chain([("agent", (), None), ("demo", (), None)]))
    recording.crossed("notification", "agent", "demo", None, "_n", None)
    (event,) = recording.events()
    assert (event["from"], event["to"]) == ("agent (proxy)", "agent")
    assert event["params"] is None


def test_both_sides_of_one_peer_are_told_apart(recording: Recording) -> None:
    """In proxy mode both ends of the chain lead to the same peer, and each is an id space of its
    own."""
    recording.crossed("request", UPSTREAM, "x", "1", "_up", b"[1]", mode="proxy", number=1)
    send: Json = {"mode": "proxy", "source_side": Side.S, "target_side": Side.S}
    recording.crossed("request", UPSTREAM, "x", "1", "_down", b"[2]", number=2, **send)
    recording.crossed("response", "x", UPSTREAM, "1", "_down", b"2", request=2, **send)
    recording.crossed("response", "x", UPSTREAM, "1", "_up", b"1", request=1, mode="proxy")
    events = recording.events()
    assert [(e["from"], e["to"], e["id"]) for e in events] == [
        ("client", "x", 1), ("agent", "x", 2), ("x", "agent", 2), ("x", "client", 1),
    ]  # fmt: skip
    assert [e["_conductor"]["method"] for e in events[2:]] == ["_down", "_up"]


def test_a_response_knows_its_request(recording: Recording) -> None:
    params = b'{"sessionId": "s-1", "prompt": []}'
    recording.crossed("request", "x", "last", '"q"', "session/prompt", params)
    recording.now += 0.25
    body = b'{"code": -1, "message": "no"}'
    recording.crossed("response", "last", "x", '"q"', "renamed", body, is_error=True)
    asked, answered = recording.events()
    assert asked == {
        "type": "request", "ts": 0.0, "protocol": "acp", "from": "x", "to": "agent", "id": 1,
        "method": "session/prompt", "session": "s-1", "params": json.loads(params),
        "_conductor": {"bytes": len(params), "id": "q", "n": 1},
    }  # fmt: skip
    assert answered == {
        "type": "response", "ts": 0.25, "from": "agent", "to": "x", "id": 1, "is_error": True,
        "error_domain": "acp", "payload": {"code": -1, "message": "no"},
        "_conductor": {
            "bytes": len(body), "id": "q", "n": 2, "of": 1, "method": "session/prompt",
            "ms": 250.0, "session": "s-1", "code": -1,
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
        recording.crossed("notification", "x", "last", None, "_n", payload)
        recording.tracer.close()
        if content == "all" or b"\\u00" not in payload:
            assert b'"params":' + payload + b"," in (tmp_path / content).read_bytes()


def test_a_payload_is_one_line(recording: Recording) -> None:
    recording.crossed("notification", "x", "last", None, "_n", b'{"a":\n[1,\n2]}')
    (event,) = recording.events()
    assert event["params"] == {"a": [1, 2]}


@pytest.mark.parametrize(
    "payload", [b'{"sessionId": 7}', b'["sessionId"]', b'{"x":"\\"sessionId\\""}']
)
def test_what_is_no_session(recording: Recording, payload: bytes) -> None:
    recording.crossed("notification", "x", "last", None, "_n", payload)
    assert "session" not in recording.events()[0]


def test_messages_of_mcp_are_shown_in_place_of_their_carrier(recording: Recording) -> None:
    params = b'{"serverId":"m","requestId":"r","method":"tools/list","params":{"cursor":"c"}}'
    for id_, body, failed in (
        ("1", b'{"result":{"tools":[]}}', False),
        ("2", b'{"error":{"code":-32601,"message":"no"}}', False),
        ("3", b'{"code":-33001,"message":"no server"}', True),
        ("4", b'{"neither":1}', False),
    ):
        recording.crossed("request", "last", "x", id_, "mcp/message", params)
        recording.crossed("response", "x", "last", id_, "mcp/message", body, is_error=failed)
    found = recording.events()
    assert {e["protocol"] for e in found[::2]} == {"mcp"}
    assert found[0]["method"] == "tools/list"
    assert found[0]["params"] == {"cursor": "c"}
    own: Json = {"bytes": len(params), "carrier": "mcp/message", "id": 1, "n": 1}
    assert found[0]["_conductor"] == own
    assert found[1]["_conductor"]["protocol"] == "mcp"
    assert [(e["is_error"], e.get("error_domain"), e["payload"]) for e in found[1::2]] == [
        (False, None, {"tools": []}),
        (True, "mcp", {"code": -32601, "message": "no"}),
        (True, "acp", {"code": -33001, "message": "no server"}),
        (False, None, {"neither": 1}),
    ]


def test_older_carriers_and_broken_ones(recording: Recording) -> None:
    older = b'{"connectionId":"c","method":"ping"}'
    recording.crossed("request", "last", "x", "1", "_mcp/message", older)
    recording.crossed("response", "x", "last", "1", "_mcp/message", b'{"result":1}')
    recording.crossed("notification", "last", "x", None, "mcp/message", b'{"method":7}')
    asked, answered, broken = recording.events()
    assert (asked["protocol"], asked["method"], asked["params"]) == ("mcp", "ping", None)
    assert answered["payload"] == {"result": 1}  # in these generations it is the result itself
    assert (broken["protocol"], broken["method"]) == ("acp", "mcp/message")
    assert broken["params"] == {"method": 7}


@pytest.mark.proves("a host of guests cannot forge")
@pytest.mark.parametrize(
    "wrong",
    [
        hop(source="x"), hop(target="last"), hop(number=7), hop(source="", number=2000),
        hop(source="a", target=UPSTREAM, number=7), hop(kind="response", request=7),
        hop(kind="response", source=UPSTREAM, target="x"),
        hop(kind='notification","from":"client'), hop(payload=b'1,"from":"client"'),
        hop(payload=b""), hop(payload=b'"\xff"'), hop(kind="request", id='1},"from":"client"'),
        hop(kind="request", id='1\n'), hop(kind="request", id="\ud83d"),
    ],
)  # fmt: skip
def test_a_host_has_no_say_about_others(recording: Recording, wrong: tuple[Entry, float]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        recording.hop("a+b+c", *wrong)
    assert recording.events() == []


def test_a_host_has_no_say_about_the_requests_of_others(recording: Recording) -> None:
    recording.crossed("request", "x", "last", "1", "_m", b"{}", number=1)
    report = hop(kind="response", source="a", target="b", number=1001, request=1, id="1")
    with pytest.raises(ValueError, match="answers no request"):
        recording.hop("a+b+c", *report)
    recording.crossed("response", "last", "x", "1", "_m", b"{}", request=1)
    assert [e["from"] for e in recording.events()] == ["x", "agent"]


def test_requests_of_a_host_that_nobody_answers_are_bounded(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "_MOST_OPEN", 4096)
    for number in range(1000, 1100):
        request = hop(kind="request", id=str(number), number=number)
        recording.hop("a+b+c", *request)
    recording.crossed("request", "x", "last", "1", "_m", b"{}", number=1)
    recording.crossed("response", "last", "x", "1", "_m", b"{}", request=1)
    for number in range(1000, 1100):
        with contextlib.suppress(ValueError):
            report = hop(kind="response", source="b", target="a", number=1200, request=number)
            recording.hop("a+b+c", *report)
    of = Counter((e["type"], e["from"]) for e in recording.events())
    assert of["request", "a"] == 100
    assert 0 < of["response", "b"] < 10
    assert of["response", "agent"] == 1


def test_what_a_host_does_with_copies_is_left_out(recording: Recording) -> None:
    """Copies of a message that came without a number: the original has gone past the host."""
    recording.hop("a+b+c", *hop(source=UPSTREAM, target="a", number=1001))
    recording.hop("a+b+c", *hop(source=UPSTREAM, target=UPSTREAM, number=1002))
    assert recording.events() == []


def test_answers_to_nothing_are_left_out(recording: Recording) -> None:
    recording.crossed("response", "last", "x", "1", "_m", b"{}", request=77)
    assert recording.events() == []


def test_a_host_that_reports_nothing(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host is named as a whole; messages into it wait for its report, within a bound. In the
    end they are lost."""
    monkeypatch.setattr("conductor.record.trace.hops._MOST", 10 * 1024)
    for number in range(1, 13):
        recording.crossed("notification", "x", "a+b+c", method="_n", number=number)
    recording.crossed("notification", "a+b+c", "last", method="_n", payload=b"{}", passes=3)
    for number in (2, 3):
        recording.hop("a+b+c", *hop(source=UPSTREAM, target="a", number=number))
    recording.takes(Ended(None))
    first, second, *lost = recording.events()
    assert (first["from"], first["to"]) == ("a+b+c", "agent")
    assert "passes" not in first["_conductor"]
    assert second["_conductor"]["n"] == 3
    assert [one["_conductor"]["n"] for one in lost] == [*range(4, 13)]
    assert {(one["to"], one["_conductor"]["lost"]) for one in lost} == {("a+b+c", True)}


def test_a_question_asked_in_another_dialect_has_both_answers() -> None:
    """A proxy that refuses one role request and takes the next: nothing is left open."""
    router = Router([Component("x"), Component("agent")], options=RouterOptions(tracing=True))
    ask = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"?"}}'
    effects = [*router.receive(UPSTREAM, ask), *router.receive("x", refusal)]
    traced = [e for e in effects if isinstance(e, Entry)]
    assert [(t.kind, t.source, t.target, t.id, t.is_error) for t in traced] == [
        ("request", "client", "x", b"1", False),
        ("response", "x", "client", b"1", True),
        ("request", "client", "x", b"1", False),
    ]
    assert [t.method for t in traced[::2]] == ["proxy/initialize", "_proxy/initialize"]


def test_of_too_many_values_there_is_a_digest(tmp_path: Path) -> None:
    """To look through 57 MB of them stopped everybody for a minute."""
    trace = Recording(tmp_path / "t", "redacted")
    many = b'{"sessionId":"S","a":[%b1]}' % (b"1," * 100_000)
    trace.crossed("request", "x", "last", "1", "m", many)
    trace.crossed("response", "last", "x", "1", "m", many)
    asked, answered = trace.events()
    assert (asked["params"], answered["payload"]) == (None, None)
    for one in (asked, answered):
        assert one["_conductor"]["bytes"] == len(many)
        assert one["_conductor"]["sha256"] == hashlib.sha256(many).hexdigest()


def test_a_record_that_takes_too_much_memory_is_lost_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = Recording(tmp_path / "t", "redacted")

    def full(*_: object) -> None:
        raise MemoryError

    said: list[str] = []
    log = ChainLog([trace.tracer], lambda level, name, text: said.append(text))
    with monkeypatch.context() as patch:
        patch.setattr("conductor.record.trace.events.redacted", full)
        log.add(made("notification", "x", "last", None, "m", b"{}", number=1))
        log.drain()
    log.add(made("notification", "x", "last", None, "n", b"{}", number=2))
    log.drain()
    assert [one["method"] for one in trace.events()] == ["n"]
    assert said == ["the trace is incomplete: MemoryError()"]


def departure(number: int, size: int = 1) -> Departure:
    """A message on its way into a host."""
    trace = made("notification", "x", "a", None, "m", b"x" * size, number=number)
    return Departure("x", 0.0, trace)


def test_what_crosses_the_border_of_one_host_is_not_forgotten_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("conductor.record.trace.hops._MOST", 10 * 1025)
    crossings = Crossings()
    crossings.put("a", departure(1), 1, inward=True)
    for number in range(20):
        crossings.put("b", departure(number), number, inward=True)
    assert crossings.take("a", 1, inward=True) is not None
    assert crossings.take("b", 9, inward=True) is None
    assert crossings.take("b", 10, inward=True) is not None
    for number in range(5):
        crossings.put("c", departure(number, 4000), number, inward=True)
    assert [crossings.take("c", number, inward=True) is not None for number in range(5)] == [
        False, False, False, True, True,
    ]  # fmt: skip


def test_a_verdict_belongs_to_the_turn_of_its_session(tmp_path: Path) -> None:
    """Also while another one runs."""
    policed = Component("p", "", CHANNEL, policy=PolicyWords(("context",)).policy())
    router = Router([policed, Component("agent")], options=RouterOptions(tracing=True))
    path = tmp_path / "trace.jsons"
    tracer = traced(path, "none")
    tracer.take(Chain([("p", (), None), ("agent", (), None)]), 0.0, "agent")
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":{"sessionId":"%b"}}'
    own = b'p{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"a","update":{}}}'
    for peer, line in (
        (
            "client",
            b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}',
        ),
        ("p", b's{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'),
        ("agent", b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'),
        ("p", b'p{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'),
        ("client", asked % (1, b"session/prompt", b"a")),
        ("client", asked % (2, b"session/prompt", b"b")),
        ("p", own),
    ):
        for effect in router.receive(peer, line):
            if isinstance(effect, Entry | Violated):
                tracer.take(effect, 0.0, "agent")
    tracer.close()
    lines = path.read_bytes().splitlines(keepends=True)
    made, held = reader.held()
    for line in lines:
        held.append(line)
        made.take(line)
    assert [(turn.session, turn.verdicts) for turn in made.turns if turn.session] == [
        ("a", 1), ("b", 0),
    ]  # fmt: skip
    assert [row.session for row in made.rows(0, len(lines)) if row.kind == "verdict"] == ["a"]
    found = Recorded(made, str(path), content=False, pictures=False)
    refused = [span.attributes["acp.session.id"] for span in found if span.moments]
    assert refused == ["a"]
