"""`conductor.record.replay.agent`: the answers of a trace's agent, and their times."""

import json
from typing import Any, Final

import msgspec

from conductor.record.replay.agent import Agent
from conductor.record.turns.line import Line

Json = dict[str, Any]


def event(fields: str, /, **more: Any) -> Line:
    """An event: `request < 1 session/prompt a` is one to the agent, in session `a`."""
    kind, way, number, method, *session = fields.split()
    raw: Any = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in more.items()}
    ends = ("client", "agent") if way == "<" else ("agent", "client")
    return Line(
        type=kind, source=ends[0], target=ends[1], id=msgspec.Raw(number.encode()),
        method=method, session=next(iter(session), None), **raw,
    )  # fmt: skip


def said(agent: Agent, **members: Any) -> list[Json]:
    """The agent's messages after a message."""
    frame = json.dumps({"jsonrpc": "2.0", **members}).encode()
    found = [json.loads(line) for line in agent.receive(frame)]
    for one in found:
        assert one.pop("jsonrpc") == "2.0"
    return found


def prompt(session: str, text: str) -> Json:
    """The params of a prompt."""
    return {"sessionId": session, "prompt": [text]}


TURN: Final = [
    event("request < 1 session/prompt a", params=prompt("a", "one")),
    event("notification > 0 session/update a", params={"sessionId": "a", "n": 1}),
    event("request > 2 session/request_permission a", params={"sessionId": "a"}),
    event("response < 2 -", payload={"outcome": "yes"}),
    event("notification > 0 session/update a", params={"sessionId": "a", "n": 2}),
    event("response > 1 -", payload={"stopReason": "end_turn"}),
]


def test_a_turn_waits_for_what_it_waited_for() -> None:
    agent = Agent(TURN)
    first = said(agent, id="x", method="session/prompt", params=prompt("a", "one"))
    assert [one["method"] for one in first] == ["session/update", "session/request_permission"]
    second = said(agent, id=first[1]["id"], result={"outcome": "no"})
    assert second == [
        {"method": "session/update", "params": {"sessionId": "a", "n": 2}},
        {"id": "x", "result": {"stopReason": "end_turn"}},
    ]
    assert agent.warnings == []


def test_secrets_that_were_taken_out_are_no_change() -> None:
    agent = Agent([event("request < 1 initialize", params={"apiKey": "[redacted]"})])
    said(agent, id=1, method="initialize", params={"apiKey": "one"})
    assert agent.warnings == []


def test_a_changed_prompt_is_answered_and_told() -> None:
    agent = Agent(TURN)
    assert said(agent, id=1, method="session/prompt", params=prompt("a", "two")) != []
    assert agent.warnings == [
        "`session/prompt` of session a differs from the recorded one; it is answered as then"
    ]


def test_what_was_not_asked_has_no_answer() -> None:
    agent = Agent(TURN)
    (error,) = said(agent, id=1, method="session/prompt", params=prompt("b", "one"))
    assert "the trace has no answer to this `session/prompt`\nhint: " in error["error"]["message"]
    assert said(agent, method="_note") == []
    assert said(agent, id=99, result={}) == []
    assert said(agent, id=1, error={"code": 1, "message": ""}) == []
    (error,) = [json.loads(one) for one in agent.receive(b"{")]
    assert error["error"]["code"] == -32700


def test_sessions_do_not_wait_for_each_other() -> None:
    events = [
        event("request < 1 session/prompt a", params=prompt("a", "x")),
        event("request < 2 session/prompt b", params=prompt("b", "x")),
        event("response > 2 -", payload={"n": 2}),
        event("response > 1 -", payload={"n": 1}),
    ]
    agent = Agent(events)
    assert said(agent, id=7, method="session/prompt", params=prompt("b", "x"))[0]["id"] == 7
    assert (
        said(agent, id=8, method="session/prompt", params=prompt("a", "x"))[0]["result"]["n"] == 1
    )


def test_outside_of_sessions_nothing_waits() -> None:
    """Nor does a request of the trace that is not asked now hold up the rest."""
    events = [
        event("request < 1 initialize", params={}),
        event("request < 2 authenticate", params={}),
        event("request < 3 session/new", params={"cwd": "/"}),
        event("response > 3 - a", payload={"sessionId": "a"}),
        event("response > 2 -", payload={}),
        event("response > 1 -", payload={"n": 1}),
    ]
    agent = Agent(events)
    assert said(agent, id=1, method="session/new", params={"cwd": "/"})[0]["result"]["sessionId"]
    assert said(agent, id=2, method="initialize", params={}) == [{"id": 2, "result": {"n": 1}}]


def test_a_message_that_does_not_come_is_passed_over() -> None:
    events = [
        event("request < 1 session/prompt a", params=prompt("a", "one")),
        event("notification > 0 session/update a", params={"n": 1}),
        event("response > 1 -", payload={"n": 1}),
        event("request < 2 session/prompt a", params=prompt("a", "two")),
        event("notification > 0 session/update a", params={"n": 2}),
        event("response > 2 -", payload={"n": 2}),
    ]
    agent = Agent(events)
    second = said(agent, id=5, method="session/prompt", params=prompt("a", "two"))
    assert [one.get("params", one.get("result")) for one in second] == [{"n": 2}, {"n": 2}]
    late = said(agent, id=6, method="session/prompt", params=prompt("a", "one"))
    assert [one.get("params", one.get("result")) for one in late] == [{"n": 1}, {"n": 1}]
