"""Several clients in one chain (`--share`): MCP servers, panels and answers of each."""

import json
from typing import Any, Final

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, Socket, served

SHARED: Final = ("--listen", "ws://127.0.0.1:0", "--share")
GREET: Final = {"name": "greet", "inputSchema": {"type": "object"}}


def offering(client: Socket, id_: str) -> Json:
    """Opens a session with an MCP server over ACP; the answer."""
    offered = {"type": "acp", "name": "mine", "serverId": id_}
    return client.request("session/new", {"cwd": "/", "mcpServers": [offered]})


def until(client: Socket, method: str) -> Json:
    """The next message of a method; what comes before is kept."""
    while True:
        frame = client.receive()
        client.frames.append(frame)
        if frame.get("method") == method:
            return frame


def serve_tools(client: Socket, turn: int, id_: str) -> set[str]:
    """Is an MCP server until a turn ends; the ids by which it was called."""
    called: set[str] = set()
    while True:
        frame = client.receive()
        client.frames.append(frame)
        if frame.get("id") == turn and "method" not in frame:
            assert "result" in frame, frame
            return called
        if frame.get("method") == "mcp/message":
            called.add(frame["params"]["serverId"])
            content = [{"type": "text", "text": f"from {id_}"}]
            answer(client, frame, {"result": {"tools": [GREET], "content": content}})


def answer(client: Socket, asked: Json, result: Any) -> None:
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def test_tools_of_two_editors_that_share_a_chain_stay_apart(rig: Rig) -> None:
    state = str(rig.folder / "state")  # where no other test has agreed to tools of `mine`
    with served(rig, "serve", rig.demo(), *SHARED, XDG_STATE_HOME=state) as server:
        editors = {id_: server.socket() for id_ in ("one", "two")}
        for editor in editors.values():
            editor.initialize()
        sessions = {
            id_: offering(editor, id_)["result"]["sessionId"] for id_, editor in editors.items()
        }
        assert b"conductor_serve_chains 1\n" in server.http("/metrics").ask("GET").body
        for id_, editor in reversed(editors.items()):
            turn = editor.start_prompt(sessions[id_], "/call mine greet {}")
            assert serve_tools(editor, turn, id_) == {id_}
            assert f"from {id_}" in json.dumps(editor.frames)
        refused = offering(editors["two"], "one")["error"]
        assert "another client of this chain offers the MCP server `one`" in refused["message"]
        assert "--share" in refused["data"]["hint"]
