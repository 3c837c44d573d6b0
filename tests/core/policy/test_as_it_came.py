"""A message that a guest returns as it came is not read, but treated as if it were."""

import json
from collections.abc import Callable

import pytest

from conductor.core import Entry
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    PROMPT,
    Hole,
    Json,
    Noted,
    broke,
    came_back,
    cancel,
    chain,
    chain_of,
    error,
    given,
    guest,
    heard,
    lacks,
    passed,
    prompt,
    request,
    result,
    returned,
    update,
)

CARRIES = "down:session/prompt:carry"
AMENDS = "down:session/prompt:carry+amend"


def plain(side: str, message: Json) -> bytes:
    """A message as the router writes it: with the params, or the result, as they came."""
    members = (f'"{name}":{json.dumps(value)}' for name, value in message.items())
    return f"{side}{{{','.join(members)}}}".encode()


def spelled(side: str, message: Json) -> bytes:
    """A message of a side in other bytes."""
    return side.encode() + json.dumps(message).encode() + b" "


def with_newline(side: str, message: Json) -> bytes:
    """A message of a side as the host's splitter may leave it."""
    return plain(side, message) + b"\n"


SPELLINGS = pytest.mark.parametrize("spell", [plain, spelled, with_newline])
Spell = Callable[[str, Json], bytes]


@SPELLINGS
def test_a_prompt_is_not_passed_on_under_an_id_that_is_in_use(spell: Spell) -> None:
    with chain(CARRIES, grants="methods=_own") as pb:
        pb >> ("g", "s", request(2, "_own")) << ("agent", request(Hole("own"), "_own"))
        given(pb)
        pb >> ("g", spell("s", request(2, PROMPT, prompt("hi"))))
        pb << Noted("warning", "g", "still in use")
        pb << ("g", "s", error(None, -32600, "request id 2 is still in use"))


@SPELLINGS
def test_the_same_update_is_passed_on_once(spell: Spell) -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> ("agent", update("one")) << ("g", "s", update("one"))
        pb >> ("g", spell("p", update("one"))) << ("client", update("one"))
        pb >> ("g", spell("p", update("one")))
        lacks(pb, "originate", "session/update[agent_message_chunk]")


@SPELLINGS
def test_what_is_passed_on_after_its_round_goes_on_once(spell: Spell) -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> ("agent", update("one")) << ("g", "s", update("one"))
        pb >> heard
        pb >> ("g", spell("p", update("one"))) << ("client", update("one"))
        pb >> ("g", spell("p", update("one")))
        lacks(pb, "originate", "session/update[agent_message_chunk]")


def test_what_is_passed_on_in_its_round_drops_what_was_swallowed_before() -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> ("agent", update("one")) << ("g", "s", update("one"))
        pb >> heard
        pb >> ("agent", update("two")) << ("g", "s", update("two"))
        pb >> ("g", plain("p", update("two"))) << ("client", update("two"))
        pb >> ("g", plain("p", update("one")))
        lacks(pb, "originate", "session/update[agent_message_chunk]")


@SPELLINGS
def test_an_answer_that_was_cancelled_meanwhile_is_replied_once(spell: Spell) -> None:
    with chain(AMENDS) as pb:
        pb >> heard  # it has rounds
        returned(pb)
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
        pb >> ("g", spell("p", result(pb.values["g-a"], DONE))) << ("client", result("a", DONE))


@SPELLINGS
def test_a_prompt_that_returns_to_where_it_came_from_is_a_request_of_its_own(
    spell: Spell,
) -> None:
    with chain(AMENDS) as pb:
        given(pb)
        pb >> ("g", spell("p", request(pb.values["g-a"], PROMPT, prompt("hi"))))
        lacks(pb, "originate", PROMPT)
        pb << ("g", "p", Hole("refused"))
        passed(pb)
        came_back(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def test_an_answer_that_was_lost_is_the_components_own_if_it_says_the_same() -> None:
    with chain(AMENDS) as pb:
        returned(pb)
        frame = plain("s", result(pb.values["g-a"], DONE))
        pb >> (lambda router: router.undeliverable("g", frame, "too long"))
        pb << Noted("warning", "g", "not delivered: too long")
        pb << ("g", "s", error(Hole("g-a"), -32603, "the answer could not be delivered: too long"))
        pb >> ("g", b"p" + frame[1:]) << ("client", result("a", DONE))


def test_an_answer_too_early_is_a_violation_in_any_spelling() -> None:
    with chain(AMENDS) as pb:
        given(pb)
        passed(pb)
        pb >> ("g", plain("p", result(pb.values["g-a"], DONE)))
        broke(pb, "identity", "too early")
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb << ("client", result("a", DONE))


def test_a_trace_says_the_same_of_what_returns_as_it_came_and_of_other_bytes() -> None:
    def traced(spell: Spell) -> list[Entry]:
        with chain_of(guest(AMENDS), tracing=True) as pb:
            steps = [
                ("client", spelled("", request("a", PROMPT, prompt("hi")))),
                ("g", spell("s", request(2, PROMPT, prompt("hi")))),
                ("agent", spelled("", result(2, DONE))),
                ("g", spell("p", result(2, DONE))),
            ]
            effects = [one for name, line in steps for one in pb.router.receive(name, line)]
        return [one for one in effects if isinstance(one, Entry)]

    assert [one.kind for one in traced(plain)] == ["request"] * 2 + ["response"] * 2
    assert traced(plain) == traced(spelled)
