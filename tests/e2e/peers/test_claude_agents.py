"""Real coding agents from npm behind ``conductor agent datetime …``, with a mock model.

The command line is the README's: the agents are found by name on PATH. They run with a
home directory of their own and a dummy key, and can reach nothing but the mock.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from conductor.spec.paths import components_folder
from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import (
    Answer,
    Json,
    MockMessages,
    Stall,
    Text,
    ToolUse,
    tool_results,
    user_text,
)
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.plan import Plan, Transcript
from tests.e2e.peers.python_client import run_python_client
from tests.harness.process.processes import MARKER
from tests.places import DEADLINE
from tests.record.trace import pairs
from tests.record.trace.test_trace import PROXY

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

AGENTS = {
    "claude-agent-acp": "@agentclientprotocol/claude-agent-acp",
    "claude-code-acp": "@zed-industries/claude-code-acp",
}
KEY = "sk-ant-dummy-key-of-the-tests"
KEPT = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "TMPDIR", MARKER)
"""Variables that an agent's environment inherits; others may hold a real key or proxy."""

ASK, USE_TOOL, HANG = "say something", "write the marker file", "think for ever"
ANSWER = ("It is ", "the mock ", "speaking — ", "in five ", "chunks.")
COMMAND = "echo made > made.txt"
DATE_ELEMENT = re.compile(r'<current-date date="(\d{4}-\d{2}-\d{2})"')


def say(body: Json) -> Answer:
    """The model: acts on whichever of the three prompts came last."""
    if not body.get("tools"):
        return Text(("A title",))
    said = user_text(body)
    latest = max((ASK, USE_TOOL, HANG), key=said.rfind)
    if latest == HANG:
        return Stall(("Thinking",))
    if latest == USE_TOOL and not tool_results(body):
        return ToolUse("Bash", {"command": COMMAND, "description": "Writes the marker"})
    return Text(ANSWER)


@pytest.fixture
def model() -> Iterator[MockMessages]:
    """The running mock of the Messages API."""
    with MockMessages(say).serving() as mock:
        yield mock


@pytest.fixture(params=AGENTS)
def agent(request: pytest.FixtureRequest) -> str:
    """Name of the agent's command."""
    name: str = request.param
    return name


class Bench:
    """An agent behind ``datetime`` or others, in a project and home directory of its own."""

    def __init__(
        self,
        agent: str,
        launch: Launch,
        peers: NodePeers,
        model: MockMessages,
        base: Path,
        *before: str,
    ) -> None:
        self.project = base / "project"
        self.project.mkdir()
        home = base / "home"
        home.mkdir()
        env = {name: launch.env[name] for name in KEPT if name in launch.env}
        env["PATH"] = os.pathsep.join((str(peers.bin), env["PATH"]))
        env["HOME"] = str(home)
        env["CLAUDE_CONFIG_DIR"] = str(home / ".claude")
        env["ANTHROPIC_BASE_URL"] = model.url
        env["ANTHROPIC_API_KEY"] = KEY
        env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        self._env = env
        self._command = launch.agent(*(before or ("datetime",)), agent)

    def run(
        self, *prompts: str, permission: str | None = None, cancel_on: str | None = None
    ) -> Transcript:
        """Send the prompts through the chain."""
        return run_python_client(
            Plan(
                command=self._command,
                prompts=prompts,
                cwd=self.project,
                env=self._env,
                permission=permission,
                cancel_on=cancel_on,
            )
        )


@pytest.fixture
def bench(
    agent: str, launch: Launch, node_peers: NodePeers, model: MockMessages, tmp_path: Path
) -> Bench:
    """The chain under test, not yet started."""
    return Bench(agent, launch, node_peers, model, tmp_path)


def test_date_reaches_the_model_and_its_answer_the_client(
    bench: Bench, model: MockMessages, agent: str
) -> None:
    seen = bench.run(ASK)

    assert seen.agent_name == AGENTS[agent]
    [turn] = seen.turns
    assert (turn.stop_reason, turn.error) == ("end_turn", None)
    # Each delta of the model is an update of its own: streamed, not gathered up.
    assert tuple(text for text in turn.texts if text) == ANSWER
    # Once a turn is over, an agent may ask the model more in the background.
    asked = model.conversations[0]
    assert asked["stream"] is True
    assert {request.key for request in model.requests if request.verb == "POST"} == {KEY}
    said = user_text(asked)
    # The agents tell the model the date in words of their own; only ours has this element.
    [told] = DATE_ELEMENT.findall(said)
    assert abs(date.fromisoformat(told) - datetime.now(UTC).date()) <= timedelta(days=1)
    assert said.index("<current-date") < said.index(ASK)
    assert seen.exit_code == 0


@pytest.mark.parametrize(("kind", "done"), [("allow_once", True), ("reject_once", False)])
def test_tool_runs_only_when_the_client_allows_it(
    bench: Bench, model: MockMessages, kind: str, *, done: bool
) -> None:
    seen = bench.run(USE_TOOL, permission=kind)

    [asked] = seen.received("session/request_permission")
    assert COMMAND in asked["toolCall"]["title"]
    assert kind in {option["kind"] for option in asked["options"]}
    assert (bench.project / "made.txt").exists() is done
    # Refused, one agent tells the model of the error, the other ends the turn at once.
    results = [result for body in model.conversations for result in tool_results(body)]
    assert any(not result.get("is_error") for result in results) is done
    [turn] = seen.turns
    assert turn.error is None
    assert seen.exit_code == 0


def test_cancel_reaches_the_model_call_and_the_session_goes_on(
    bench: Bench, model: MockMessages
) -> None:
    seen = bench.run(HANG, ASK, cancel_on="Thinking")

    assert model.hung_up.wait(DEADLINE)
    first, second = seen.turns
    assert first.stop_reason == "cancelled"
    assert second.stop_reason == "end_turn"
    assert tuple(text for text in second.texts if text) == ANSWER
    assert seen.exit_code == 0


@pytest.mark.parametrize("rights", ["context", "full"])
def test_a_trace_of_the_readmes_chain_pairs_every_request(
    agent: str,
    launch: Launch,
    node_peers: NodePeers,
    model: MockMessages,
    tmp_path: Path,
    rights: str,
) -> None:
    """`conductor agent ./proxy.wasm "python my_proxy.py" AGENT`: a tool, a turn cancelled."""
    (tmp_path / "my_proxy.py").write_text(PROXY)
    shutil.copy(components_folder() / "datetime" / "datetime.wasm", tmp_path / "proxy.wasm")
    before = (
        *("--trace", str(tmp_path / "trace")),
        f"{tmp_path / 'proxy.wasm'},only={rights}+clock",
        f"{sys.executable} {tmp_path / 'my_proxy.py'}",
    )
    bench = Bench(agent, launch, node_peers, model, tmp_path, *before)

    seen = bench.run(USE_TOOL, HANG, ASK, permission="allow_once", cancel_on="Thinking")

    assert [turn.stop_reason for turn in seen.turns] == ["end_turn", "cancelled", "end_turn"]
    events = pairs.read(tmp_path / "trace")
    assert pairs.wrong(events) == []
    hops = {(e["from"], e["to"]) for e in events if e.get("method") == "session/prompt"}
    assert hops == {("client", "proxy"), ("proxy", "my_proxy"), ("my_proxy", "agent")}


@pytest.mark.parametrize("order", [("personality", "sparkle"), ("sparkle", "personality")])
def test_turns_of_proxies_leave_the_user_their_own_results(
    agent: str,
    launch: Launch,
    node_peers: NodePeers,
    model: MockMessages,
    tmp_path: Path,
    order: tuple[str, str],
) -> None:
    """Both prompt the agent themselves before the user's first prompt; the results differ."""
    before = ("--trace", str(tmp_path / "trace"), "-c", "trace-content=all", *order)
    bench = Bench(agent, launch, node_peers, model, tmp_path, *before)

    seen = bench.run(ASK, HANG, cancel_on="Thinking")

    assert [turn.stop_reason for turn in seen.turns] == ["end_turn", "cancelled"]
    events = pairs.read(tmp_path / "trace")
    assert pairs.wrong(events) == []
    asked = [e for e in events if (e.get("method"), e["to"]) == ("session/prompt", "agent")]
    users = [e["id"] for e in asked if any(text in str(e["params"]) for text in (ASK, HANG))]
    assert len(users) == 2 < len(asked)
    answers = {e["id"]: e["payload"] for e in events if e["type"] == "response"}
    sent = [e["id"] for e in events if (e.get("method"), e["from"]) == ("session/prompt", "client")]
    assert [answers[id_] for id_ in sent] == [answers[id_] for id_ in users]
