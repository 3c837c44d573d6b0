"""`propagate`: the trace context of W3C in what the agent gets."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.errors import UsageError
from conductor.spec.model import Spec
from conductor.spec.options import Options
from conductor.spec.plan import Plan
from conductor.spec.settings import environment
from conductor.telemetry import live
from conductor.telemetry.context import with_context
from conductor.telemetry.span import Context, read_traceparent
from tests.harness.process.command import conductor
from tests.harness.process.command import environment as around
from tests.telemetry.collector import PATIENT, attributes, collector

OURS: Final = Context(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331)
NAMED: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
THEIRS: Final = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
FOREIGN: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["_meta", "traceparent", "a", "{", "é"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
METAS: Final = st.none() | st.dictionaries(st.sampled_from(["tracestate", "baggage", "x"]), VALUES)


def written(params: bytes) -> bytes:
    return with_context(params, OURS, sampled=True)


@given(st.dictionaries(st.sampled_from(["sessionId", "prompt", "}", "é"]), VALUES), METAS,
       st.booleans(), st.sampled_from([None, 1]))  # fmt: skip
def test_all_but_the_member_stays(
    params: dict[str, Any], meta: dict[str, Any] | None, has_meta: bool, indent: int | None
) -> None:
    """Also with spaces, escapes, and objects of the same names within."""
    if has_meta:
        params = {**params, "_meta": meta}
    found = json.loads(written(json.dumps(params, indent=indent).encode()))
    assert found == {**params, "_meta": {**(params.get("_meta") or {}), "traceparent": NAMED}}


@pytest.mark.parametrize("params", [
    b"[]", b"null", b'"x"', b'{"_meta":[]}', b'{"_meta":"x"}', b'{"_meta":7,"a":1}',
    b'{"_meta":{"traceparent":"nonsense"}}', b'{"_meta":{"traceparent":null}}',
    b'{"_meta":{"traceparent":"%b"}}' % FOREIGN.encode(), b'{"a":', b"",
])  # fmt: skip
def test_what_names_no_place_of_this_trace_stays_byte_for_byte(params: bytes) -> None:
    assert written(params) == params


def test_the_place_that_a_sender_names_becomes_ours() -> None:
    params = b'{"a": 1e2, "_meta": {"tracestate": "v=1", "traceparent": "%b"}}' % THEIRS.encode()
    found = written(params)
    assert json.loads(found)["_meta"] == {"tracestate": "v=1", "traceparent": NAMED}
    assert b"1e2" in found


def test_a_large_prompt_keeps_its_bytes() -> None:
    text = b'"' + b"x{" * 10_000_000 + b'"'
    found = written(b'{"prompt":%b,"n":1.0}' % text)
    assert found.startswith(b'{"_meta":{"traceparent":"00-')
    assert found.endswith(b',"prompt":%b,"n":1.0}' % text)


def test_a_lone_surrogate_stays() -> None:
    params = rb'{"prompt":"\ud83d","_meta":{"x":"\udc00"}}'
    assert json.loads(written(params)) == json.loads(params) | {
        "_meta": {"x": "\udc00", "traceparent": NAMED}
    }


def test_a_variable_that_the_user_wrote_counts() -> None:
    """Else that of the run does."""
    program = Spec(name="a", source="a", command=["a"])
    mine = {**os.environ, "TRACEPARENT": "mine"}
    written = Spec(name="a", source="a", command=["a"], env=mine, variables={"TRACEPARENT": "mine"})
    assert (environment(program, NAMED) or {})["TRACEPARENT"] == NAMED
    assert (environment(written, NAMED) or {})["TRACEPARENT"] == "mine"
    assert "TRACEPARENT" not in (environment(program) or {})


# -- a chain ---------------------------------------------------------------------------------------

AGENT: Final = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {"protocolVersion": 1, "sessionId": "s", "stopReason": "end_turn"}
    if asked["method"] == "session/prompt":
        seen = {"meta": asked["params"].get("_meta"), "run": os.environ.get("TRACEPARENT")}
        update = {"sessionUpdate": "agent_message_chunk",
                  "content": {"type": "text", "text": json.dumps(seen)}}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update",
                          "params": {"sessionId": "s", "update": update}}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


def run(*options: str, **variables: str) -> dict[str, Any]:
    """The environment that the agent behind a guest got."""
    words = ("exec", *options, "datetime", "-p", "hi", "--", sys.executable, "-c", AGENT)
    done = conductor(*words, env=around(**variables), command=PATIENT)
    assert (done.code, done.err) == (0, ""), done.err
    seen: dict[str, Any] = json.loads(done.out)
    return seen


def test_the_agent_gets_the_context_of_its_span(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsons"
    with collector() as away:
        seen = run(
            "-c",
            f"otlp={away.address}",
            "-c",
            "propagate=true",
            "--trace",
            str(trace),
            TRACEPARENT=FOREIGN,
        )
        spans = away.spans
    hop = next(
        span for span in spans if span.name == "session/prompt"
        and attributes(span)["conductor.component.name"] == "agent"
    )  # fmt: skip
    whole = next(span for span in spans if span.name == "conductor.run")
    named, started = (read_traceparent(it) for it in (seen["meta"]["traceparent"], seen["run"]))
    assert named is not None
    assert started is not None
    assert named.trace.to_bytes(16) == hop.trace_id
    assert named.span.to_bytes(8) == hop.span_id
    assert started.span.to_bytes(8) == whole.span_id
    assert f"{started.trace:032x}" in FOREIGN
    assert whole.parent_span_id.hex() in FOREIGN
    turn = next(span for span in spans if span.name.startswith("invoke_agent"))
    assert [link.span_id for link in turn.links] == [whole.span_id]
    # The context is no part of the conversation, so no component has changed anything.
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    got = [event for event in events if event.get("to") == "agent"]
    assert {event["method"] for event in got} >= {"initialize", "session/new", "session/prompt"}
    assert "traceparent" not in json.dumps(got)


def test_spans_that_nobody_gets_are_not_named() -> None:
    """`-c otlp=none` leaves out all of it, where files ask for it."""
    with pytest.raises(UsageError, match="`propagate` names spans that nobody gets"):
        live.wanted(Plan(components=(), options=Options(propagate=True)), print)
    assert not live.wanted(
        Plan(components=(), options=Options(propagate=True, otlp="none")), print
    ).traceparent
