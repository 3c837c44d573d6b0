"""Agents behind A2A, with the official A2A Python SDK as the server, and a real agent in front."""

import json
from functools import partial
from pathlib import Path

import pytest

from tests.components.library.support import agent, component
from tests.e2e.peers.a2a_agent import VERSIONS, serving
from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Json, MockMessages, tool_results
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_agents import everything
from tests.e2e.peers.test_reminders import work
from tests.e2e.peers.test_sessions import environment, opened, said
from tests.harness.process.rig import Rig

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


def asking(url: str) -> str:
    """The component with this agent."""
    rights = [f"web:{url}", f"web:POST@{url}"]
    return component("a2a", {"agents": {"sdk": url}}, allow=rights)


@pytest.mark.usefixtures("python_guest")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_official_sdk_as_the_server(rig: Rig, version: str) -> None:
    with serving(version) as url:
        chain = agent(rig, asking(url), rig.demo("--acp"))
        session = chain.begin()

        def asked(message: str) -> str:
            arguments = json.dumps({"message": message})
            return chain.prompt(session, f"/call a2a sdk_work {arguments}")

        assert chain.prompt(session, "/call a2a agents {}") == "sdk: SDK agent; tools: sdk_work"
        assert asked("direct words") == "said direct words"
        assert asked("two words") == 'did two words\n{"words": 2.0}'
        assert "`sdk`: the task is failed: it cannot be done" in asked("fail")
        assert asked("ask me").endswith("call again with the answer:\nwhich one?")
        assert asked("the red one") == 'did the red one\n{"words": 3.0}'
        assert chain.finish() == 0
        assert chain.stderr == ""


@everything
def test_a_real_agent_asks_one(launch: Launch, node_peers: NodePeers, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    tool = "mcp__a2a__sdk_work"
    calls: dict[str, tuple[str, Json]] = {"toolu_work": (tool, {"message": "two words"})}
    with serving("1.0") as url, MockMessages(partial(work, calls=calls)).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        command = launch.agent(asking(url), "claude-agent-acp")
        with opened(command, env, project) as client:
            allowed = {"claudeCode": {"options": {"allowedTools": [tool]}}}
            setup = {"cwd": str(project), "mcpServers": [], "_meta": allowed}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "work"}]
            answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
            assert said(client) == "Done."
            assert client.finish() == 0
        results = [one for body in model.conversations for one in tool_results(body)]
    told = {one["tool_use_id"]: json.dumps(one["content"]) for one in results}
    assert "did two words" in told["toolu_work"]
