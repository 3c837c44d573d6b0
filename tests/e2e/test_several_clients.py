"""Several clients on one session of a server (docs/remote.md)."""

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, Socket, served

LISTEN = ("--listen", "ws://127.0.0.1:0")
LOAD: Json = {"cwd": "/", "mcpServers": []}


def until(client: Socket, method: str, kind: str = "") -> Json:
    """Waits for a message of a method, or for an update of a kind."""
    while True:
        frame = client.receive()
        client.frames.append(frame)
        update = frame.get("params", {}).get("update", {})
        if frame.get("method") == method and kind in ("", update.get("sessionUpdate")):
            return frame


def kinds(client: Socket, session: str) -> list[str]:
    """The kinds of the updates of a session that a client has got."""
    return [
        one["params"]["update"]["sessionUpdate"]
        for one in client.frames
        if one.get("method") == "session/update" and one["params"]["sessionId"] == session
    ]


def test_a_second_editor_joins_in_the_middle_of_a_turn(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *LISTEN) as server:
        editor, second = server.socket(), server.socket()
        session = editor.begin()
        assert editor.prompt(session, "/echo first") == "first"
        prompt = editor.start_prompt(session, "/permission")
        question = until(editor, "session/request_permission")

        second.initialize()
        assert "result" in second.request("session/load", {"sessionId": session, **LOAD})
        assert kinds(second, session) == kinds_of_two_prompts(editor, session)
        again = until(second, "session/request_permission")
        assert again["params"] == question["params"]
        option = again["params"]["options"][0]["optionId"]
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        second.send({"jsonrpc": "2.0", "id": again["id"], "result": outcome})
        cancelled = until(editor, "$/cancel_request")
        assert cancelled["params"] == {"requestId": question["id"]}
        assert editor.answer(prompt)["result"]["stopReason"] == "end_turn"

        # The first one leaves; the session goes on in the same chain.
        editor.close()
        assert second.prompt(session, "/echo on") == "permission: allow-onceon"
        assert "first" in second.prompt(session, "/history")
        server.end()
        assert rig.leftovers(server.process) == []


def kinds_of_two_prompts(editor: Socket, session: str) -> list[str]:
    """The kinds that are shown of two prompts: the prompts, and the agent's answer to each."""
    shown = kinds(editor, session)
    first = shown.index("agent_message_chunk") + 1
    return ["user_message_chunk", *shown[:first], "user_message_chunk", *shown[first:]]
