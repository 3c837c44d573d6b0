"""Reminders before a real agent: a mock model writes a checkpoint and sets a reminder."""

import json
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, ToolUse, tool_results
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_agents import everything
from tests.e2e.peers.test_sessions import environment, opened, said

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300), everything]

CALLS: Final[dict[str, tuple[str, Json]]] = {
    "toolu_checkpoint": ("mcp__reminders__checkpoint", {"title": "begun"}),
    "toolu_set": ("mcp__reminders__set", {"text": "call Ada", "minutes": 0.001}),
}


def work(body: Json, calls: dict[str, tuple[str, Json]]) -> Answer:
    """The model: calls one tool after another, looking for them first, and is done."""
    names = [tool["name"] for tool in body.get("tools", ())]
    told = [result["tool_use_id"] for result in tool_results(body)]
    left = [(id_, *call) for id_, call in calls.items() if id_ not in told]
    if not names or not left:
        return Text(("Done.",))
    id_, name, arguments = left[0]
    if name in names:
        return ToolUse(name, arguments, id_)
    if "ToolSearch" in names and len(told) < 30:
        query = {"query": f"select:{name}", "max_results": 5}
        return ToolUse("ToolSearch", query, f"toolu_search_{len(told)}")
    return Text((f"There is no {name}.",))


def test_a_real_agent_sets_a_reminder(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    clock = ("-c", "clock=2025-10-08T12:00:00+00:00")
    command = launch.agent(*clock, "reminders", "claude-agent-acp")
    with MockMessages(partial(work, calls=CALLS)).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as client:
            setup = {"cwd": str(project), "mcpServers": [], "_meta": ALLOWED}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "remind me"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            client.until(lambda: "[reminder: call Ada]\n" in said(client), "the reminder")
            assert said(client).startswith("Done.")
            assert client.finish() == 0
        results = [one for body in model.conversations for one in tool_results(body)]
    told = {one["tool_use_id"]: json.dumps(one["content"]) for one in results}
    path = project / ".conductor/checkpoints/2025-10-08-120000-begun.md"
    assert f"written: {path}" in told["toolu_checkpoint"]
    assert "set: 1. 2025-10-08 12:00: call Ada" in told["toolu_set"]
    assert "**User**\n\nremind me\n" in path.read_text()


ALLOWED: Final = {"claudeCode": {"options": {"allowedTools": [name for name, _ in CALLS.values()]}}}
"""The tools that the agent may call without a question."""
