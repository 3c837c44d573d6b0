"""Cancellations: they reach the agent at once, and whoever holds the prompt they are about."""

from __future__ import annotations

import pytest

from conductor.core import Closure
from conductor.core.policy.turns import GRACE
from tests.harness.router.policed import (
    CANCELLED,
    CARRY_TEXT,
    DONE,
    KINDS,
    PERMISSION,
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
    heard,
    lacks,
    mode,
    notification,
    passed,
    permission,
    prompt,
    refused,
    request,
    result,
    returned,
    settled,
    skip,
    stop,
    update,
    wrapped,
)

CARRIES = "down:session/prompt:carry+answer+amend"
GONE = Closure("proxy `g` died")
REFUSED = (-32800, "Request cancelled")


def stopped(pb: Playbook) -> None:
    """The client cancels what `g` holds: both hear of it."""
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


@pytest.mark.parametrize("how", ["stop", "close"])
def test_in_version_2_the_prompt_was_not_inserted(how: str) -> None:
    with chain(CARRIES, version=2) as pb:
        given(pb)
        if how == "stop":
            stopped(pb)
        else:
            pb >> ("client", request("c", "session/close", {"sessionId": "S"}))
            pb << ("g", "p", notification("session/cancel", {"sessionId": "S"}))
            pb << ("agent", request(Hole("c"), "session/close", {"sessionId": "S"}))
        pb.wake(GRACE)
        pb << ("client", error("a", *REFUSED))


@pytest.mark.proves("a prompt that is cancelled while")
def test_whatever_it_answers_the_user_sees_a_cancelled_turn() -> None:
    for answer in (result(Hole("g-a"), {"stopReason": "refusal"}), error(Hole("g-a"), 1, "no")):
        with chain(CARRIES) as pb:
            given(pb)
            stopped(pb)
            pb >> ("g", "p", answer) << ("client", result("a", CANCELLED))


def test_only_the_prompts_of_that_session_that_it_holds_now() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        given(pb, "hi", "t", "T")
        stopped(pb)
        pb.wake(GRACE)
        pb << ("client", result("a", CANCELLED))
        passed(pb, "hi", "t", "T")
        pb >> ("client", notification("session/cancel", {}))
        pb << ("agent", notification("session/cancel", {}))


@pytest.mark.parametrize("how", ["grace", "answered", "again"])
@pytest.mark.parametrize("by", ["session", "request"])
def test_an_answer_it_holds_goes_on_as_it_came(how: str, by: str) -> None:
    """It neither keeps the user waiting nor asks the agent again, once that is cancelled."""
    with chain(CARRIES) as pb:
        returned(pb)
        if by == "session":
            stopped(pb)
        else:
            pb >> ("client", cancel("a")) << ("g", "p", cancel(pb.values["g-a"]))
        if how == "grace":
            pb.wake(GRACE)
        elif how == "answered":
            pb >> ("g", "p", result(Hole("g-a"), {"stopReason": "refusal"}))
        else:
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("again")))
            pb << ("g", "s", result(Hole("g-a"), DONE))
        pb << ("client", result("a", DONE))
        assert settled(pb.router)


@pytest.mark.parametrize("by", ["session", "request"])
def test_the_answer_to_a_cancelled_one_is_held_no_longer_than_that(by: str) -> None:
    """It was cancelled when the agent had it."""
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


def test_each_in_the_chain_that_holds_one() -> None:
    """The first has passed its prompt on, to the second, and holds another."""
    with chain_of(guest(CARRIES, name="f"), guest(CARRIES)) as pb:
        for asked in ("a", "b"):
            pb >> ("client", request(asked, PROMPT, prompt(asked)))
            pb << ("f", "p", request(Hole(f"f-{asked}"), PROMPT, prompt(asked)))
        pb >> ("f", "s", request(Hole("f-a"), PROMPT, prompt("a")))
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("a")))
        pb >> ("client", stop())
        pb << ("f", "p", stop()) << ("g", "p", stop()) << ("agent", stop())
        pb.wake(GRACE)
        pb << ("client", result("b", CANCELLED)) << ("f", "s", result(Hole("f-a"), CANCELLED))
        pb >> ("f", "p", result(Hole("f-a"), CANCELLED)) << ("client", result("a", CANCELLED))


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


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.parametrize("profile", ["none", "observer"])
def test_closing_a_session_ends_its_turns_and_waits_for_none(method: str, profile: str) -> None:
    with chain(CARRIES, profile=profile) as pb:
        given(pb)
        pb >> ("client", request("c", method, {"sessionId": "S"}))
        if profile == "observer":
            pb << ("g", "p", request(Hole("copy"), method, {"sessionId": "S"}))
        pb << ("g", "p", stop()) << ("agent", request(Hole("c"), method, {"sessionId": "S"}))
        pb >> ("g", "p", error(Hole("g-a"), 1, "no")) << ("client", result("a", CANCELLED))
        pb >> ("agent", result(Hole("c"), {})) << ("client", result("c", {}))
        pb >> ("client", request("d", method, {"sessionId": "S"}))
        if profile == "observer":
            pb << ("g", "p", request(Hole("copy2"), method, {"sessionId": "S"}))
        pb << ("agent", request(Hole("d"), method, {"sessionId": "S"}))


@pytest.mark.parametrize("how", ["closed", "bypassed", "leaving"])
def test_a_component_that_dies_in_its_grace_leaves_it_answered(how: str) -> None:
    with chain(CARRIES) as pb:
        given(pb)
        stopped(pb)
        pb >> (lambda router: getattr(router, how)("g", GONE))
        pb << ("client", result("a", CANCELLED))
        skip(pb)
        pb.wake(GRACE)
        assert settled(pb.router)


def test_who_asked_is_gone_before_the_grace_is_over() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        stopped(pb)
        pb >> (lambda router: router.closed("client", Closure("gone")))
        pb << ("g", "p", cancel(Hole("g-a")))
        pb.wake(GRACE)
        assert settled(pb.router)


# -- one request ---------------------------------------------------------------------------------


def test_a_request_it_holds_is_cancelled_by_its_id() -> None:
    with chain("down:_x:carry", CARRIES, grants="methods=_x") as pb:
        pb >> ("client", request("a", "_x", {})) << ("g", "p", request(Hole("g-a"), "_x", {}))
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
        pb >> ("g", "s", request(Hole("g-a"), "_x", {}))
        pb << ("g", "s", error(Hole("g-a"), *REFUSED)) << ("client", error("a", *REFUSED))


def test_cancelling_reaches_the_agent_whatever_the_component_does_about_it() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        passed(pb)
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
        pb << ("agent", cancel(Hole("a-a")))
        pb >> ("g", "s", cancel(Hole("g-a")))
        pb >> ("client", cancel("a"))


def test_what_goes_past_is_cancelled_past() -> None:
    with chain(CARRIES) as pb:
        pb >> ("client", request("a", "_x", {})) << ("agent", request(Hole("a-a"), "_x", {}))
        pb >> ("client", cancel("a")) << ("agent", cancel(Hole("a-a")))


def test_a_copy_is_cancelled_with_the_original_and_never_the_original_with_it() -> None:
    with chain(profile="observer") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("c"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb >> ("g", "s", request(Hole("c"), PROMPT, prompt("hi"))) >> ("g", "s", cancel(Hole("c")))
        pb >> ("client", cancel("a"))
        pb << ("agent", cancel(Hole("a-a"))) << ("g", "p", cancel(Hole("c")))


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


def test_it_may_cancel_for_one_who_is_gone() -> None:
    with chain("up:session/request_permission:copy", grants="permission=narrow") as pb:
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("g", "s", request(Hole("g-q"), PERMISSION, permission()))
        pb >> ("g", "p", request(Hole("g-q"), PERMISSION, permission()))
        pb << ("client", request(Hole("c-q"), PERMISSION, permission()))
        pb >> (lambda router: router.closed("agent", GONE))
        assert any("$/cancel_request" in str(one) for one in skip(pb))
        pb >> ("g", "p", cancel(Hole("g-q")))
        pb >> ("client", result(Hole("c-q"), {})) << ("g", "p", result(Hole("g-q"), {}))
        pb >> ("g", "s", result(Hole("g-q"), {}))
        assert settled(pb.router)


def test_a_queued_request_behind_another_is_cancelled_where_it_waits() -> None:
    """What goes past waits for its turn, and its cancellation with it."""
    with chain(CARRIES) as pb:
        given(pb)
        pb >> ("client", request("m", "session/set_mode", mode())) >> ("client", cancel("m"))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))
        pb << ("agent", cancel(Hole("m")))


def option() -> Json:
    """The params of a choice that a component may carry."""
    return {"sessionId": "S", "configId": "effort", "value": "high"}


def test_one_that_was_cancelled_before_a_component_got_it_is_cancelled_behind_that() -> None:
    with chain_of(guest(CARRIES, name="f"), guest(grants="options")) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("client", request("m", "session/set_config_option", option()))
        pb >> ("client", cancel("m"))
        pb >> ("f", "s", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g-m"), "session/set_config_option", option()))
        pb << ("g", "p", cancel(Hole("g-m")))
        pb >> ("g", "s", request(Hole("g-m"), "session/set_config_option", option()))
        pb << ("agent", request(Hole("m"), "session/set_config_option", option()))
        pb << ("agent", cancel(Hole("m")))


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
    """It goes past who has a setting of its session."""
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


def test_rounds_change_nothing_about_it() -> None:
    with chain(CARRIES) as pb:
        pb >> heard
        given(pb)
        pb >> heard
        stopped(pb)
        pb >> heard
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb << ("g", "s", result(Hole("g-a"), CANCELLED)) << ("client", result("a", CANCELLED))
        assert settled(pb.router)


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


@pytest.mark.parametrize("swapped", [False, True])
def test_with_one_that_carries_text_beside_one_that_holds_the_prompt(swapped: bool) -> None:
    names = {"f": (CARRY_TEXT,), "g": (CARRIES,)}
    order = ["g", "f"] if swapped else ["f", "g"]
    told: Json = stop()
    with chain_of(*(guest(*names[name], name=name) for name in order)) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        if not swapped:
            pb << ("f", "p", request(Hole("copy"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> ("agent", update("before")) << ("f", "s", update("before"))
        pb >> ("client", told) << ("g", "p", told) << ("agent", told)
        pb >> ("f", "p", update("before")) << ("client", update("before"))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", CANCELLED))
        pb.wake()
        assert settled(pb.router)


def test_refused_is_told_to_who_asks_under_another_id_then() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        stopped(pb)
        pb >> ("g", "s", request("fresh", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "fresh")
        pb.wake(GRACE)
        pb << ("client", result("a", CANCELLED))


@pytest.mark.parametrize("rule", ["copy", "carry"])
def test_one_that_is_started_again_hears_of_no_cancellation_of_what_it_had(rule: str) -> None:
    with chain(f"down:{PROMPT}:{rule}") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        skip(pb)
        if rule == "carry":
            pb >> ("g", "s", request(2, PROMPT, prompt("hi")))
            skip(pb)
        pb >> (lambda r: r.leaving("g", Closure("gone")))
        pb >> ("client", cancel("a")) << ("agent", cancel(2))
