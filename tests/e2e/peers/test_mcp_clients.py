"""The official MCP clients call the tools of a sandboxed guest, over stdio and over HTTP.

Each is given what the conductor declared to an agent that knows no MCP over ACP.
"""

import asyncio
import json
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.e2e.peers.conftest import Launch
from tests.e2e.peers.npm import NodePeers
from tests.harness.process.mcp_clients import declaration_of, pairs
from tests.places import DEADLINE

Json = dict[str, Any]
TOOLS = ["add", "echo", "fail", "progress", "whoami"]
pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]
kinds = pytest.mark.parametrize("kind", ["stdio", "http"])


AGENTS = {"stdio": "demo --no-http", "http": "demo"}
"""The agent to which servers of each kind are declared."""


def _text(content: object) -> str:
    assert isinstance(content, TextContent)
    return content.text


async def _use(declaration: Json, mode: Literal["legacy", "auto"], session: str) -> None:
    """Lists and calls the tools with the official Python client."""
    async with asyncio.timeout(DEADLINE), AsyncExitStack() as stack:
        target: Any
        if declaration.get("type") == "http":
            http = httpx2.AsyncClient(headers=pairs(declaration["headers"]), trust_env=False)
            await stack.enter_async_context(http)
            target = streamable_http_client(declaration["url"], http_client=http)
        else:
            target = StdioServerParameters(
                command=declaration["command"],
                args=declaration["args"],
                env=pairs(declaration["env"]),
            )
        client = await stack.enter_async_context(Client(target, mode=mode))
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        added = await client.call_tool("add", {"a": 2, "b": 3})
        assert (_text(added.content[0]), added.structured_content) == ("5", {"sum": 5})
        failed = await client.call_tool("fail", {"message": "on purpose"})
        assert (failed.is_error, _text(failed.content[0])) == (True, "on purpose")
        reported: list[float] = []

        async def report(progress: float, total: float | None, message: str | None) -> None:
            reported.append(progress)

        await client.call_tool("progress", {"steps": 3}, progress_callback=report)
        assert reported == [1, 2, 3]
        assert _text((await client.call_tool("whoami", {})).content[0]) == session
        large = "x" * 2_000_000
        assert _text((await client.call_tool("echo", {"text": large})).content[0]) == large


@kinds
def test_python_client(launch: Launch, tmp_path: Path, kind: str) -> None:
    with launch.chain(tmp_path, "tools-demo", AGENTS[kind]) as running:
        session = running.new_session(cwd=str(tmp_path))
        declaration = declaration_of(running, session)
        assert (declaration.get("type") == "http") == (kind == "http")
        asyncio.run(_use(declaration, "legacy", session))
        asyncio.run(_use(declaration, "auto", session))
        # Each session has a server of its own, whatever the other is doing.
        other = running.new_session(cwd=str(tmp_path))
        asyncio.run(_use(declaration_of(running, other), "auto", other))


@kinds
@pytest.mark.parametrize("line", ["1", "2"])
def test_typescript_client(
    launch: Launch, mcp_peers: NodePeers, tmp_path: Path, kind: str, line: str
) -> None:
    with launch.chain(tmp_path, "tools-demo", AGENTS[kind]) as running:
        session = running.new_session(cwd=str(tmp_path))
        done = subprocess.run(
            [mcp_peers.node, str(mcp_peers.scripts / "mcp_client.mjs")],
            input=json.dumps({"line": line, "declaration": declaration_of(running, session)}),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert seen["tools"] == TOOLS
        assert seen["sum"]["content"] == [{"type": "text", "text": "5"}]
        assert seen["failure"]["isError"] is True
        assert seen["done"]["content"][0]["text"] == "steps done: 3"
        assert seen["whoami"]["content"][0]["text"] == session
        if kind == "http":  # over stdio this client loses progress that it reads with the answer
            assert seen["progress"] == [1, 2, 3]


@kinds
def test_inspector(launch: Launch, mcp_peers: NodePeers, tmp_path: Path, kind: str) -> None:
    def inspect(*arguments: str) -> Json:
        done = subprocess.run(
            [mcp_peers.node, str(mcp_peers.bin / "mcp-inspector"), "--cli", *arguments],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            env={**launch.env, "HOME": str(tmp_path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: Json = json.loads(done.stdout)
        return found

    with launch.chain(tmp_path, "tools-demo", AGENTS[kind]) as running:
        declaration = declaration_of(running, running.new_session(cwd=str(tmp_path)))
        if kind == "http":
            ((name, value),) = pairs(declaration["headers"]).items()
            before = ["--transport", "http", "--server-url", declaration["url"]]
            before += ["--header", f"{name}: {value}"]
            after = []
        else:
            ((name, value),) = pairs(declaration["env"]).items()
            before = ["-e", f"{name}={value}"]
            after = ["--", declaration["command"], *declaration["args"]]
        listed = inspect(*before, "--method", "tools/list", *after)
        assert [tool["name"] for tool in listed["tools"]] == TOOLS
        call = ("--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=3")
        called = inspect(*before, *call, *after)
        assert called["content"] == [{"type": "text", "text": "5"}]
