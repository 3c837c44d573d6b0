"""A real agent that loads no sessions, behind ``sessions`` and ``transcript``; a mock model."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, user_text
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_claude_agents import KEPT, KEY
from tests.harness.process.client import Client

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

HIDDEN = 'capability,config.agent={"remove": ["loadSession"]}'


def repeat(body: Json) -> Answer:
    """The model: says how often it was told of each colour."""
    said = user_text(body)
    return Text((f"green {said.count('I like green')}, red {said.count('I like red')}",))


def environment(
    launch: Launch, node_peers: NodePeers, model: MockMessages, home: Path
) -> dict[str, str]:
    """Where a real agent finds the mock model, and nothing of this machine's user."""
    home.mkdir()
    env = {name: launch.env[name] for name in KEPT if name in launch.env}
    return env | {
        "PATH": os.pathsep.join((str(node_peers.bin), env["PATH"])),
        "HOME": str(home),
        "XDG_CACHE_HOME": launch.env.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": KEY,
    }


def opened(command: tuple[str, ...], env: dict[str, str], project: Path) -> Client:
    """A chain that is initialized."""
    client = Client(command, env=env, cwd=project)
    client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    return client


def said(client: Client) -> str:
    """The agent's words that the client was shown."""
    found = [one["params"]["update"] for one in client.seen("session/update")]
    return "".join(
        one["content"]["text"] for one in found if one["sessionUpdate"] == "agent_message_chunk"
    )


def test_a_session_goes_on_with_an_agent_that_loads_none(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
    command = launch.agent("transcript", "sessions", HIDDEN, "claude-agent-acp")
    with MockMessages(repeat).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as first:
            session = first.request("session/new", setup)["result"]["sessionId"]
            prompt = [{"type": "text", "text": "I like green"}]
            first.request("session/prompt", {"sessionId": session, "prompt": prompt})
            assert said(first) == "green 1, red 0"
            assert first.finish() == 0
        with opened(command, env, project) as again:
            loaded = again.request("session/load", {"sessionId": session, **setup})
            assert "result" in loaded, again.story()
            assert said(again) == "green 1, red 0"
            prompt = [{"type": "text", "text": "I like red"}]
            again.request("session/prompt", {"sessionId": session, "prompt": prompt})
            assert said(again) == "green 1, red 0green 1, red 1"
            # The transcript, which is first, has what was told again and what came after.
            asked = again.request("_conversation/summarize", {"sessionId": session})
            turns = asked["result"]["conversation"]["turns"]
            texts = [turn["items"][0]["content"][0]["text"] for turn in turns]
            assert texts == ["I like green", "I like red"]
            assert again.finish() == 0
