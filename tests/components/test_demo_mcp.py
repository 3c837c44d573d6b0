"""The demo agent's MCP directives against real servers made with the official library."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.process.client import Json
from tests.harness.process.demo import DemoProcess
from tests.places import DEADLINE

SERVER = '''
import os, socket, sys
import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("tools of " + sys.argv[1], log_level="ERROR")

@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers.

    More about it."""
    return a + b

@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("as asked")

@server.tool()
def variable() -> str:
    """Show an environment variable."""
    return os.environ.get("DEMO_VARIABLE", "unset")

@server.tool()
async def forever() -> str:
    """Never answer."""
    import anyio
    sys.stderr.write("forever begins\\n")
    sys.stderr.flush()
    await anyio.sleep_forever()
    return ""

@server.tool()
def refuse() -> str:
    """Answer with an error of the protocol."""
    from mcp import MCPError
    raise MCPError(-32000, "not today")

@server.resource("note://one")
def note() -> str:
    return "the note"

@server.prompt()
def greet(name: str) -> str:
    return "Hello " + name

if sys.argv[1] == "stdio":
    server.run()
else:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who comes before the server is there waits
    print(listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()

    async def guarded(scope, receive, send):
        if scope["type"] == "http" and dict(scope["headers"]).get(b"x-secret") != b"42":
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    uvicorn.Server(uvicorn.Config(guarded, log_level="error")).run(sockets=[listener])
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's source as a file."""
    path = tmp_path_factory.mktemp("mcp") / "server.py"
    path.write_text(SERVER)
    return path


@pytest.fixture
def stdio(script: Path) -> Json:
    """The declaration of a stdio server, without ``type``."""
    return {
        "name": "local",
        "command": sys.executable,
        "args": [str(script), "stdio"],
        "env": [{"name": "DEMO_VARIABLE", "value": "set by the client"}],
    }


@pytest.fixture(scope="module")
def http(script: Path) -> Iterator[Json]:
    """The declaration of a Streamable HTTP server on loopback that wants a header."""
    process = subprocess.Popen([sys.executable, script, "http"], stdout=subprocess.PIPE)
    assert process.stdout
    try:
        port = int(process.stdout.readline())
        yield {
            "type": "http",
            "name": "remote",
            "url": f"http://127.0.0.1:{port}/mcp",
            "headers": [{"name": "X-Secret", "value": "42"}],
        }
    finally:
        process.kill()
        process.wait(DEADLINE)
        process.stdout.close()


def told(demo: DemoProcess, text: str) -> str:
    """The text a prompt in demo-1 is answered with."""
    turn = demo.prompt("demo-1", text)
    assert turn.stop_reason == "end_turn"
    return turn.text


def check_all(demo: DemoProcess, server: str) -> None:
    """Every MCP directive against one declared server."""
    assert told(demo, "/tools").splitlines() == [
        f"{server}/add: Add two numbers.",
        f"{server}/fail: Fail.",
        f"{server}/variable: Show an environment variable.",
        f"{server}/forever: Never answer.",
        f"{server}/refuse: Answer with an error of the protocol.",
    ]
    assert told(demo, '/tool add {"a":2,"b":40}') == "42"
    assert told(demo, f'/call {server} add {{"a":1,"b":1}}') == "2"
    assert told(demo, f"/call {server} fail").startswith("tool error: ")
    assert told(demo, "/tool refuse") == f"{server}: MCPError: not today"
    assert told(demo, f"/resource {server} note://one") == "the note"
    assert told(demo, f'/mcpprompt {server} greet {{"name":"Ann"}}') == "user: Hello Ann"
    assert told(demo, "/tool missing") == "no declared MCP server has the tool missing"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_stdio(stdio: Json, mode: str) -> None:
    with DemoProcess("--mcp-mode", mode) as demo:
        demo.initialize()
        demo.new_session([stdio])
        check_all(demo, "local")
        assert told(demo, "/tool variable") == "set by the client"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_http(http: Json, mode: str) -> None:
    with DemoProcess("--mcp-mode", mode) as demo:
        demo.initialize()
        demo.new_session([http])
        check_all(demo, "remote")


def test_several_servers_in_v2_and_the_failing_one_is_named(stdio: Json, http: Json) -> None:
    with DemoProcess() as demo:
        demo.initialize(2)
        no_header = {**http, "name": "closed", "headers": []}
        no_command = {"type": "stdio", "name": "absent", "command": "/nonexistent/server"}
        odd = {"type": "carrier-pigeon", "name": "odd"}
        demo.new_session([no_header, no_command, odd, {**stdio, "type": "stdio"}, http])
        lines = told(demo, "/tools").splitlines()
        assert lines[0].startswith("closed: ")
        assert lines[1].startswith("absent: ")
        assert "/nonexistent/server" in lines[1]
        assert "'carrier-pigeon' are not supported" in lines[2]
        assert lines[3] == "local/add: Add two numbers."
        assert lines[8] == "remote/add: Add two numbers."
        assert told(demo, "/tool variable") == "set by the client"


def test_no_server_and_servers_by_name(stdio: Json) -> None:
    with DemoProcess() as demo:
        demo.initialize()
        demo.new_session()
        assert told(demo, "/tools") == "no MCP server was declared"
        keyed = {"old": {key: value for key, value in stdio.items() if key != "name"}}
        params = {"cwd": "/", "mcpServers": keyed}
        assert demo.call("session/new", params)["result"] == {"sessionId": "demo-2"}
        assert demo.prompt("demo-2", '/call old add {"a":1,"b":2}').text == "3"


def test_a_call_is_cancelled(stdio: Json) -> None:
    with DemoProcess() as demo:
        demo.initialize()
        demo.new_session([stdio])
        request = demo.start_prompt("demo-1", "/tool forever")
        demo.until_stderr("forever begins")
        demo.notify("session/cancel", {"sessionId": "demo-1"})
        assert demo.outcome(request).stop_reason == "cancelled"
        assert told(demo, '/tool add {"a":1,"b":1}') == "2"


def test_servers_over_acp_are_called_natively() -> None:
    seen: list[Json] = []

    def serve(params: Json) -> Json:
        seen.append(params)
        if params["method"] == "tools/list":
            page = params["params"].get("cursor")
            tool = {"name": "second" if page else "first", "inputSchema": {"type": "object"}}
            return {"result": {"tools": [tool], **({} if page else {"nextCursor": "more"})}}
        if params["params"]["name"] == "second":
            return {"result": {"content": [{"type": "text", "text": "over acp"}]}}
        return {"error": {"code": -32602, "message": "no"}}

    with DemoProcess("--acp") as demo:
        demo.initialize()
        demo.new_session([{"type": "acp", "name": "native", "serverId": "s-1"}])
        demo.serves["mcp/message"] = serve
        assert told(demo, "/tools") == "native/first\nnative/second"
        assert told(demo, "/tool second {}") == "over acp"
        assert told(demo, "/call native first {}").startswith("native: tools/call failed: ")
        demo.serves.clear()
        assert "mcp/message refused" in told(demo, "/tools")
    assert {each["serverId"] for each in seen} == {"s-1"}
    assert len({each["requestId"] for each in seen}) == len(seen)
    meta = seen[0]["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
