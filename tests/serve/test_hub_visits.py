"""Clients that only attach to live sessions, and what lists say of those."""

from typing import Any

import pytest

from tests.harness.hub.world import Agent, Client, World, kind_of, updates


def opened(**how: Any) -> tuple[World, Client, Agent]:
    """An editor that has opened session `s`."""
    world = World(**how)
    editor = world.client("editor")
    agent = editor.begin()
    editor.new(agent, "s")
    return world, editor, agent


def visitor(
    world: World, name: str = "visitor", version: int = 1, attaches: object = True
) -> Client:
    """A client that only attaches."""
    client = world.client(name)
    client.ask(
        "initialize",
        protocolVersion=version,
        clientInfo={"name": name, "version": "1"},
        _meta={"conductor": {"attaches": attaches}},
    )
    return client


def test_a_visitor_has_no_chain_of_its_own() -> None:
    world, editor, agent = opened()
    client = visitor(world)
    result = client.one()["result"]
    assert result["protocolVersion"] == 1
    assert result["agentCapabilities"]["sessionCapabilities"] == {"attach": {}, "list": {}}
    assert list(world.agents.values()) == [agent]
    result = client.attach("s", role="viewer")[-1]["result"]
    assert result["role"] == "viewer"
    agent.update("s", content={"type": "text", "text": "hello"})
    assert client.kinds() == ["agent_message_chunk"]
    client.ask("initialize", protocolVersion=1)
    assert client.one()["error"]["code"] == -32600
    client.ask("session/new", cwd="/", mcpServers=[])
    error = client.one()["error"]
    assert "only attaches" in error["message"]
    assert "attaches" in error["data"]["hint"]
    client.ask("session/load", sessionId="other", cwd="/", mcpServers=[])
    assert client.one()["error"]["code"] == -32002
    world.left(editor)  # the session goes on: somebody sees it
    assert world.agents
    world.left(client)
    assert not world.agents


def test_a_visitor_speaks_the_version_of_the_session() -> None:
    world = World()
    editor = world.client("editor")
    editor.new(editor.begin(2), "s")
    assert "attach" in visitor(world, "two", 2).one()["result"]["capabilities"]["session"]
    assert world.clients["two"].attach("s")[-1]["result"]["sessionId"] == "s"
    one = visitor(world, "one")
    one.take()
    assert "version 2" in one.attach("s")[-1]["error"]["message"]
    older = world.client("older")
    older.new(older.begin(), "t")
    about = world.clients["two"].attach("t", role="viewer")[-1]["result"]["_meta"]["conductor"]
    assert about["version"] == 1
    # Where others stand between, all of them speak the version of the session that is named.
    for number, (named, spoken) in enumerate((("t", 1), ("s", 2), ("unknown", 2))):
        through = visitor(world, f"through {number}", 2, attaches=named)
        assert through.one()["result"]["protocolVersion"] == spoken


def test_a_list_says_who_has_a_live_session() -> None:
    world, editor, agent = opened(owned=["old"])
    client = visitor(world)
    client.take()
    client.attach("s", role="viewer")
    agent.update("s", "session_info_update", title="Tidy up")
    editor.prompt("s")
    client.take()
    client.ask("session/list")
    (entry,) = client.one()["result"]["sessions"]
    about = {
        "live": True,
        "turn": True,
        "version": 1,
        "clients": [
            {"clientId": "client-1", "role": "driver"},
            {"clientId": "client-2", "name": "visitor", "version": "1", "role": "viewer"},
        ],
    }
    assert entry == {
        "sessionId": "s",
        "cwd": "/",
        "title": "Tidy up",
        "_meta": {"conductor": about},
    }
    agent.take()
    editor.ask("session/list")
    listed = [
        {"sessionId": "s", "cwd": "/", "_meta": {"a": 1}},
        {"sessionId": "old", "cwd": "/"},
        {"sessionId": "of somebody else", "cwd": "/"},
    ]
    agent.answer(agent.one(), {"sessions": listed})
    live, old = editor.take()[-1]["result"]["sessions"]
    assert live["_meta"] == {"a": 1, "conductor": about}
    assert old == listed[1]


@pytest.mark.parametrize("how", ["closed", "chain"])
def test_who_is_attached_hears_that_the_session_is_closed(how: str) -> None:
    world, editor, agent = opened()
    client = visitor(world)
    client.attach("s", role="viewer")
    client.take()
    if how == "chain":
        world.ended(agent, "the agent has died", "look at the log")
    else:
        editor.ask("session/close", sessionId="s")
        agent.answer(agent.take()[-1], {})
    (update,) = updates(client.take())
    assert update["sessionUpdate"] == "session_closed"
    assert ("error" in update) == (how == "chain")
    if how == "chain":
        assert update["error"]["message"] == "the agent has died"
    assert "session_closed" not in [kind_of(one) for one in editor.take()]
