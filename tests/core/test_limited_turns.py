"""Version 2: an agent whose turns are limited, those that run in it, and how one is ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conductor.core import Closure, Component, agent_turns
from conductor.core.effects import Entry, Send
from conductor.core.router import Router, RouterOptions
from conductor.core.session import Session
from tests.harness.router.policed import (
    PROMPT,
    UPDATE,
    Json,
    guest,
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


def test_a_turn_runs_once_its_prompt_is_accepted_and_until_it_is_idle() -> None:
    router = chain()
    assert router.turns("agent") == []
    answered(router)
    assert len(router.turns("agent")) == 1
    say(router, "agent", state("running"))
    assert len(router.turns("agent")) == 1
    say(router, "agent", state("idle"))
    assert router.turns("agent") == []


def test_so_many_messages_are_remembered_that_prompts_may_be_sent_again() -> None:
    session = Session("S")
    for number in range(257):
        assert not agent_turns.repeats(session, f"k{number}", b'{"messageId":"m"}')
    assert agent_turns.repeats(session, "k256", b'{"messageId":"m"}')
    assert not agent_turns.repeats(session, "k0", b'{"messageId":"m"}')


def test_a_session_that_waits_for_the_user_is_not_quiet() -> None:
    router = chain()
    answered(router)
    say(router, "agent", state("requires_action"))
    assert router.turns("agent") == []
    say(router, "agent", state("running"))
    assert len(router.turns("agent")) == 1


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_limit_and_in_version_1_nothing_is_watched(version: int) -> None:
    router = chain(version, limited=version == 1)
    answered(router)
    say(router, "agent", state("running"))
    assert router.turns("agent") == []


def test_a_refused_prompt_begins_no_turn() -> None:
    router = chain()
    ((key, _),) = router.waiting_on("agent")
    error = {"code": -32000, "message": "no"}
    id_ = int(key.partition(b":")[2])
    say(router, "agent", {"jsonrpc": "2.0", "id": id_, "error": error})
    assert router.turns("agent") == []


def test_a_prompt_that_is_refused_while_a_turn_runs_ends_nothing() -> None:
    router = chain()
    answered(router)
    say(router, "client", request("b", PROMPT, prompt("too")))
    ((key, _),) = router.waiting_on("agent")
    error = {"code": -32000, "message": "busy"}
    id_ = int(key.partition(b":")[2])
    say(router, "agent", {"jsonrpc": "2.0", "id": id_, "error": error})
    assert len(router.turns("agent")) == 1


def test_a_prompt_without_a_session_begins_no_turn() -> None:
    router = chain()
    answered(router)
    say(router, "client", request("b", PROMPT, {"prompt": []}))
    answered(router)
    assert len(router.turns("agent")) == 1


@pytest.mark.parametrize("reason", ["end_turn", "cancelled"])
def test_a_prompt_whose_answer_says_why_its_turn_ended_has_none(reason: str) -> None:
    router = chain()
    ((key, _),) = router.waiting_on("agent")
    say(router, "agent", result(int(key.partition(b":")[2]), {"stopReason": reason}))
    assert router.turns("agent") == []


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
    """What is sent to whom when the turn is ended."""
    (key,) = router.turns("agent")
    effects = router.end_turn("agent", key, REASON)
    return [(one.peer, json.loads(one.frame)) for one in effects if isinstance(one, Send)]


def test_everybody_hears_why_a_turn_ends() -> None:
    router = chain()
    answered(router)
    stop, notice = ended(router)
    assert stop == ("agent", notification("session/cancel", {"sessionId": "S"}))
    said = {"severity": "error", "title": REASON.text, "description": REASON.hint}
    held = {"sessionId": "S", "update": {"sessionUpdate": "notice", **said}}
    assert notice == ("client", notification(UPDATE, held))
    say(router, "agent", state("running"))
    say(router, "agent", state("idle"))  # that is how an agent stops
    assert router.turns("agent") == []


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


def test_a_turn_that_is_over_before_its_answer_is_passed_on_is_over() -> None:
    """A component that carries text may hold the answer up."""
    guarded = guest(f"up:{UPDATE}[agent_message_chunk]:carry")
    agent = Component("agent", "agent", limited=True)
    router = Router([guarded, agent])
    initialize(router, [guarded], 2)
    say(router, "client", request("a", PROMPT, prompt("hi")))
    ((key, _),) = router.waiting_on("agent")
    id_ = int(key.partition(b":")[2])
    for said in (update("held"), result(id_, {}), state("running"), state("idle")):
        say(router, "agent", said)
    assert router.turns("agent") == []
