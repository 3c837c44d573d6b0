"""Several clients in one chain (`--share`): MCP servers, panels and answers of each."""

import json
from typing import Any, Final

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, Socket, served

SHARED: Final = ("--listen", "ws://127.0.0.1:0", "--share")
GREET: Final = {"name": "greet", "inputSchema": {"type": "object"}}
PANELS: Final = {"_meta": {"symposium": {"version": "1.0", "html_panel": True}}}


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


def heard(client: Socket) -> str:
    """All methods that a client has got, once the server has taken all that it sent."""
    assert "result" in client.request("session/list", {})
    return json.dumps([frame.get("method") for frame in client.frames])


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


def test_a_panel_is_its_homes_and_a_viewer_presses_nothing(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *SHARED) as server:
        home, viewer = server.socket(), server.socket()
        for client in (home, viewer):
            client.initialize(clientCapabilities=PANELS)
        session = home.new_session()
        attach = {"sessionId": session, "role": "viewer"}
        assert "result" in viewer.request("session/attach", attach)
        panel = {"sessionId": session, "id": "plan", "label": "Plan", "contents": "<b>go</b>"}
        turn = home.start_prompt(session, f"/ext _scp/html_panel/show {json.dumps(panel)}")
        answer(home, until(home, "_scp/html_panel/show"), {})
        assert "result" in home.answer(turn)
        event = {"id": "plan", "name": "click", "data": 1}
        for named in ({"sessionId": session}, {}):
            assert "error" in viewer.request("_scp/html_panel/event", {**event, **named})
        assert "html_panel" not in heard(viewer)
        # The owner answers its home, though that names no session and the chain has two clients.
        assert "drives" not in json.dumps(home.request("_scp/html_panel/event", event))
        assert "error" not in home.request("_scp/html_panel/event", {**event, "name": "close"})


def test_a_phone_that_cancels_frees_an_agent_whose_editor_is_away(rig: Rig) -> None:
    """The question for permission is at the editor alone, whose link is cut."""
    with served(rig, "serve", rig.demo(), *SHARED) as server:
        editor = server.linked()
        session = editor.begin()
        turn = editor.start_prompt(session, "/permission")
        while editor.receive().get("method") != "session/request_permission":
            pass
        editor.cut()
        phone = server.socket()
        phone.initialize()
        attach = {"sessionId": session, "historyPolicy": "none"}
        assert "result" in phone.request("session/attach", attach)
        stop = {"sessionId": session}
        phone.send({"jsonrpc": "2.0", "method": "session/cancel", "params": stop})
        frame = phone.receive()
        while "turn_complete" not in json.dumps(frame):
            frame = phone.receive()
        editor.back()
        assert editor.answer(turn)["result"]["stopReason"] == "cancelled"
