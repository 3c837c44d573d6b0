"""Cancellations: they reach the agent at once, and whoever holds the prompt they are about."""

import pytest

from conductor.core.policy.cancellations import GRACE
from tests.harness.router.policed import (
    CANCELLED,
    DONE,
    KINDS,
    PROMPT,
    Hole,
    Json,
    Playbook,
    broke,
    came_back,
    cancel,
    chain,
    chain_of,
    error,
    given,
    guest,
    lacks,
    mode,
    passed,
    prompt,
    refused,
    request,
    result,
    settled,
    skip,
    stop,
    wrapped,
)

CARRIES = "down:session/prompt:carry+answer+amend"
REFUSED = (-32800, "Request cancelled")


def stopped(pb: Playbook) -> None:
    """The client cancels a request that `g` holds: `g` and the agent hear of it."""
    pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())


@pytest.mark.proves("a prompt that is cancelled while")
def test_who_holds_the_prompt_hears_of_it_and_the_agent_never_hears_of_the_prompt() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        stopped(pb)
        pb >> ("g", "s", stop())  # which it passes on: that has gone past it
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb << ("g", "s", result(Hole("g-a"), CANCELLED)) << ("client", result("a", CANCELLED))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        assert settled(pb.router)
        # The next one of equal bytes is the next one.
        given(pb, asked="b")
        passed(pb, asked="b")


@pytest.mark.proves("a prompt that is cancelled while")
def test_whatever_it_answers_the_user_sees_a_cancelled_turn() -> None:
    for answer in (result(Hole("g-a"), {"stopReason": "refusal"}), error(Hole("g-a"), 1, "no")):
        with chain(CARRIES) as pb:
            given(pb)
            stopped(pb)
            pb >> ("g", "p", answer) << ("client", result("a", CANCELLED))


@pytest.mark.parametrize("by", ["session", "request"])
def test_the_answer_to_a_cancelled_one_is_held_no_longer_than_that(by: str) -> None:
    """The request was cancelled when the agent had it."""
    with chain(CARRIES) as pb:
        given(pb)
        passed(pb)
        if by == "session":
            pb >> ("client", stop()) << ("agent", stop())
        else:
            pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
            pb << ("agent", cancel(Hole("a-a")))
        came_back(pb, CANCELLED)
        pb.wake(GRACE)
        broke(pb, "hold", f"held `{PROMPT}` for more than 2 s")
        pb << ("client", result("a", CANCELLED))
        assert settled(pb.router)


@pytest.mark.proves("a prompt that is cancelled while")
def test_who_holds_nothing_of_it_hears_nothing() -> None:
    with chain(CARRIES) as pb:
        given(pb, "hi", "t", "T")
        pb >> ("client", stop()) << ("agent", stop())


@pytest.mark.parametrize("profile", ["observer", "full"])
def test_who_gets_copies_gets_one(profile: str) -> None:
    with chain(profile=profile) as pb:
        pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
        pb >> ("g", "s", stop())
        pb >> ("g", "s", stop())
        lacks(pb, "originate", "session/cancel")


def test_settings_that_waited_behind_it_follow_when_it_is_over() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        pb >> ("client", request("m", "session/set_mode", mode()))
        stopped(pb)
        pb >> ("client", request("n", "session/set_mode", mode("T")))
        pb << ("agent", request(Hole("n"), "session/set_mode", mode("T")))
        pb.wake(GRACE)
        pb << ("client", result("a", CANCELLED))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))


# -- one request ---------------------------------------------------------------------------------


def test_cancelling_reaches_the_agent_whatever_the_component_does_about_it() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        passed(pb)
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
        pb << ("agent", cancel(Hole("a-a")))
        pb >> ("g", "s", cancel(Hole("g-a")))
        pb >> ("client", cancel("a"))


def test_nobody_else_cancels_what_others_have_asked() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        passed(pb)
        for again in (False, True):
            pb >> ("g", "s", cancel(Hole("g-a")))
            broke(
                pb, "rights", "may not cancel `session/prompt` that it has passed on", again=again
            )
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        # An id of nothing that is open is nobody's, wherever it is open else.
        pb >> ("g", "s", cancel(Hole("g-a"))) >> ("g", "p", cancel("a")) >> ("g", "s", cancel("a"))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))


def option() -> Json:
    """The params of a choice that a component may carry."""
    return {"sessionId": "S", "configId": "effort", "value": "high"}


@pytest.mark.parametrize("late", [False, True])
def test_who_gets_one_that_was_cancelled_before_has_its_grace(late: bool) -> None:
    with chain_of(guest(CARRIES, name="f"), guest(grants="options")) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("client", request("m", "session/set_config_option", option()))
        pb >> ("client", cancel("m"))
        pb >> ("f", "s", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g-m"), "session/set_config_option", option()))
        pb << ("g", "p", cancel(Hole("g-m")))
        if late:
            pb.wake(GRACE)
            pb << ("client", error("m", *REFUSED))
        else:
            pb >> ("g", "s", request(Hole("g-m"), "session/set_config_option", option()))
            pb << ("agent", request(Hole("m"), "session/set_config_option", option()))
            pb << ("agent", cancel(Hole("m")))
            pb.wake(GRACE)
            pb >> ("agent", result(Hole("m"), {})) << ("g", "s", result(Hole("g-m"), {}))
            pb >> ("g", "p", result(Hole("g-m"), {})) << ("client", result("m", {}))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", ["stop", "close"])
def test_a_prompt_that_waits_in_order_does_not_begin_behind_its_cancellation(
    how: str, version: int
) -> None:
    """The prompt goes past a component that has a setting of its session."""
    with chain(grants="options", version=version) as pb:
        pb >> ("client", request("m", "session/set_config_option", option()))
        pb << ("g", "p", request(Hole("g-m"), "session/set_config_option", option()))
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb >> ("client", request("other", PROMPT, {**prompt("hi"), "sessionId": "T"}))
        pb << ("agent", request(Hole("other"), PROMPT, {**prompt("hi"), "sessionId": "T"}))
        if how == "stop":
            pb >> ("client", stop())
        else:
            pb >> ("client", request("c", "session/close", {"sessionId": "S"}))
        pb << ("client", result("a", CANCELLED) if version == 1 else error("a", *REFUSED))
        if how == "stop":
            pb << ("agent", stop())
        pb >> ("g", "s", request(Hole("g-m"), "session/set_config_option", option()))
        pb << ("agent", request(Hole("m"), "session/set_config_option", option()))
        if how == "close":
            pb << ("agent", request(Hole("c"), "session/close", {"sessionId": "S"}))


# -- rounds, programs, several -----------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_of_its_own_ids(kind: str) -> None:
    with chain(CARRIES, kind=kind) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("client", stop()) << ("g", stop()) << ("agent", stop())
        pb >> ("g", wrapped(kind, request("m", PROMPT, prompt("hi"))))
        pb << ("g", result("m", CANCELLED)) << ("client", result("a", CANCELLED))
        pb >> ("g", wrapped(kind, request("n", PROMPT, prompt("hi"))))
        lacks(pb, "originate", PROMPT)
        skip(pb)


def test_refused_is_told_to_who_asks_under_another_id_then() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        stopped(pb)
        pb >> ("g", "s", request("fresh", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "fresh")
        pb.wake(GRACE)
        pb << ("client", result("a", CANCELLED))
