"""Prompts: what the chain gets of one, and who hears of its end."""

import json
from typing import Any

import pytest

from conductor.serve.hub import HubLimits
from tests.harness.hub.world import Agent, Client, World

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


def test_a_chain_that_ends_answers_it() -> None:
    world, client, agent = begun()
    client.raw(frame(7))
    world.ended(agent)
    assert client.one()["id"] == 7
    assert world.hub.open_turns == 0
