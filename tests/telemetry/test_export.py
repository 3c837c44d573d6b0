"""`conductor log export`: what Perfetto and collectors of OpenTelemetry get of a trace."""

import itertools
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.telemetry.names import CAPTURE, POLICY_RULE
from tests.harness.process.command import Ran, conductor, environment
from tests.record.turns import recorded
from tests.telemetry.collector import attributes, collector

WORDS: Final = "what day is it?"
COMPONENTS: Final = ["datetime", "redact", "tools-demo"]
ORDER: Final = ["turns", "client", *COMPONENTS, "agent", "tools", "conductor"]


@pytest.fixture(scope="module")
def trace() -> Path:
    return recorded.trace()


def export(*arguments: str | Path, **variables: str) -> Ran:
    return conductor("log", "export", *map(str, arguments), env=environment(**variables))


@pytest.fixture(scope="module")
def picture(trace: Path) -> Path:
    """The trace for Perfetto."""
    path = trace.parent / "picture.json"
    done = export(trace, "--output", path)
    assert (done.code, done.err) == (0, ""), done.err
    return path


def sent(*arguments: str | Path, **variables: str) -> list[Any]:
    """The spans that a collector gets."""
    with collector() as away:
        done = export(*arguments, "--otlp", away.address, **variables)
        assert (done.code, done.err) == (0, ""), done.err
        return away.spans


@pytest.fixture(scope="module")
def exported(trace: Path) -> list[Any]:
    """The spans of the trace."""
    return sent(trace)


def drawn(path: Path) -> list[dict[str, Any]]:
    """The events of a picture."""
    whole = json.loads(path.read_text())
    assert whole["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = whole["traceEvents"]
    return events


def ordered(found: list[Any]) -> list[Any]:
    """Spans by their beginning."""
    return sorted(found, key=lambda span: int(span.start_time_unix_nano))


def test_a_picture_is_what_perfetto_reads(picture: Path) -> None:
    """Perfetto's parser drops slices of one thread that overlap, and arrows that end at no
    slice."""
    events = drawn(picture)
    assert {event["ph"] for event in events} == {"X", "s", "f", "M"}
    rows = defaultdict(list)
    for event in events:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "X":
            assert event["dur"] > 0
            rows[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for row in rows.values():
        for (_, end), (start, _) in itertools.pairwise(sorted(row)):
            assert start >= end - 0.001
    arrows = [event for event in events if event["ph"] in "sf"]
    assert len(arrows) > 20
    assert len({event["id"] for event in arrows}) * 2 == len(arrows)
    for event in arrows:
        row = rows[event["pid"], event["tid"]]
        assert any(start - 0.001 <= event["ts"] <= end + 0.001 for start, end in row), event


def test_lanes_of_a_picture_stand_in_the_order_of_the_chain(picture: Path) -> None:
    events = drawn(picture)
    meta = [event for event in events if event["ph"] == "M"]
    names = {e["pid"]: e["args"]["name"] for e in meta if e["name"] == "process_name"}
    places = {e["pid"]: e["args"]["sort_index"] for e in meta if e["name"] == "process_sort_index"}
    assert [names[pid] for pid in sorted(names, key=places.__getitem__)] == ORDER
    threads = {e["tid"] for e in meta if e["name"] == "thread_name"}
    assert {event["tid"] for event in events if event["ph"] == "X"} <= threads
    turns = [e for e in events if e["ph"] == "X" and names[e["pid"]] == "turns"]
    assert len(turns) == len(recorded.PROMPTS) + 1


def test_spans_stand_within_each_other(exported: list[Any]) -> None:
    found = exported
    by_id = {span.span_id: span for span in found}
    assert len(by_id) == len(found)
    for span in found:
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent = by_id[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
    turns = [span for span in found if span.name == "invoke_agent demo"]
    assert len(turns) == len(recorded.PROMPTS) + 1
    first = ordered(turns)[0]
    hops = [span for span in found if span.trace_id == first.trace_id and span is not first]
    assert [(s.name, attributes(s)["conductor.component.name"]) for s in ordered(hops)] == [
        ("session/prompt", "datetime"),
        ("clock", "conductor"),
        ("session/prompt", "redact"),
        ("session/prompt", "agent"),
    ]
    known = [attributes(hop) for hop in hops]
    changed = {
        one["conductor.component.name"]: one["conductor.changed"]
        for one in known
        if "conductor.changed" in one
    }
    assert changed == {"datetime": True, "redact": True}
    assert all(one["conductor.own_time"] >= 0 for one in known)


def test_a_turn_says_what_the_conventions_ask_for(exported: list[Any]) -> None:
    found = exported
    turns = [attributes(span) for span in ordered(found) if span.name == "invoke_agent demo"]
    assert turns[0] == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "_OTHER",
        "gen_ai.agent.name": "demo",
        "gen_ai.agent.version": turns[0]["gen_ai.agent.version"],
        "gen_ai.conversation.id": "demo-1",
        "acp.session.id": "demo-1",
        "conductor.chain": "datetime redact tools-demo demo",
        "gen_ai.response.finish_reasons": ["end_turn"],
    }
    assert turns[1]["conductor.person_time"] > 0
    assert turns[6]["conductor.cost.amount"] == 0.25
    assert turns[7]["gen_ai.conversation.id"] == "demo-2"
    tools = [attributes(span) for span in found if span.name.startswith("execute_tool")]
    assert tools[0]["gen_ai.tool.call.id"]
    called = next(span for span in found if span.name == "tools/call add")
    assert attributes(called)["mcp.method.name"] == "tools/call"
    assert attributes(called)["gen_ai.tool.name"] == "add"


def test_words_are_exported_only_when_the_variable_asks_for_them(
    trace: Path, exported: list[Any], picture: Path
) -> None:
    assert WORDS not in str(exported) + picture.read_text()
    found = ordered(sent(trace, **{CAPTURE: "SPAN_ONLY"}))
    turn = attributes(next(span for span in found if span.name == "invoke_agent demo"))
    answer = json.loads(turn["gen_ai.output.messages"])
    assert answer[0]["role"] == "assistant"
    assert WORDS in answer[0]["parts"][0]["content"]


def test_an_export_twice_has_the_same_ids(trace: Path, exported: list[Any]) -> None:
    assert sent(trace) == exported


def test_a_filter_chooses_turns(trace: Path) -> None:
    found = sent(trace, "~mcp & ~method tools/call")
    assert len({span.trace_id for span in found}) == 1
    assert {"tools/call add", "invoke_agent demo", "session/prompt"} <= {s.name for s in found}


def test_a_collector_gets_the_spans(trace: Path) -> None:
    with collector() as away:
        done = export(trace, "--otlp", away.address, OTEL_RESOURCE_ATTRIBUTES="team=blue")
        assert (done.code, done.err) == (0, "")
        assert done.out == f"sent {len(away.spans)} spans to {away.address}\n"
        assert away.resource == away.resource | {"service.name": "conductor", "team": "blue"}
        assert {s.name for s in away.spans} >= {"invoke_agent demo", "tools/call add", "clock"}
        ids = {span.span_id for span in away.spans}
        assert all(s.parent_span_id in ids for s in away.spans if s.parent_span_id)


@pytest.mark.parametrize("status", [400, 307])
def test_a_collector_that_refuses_is_an_error(trace: Path, status: int) -> None:
    with collector(status) as away:
        done = export(trace, "--otlp", away.address)
        done.assert_error(1, away.address, "has not taken the spans", "is it running")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say where the spans go"),
        (["~text nowhere-to-be-found", "-o", "a"], "no event matches"),
        (["--otlp", "ftp://x"], "is no address of a collector"),
        (["--otlp", "http://[::1"], "is no address of a collector"),
        (["-o", "/no/such/folder/a"], "cannot write"),
    ],
)
def test_what_cannot_be_exported_is_explained(
    trace: Path, arguments: list[str], words: str
) -> None:
    export(trace, *arguments).assert_error(2, words)


def test_a_line_of_an_impossible_time_is_no_event(
    trace: Path, exported: list[Any], tmp_path: Path
) -> None:
    bad, page = tmp_path / "bad", tmp_path / "page"
    event = b'{"type":"request","ts":%s,"from":"client","to":"agent","id":1,"method":"x"%s}\n'
    times = [(b"1e308", b""), (b"-1e308", b""), (b"1", b',"_conductor":{"ms":1e308}')]
    bad.write_bytes(trace.read_bytes() + b"".join(event % time for time in times))
    assert len(sent(bad)) == len(exported)
    assert (ran := conductor("log", "view", str(bad), "--output", str(page))).code == 0, ran.err


def test_what_a_component_may_not_do_is_an_event_of_a_span(tmp_path: Path) -> None:
    prompt = {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}
    verdict = {"component": "a", "rule": "rights", "method": "x", "text": "no", "session": "s"}
    lines = (
        {"type": "_conductor", "format": 1, "content": "all", "components": ["a", "agent"]},
        {"type": "request", "ts": 1.0, "from": "client", "to": "a", "id": 1,
         "method": "session/prompt", "session": "s", "params": prompt, "_conductor": {"n": 1}},
        {"type": "_conductor", "ts": 1.5, "verdict": {**verdict, "direction": "up", "pointer": ""}},
    )  # fmt: skip
    path = tmp_path / "t.jsons"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    events = [attributes(event) for span in sent(path) for event in span.events]
    assert [event[POLICY_RULE] for event in events] == ["rights"]


def test_a_lone_surrogate_in_a_name_loses_no_span(tmp_path: Path) -> None:
    session = {"sessionId": "s\ud800"}
    call = {"sessionUpdate": "tool_call", "toolCallId": "t\ud800", "name": "n\ud800"}
    lines = (
        {"type": "request", "ts": 1.0, "from": "client", "to": "agent\ud800", "id": "\ud800",
         "method": "session/prompt", "params": {**session, "prompt": []}, "_conductor": {"n": 1}},
        {"type": "notification", "ts": 2.0, "from": "agent\ud800", "to": "client",
         "method": "session/update", "params": {**session, "update": call}, "_conductor": {"n": 2}},
    )  # fmt: skip
    path = tmp_path / "t.jsons"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    names = {"session/prompt", "invoke_agent agent", "execute_tool n\ufffd"}
    assert {span.name for span in sent(path)} == names
