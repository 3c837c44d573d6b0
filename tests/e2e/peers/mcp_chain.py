"""A chain whose agent tells which MCP servers it was given, for clients nobody here wrote.

The agent is the bundled demo, which knows nothing of MCP over ACP: what it is given is what the
conductor bridges for it. The test takes that declaration and hands it to another MCP client.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.places import DEADLINE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.peers.conftest import Launch

Json = dict[str, Any]


class Chain:
    """A running conductor, seen from the editor's side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._count = 0
        self.said: list[str] = []
        """The texts of the agent's messages."""

    def request(self, method: str, **params: Any) -> Json:
        """Asks, and reads until the answer is there."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        message = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params}
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            found = json.loads(line)
            if found.get("method") == "session/update":
                content = found["params"]["update"].get("content", {})
                self.said.append(content.get("text", ""))
            elif found.get("id") == self._count and "method" not in found:
                assert "result" in found, found
                result: Json = found["result"]
                return result
        raise AssertionError("the conductor ended")

    def session(self, cwd: Path) -> str:
        """Opens a session."""
        session: str = self.request("session/new", cwd=str(cwd), mcpServers=[])["sessionId"]
        return session

    def prompt(self, session: str, text: str) -> str:
        """What the agent says to a prompt."""
        self.said.clear()
        block = {"type": "text", "text": text}
        self.request("session/prompt", sessionId=session, prompt=[block])
        return "".join(self.said)

    def declaration(self, session: str) -> Json:
        """The one MCP server the agent was given."""
        (entry,) = json.loads(self.prompt(session, "/servers"))
        found: Json = entry
        return found


@contextmanager
def chain(launch: Launch, cwd: Path, *components: str) -> Iterator[Chain]:
    """`conductor agent COMPONENT…`, initialized, until the end of the block."""
    process = subprocess.Popen(
        launch.agent(*components),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=launch.env,
        cwd=cwd,
    )
    with process:
        running = Chain(process)
        running.request("initialize", protocolVersion=1, clientCapabilities={})
        yield running
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
