"""The shortcut of prompts: whose prompts pass byte for byte, and what a hub knows of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.serve.hub import Effect, HubLimits, LogLine, ToChain, ToClient
from tests.harness.hub.world import Agent, Client, World, kind_of, updates

BLOCK = {"type": "text", "text": 'hé "sessionId"'}
DONE = b'{"jsonrpc":"2.0","id":%b,"result":{"stopReason":"end_turn"}}'


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


def asked(world: World, client: Client, sent: bytes) -> list[Effect]:
    """What comes of a client's frame."""
    effects = world.hub.from_client(client.name, sent, world.now)
    world.perform(effects)
    return effects


def frame_of(effects: list[Effect]) -> bytes:
    """The frame of the one effect."""
    (effect,) = effects
    assert isinstance(effect, ToChain | ToClient)
    return effect.frame


def answered(world: World, agent: Agent, sent: bytes) -> list[Effect]:
    """What comes of a chain's frame."""
    effects = world.hub.from_chain(agent.name, sent, world.now)
    world.perform(effects)
    return effects


@pytest.mark.parametrize("id_", [7, 0, -3, "a", "x-1"])
def test_prompt_and_answer_pass_byte_for_byte(id_: Any) -> None:
    world, client, agent = begun()
    sent, done = frame(id_), DONE % json.dumps(id_).encode()
    assert asked(world, client, sent) == [ToChain(agent.name, sent)]
    assert world.hub.open_turns == 1
    assert world.hub.waits("one")
    assert answered(world, agent, done) == [ToClient("one", done, "s")]
    assert world.hub.open_turns == 0
    assert not world.hub.waits("one")
    (line,) = answered(world, agent, done)
    assert isinstance(line, LogLine)  # nobody waits any more


def test_its_history_is_that_of_any_prompt() -> None:
    world, client, _ = begun()
    asked(world, client, frame())
    other = world.client("two")
    other.begin()
    other.ask("session/load", sessionId="s")
    shown = [one["content"] for one in updates(other.seen)]
    assert shown == [BLOCK, BLOCK]
    (info,) = world.hub.sessions
    assert info.history_bytes > 2 * len(json.dumps(BLOCK))


def test_who_attaches_meanwhile_hears_of_the_end() -> None:
    world, client, agent = begun()
    asked(world, client, frame())
    watching = world.client("two")
    watching.begin()
    watching.attach("s", role="viewer")
    answered(world, agent, DONE % b"7")
    (end,) = updates(watching.take())
    assert (end["sessionUpdate"], end["stopReason"]) == ("turn_complete", "end_turn")
    assert client.one()["id"] == 7
    client.take()
    asked(world, client, frame(8))  # it is not alone any more
    assert [kind_of(one) for one in watching.take()] == [
        "prompt_received",
        *["user_message_chunk"] * 2,
    ]


def test_a_viewer_alone_does_not_prompt() -> None:
    world, client, _ = begun()
    client.attach("s", role="viewer")
    (refused,) = asked(world, client, frame())
    assert isinstance(refused, ToClient)
    assert b"viewer" in refused.frame


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
    asked(world, client, sent)
    for one in agent.take():
        assert one["jsonrpc"] == "2.0"
        assert set(one) == {"jsonrpc", "id", "method", "params"}
        assert one["params"]["sessionId"] == "s"


def test_a_second_session_id_reaches_no_chain() -> None:
    world, client, _ = begun()
    sent = frame().replace(b'"sessionId":"s",', b'"sessionId":"t","sessionId":"s",')
    (passed,) = asked(world, client, sent)
    assert isinstance(passed, ToChain)
    assert passed.frame.count(b'"sessionId"') == 1


@pytest.mark.parametrize("broken", [b'"\xff"', b"[" * 600 + b"]" * 600])
def test_what_a_router_would_not_read_is_refused(broken: bytes) -> None:
    world, client, _ = begun()
    (refused,) = asked(world, client, frame().replace(b'"text"', broken, 1))
    assert isinstance(refused, ToClient)
    assert b'"error"' in refused.frame


def test_an_id_that_the_chain_has_stays_with_who_had_it() -> None:
    world, client, agent = begun(shares=True)
    other = world.client("two")
    other.begin()
    other.new(agent, "t")
    asked(world, client, frame(7))
    (mapped,) = asked(world, other, frame(7, "t"))
    assert isinstance(mapped, ToChain)
    id_ = json.loads(mapped.frame)["id"]
    assert id_ != 7
    assert answered(world, agent, DONE % b"%d" % id_) == [ToClient("two", DONE % b"7", "t")]
    assert answered(world, agent, DONE % b"7") == [ToClient("one", DONE % b"7", "s")]


def test_the_ids_of_a_hub_make_way_for_those_of_a_client() -> None:
    world, client, _ = begun()
    for id_ in range(100, 103):
        asked(world, client, frame(id_))
    sent = world.hub.from_client("one", b'{"id":1,"method":"_a"}', 0)
    first = json.loads(frame_of(sent))["id"]
    for id_ in range(first + 1, first + 4):
        asked(world, client, frame(id_))
    sent = world.hub.from_client("one", b'{"id":2,"method":"_b"}', 0)
    assert json.loads(frame_of(sent))["id"] == first + 4


def test_an_id_in_use_is_refused() -> None:
    world, client, _ = begun()
    asked(world, client, frame(7))
    assert b"still in use" in frame_of(asked(world, client, frame(7)))


def test_open_requests_are_bounded() -> None:
    world, client, _ = begun(limits=HubLimits(open_requests=3))
    effects = [asked(world, client, frame(id_))[0] for id_ in range(10, 14)]
    assert [type(one) for one in effects] == [ToChain, ToChain, ToChain, ToClient]


def test_a_cancellation_names_the_clients_id() -> None:
    world, client, agent = begun()
    asked(world, client, frame("p"))
    client.notify("$/cancel_request", requestId="p")
    assert [one.get("method") for one in agent.take()] == ["session/prompt", "$/cancel_request"]


def test_an_error_ends_the_turn() -> None:
    world, client, agent = begun()
    asked(world, client, frame(7))
    answered(world, agent, b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}')
    assert client.one()["error"] == {"code": 1, "message": "no"}
    assert world.hub.open_turns == 0


def test_a_chain_that_ends_answers_it() -> None:
    world, client, agent = begun()
    asked(world, client, frame(7))
    world.ended(agent)
    assert client.one()["id"] == 7
    assert world.hub.open_turns == 0


def test_who_has_left_gets_no_answer() -> None:
    world, client, agent = begun()
    asked(world, client, frame(7))
    other = world.client("two")
    other.begin()
    other.attach("s")
    world.left(client)
    answered(world, agent, DONE % b"7")
    assert updates(other.take())[-1]["sessionUpdate"] == "turn_complete"
    assert world.hub.open_turns == 0
