"""`/agent`: a session goes on with another real agent, and comes back; a mock model."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import (
    Answer,
    Json,
    MockMessages,
    Text,
    ToolUse,
    tool_results,
    user_text,
)
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_mcp_agents import (
    ADD,
    ARGUMENTS,
    OPENCODE,
    everything,
    folder_of,
    opencode_env,
)
from tests.e2e.peers.test_sessions import environment, opened, said
from tests.harness.process.client import Client

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

AGENT, OTHER = "claude-agent-acp", "claude-code-acp"
COLOURS = ("ochre", "mauve", "azure")


def tell(body: Json) -> Answer:
    """The model: says how often it was told of each colour, or asks for a command or a tool."""
    if not body.get("tools"):
        return Text(("A title",))
    told = user_text(body)
    results = [one["tool_use_id"] for one in tool_results(body)]
    names: list[str] = [tool["name"] for tool in body["tools"]]
    for asked, wanted, call in (("make it", "bash", "toolu_bash"), ("add it", ADD, "toolu_add")):
        if asked not in told.rpartition("</conversation-so-far>")[2] or call in results:
            continue
        for name in names:
            if name.casefold().endswith(wanted):
                given = ARGUMENTS if call == "toolu_add" else {"command": "echo 1 > made.txt"}
                return ToolUse(name, {**given}, call)
        if "ToolSearch" in names and len(results) < 30:
            query = {"query": f"select:mcp__{ADD[0]}", "max_results": 5}
            return ToolUse("ToolSearch", query, f"toolu_search_{len(results)}")
    return Text((" ".join(f"{one} {told.count(f'I like {one}')}" for one in COLOURS),))


def allow(params: Json) -> Json:
    """The user: allows it once."""
    (once,) = [one["optionId"] for one in params["options"] if one["kind"] == "allow_once"]
    return {"outcome": {"outcome": "selected", "optionId": once}}


def asks(client: Client, session: str, text: str) -> Json:
    """Prompts; the answer."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return client.request("session/prompt", params)


@pytest.mark.parametrize(
    "other", [OTHER, pytest.param(OPENCODE, marks=everything)], ids=["claude-code", "opencode"]
)
def test_the_session_goes_on_with_another_agent_and_comes_back(
    other: str, launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    options = ("-c", f"peer.other={other}")
    command = launch.agent(*options, "switch,allow=agent:other", "tools-demo", AGENT)
    with MockMessages(tell).serving() as model:
        env = environment(launch, node_peers, model, tmp_path / "home")
        if other == OPENCODE:
            env |= opencode_env(model)
            env["PATH"] = f"{folder_of(other)}:{env['PATH']}"
        with opened(command, env, project) as client:
            client.serves["session/request_permission"] = allow
            setup: dict[str, Any] = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]

            def prompt(text: str) -> str:
                before = len(said(client))
                answer = asks(client, session, text)
                assert answer.get("result", {}).get("stopReason") == "end_turn", client.story()
                return said(client)[before:]

            assert prompt("I like ochre") == "ochre 1 mauve 0 azure 0"
            assert "`other` goes on with this session" in prompt("/agent other")
            assert prompt("I like mauve") == "ochre 1 mauve 1 azure 0"
            prompt("make it")
            assert (project / "made.txt").read_text() == "1\n"
            asked = client.seen("session/request_permission")
            assert [one["params"]["sessionId"] for one in asked] == [session] * len(asked)
            assert bool(asked) is (other == OTHER)  # opencode asks for nothing
            assert "azure 0" in prompt("add it")
            assert "mauve 1" in prompt("/agent claude I like azure")
            assert "ochre 1 mauve 1 azure 1" in prompt("/agent other so?")
            assert client.finish() == 0
