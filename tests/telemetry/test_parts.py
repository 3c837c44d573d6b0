"""Parts of telemetry by themselves: parents of spans, what is bounded, who may read the numbers."""

import importlib.util
import json
import socket
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from conductor import installation
from conductor.errors import UsageError
from conductor.record.turns.event import Event
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import read_line
from conductor.telemetry import collector, payloads
from conductor.telemetry.book import Book
from conductor.telemetry.measures import HOP, MESSAGES, Measures
from conductor.telemetry.serving import Serving
from conductor.telemetry.span import Ids, Span, read_traceparent
from conductor.telemetry.spans import Translator
from tests.places import DEADLINE

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
PARENT: Final = "b7ad6b7169203331"
GOOD: Final = f"00-{TRACE}-{PARENT}-01"


def request(number: int, source: str, target: str, method: str, **more: Any) -> bytes:
    params = more.pop("params", None)
    own = {"bytes": 1, "n": number, "id": number, **more}
    event = {"type": "request", "ts": number / 1000, "protocol": "acp", "from": source,
             "to": target, "id": number, "method": method, "params": params}  # fmt: skip
    if isinstance(params, dict) and "sessionId" in params:
        event["session"] = params["sessionId"]
    return json.dumps({**event, "_conductor": own}).encode() + b"\n"


def response(
    number: int, source: str, target: str, of: int, payload: Any = None, **more: Any
) -> bytes:
    own = {"bytes": 1, "n": number, "of": of, "ms": 1.0, **more}
    event = {"type": "response", "ts": number / 1000, "from": source, "to": target, "id": of,
             "is_error": False, "payload": payload, "_conductor": own}  # fmt: skip
    return json.dumps(event).encode() + b"\n"


def events(fold: Fold, *lines: bytes) -> list[Event]:
    """The events of a trace."""
    found = (fold.take(read_line(line)) for line in lines)
    return [event for event in found if event is not None]


def translated(*lines: bytes) -> list[Span]:
    """The spans of a trace."""
    fold = Fold()
    translator = Translator(fold, Ids(b"seed"))
    found = [span for event in events(fold, *lines) for span in translator.take(event)]
    return found + translator.finish()


def numbers(*lines: bytes) -> str:
    """The numbers of a trace, as Prometheus reads them."""
    book, fold = Book(), Fold()
    measures = Measures(fold, book)
    for event in events(fold, *lines):
        measures.take(event)
    return book.text()


def prompt(traceparent: str) -> dict[str, Any]:
    return {"sessionId": "s", "prompt": [], "_meta": {"traceparent": traceparent}}


def test_a_turn_stands_below_what_the_client_names() -> None:
    hop, turn = translated(
        request(1, "client", "agent", "session/prompt", params=prompt(GOOD)),
        response(2, "agent", "client", 1, {"stopReason": "end_turn"}),
    )
    assert turn.parent is not None
    assert turn.is_remote
    assert f"{turn.context.trace:032x}" == f"{hop.context.trace:032x}" == TRACE
    assert f"{turn.parent.span:016x}" == PARENT
    assert hop.parent == turn.context


def test_a_turn_is_measured_until_its_end() -> None:
    """In ACP v2 a prompt is answered once it was inserted, and an update ends its turn."""
    update = {"sessionId": "s", "update": {"sessionUpdate": "state_update", "state": "idle"}}
    lines = (
        request(1000, "client", "agent", "session/prompt", params={"sessionId": "s", "prompt": []}),
        response(2000, "agent", "client", 1000, {"messageId": "m"}),
        request(5000, "agent", "client", "session/update", params=update).replace(
            b'"request"', b'"notification"'
        ),
    )
    turn = next(span for span in translated(*lines) if span.name == "invoke_agent agent")
    assert (turn.start, turn.end) == (1.0, 5.0)
    assert 'conductor_turn_duration_seconds_sum{stop="end_turn"} 4\n' in numbers(*lines)


@pytest.mark.parametrize("first", ["tool_call", "tool_call_update"])
def test_a_tool_call_is_a_span_in_either_version_of_acp(first: str) -> None:
    def update(number: int, kind: str, status: str) -> bytes:
        held = {"sessionUpdate": kind, "toolCallId": "t", "status": status}
        params = {"sessionId": "s", "update": held}
        line = request(number, "agent", "client", "session/update", params=params)
        return line.replace(b'"request"', b'"notification"')

    spans = translated(
        request(1000, "client", "agent", "session/prompt", params={"sessionId": "s", "prompt": []}),
        update(2000, first, "pending"),
        update(3000, "tool_call_update", "completed"),
        update(4000, "tool_call_update", "completed"),
        response(5000, "agent", "client", 1000, {"stopReason": "end_turn"}),
    )
    tools = [span for span in spans if span.name == "execute_tool"]
    assert [(tool.start, tool.end) for tool in tools] == [(2.0, 3.0)]


@pytest.mark.parametrize(("passed", "changed"), [({"b": 1, "a": 2}, False), ({"a": 3}, True)])
def test_what_is_only_spelled_anew_is_no_change(passed: dict[str, int], changed: bool) -> None:
    spans = translated(
        request(1, "client", "a", "session/list", params={"a": 2, "b": 1}),
        request(2, "a", "agent", "session/list", params=passed, passes=1),
        response(3, "agent", "a", 2, {}),
        response(4, "a", "client", 1, {}, passes=3),
    )
    hop = next(span for span in spans if span.attributes["conductor.component.name"] == "a")
    assert hop.attributes["conductor.changed"] is changed


@pytest.mark.parametrize(
    "text",
    [
        "", "00", f"00-{TRACE}-{PARENT}", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE.upper()}-{PARENT}-01", f"00-{TRACE}-{PARENT}-01-x",
        f"00-{TRACE}x-{PARENT}-01", f"00-{TRACE}-{PARENT}-1", "\u0660\u0660-" + GOOD[3:],
    ],
)  # fmt: skip
def test_a_context_that_is_not_valid_makes_a_new_root(text: str) -> None:
    assert read_traceparent(text) is None
    _, turn = translated(
        request(1, "client", "agent", "session/prompt", params=prompt(text)),
        response(2, "agent", "client", 1, {"stopReason": "end_turn"}),
    )
    assert turn.parent is None


def test_what_is_open_at_the_end_says_so() -> None:
    spans = translated(request(1, "client", "agent", "session/prompt", params=prompt(GOOD)))
    assert [span.attributes["conductor.unfinished"] for span in spans] == [True, True]


def test_requests_without_an_answer_are_forgotten_some_time() -> None:
    fold = Fold()
    translator = Translator(fold, Ids(b"seed"))
    spans: list[Span] = []
    for number in range(1, 3_001):
        for event in events(fold, request(number, "client", "agent", "session/list")):
            spans += translator.take(event)
    assert len(spans) == 1_000
    assert len(translator.finish()) == 2_000
    assert translator.finish() == []


def test_a_verdict_is_a_moment_of_what_the_component_had() -> None:
    verdict = {"type": "_conductor", "ts": 0.002, "verdict": {
        "component": "a", "rule": "prompt", "method": "session/prompt"}}  # fmt: skip
    spans = translated(
        request(1, "client", "a", "session/prompt", params=prompt(GOOD)),
        json.dumps(verdict).encode() + b"\n",
        response(3, "a", "client", 1, {"stopReason": "end_turn"}),
    )
    hop = next(span for span in spans if span.name == "session/prompt")
    assert [moment.attributes["conductor.policy.rule"] for moment in hop.moments] == ["prompt"]


def test_lines_that_are_none_say_nothing() -> None:
    odd = [b"", b"\n", b"{", b"[]", b'{"type":"request"}', b'{"type":"response","id":[]}',
           b'{"type":"request","ts":1e400}', b'{"type":"notification","params":{"update":3}}',
           b'{"type":"_conductor","verdict":{"component":3}}', b"\xff\xfe"]  # fmt: skip
    assert [span.name for span in translated(*odd)] == ["conductor.policy"]
    assert "component" not in numbers(*odd)


def test_a_book_keeps_so_many_series_and_no_more() -> None:
    book = Book()
    for number in range(21_000):
        book.add(MESSAGES, {"component": str(number)}, 1)
    book.record(HOP, {"component": "late"}, 1)
    assert book.text().count("\nconductor_messages_total{") == 20_000
    assert "late" not in book.text()


def test_connections_of_mcp_have_a_duration() -> None:
    """Each is known where it was opened by the id that its opener got."""
    text = numbers(
        request(1000, "agent", "a", "mcp/connect", params={"serverId": "x"}),
        response(2000, "a", "agent", 1000, {"connectionId": "c"}),
        request(2500, "other", "a", "mcp/disconnect", params={"connectionId": "c"}),
        request(3000, "agent", "a", "mcp/disconnect", params={"connectionId": "c"}),
        request(4000, "agent", "a", "mcp/disconnect", params={"connectionId": "c"}),
    )
    assert "mcp_client_session_duration_seconds_sum 1\n" in text
    assert "mcp_client_session_duration_seconds_count 1\n" in text
    assert "mcp_server_session" not in text


def test_labels_are_escaped() -> None:
    book = Book()
    book.add(MESSAGES, {"component": 'a"b\\c\nd', "none": ""}, 1)
    assert 'conductor_messages_total{component="a\\"b\\\\c\\nd"} 1\n' in book.text()


@pytest.fixture
def serving() -> Iterator[Serving]:
    made = Serving(0, lambda: "numbers 1\n")
    yield made
    made.close()


def ask(serving: Serving, request: str) -> str:
    with socket.create_connection(("127.0.0.1", serving.port), DEADLINE) as reader:
        reader.sendall(request.replace("\n", "\r\n").encode())
        return b"".join(iter(lambda: reader.recv(4096), b"")).decode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("GET /metrics HTTP/1.1\nHost: 127.0.0.1:1\n\n", "200"),
        ("GET /metrics?x=1 HTTP/1.0\nHost: localhost\n\n", "200"),
        ("HEAD / HTTP/1.1\nhost: LOCALHOST:80\n\n", "200"),
        ("GET /metrics HTTP/1.1\nHost: evil.example\n\n", "421"),
        ("GET /metrics HTTP/1.1\nHost: 127.0.0.1.evil.example:80\n\n", "421"),
        ("GET /metrics HTTP/1.0\n\n", "421"),
        ("GET /metrics HTTP/1.1\n\n", "400"),
        ("GET /metrics HTTP/1.1\nHost: localhost\nHost: evil.example\n\n", "400"),
        ("GET /other HTTP/1.1\nHost: localhost\n\n", "404"),
        ("POST /metrics HTTP/1.1\nHost: localhost\n\n", "405"),
        ("nonsense\n\n", "400"),
    ],
)
def test_only_this_machine_reads_the_numbers(serving: Serving, request_: str, status: str) -> None:
    answer = ask(serving, request_)
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert ("numbers 1" in answer) is (status == "200" and not request_.startswith("HEAD"))


def test_who_asks_and_leaves_stops_nobody(serving: Serving) -> None:
    socket.create_connection(("127.0.0.1", serving.port), DEADLINE).close()
    assert "numbers 1" in ask(serving, "GET / HTTP/1.1\nHost: localhost\n\n")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name.startswith("opentelemetry") else real(name, package)

    monkeypatch.setattr(collector, "find_spec", without)
    with pytest.raises(UsageError) as raised:
        collector.require("http://127.0.0.1:4318")
    assert installation.with_extra("otel") in raised.value.hint


def test_passwords_in_addresses_are_not_shown() -> None:
    assert collector.shown("https://me:secret@host:1/v1/traces") == "https://host:1"
    assert collector.endpoint("http://h:1/", collector.TRACES) == "http://h:1/v1/traces"
    assert collector.endpoint("http://h:1/v1/traces", collector.METRICS) == "http://h:1/v1/metrics"
    assert collector.endpoint("env", collector.TRACES) is None


def test_a_value_is_told_up_to_its_bound() -> None:
    longest = msgspec.Raw(b'"%s"' % (b"x" * (payloads.MOST_TEXT - 2)))
    assert payloads.json_text(longest) == bytes(longest).decode()
    assert payloads.json_text(msgspec.Raw(bytes(longest) + b" ")) == ""
    assert payloads.json_text(msgspec.Raw(b"")) == ""
