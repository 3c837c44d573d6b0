"""Real agents beside a real agent: ``router``, ``coordinator`` and ``tangent``; a mock model."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, user_text
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_agents import everything
from tests.e2e.peers.test_sessions import environment, opened, said

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300), everything]

AGENT: Final = "claude-agent-acp"
RULES: Final = json.dumps([{"to": "b", "prefix": "b:"}])


def tell(body: Json) -> Answer:
    """The model: says what it knows of the colours, or reviews."""
    told = user_text(body)
    if "Review the work" in told:
        return Text(("reviewed",))
    return Text((f"knows {[one for one in ('ochre', 'mauve', 'azure') if one in told]}",))


def test_one_turn_of_two_agents_a_side_conversation_and_another_agent(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    options = ("-c", f"peer.b={AGENT}", "-c", f"peer.review={AGENT}")
    router = f"router,allow=peer:b,config.rules={RULES}"
    command = launch.agent(*options, router, "coordinator,allow=peer:review", "tangent", AGENT)
    with MockMessages(tell).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as client:
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]

            def prompt(text: str) -> str:
                before = len(said(client))
                blocks = [{"type": "text", "text": text}]
                answer = client.request("session/prompt", {"sessionId": session, "prompt": blocks})
                assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
                return said(client)[before:]

            assert prompt("ochre") == "knows ['ochre']\n\n[review] reviewed"
            assert prompt("b: mauve") == "knows ['mauve']"
            prompt("/tangent")
            assert "knows ['ochre', 'azure']" in prompt("azure")
            prompt("/tangent")
            assert "knows ['ochre', 'mauve']" in prompt("mauve")
            assert client.finish() == 0
