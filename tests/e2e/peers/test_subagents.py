"""Sub-agents of a real coding agent: a mock model hands two tasks to `subagents`."""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, ToolUse, tool_results
from tests.e2e.peers.test_mcp_agents import OPENCODE, everything, prepare
from tests.record.trace import pairs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300), everything]

CALL: Final = "toolu_run"
TASKS: Final = ("count the reds", "count the blues")


def say(body: Json) -> Answer:
    """The model: hands the tasks over, does a task it is given, and reads what came back."""
    names: list[str] = [tool["name"] for tool in body.get("tools", ())]
    asked = json.dumps(body["messages"][0]["content"])
    told = [result["tool_use_id"] for result in tool_results(body)]
    for task in TASKS:
        if task in asked:
            return Text((f"done: {task}",))
    if not names or CALL in told:
        return Text(("Both are done.",))
    for name in names:
        if name.endswith(("subagents__run", "subagents_run")):
            return ToolUse(name, {"tasks": list(TASKS)}, CALL)
    if "ToolSearch" in names and len(told) < 30:
        query = {"query": "select:mcp__subagents__run", "max_results": 5}
        return ToolUse("ToolSearch", query, f"toolu_search_{len(told)}")
    return Text(("There is no such tool.",))


@pytest.mark.parametrize("agent", ["claude-agent-acp", OPENCODE])
def test_two_tasks_in_sessions_of_their_own(agent: str, launch: Launch, tmp_path: Path) -> None:
    with MockMessages(say).serving() as model:
        chain = prepare(
            agent, launch, model, tmp_path, "auto", ("-c", "trace-content=all", "subagents")
        )
        seen = chain.run("hand it over")
        results = [one for body in model.conversations for one in tool_results(body)]
    [turn] = seen.turns
    assert (turn.stop_reason, turn.error) == ("end_turn", None)
    assert "".join(turn.texts).strip() == "Both are done."
    [joined] = {json.dumps(one["content"]) for one in results if one["tool_use_id"] == CALL}
    assert all(f"done: {task}" in joined for task in TASKS)
    events = pairs.read(chain.trace)
    assert pairs.wrong(events) == []
    asked = [e for e in events if (e.get("method"), e["to"]) == ("session/prompt", "agent")]
    assert len({e["params"]["sessionId"] for e in asked}) == 3
    assert {one["sessionId"] for one in seen.received("session/update")} == {seen.session_id}
