"""Real coding agents call a tool of the sandboxed `tools-demo`, over each kind of bridge.

They have no setting of their own for it: what they know of the tool is what the conductor put into
`mcpServers`. The model is a mock that asks for the tool, and reads its answer. The results stand in
`docs/mcp.md`. All but a few run only with `CONDUCTOR_PEERS_ALL` set, see README.md.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import acp
import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import (
    Answer,
    Json,
    MockMessages,
    Script,
    Text,
    ToolUse,
    tool_results,
)
from tests.e2e.peers.npm import OPENCODE_SOURCES, install, node_tools
from tests.e2e.peers.plan import Plan, Transcript
from tests.e2e.peers.python_client import run_python_client
from tests.e2e.peers.test_claude_agents import AGENTS, KEPT, KEY
from tests.record.trace import pairs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
everything = pytest.mark.skipif(
    not os.environ.get("CONDUCTOR_PEERS_ALL"),
    reason="every agent and bridge: CONDUCTOR_PEERS_ALL=1",
)

OPENCODE, FAST_AGENT = "opencode acp", "fast-agent-acp --model passthrough"
ARGUMENTS: Final[Json] = {"a": 19, "b": 23}
CALL: Final = "toolu_add"
"""Id of the model's call of the tool."""
ADD: Final = ("tools-demo__add", "tools-demo_add")
"""How agents call it, behind prefixes of their own."""
MOST_SEARCHES: Final = 30
"""Claude Code lists tools by name only, and the model has to look them up. More than once if need
be: it may ask the model before it has listed a server's tools."""


def calling(tool: tuple[str, str], arguments: Json, call: str) -> Script:
    """The model: looks for the tool, by what agents call it, calls it, and is done once it has the
    answer."""

    def say(body: Json) -> Answer:
        names: list[str] = [each["name"] for each in body.get("tools", ())]
        told = [result["tool_use_id"] for result in tool_results(body)]
        if not names or call in told:
            return Text(("Done.",))
        for name in names:
            if name.endswith(tool):
                return ToolUse(name, arguments, call)
        if "ToolSearch" in names and len(told) < MOST_SEARCHES:
            query = {"query": f"select:mcp__{tool[0]}", "max_results": 5}
            return ToolUse("ToolSearch", query, f"toolu_search_{len(told)}")
        return Text(("There is no such tool.",))

    return say


say: Final = calling(ADD, ARGUMENTS, CALL)


@pytest.fixture
def model() -> Iterator[MockMessages]:
    """The running mock of the Messages API."""
    with MockMessages(say).serving() as mock:
        yield mock


@dataclass(frozen=True, slots=True)
class AgentRun:
    """`conductor agent tools-demo AGENT`, not yet started."""

    command: tuple[str, ...]
    env: dict[str, str]
    project: Path
    trace: Path

    def run(self, prompt: str) -> Transcript:
        """Sends one prompt through the chain; each permission that is asked for is given once."""
        return run_python_client(
            Plan(self.command, (prompt,), self.project, self.env, permission="allow_once")
        )

    @property
    def calls(self) -> list[Json]:
        """The params of the tool calls that reached the guest."""
        events = [json.loads(line) for line in self.trace.read_text("utf-8").splitlines()]
        return [
            event["params"]
            for event in events
            if (event.get("protocol"), event.get("method")) == ("mcp", "tools/call")
            and event["to"] == "tools-demo"
        ]


def prepare(
    agent: str,
    launch: Launch,
    model: MockMessages,
    base: Path,
    kind: str,
    proxies: tuple[str, ...] = ("tools-demo",),
) -> AgentRun:
    """The chain with a home and a project of its own; skips when the agent cannot be had."""
    project, home, trace = base / "project", base / "home", base / "trace.jsonl"
    project.mkdir()
    home.mkdir()
    env = {name: launch.env[name] for name in KEPT if name in launch.env}
    env["PATH"] = os.pathsep.join((folder_of(agent), env["PATH"]))
    env["HOME"] = str(home)
    env |= opencode_env(model) if agent == OPENCODE else claude_env(model, home)
    if agent == FAST_AGENT:
        env.pop("PYTHONPATH", None)  # it is another Python
    options = ("--log", "info", "--trace", str(trace), "-c", f"mcp-bridge={kind}")
    return AgentRun(launch.agent(*options, *proxies, agent), env, project, trace)


def folder_of(agent: str) -> str:
    """The folder of the agent's command, which is installed first where that can be."""
    if agent == FAST_AGENT:
        found = shutil.which("fast-agent-acp")
        if found is None:
            pytest.skip("needs fast-agent-acp on PATH: fast-agent-mcp from PyPI, Python 3.13")
        return os.path.dirname(found)
    tools = node_tools()
    if tools is None:
        pytest.skip("needs node and npm on PATH")
    if agent != OPENCODE:
        return str(install(tools[1]) / ".bin")
    modules = install(tools[1], OPENCODE_SOURCES)
    folder = modules / "opencode-linux-x64" / "bin"
    if not folder.is_dir():
        pytest.skip("opencode is pinned for Linux on x86-64 only")
    return str(folder)


def claude_env(model: MockMessages, home: Path) -> dict[str, str]:
    """Lets Claude Code ask the mock."""
    return {
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": model.url,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def opencode_env(model: MockMessages) -> dict[str, str]:
    """Lets opencode ask the mock, and nobody else."""
    provider = {
        "npm": "@ai-sdk/anthropic",
        "options": {"baseURL": f"{model.url}/v1", "apiKey": KEY},
        "models": {"mock": {"name": "Mock", "tool_call": True}},
    }
    config = {
        "provider": {"mock": provider},
        "model": "mock/mock",
        "small_model": "mock/mock",
        "autoupdate": False,
        "share": "disabled",
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def offered(kind: str) -> str:
    """The line of the log that tells of the offer."""
    return f"MCP server `tools-demo` is offered to the agent by {kind}"


WITH_MODEL = [
    ("claude-agent-acp", "auto", "http"),
    ("claude-code-acp", "stdio", "stdio"),
    *(
        pytest.param(agent, kind, becomes, marks=everything)
        for agent, kind, becomes in (
            ("claude-agent-acp", "stdio", "stdio"),
            ("claude-agent-acp", "http", "http"),
            ("claude-code-acp", "auto", "http"),
            ("claude-code-acp", "http", "http"),
            (OPENCODE, "auto", "http"),
            (OPENCODE, "stdio", "stdio"),
            (OPENCODE, "http", "http"),
        )
    ),
]


@everything
@pytest.mark.parametrize("order", [("personality", "sparkle"), ("sparkle", "personality")])
def test_turns_of_proxies_leave_the_user_their_own_result(
    order: tuple[str, str], launch: Launch, model: MockMessages, tmp_path: Path
) -> None:
    options = ("-c", "trace-content=all", *order)
    chain = prepare(OPENCODE, launch, model, tmp_path, "auto", options)
    seen = chain.run("who are you?")

    assert [turn.stop_reason for turn in seen.turns] == ["end_turn"]
    events = pairs.read(chain.trace)
    assert pairs.wrong(events) == []
    asked = [e for e in events if (e.get("method"), e["to"]) == ("session/prompt", "agent")]
    [mine] = [e["id"] for e in asked if "who are you?" in str(e["params"])]
    assert len(asked) > 1
    [sent] = [
        e["id"] for e in events if (e.get("method"), e["from"]) == ("session/prompt", "client")
    ]
    answers = {e["id"]: e["payload"] for e in events if e["type"] == "response"}
    assert answers[sent] == answers[mine]


@pytest.mark.parametrize(("agent", "kind", "becomes"), WITH_MODEL)
def test_the_guests_answer_is_in_the_next_request_to_the_model(
    agent: str,
    kind: str,
    becomes: str,
    launch: Launch,
    model: MockMessages,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chain = prepare(agent, launch, model, tmp_path, kind)
    seen = chain.run("add two numbers")

    [turn] = seen.turns
    assert (turn.stop_reason, turn.error) == ("end_turn", None)
    assert "Done." in "".join(turn.texts)
    [called] = chain.calls
    assert (called["name"], called["arguments"]) == ("add", ARGUMENTS)
    results = [
        result
        for body in model.conversations
        for result in tool_results(body)
        if result["tool_use_id"] == CALL
    ]
    assert results
    assert all("42" in json.dumps(result["content"]) for result in results)
    if agent in AGENTS:
        # Who sits at the editor is asked before a tool of a proxy runs, as for any other.
        [asked] = seen.received("session/request_permission")
        assert asked["toolCall"]["toolCallId"] == CALL
    assert offered(becomes) in capfd.readouterr().err
    assert seen.exit_code == 0


@everything
@pytest.mark.parametrize(
    ("kind", "becomes"), [("auto", "http"), ("stdio", "stdio"), ("http", "http")]
)
def test_fast_agent_says_what_the_guest_answered(
    kind: str,
    becomes: str,
    launch: Launch,
    model: MockMessages,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    chain = prepare(FAST_AGENT, launch, model, tmp_path, kind)
    seen = chain.run(f"***CALL_TOOL {ADD[0]} {json.dumps(ARGUMENTS)}")

    [turn] = seen.turns
    assert (turn.stop_reason, turn.error) == ("end_turn", None)
    assert "42" in "".join(turn.texts)
    [called] = chain.calls
    assert (called["name"], called["arguments"]) == ("add", ARGUMENTS)
    assert offered(becomes) in capfd.readouterr().err
    assert seen.exit_code == 0


@everything
def test_claude_agent_passes_over_servers_of_acp_transport(
    launch: Launch, model: MockMessages, tmp_path: Path
) -> None:
    chain = prepare("claude-agent-acp", launch, model, tmp_path, "acp")
    seen = chain.run("add two numbers")

    [turn] = seen.turns
    assert "There is no such tool." in "".join(turn.texts)
    assert chain.calls == []
    assert seen.exit_code == 0


@everything
@pytest.mark.parametrize("agent", ["claude-code-acp", OPENCODE, FAST_AGENT])
def test_others_refuse_servers_of_acp_transport(
    agent: str, launch: Launch, model: MockMessages, tmp_path: Path
) -> None:
    chain = prepare(agent, launch, model, tmp_path, "acp")
    with pytest.raises(acp.RequestError, match="Invalid params") as refused:
        chain.run("add two numbers")
    assert refused.value.code == -32602
    assert chain.calls == []
