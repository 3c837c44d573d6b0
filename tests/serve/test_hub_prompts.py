"""Prompts: what the chain gets of one, and who hears of its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.serve.hub import HubLimits
from tests.harness.hub.world import Agent, Client, World, updates

BLOCK = {"type": "text", "text": 'hé "sessionId"'}


def frame(id_: Any = 7, session: str = "s", **members: Any) -> bytes:
    """A prompt as most clients write it."""
    params = {"sessionId": session, "prompt": [BLOCK, BLOCK]}
    message = {"jsonrpc": "2.0", "id": id_, "method": "session/prompt", "params": params}
    return json.dumps(message | members, separators=(",", ":"), ensure_ascii=False).encode()


def begun(**how: Any) -> tuple[World, Client, Agent]:
    """A client with a session."""
    world = World(**how)
    client = world.client("one")
    agent = client.begin()
    client.new(agent, "s")
    return world, client, agent


def test_its_history_has_each_block() -> None:
    world, client, _ = begun()
    client.raw(frame())
    other = world.client("two")
    other.begin()
    other.ask("session/load", sessionId="s")
    assert [one["content"] for one in updates(other.seen)] == [BLOCK, BLOCK]
    (info,) = world.hub.sessions
    assert info.history_bytes > 2 * len(json.dumps(BLOCK))


def test_who_attaches_meanwhile_hears_of_the_end() -> None:
    world, client, agent = begun()
    client.raw(frame())
    asked = agent.one()
    watching = world.client("two")
    watching.begin()
    watching.attach("s", role="viewer")
    agent.answer(asked, {"stopReason": "end_turn"})
    (end,) = updates(watching.take())
    assert (end["sessionUpdate"], end["stopReason"]) == ("turn_complete", "end_turn")
    assert client.one()["id"] == 7
    client.raw(frame(8))
    assert watching.kinds() == ["prompt_received", *["user_message_chunk"] * 2]


def test_a_viewer_alone_does_not_prompt() -> None:
    _, client, agent = begun()
    client.attach("s", role="viewer")
    client.raw(frame())
    assert "viewer" in client.one()["error"]["message"]
    assert not agent.take()


@pytest.mark.parametrize(
    "sent",
    [
        frame().replace(b'"sessionId":"s",', b'"sessionId":"t","sessionId":"s",'),
        frame().replace(b'"sessionId":"s",', b'"session\\u0049d":"t","sessionId":"s",'),
        frame().replace(b'"jsonrpc":"2.0",', b""),
        frame(extra=1),
        frame(None),
        frame("a").replace(b'"a"', b'"\\u0061"'),
    ],
)
def test_what_could_be_read_in_two_ways_is_written_anew(sent: bytes) -> None:
    world, client, agent = begun()
    passed: list[bytes] = []
    effects = world.hub.from_client(client.name, sent, world.now)
    passed += [one.frame for one in effects if hasattr(one, "frame")]
    world.perform(effects)
    assert [one.count(b'"sessionId"') for one in passed] == [1]
    one = agent.one()
    assert one["jsonrpc"] == "2.0"
    assert set(one) == {"jsonrpc", "id", "method", "params"}
    assert one["params"]["sessionId"] == "s"


@pytest.mark.parametrize("broken", [b'"\xff"', b"[" * 600 + b"]" * 600])
def test_what_a_router_would_not_read_is_refused(broken: bytes) -> None:
    _, client, agent = begun()
    client.raw(frame().replace(b'"text"', broken, 1))
    assert "error" in client.one()
    assert not agent.take()


def test_two_clients_with_one_id_have_each_their_answer() -> None:
    world, client, agent = begun(shares=True)
    other = world.client("two")
    other.begin()
    other.new(agent, "t")
    client.raw(frame(7))
    first = agent.one()
    other.raw(frame(7, "t"))
    second = agent.one()
    agent.answer(second, {"stopReason": "second"})
    agent.answer(first, {"stopReason": "first"})
    assert client.one() == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "first"}}
    assert other.one() == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "second"}}


def test_open_requests_are_bounded() -> None:
    _, client, agent = begun(limits=HubLimits(open_requests=3))
    for id_ in range(10, 14):
        client.raw(frame(id_))
    assert len(agent.take()) == 3
    assert client.one()["id"] == 13


def test_a_cancellation_names_the_chains_id() -> None:
    _, client, agent = begun()
    client.raw(frame("p"))
    client.notify("$/cancel_request", requestId="p")
    asked, cancelled = agent.take()
    assert cancelled["method"] == "$/cancel_request"
    assert cancelled["params"]["requestId"] == asked["id"]


def test_an_error_ends_the_turn() -> None:
    world, client, agent = begun()
    client.raw(frame(7))
    agent.send(id=agent.one()["id"], error={"code": 1, "message": "no"})
    assert client.one()["error"] == {"code": 1, "message": "no"}
    assert world.hub.open_turns == 0


def test_a_chain_that_ends_answers_it() -> None:
    world, client, agent = begun()
    client.raw(frame(7))
    world.ended(agent)
    assert client.one()["id"] == 7
    assert world.hub.open_turns == 0


def test_who_has_left_gets_no_answer() -> None:
    world, client, agent = begun()
    client.raw(frame(7))
    asked = agent.one()
    other = world.client("two")
    other.begin()
    other.attach("s")
    world.left(client)
    agent.answer(asked, {"stopReason": "end_turn"})
    assert updates(other.take())[-1]["sessionUpdate"] == "turn_complete"
    assert world.hub.open_turns == 0
