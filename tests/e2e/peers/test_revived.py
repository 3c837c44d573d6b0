"""Agents on the official SDKs, and a real one, are killed behind the editor and go on.

`tests/e2e/test_revived.py` has the details, with an agent of the tests' own.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

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
from tests.e2e.peers.test_claude_agents import KEPT, KEY
from tests.e2e.peers.test_mcp_agents import say as call_the_tool
from tests.harness.process.processes import MARKER, command_line, marked
from tests.harness.process.rig import Chain

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

FRIEND, HANG, ASK = "my friend is called Ada", "think for ever", "what did I tell you?"


def lasting(*command: str, env: dict[str, str] | None = None) -> str:
    """A program as an agent that is started again."""
    options = {"name": "A", "on_failure": "restart", **({"env": env} if env else {})}
    return json.dumps({"command": command[0], "args": command[1:], **options})


@pytest.mark.parametrize("sdk", ["python", "typescript"])
def test_sessions_of_an_sdk_agent_go_on(
    sdk: str, launch: Launch, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if sdk == "python":
        script = Path(__file__).with_name("python_lasting_agent.py")
        agent = lasting(sys.executable, str(script), str(tmp_path))
    else:
        node: NodePeers = request.getfixturevalue("node_peers")
        agent = lasting(node.node, str(node.scripts / "lasting_agent.mjs"), str(tmp_path))
    with launch.chain(tmp_path, "passthrough", "datetime", agent) as chain:
        session = chain.new_session(cwd=str(tmp_path))
        other = chain.new_session(cwd=str(tmp_path))
        assert chain.prompt(session, "one") == "one"
        assert chain.prompt(other, "other") == "other"
        turn = chain.start_prompt(session, "hang")
        chain.until(lambda: "hang" in chain.texts(session), "the turn")
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert "send the request again" in chain.answer(turn)["error"]["message"]
        assert chain.prompt(session, "history") == "one|hang"
        assert chain.prompt(other, "history") == "other"
        assert chain.texts(session) == ["one", "hang", "one|hang"]
        assert len(chain.answers(turn)) == 1


def think(body: Json) -> Answer:
    """The model: it hangs where it is asked to; else it tells whether it knows the friend, where it
    is asked for that by the result of a tool of `tools-demo`."""
    if not body.get("tools"):
        return Text(("A title",))
    said = user_text(body)
    latest = max((FRIEND, HANG, ASK), key=said.rfind)
    if latest == HANG:
        return Stall(("Thinking",))
    result = ""
    if latest == ASK:
        call = call_the_tool(body)
        if isinstance(call, ToolUse):
            return call
        result = json.dumps(tool_results(body)[-1]["content"])
    return Text(("Ada " if FRIEND in said else "nothing ", result))


def allow(asked: Json) -> Json:
    """The client allows the request."""
    kinds = {option["kind"]: option["optionId"] for option in asked["options"]}
    return {"outcome": {"outcome": "selected", "optionId": kinds["allow_once"]}}


def test_the_conversation_of_a_real_agent_goes_on(
    launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with MockMessages(think).serving() as model:
        env = {name: launch.env[name] for name in KEPT if name in launch.env}
        env["PATH"] = os.pathsep.join((str(node_peers.bin), env["PATH"]))
        env["HOME"], env["CLAUDE_CONFIG_DIR"] = str(home), str(home / ".claude")
        env["ANTHROPIC_BASE_URL"], env["ANTHROPIC_API_KEY"] = model.url, KEY
        env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] = "1"
        command = launch.agent("tools-demo", "datetime", "claude-agent-acp,on_failure=restart")
        with Chain(command, env, tmp_path) as chain:
            chain.serves["session/request_permission"] = allow
            chain.initialize()
            session = chain.new_session(cwd=str(tmp_path))
            assert chain.prompt(session, FRIEND).startswith("Ada")
            turn = chain.start_prompt(session, HANG)
            chain.until(lambda: "Thinking" in "".join(chain.texts(session)), "the turn")
            before = chain.texts(session)
            kill(launch.env[MARKER])
            assert "send the request again" in chain.answer(turn)["error"]["message"]
            chain.until_stderr("started again (1 of 3)")
            answer = chain.prompt(session, ASK)
            assert "Ada" in answer
            assert "42" in answer  # the tool of a guest works again
            assert FRIEND not in "".join(chain.texts(session)[len(before) :])
            assert chain.finish() == 0


def kill(token: str) -> None:
    """Kills the agent below a conductor, which is a program of Node, by its command line."""
    for pid in marked(token):
        words = command_line(pid).split(" ")[:2]  # none if it has ended since
        if any(word.endswith("claude-agent-acp") for word in words):
            os.kill(pid, signal.SIGKILL)
