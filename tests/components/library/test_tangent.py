"""Side conversations: `tangent`."""

import json
from typing import Any

import pytest

from guest_sdk.python import ProxyError, Record
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Rig

ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow-once"}}


def _history(text: str) -> list[str]:
    """The prompts of a session of the demo agent, but for the directive itself."""
    turns = json.loads(text)["turns"]
    return [block["text"] for turn in turns[:-1] for block in turn["prompt"]]


def test_a_tangent_leaves_no_trace(rig: Rig) -> None:
    """In version 1: `/tangent` is answered, permissions and cancelling work within."""
    commands = "command:tangent+command:hang+command:history+command:permission"
    chain = agent(rig, component("tangent", {}, allow=commands), rig.demo())
    chain.serves["session/request_permission"] = lambda _: ALLOWED
    session = chain.begin()
    chain.expect("session/update")
    (listed,) = [one["params"]["update"] for one in chain.seen("session/update")]
    assert [one["name"] for one in listed["availableCommands"]] == ["tangent"]
    assert chain.prompt(session, "p1") == "p1"
    begun = chain.answer(chain.start_prompt(session, "/tangent"))
    assert begun["result"] == {"stopReason": "end_turn"}
    assert chain.prompt(session, "p2").endswith("p2")
    told, aside = _history(chain.prompt(session, "/history"))
    assert "User: p1\n\nYou: p1" in told
    assert aside == "p2"
    assert chain.prompt(session, "/permission") == "permission: allow-once"
    hangs = chain.start_prompt(session, "/hang")
    rig.until_heard("A", b'"/hang"')
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(hangs)["result"]["stopReason"] == "cancelled"
    assert chain.prompt(session, "/tangent").startswith("[tangent: back")
    assert chain.prompt(session, "p3") == "p3"
    assert _history(chain.prompt(session, "/history")) == ["p1", "p3"]
    named = chain.seen("session/update") + chain.seen("session/request_permission")
    assert {one["params"]["sessionId"] for one in named} == {session}
    sessions = chain.request("session/list", {})["result"]["sessions"]
    assert [one["sessionId"] for one in sessions] == [session]
    heard = [entry.frame for entry in rig.log("A", "in")]
    assert not any("/tangent" in json.dumps(frame) for frame in heard)
    assert [one["params"] for one in heard if one.get("method") == "session/close"] == [
        {"sessionId": "demo-2"}
    ]
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_modes_hold_in_a_tangent_and_behind_it_and_missing_servers_are_named(rig: Rig) -> None:
    """The conductor sets them: the tangent itself may not."""
    chain = agent(rig, component("tangent", {}, allow="command:tangent"), rig.demo("--modes"))
    chain.initialize()
    folders = {"cwd": str(rig.folder), "additionalDirectories": [str(rig.folder / "more")]}
    server = {"name": "fs", "command": "true", "args": [], "env": []}
    setup = {**folders, "mcpServers": [server]}
    session = chain.request("session/new", setup)["result"]["sessionId"]
    chain.request("session/set_mode", {"sessionId": session, "modeId": "code"})
    chain.answer(chain.start_prompt(session, "/tangent"))
    assert "without the MCP server `fs`" in chain.prompt(session, "aside")
    chain.request("session/set_mode", {"sessionId": session, "modeId": "ask"})
    chain.prompt(session, "/tangent back")
    asked = received(rig, "session/set_mode")
    assert [(one["sessionId"], one["modeId"]) for one in asked] == [
        (session, "code"),
        ("demo-2", "code"),
        ("demo-2", "ask"),
        (session, "ask"),
    ]
    told = [one["params"]["update"] for one in chain.seen("session/update")]
    metas = [one["_meta"] for one in told if one["sessionUpdate"] == "session_info_update"]
    about = [one["conductor.session"] for one in metas if "conductor.session" in one]
    assert about == [
        {"component": "tangent", "own": True, "missing": ["fs"]},
        {"component": "tangent", "own": False, "missing": []},
    ]
    assert chain.finish() == 0


async def test_a_tangent_that_cannot_begin_says_so_and_the_conversation_goes_on() -> None:
    async with play("tangent") as p:
        await p.new_session()
        await p.prompt("/tangent")
        p.agent.answer = _no_more_sessions
        with pytest.raises(ProxyError, match="the tangent cannot begin: no more"):
            await p.prompt("aside")
        assert (await p.prompt("p3")).text == "p3"


def _no_more_sessions(request: Record) -> Any:
    if request.method == "session/new":
        raise ProxyError("no more")


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_who_ends_the_session_ends_both(method: str) -> None:
    async with play("tangent", answer=lambda one: {} if one.method == method else None) as p:
        session = await p.new_session()
        await p.prompt("/tangent aside")
        await p.request(method, {"sessionId": session})
        asked = [one.raw["params"]["sessionId"] for one in p.agent.requests if one.method == method]
        assert asked == ["session-2", session]
        assert p.services.bound[session] == session


async def test_what_is_loaded_is_the_conversation() -> None:
    async with play("tangent") as p:
        session = await p.new_session()
        await p.prompt("/tangent aside")
        await p.request("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        assert p.services.bound[session] == session
        assert "session/close" in [one.method for one in p.agent.requests]
