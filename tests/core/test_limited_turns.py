"""Version 2: an agent whose turns are limited, those that run in it, and how one is ended."""

import json
from typing import Any

from conductor.core import Closure, Component, agent_turns
from conductor.core.effects import Entry, Send
from conductor.core.router import Router, RouterOptions
from conductor.core.session import Session
from tests.harness.router.policed import (
    PROMPT,
    UPDATE,
    Json,
    initialize,
    notification,
    prompt,
    request,
    result,
    state,
    update,
)

REASON = Closure("nothing came from agent", "raise its `quiet=`")


def chain(version: int = 2, *, limited: bool = True, tracing: bool = False) -> Router:
    """A client and an agent, initialized, with a prompt open in `S`."""
    router = Router(
        [Component("agent", "agent", limited=limited)], options=RouterOptions(tracing=tracing)
    )
    initialize(router, [], version)
    say(router, "client", request("a", PROMPT, prompt("hi")))
    return router


def say(router: Router, peer: str, frame: Json) -> list[Any]:
    """A peer says something."""
    return router.receive(peer, json.dumps(frame).encode())


def answered(router: Router, member: str = "result") -> None:
    """The agent answers the prompt."""
    ((key, method),) = router.waiting_on("agent")
    assert method == PROMPT
    say(router, "agent", {**result(int(key.partition(b":")[2]), {}), member: {}})


def test_so_many_messages_are_remembered_that_prompts_may_be_sent_again() -> None:
    session = Session("S")
    for number in range(257):
        assert not agent_turns.repeats(session, f"k{number}", b'{"messageId":"m"}')
    assert agent_turns.repeats(session, "k256", b'{"messageId":"m"}')
    assert not agent_turns.repeats(session, "k0", b'{"messageId":"m"}')


def test_a_prompt_without_a_session_begins_no_turn() -> None:
    router = chain()
    answered(router)
    say(router, "client", request("b", PROMPT, {"prompt": []}))
    answered(router)
    assert len(router.turns("agent")) == 1


def test_odd_updates_say_nothing() -> None:
    router = chain()
    answered(router)
    for frame in (
        update("x"),
        notification(UPDATE, []),
        {"jsonrpc": "2.0", "method": UPDATE},
        notification(UPDATE, {"sessionId": 1, "update": {"sessionUpdate": "state_update"}}),
    ):
        say(router, "agent", frame)
        assert len(router.turns("agent")) == 1


def test_half_an_emoji_hides_no_state_and_no_session() -> None:
    router = chain()
    answered(router)
    half = {"_meta": {"a": "\ud83d"}}
    say(router, "agent", notification(UPDATE, {"sessionId": 1, "update": half, **half}))
    assert len(router.turns("agent")) == 1
    told = state("idle")
    say(router, "agent", {**told, "params": {**told["params"], **half}})
    assert router.turns("agent") == []
    say(router, "client", request("b", PROMPT, {**prompt("hi"), "sessionId": "\ud83d"}))
    answered(router)
    (key,) = router.turns("agent")
    out = [one.frame for one in router.end_turn("agent", key, REASON) if isinstance(one, Send)]
    assert [json.loads(frame)["params"]["sessionId"] for frame in out] == ["\ud83d", "\ud83d"]


def ended(router: Router) -> list[tuple[str, Json]]:
    """The frames that are sent when the turn is ended, each with its receiver."""
    (key,) = router.turns("agent")
    effects = router.end_turn("agent", key, REASON)
    return [(one.peer, json.loads(one.frame)) for one in effects if isinstance(one, Send)]


def test_a_session_whose_agent_does_not_stop_is_idle_all_the_same() -> None:
    router = chain()
    answered(router)
    ended(router)
    ((peer, idle),) = ended(router)
    assert peer == "client"
    assert idle["params"]["update"] == {
        "sessionUpdate": "state_update",
        "state": "idle",
        "stopReason": "cancelled",
    }
    assert router.turns("agent") == []


def test_a_trace_tells_that_it_was_the_conductor() -> None:
    router = chain(tracing=True)
    answered(router)
    (key,) = router.turns("agent")
    told = [one for one in router.end_turn("agent", key, REASON) if isinstance(one, Entry)]
    assert [(one.method, one.own) for one in told] == [("session/cancel", True), (UPDATE, True)]
