"""`attribution` and `decide` before real agents: a mock model writes, edits, and asks for a command
that the endpoint refuses. With OPA and Cedar themselves where they are there.
"""

import importlib.util
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.mock_messages import Answer, Json, MockMessages, Text, ToolUse, tool_results
from tests.e2e.peers.npm import NodePeers
from tests.e2e.peers.test_sessions import environment, opened, said
from tests.harness.process.command import conductor

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

Deciding = Callable[[Json], Json]


def work(body: Json, project: Path) -> Answer:
    """The model: writes a poem, changes a line of it, and runs a command."""
    poem = str(project / "poem.txt")
    edit = {"file_path": poem, "old_string": "red", "new_string": "blue\nreally"}
    calls = [
        ("Write", {"file_path": poem, "content": "roses\nare red\nviolets\n"}),
        ("Edit", edit),
        ("Bash", {"command": "touch pushed", "description": "pushes"}),
    ]
    told = {result["tool_use_id"] for result in tool_results(body)}
    names = [tool["name"] for tool in body.get("tools", ())]
    for number, (name, arguments) in enumerate(calls):
        known = next((one for one in (name, f"mcp__acp__{name}") if one in names), None)
        if known and f"toolu_{number}" not in told:
            return ToolUse(known, arguments, f"toolu_{number}")
    return Text(("Done.",))


@contextmanager
def endpoint(decide: Deciding) -> Iterator[str]:
    """An endpoint that decides by this; where it is."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = json.dumps(decide(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def no_commands(asked: Json) -> Json:
    """Allows all but commands."""
    is_command = asked["input"]["context"].get("kind") == "execute"
    return {"result": {"decision": "deny" if is_command else "allow", "reason": "not on Fridays"}}


@pytest.mark.parametrize("agent", ["claude-agent-acp", "claude-code-acp"])
def test_a_real_agent_is_asked_about_and_its_lines_are_kept(
    agent: str, launch: Launch, node_peers: NodePeers, tmp_path: Path
) -> None:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    model = MockMessages(partial(work, project=project))
    with endpoint(no_commands) as place, model.serving():
        decide = f"decide,config.url={place}/,allow=web:POST@{place}"
        command = launch.agent(decide, "attribution", agent)
        env = environment(launch, node_peers, model, tmp_path / "home")
        with opened(command, env, project) as client:
            client.serves["session/request_permission"] = lambda asked: {
                "outcome": {
                    "outcome": "selected",
                    "optionId": next(
                        one["optionId"] for one in asked["options"] if one["kind"] == "allow_once"
                    ),
                }
            }
            setup = {"cwd": str(project), "mcpServers": []}
            session = client.request("session/new", setup)["result"]["sessionId"]
            blocks = [{"type": "text", "text": "write a poem and push it"}]
            client.request("session/prompt", {"sessionId": session, "prompt": blocks})
            assert "[decide: refused `" in said(client), client.story()
            assert "not on Fridays" in said(client)
            assert client.finish() == 0
    assert not (project / "pushed").exists()
    assert (project / "poem.txt").read_text() == "roses\nare blue\nreally\nviolets\n"
    ran = conductor("log", "blame", "--json", str(project / "poem.txt"))
    ranges = json.loads(ran.out)["ranges"]
    assert (ranges[0]["start"], ranges[-1]["end"]) == (1, 4)
    for one in ranges:  # one, if both edits were made in the same second
        assert agent.removesuffix("-acp") in one["edit"]["agent"], one
        assert one["edit"]["prompt"] == "write a poem and push it"


POLICY: Final = """package agents
default decision := {"decision": "allow"}
decision := {"decision": "deny", "reason": "no pushing"} if contains(input.context.title, "push")
"""
CEDAR: Final = """permit(principal, action, resource);
forbid(principal, action == Action::"permission", resource)
when { context.title like "*push*" };"""


@pytest.mark.skipif(shutil.which("opa") is None, reason="opa is not on PATH")
def test_opa_decides(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "policy.rego").write_text(POLICY)
    address = f"{folder}/opa.sock"
    command = ["opa", "run", "--server", "--addr", f"unix://{address}", str(folder / "policy.rego")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as opa:
        try:
            while not Path(address).exists():
                assert opa.poll() is None
                time.sleep(0.05)
            url = f"unix:{address}:/v1/data/agents/decision"
            decided_by(f"decide,config.url={url},allow=web:POST@unix:{address}", "no pushing")
            url = f"unix:{address}:/v1/data/agents/nothing"
            told = asked(f"decide,config.url={url},allow=web:POST@unix:{address}", "list files")
            assert "its answer holds no decision" in told
        finally:
            opa.kill()


@pytest.mark.skipif(
    importlib.util.find_spec("cedarpy") is None, reason="no cedarpy: pip install it"
)
def test_cedar_decides() -> None:
    import cedarpy  # type: ignore[import-not-found, unused-ignore]

    def decide(asked: Json) -> Any:
        decided = cedarpy.is_authorized(asked, CEDAR, [])
        return {"decision": decided.decision.value}

    with endpoint(decide) as place:
        options = f"config.url={place}/v1/is_authorized,config.format=cedar"
        decided_by(f"decide,{options},allow=web:POST@{place}", "the endpoint says so")


def asked(decide: str, what: str) -> str:
    """The text for the user where the agent asks for something, and the user allows all."""
    return conductor(
        "exec", "--permissions", "allow-once", decide, "demo", "-p", f"/permission {what}"
    ).out


def decided_by(decide: str, reason: str) -> None:
    """Pushing is refused for this reason, and nothing else is."""
    assert asked(decide, "list files") == "permission: allow-once\n"
    told = asked(decide, "push")
    assert f"[decide: refused `push`: {reason}]" in told
    assert "permission: reject-once" in told
