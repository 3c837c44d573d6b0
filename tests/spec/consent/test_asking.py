"""Questions as a playbook: which is asked when, and what follows an answer."""

import itertools
import json
from typing import Any

import pytest

from conductor.spec.consent.asking import (
    MOVES,
    PATIENCE,
    Agreed,
    Ask,
    Asking,
    Event,
    Narrow,
    Resume,
    State,
    Step,
    Wake,
)
from conductor.spec.consent.question import Answer, Question
from conductor.spec.trust import Agreement


def question(name: str) -> Question:
    """A question about a component."""
    agreement = Agreement(
        since=0, name=name, place=f"/x/{name}.wasm", sha256="ab" * 32, rights={"clock": "0"}
    )
    may, meanwhile = ("know the time",), ("context",)
    return Question(name, f"./{name}.wasm", f"key {name}", agreement, may, meanwhile)


A, B = question("a"), question("b")


def asking(*asked: Question) -> Asking:
    """Questions that wait for a prompt."""
    numbers = itertools.count()
    made = Asking(lambda: f"id {next(numbers)}")
    made.put(asked)
    return made


def chosen(answer: str) -> tuple[str, bytes]:
    """A client's answer."""
    outcome = {"outcome": "selected", "optionId": answer}
    return "result", json.dumps({"outcome": outcome}).encode()


def state_of(play: Asking) -> State:
    """The state now; mypy takes an attribute for unchanged by calls."""
    return play.state


def about(step: Step) -> Any:
    """The title of a question, other steps as they are."""
    if not isinstance(step, Ask):
        return step
    return json.loads(step.params)["toolCall"]["title"].split("`")[1]


def test_one_at_a_time_before_the_first_prompt_goes_on() -> None:
    play = asking(A, B)
    assert state_of(play) is State.WAITING
    first, wake = play.prompted("S", 1)
    assert (about(first), wake) == ("./a.wasm", Wake(1, PATIENCE))
    assert play.prompted("T", 1) == []
    agreed, second = play.answered(1, *chosen(Answer.VERSION.value))
    assert (agreed, about(second)) == (Agreed(A, lasting=True), "./b.wasm")
    assert state_of(play) is State.ASKING
    agreed_too = Agreed(B, lasting=False)
    assert play.answered(2, *chosen(Answer.SESSION.value)) == [agreed_too, Resume()]
    assert state_of(play) is State.DONE
    assert play.prompted("S", 1) == []


def test_narrow_is_an_answer_and_no_news() -> None:
    play = asking(A)
    play.prompted("S", 1)
    assert play.answered(1, *chosen(Answer.NARROW.value)) == [Narrow((A,), ""), Resume()]


@pytest.mark.proves("anything but yes is narrow")
@pytest.mark.parametrize(
    ("member", "body", "why"),
    [
        ("result", {"outcome": {"outcome": "cancelled"}}, "the question was dismissed"),
        ("result", {"outcome": {"outcome": "_new"}}, "the question was dismissed"),
        ("result", {"outcome": {"outcome": "selected", "optionId": "allow"}}, "does not have"),
        ("result", {"outcome": {"outcome": "selected"}}, "does not have"),
        ("result", {"outcome": "selected", "optionId": "allow-version"}, "cannot be read"),
        ("result", {"optionId": "allow-version"}, "cannot be read"),
        ("result", None, "cannot be read"),
        ("error", {"code": -32601, "message": "no"}, "has no way to ask"),
        ("error", {"code": -32603, "message": "no"}, "with error -32603"),
        ("error", chosen(Answer.VERSION.value)[1].decode(), "cannot be read"),
    ],
)
def test_what_is_no_choice_leaves_all_narrow(member: str, body: object, why: str) -> None:
    play = asking(A, B)
    play.prompted("S", 1)
    narrow, resume = play.answered(1, member, json.dumps(body).encode())
    assert isinstance(narrow, Narrow)
    assert (narrow.questions, resume) == ((A, B), Resume())
    assert why in narrow.why
    play.put([A, B])
    assert play.state is State.DONE  # nobody is asked twice


def test_a_prompt_does_not_wait_for_ever_and_a_late_answer_counts() -> None:
    play = asking(A, B)
    play.prompted("S", 1)
    assert play.expired(7) == []
    assert play.expired(1) == [Narrow((A, B), "nobody has answered yet"), Resume()]
    assert play.expired(1) == []
    late = play.answered(1, *chosen(Answer.SESSION.value))
    assert late[:2] == [Agreed(A, lasting=False), Resume()]
    assert about(late[2]) == "./b.wasm"
    assert play.answered(2, *chosen(Answer.NARROW.value)) == [Narrow((B,), ""), Resume()]
    assert state_of(play) is State.DONE


def test_answers_to_nothing_that_is_open_are_ignored() -> None:
    play = asking(A)
    assert play.answered(0, *chosen(Answer.VERSION.value)) == []
    play.prompted("S", 1)
    for token in (0, 2):
        assert play.answered(token, *chosen(Answer.VERSION.value)) == []
    play.answered(1, *chosen(Answer.NARROW.value))
    assert play.answered(1, *chosen(Answer.VERSION.value)) == []


def test_without_anybody_to_ask_all_stay_narrow() -> None:
    play = asking(A, B)
    assert play.unable("it is a proxy") == [Narrow((A, B), "it is a proxy")]
    assert play.unable("it is a proxy") == []
    assert state_of(play) is State.DONE


def test_other_components_bring_other_questions() -> None:
    play = asking(A)
    play.put([])
    assert state_of(play) is State.DONE
    play.put([B])
    first, _ = play.prompted("S", 1)
    assert about(first) == "./b.wasm"
    play.put([A, B])
    assert state_of(play) is State.ASKING
    _, second = play.answered(1, *chosen(Answer.NARROW.value))
    assert about(second) == "./a.wasm"
    play.put([])  # settled elsewhere, by `conductor trust`
    assert state_of(play) is State.DONE
    assert play.answered(2, *chosen(Answer.VERSION.value)) == []


def test_every_state_can_be_reached_and_left() -> None:
    assert {before for before, _ in MOVES} == set(MOVES.values()) == set(State)
    assert {event for _, event in MOVES} == set(Event)
