"""Updates of a session that come too early for a client go behind the answer that names it."""

import json
from typing import Any

import pytest

from conductor.core import Component, Send
from tests.harness.router.policed import (
    CARRY_TEXT,
    chain_of,
    guest,
    notification,
    request,
    result,
    trusted,
    update,
)

Json = dict[str, Any]

NEW: Json = {"cwd": "/", "mcpServers": []}
COMPONENTS: dict[str, list[Component]] = {
    "none": [],
    "guest": [guest(CARRY_TEXT)],
    "trusted": [trusted("g")],
}
"""The components before the agent; each passes on all that it gets."""


def commands(session: str, name: str = "x") -> Json:
    """An update with commands."""
    listed = [{"name": name, "description": "d"}]
    told = {"sessionUpdate": "available_commands_update", "availableCommands": listed}
    return notification("session/update", {"sessionId": session, "update": told})


class Play:
    """A chain whose component, if there is one, passes on all that it gets."""

    def __init__(self, *components: Component, version: int = 1) -> None:
        with chain_of(*components, version=version) as pb:
            self.router = pb.router
        self.asked: list[object] = []
        """The ids of the requests that the agent got."""

    def says(self, name: str, message: Json) -> list[object]:
        """The messages that the client gets once a message has come: answers by their ids, updates
        by their sessions."""
        got: list[object] = []
        lines = [(name, json.dumps(message).encode())]
        while lines:
            for effect in self.router.receive(*lines.pop(0)):
                if not isinstance(effect, Send):
                    continue
                if effect.peer == "g":
                    side = {b"p": b"s", b"s": b"p"}.get(effect.frame[:1])
                    lines += [("g", side + effect.frame[1:])] if side else []
                    continue
                frame = json.loads(effect.frame)
                if effect.peer == "agent":
                    self.asked.append(frame.get("id"))
                else:
                    got.append(frame.get("id") or frame["params"]["sessionId"])
        return got


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", COMPONENTS)
@pytest.mark.parametrize("method", ["session/new", "session/fork"])
def test_it_goes_behind_the_answer_in_order(kind: str, method: str, version: int) -> None:
    play = Play(*COMPONENTS[kind], version=version)
    play.says("client", request("l", "session/load", {**NEW, "sessionId": "old"}))
    play.says("agent", result(play.asked[-1], {}))
    play.says("client", request("n", method, {**NEW, "sessionId": "old"}))
    (asked,) = play.asked[-1:]
    note = notification("_x/note", {"sessionId": "S"})
    for said in (commands("S"), note, update("one", "S"), update("two", "T")):
        assert play.says("agent", said) == []
    assert play.says("agent", update("of old", "old")) == ["old"], "others do not wait"
    assert play.says("agent", result(asked, {"sessionId": "S"})) == ["n", *"SSST"]
    assert play.says("agent", update("three", "S")) == ["S"]


@pytest.mark.proves("nothing of a hidden turn reaches")
@pytest.mark.parametrize("kind", ["tool_call", "tool_call_update"])
def test_what_tools_do_in_the_session_of_a_sub_agent_comes_before_the_question(kind: str) -> None:
    """A component may hold the answer to another session for a minute."""
    play = Play()
    assert play.says("client", request(1, "session/new", NEW)) == []
    call = {"sessionUpdate": kind, "toolCallId": "t", "title": "rm -rf ~"}
    for told in (call, {"sessionUpdate": "usage_update", "used": 1, "size": 2}):
        params = {"sessionId": "child", "update": told}
        assert play.says("agent", notification("session/update", params)) == []
    read = {"sessionId": "child", "path": "/x"}
    assert len(play.says("agent", request("r", "fs/read_text_file", read))) == 1
    asked = play.says("agent", request("q", "session/request_permission", {"sessionId": "child"}))
    assert [one == "child" for one in asked] == [True, False]
    assert play.says("agent", result(play.asked[-1], {"sessionId": "S"})) == [1, "child"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", COMPONENTS)
@pytest.mark.parametrize("ends", ["session/close", "session/delete"])
@pytest.mark.parametrize("asked", ["session/set_mode", "session/list", "_x/any"])
def test_nothing_overtakes_what_is_told_of_a_session_that_the_client_has_named(
    ends: str, asked: str, kind: str, version: int
) -> None:
    """The client knows that session, although it has ended it, or has asked nobody for it."""
    play = Play(*COMPONENTS[kind], version=version)
    play.says("client", request("p", "session/load", {**NEW, "sessionId": "S"}))
    play.says("agent", result(play.asked[-1], {}))
    open_ = [("a", asked, "S"), ("c", ends, "S"), ("n", "session/new", None), ("x", asked, "X")]
    for id_, method, session in open_:
        named = {**NEW, "sessionId": session} if session else NEW
        play.says("client", request(id_, method, named))
    first, closed, new, last = play.asked[-4:]
    call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "it"}
    got: list[object] = []
    for said in (
        notification("session/update", {"sessionId": "S", "update": call}),
        result(first, {}),
        update("one", "S"),
        notification("_x/note", {"sessionId": "S"}),
        request("q", "session/request_permission", {"sessionId": "S"}),
        update("two", "S"),
        result(closed, {}),
        update("of X", "X"),
        update("of Y", "Y"),
        result(last, {}),
        result(new, {"sessionId": "N"}),
    ):
        got += play.says("agent", said)
    questions = [one for one in got if type(one) is int]
    assert len(questions) == 1
    expected = ["S", "a", "S", "S", *questions, "S", "c", "X", "x", "n", "Y"]
    assert got == expected


def test_a_question_goes_behind_what_was_told_before_what_tools_do() -> None:
    play = Play()
    play.says("client", request("n", "session/new", NEW))
    call = notification(
        "session/update",
        {"sessionId": "S", "update": {"sessionUpdate": "tool_call", "toolCallId": "t"}},
    )
    for said in (update("of T", "T"), update("one", "S"), call, update("two", "S")):
        assert play.says("agent", said) == []
    asked = play.says("agent", request("q", "session/request_permission", {"sessionId": "S"}))
    assert asked == ["S", "S", 1]
    assert play.says("agent", result(play.asked[-1], {"sessionId": "S"})) == ["n", "T", "S"]


@pytest.mark.parametrize("size", [10, 2000])
def test_so_much_waits_and_no_more(size: int) -> None:
    play = Play()
    play.says("client", request("n", "session/new", NEW))
    got: list[object] = []
    for _ in range(2000):
        got += play.says("agent", update("x" * size, "S"))
    assert got == ["S"] * 2000, "all have come, in order"
    assert play.says("agent", result(play.asked[-1], {"sessionId": "S"})) == ["n"]
