"""Prompts of a component's own: when it may send them, and who hears the updates in such turns."""

import pytest

from conductor.core import Closure, Component, guards
from conductor.core.effects import Violated
from conductor.core.policy.rules import Policy
from conductor.core.session import MOST_PROMPTS
from conductor.core.turn_queue import LAST_WORDS, MOST_WAIT
from conductor.core.waits import ROUND
from tests.harness.router.playbook import Noted
from tests.harness.router.policed import (
    CANCELLED,
    DONE,
    PERMISSION,
    PROMPT,
    UPDATE,
    Hole,
    Json,
    Playbook,
    broke,
    chain,
    chain_of,
    given,
    guest,
    heard,
    lacks,
    notification,
    passed,
    permission,
    prompt,
    refused,
    request,
    result,
    settled,
    skip,
    state,
    stop,
    tool_call,
    update,
)

GONE = Closure("gone")
TWICE = b'{"sessionId":"T","sessionId":"S"}'
CARRIES = "down:session/prompt:carry+amend"
WITHIN: Json = {"grants": "turns=within"}


def own(pb: Playbook, id_: str = "own", text: str = "mine", session: str = "S") -> None:
    """The component sends a prompt of its own, and the agent gets it."""
    pb >> ("g", "s", request(id_, PROMPT, prompt(text, session)))
    pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, prompt(text, session)))


def over(pb: Playbook, id_: str = "own") -> None:
    """The agent answers that prompt, and only the component gets the answer."""
    pb >> ("agent", result(Hole(f"a-{id_}"), DONE)) << ("g", "s", result(id_, DONE))


def test_a_prompt_of_its_own_within_the_user_s_turn() -> None:
    """Updates in it are for the component alone; questions to the user are not, nor updates once
    the user is asked."""
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> ("agent", update("hidden")) << ("g", "s", update("hidden"))
        hint = {"sessionUpdate": "prompt_suggestions_update", "suggestions": []}
        hint = notification(UPDATE, {"sessionId": "S", "update": hint})
        pb >> ("agent", hint) << ("g", "s", hint)
        pb >> ("agent", tool_call("t")) << ("g", "s", tool_call("t"))
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("client", tool_call("t"))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        pb >> ("agent", tool_call("u")) << ("client", tool_call("u"))
        over(pb)
        passed(pb)
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        assert settled(pb.router)


@pytest.mark.parametrize("when", ["before", "passed", "after"])
def test_outside_the_user_s_turn_it_is_refused(when: str) -> None:
    with chain(CARRIES, **WITHIN) as pb:
        if when != "before":
            given(pb)
            passed(pb)
        if when == "after":
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
            own(pb)  # it still holds the answer: that is within
            over(pb)
            pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        broke(pb, "turns", "may prompt the agent only within a turn of the user's")
        refused(pb, "own", "`,allow=prompt:anytime` lets it")


def test_without_the_grant_it_is_refused_with_the_rule_of_ids() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        pb >> ("g", "s", request("fresh", PROMPT, prompt("hi")))
        lacks(pb, "originate", PROMPT)
        rule = f"passed on under the id it came with ({pb.values['g-a']})"
        refused(pb, "fresh", "`,allow=prompt:within` lets it", rule)
        pb >> ("g", "s", request("other", PROMPT, prompt("hi", "T")))
        lacks(pb, "originate", PROMPT, again=True)
        answer = refused(pb, "other")
        assert "came with" not in answer["error"]["message"]


def test_so_many_in_one_turn() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        for asked in ("a", "b"):
            given(pb, asked=asked)
            for number in range(MOST_PROMPTS):
                own(pb, f"{asked}-{number}")
                over(pb, f"{asked}-{number}")
            pb >> ("g", "s", request("more", PROMPT, prompt("mine")))
            text = f"it has {MOST_PROMPTS} with each of these"
            broke(pb, "turns", text, again=asked == "b")
            refused(pb, "more")
            pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
            pb.wake(2.0)
            pb << ("client", result(asked, CANCELLED))


def test_one_at_a_time() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> ("g", "s", request("second", PROMPT, prompt("mine")))
        broke(pb, "turns", "one prompt of its own in a session at a time")
        refused(pb, "second")
        given(pb, "hi", "t", "T")
        own(pb, "third", session="T")
        pb >> ("g", "s", request("fourth", PROMPT, {"prompt": []}))
        broke(pb, "turns", again=True)
        refused(pb, "fourth")


def test_it_may_cancel_its_own() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> ("g", "s", stop()) << ("agent", stop())
        pb >> ("g", "s", notification("$/cancel_request", {"requestId": "own"}))
        pb << ("agent", notification("$/cancel_request", {"requestId": pb.values["a-own"]}))
        pb >> ("agent", result(Hole("a-own"), CANCELLED)) << ("g", "s", result("own", CANCELLED))
        pb >> ("g", "s", stop())
        lacks(pb, "originate", "session/cancel")


def test_a_copy_of_a_cancellation_is_not_taken_for_a_later_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A component with the right can cancel each turn, whatever it was shown in those before."""
    monkeypatch.setattr(guards, "originated", lambda *_: None)
    with chain("down:session/cancel:copy+originate", CARRIES) as pb:
        given(pb)
        passed(pb)
        pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
        pb >> ("g", "s", stop())  # a copy comes back, or one for a turn that is cancelled
        pb >> ("client", stop()) << ("g", "p", stop()) << ("agent", stop())
        pb >> ("agent", result(Hole("a-a"), CANCELLED))
        skip(pb)
        given(pb, asked="b")
        passed(pb, asked="b")
        pb.wake(ROUND)
        pb >> ("g", "s", stop()) << ("agent", stop())


def test_the_text_of_the_user_s_own_turn_is_shown_whatever_else_still_runs() -> None:
    """The component is gone: its own turn runs on, and the user's prompt goes on without it."""
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> (lambda router: router.leaving("g", GONE))
        skip(pb)
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        pb >> ("agent", result(Hole("a-own"), CANCELLED))
        pb >> ("agent", update("shown")) << ("client", update("shown"))


def test_text_in_the_sessions_of_sub_agents_is_hidden_with_it() -> None:
    told: Json = {"sessionId": "S", "update": {"sessionUpdate": "subagent_update"}}
    told["update"]["sessionId"] = "S/1"
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> ("agent", notification(UPDATE, told)) << ("client", notification(UPDATE, told))
        pb >> ("agent", update("hidden", "S/1")) << ("g", "s", update("hidden", "S/1"))
        pb >> ("agent", update("other", "T")) << ("client", update("other", "T"))
        pb >> ("agent", update("none", None)) << ("client", update("none", None))
        over(pb)
        pb >> ("agent", update("shown", "S/1")) << ("client", update("shown", "S/1"))


# -- version 2 -----------------------------------------------------------------------------------

INSERTED: Json = {"messageId": "m"}


def test_in_version_2_a_turn_ends_when_the_session_is_idle() -> None:
    with chain(CARRIES, version=2, **WITHIN) as pb:
        given(pb)
        own(pb)
        pb >> ("agent", state("idle")) << ("client", state("idle"))  # of the turn before
        pb >> ("agent", result(Hole("a-own"), INSERTED)) << ("g", "s", result("own", INSERTED))
        # To the user, the user's turn runs on: the end of this turn is for the component.
        pb >> ("agent", state("running")) << ("g", "s", state("running"))
        pb >> ("agent", update("hidden")) << ("g", "s", update("hidden"))
        pb >> ("g", "s", request("second", PROMPT, prompt("mine")))
        broke(pb, "turns", "one prompt of its own in a session at a time")
        refused(pb, "second")
        odd = notification(UPDATE, {"sessionId": "S", "update": {"sessionUpdate": "state_update"}})
        odd["params"]["update"]["state"] = 1
        pb >> ("agent", odd) << ("g", "s", odd)
        pb >> ("agent", update("hidden")) << ("g", "s", update("hidden"))
        pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        passed(pb)
        pb >> ("agent", state("idle")) << ("client", state("idle"))


@pytest.mark.parametrize("carries", [True, False])
def test_or_when_another_prompt_goes_on(carries: bool) -> None:
    """An agent that does not say that it is idle does not lose its text for ever."""
    with chain(*[CARRIES] * carries, version=2, grants="turns=unprompted") as pb:
        own(pb)
        pb >> ("agent", result(Hole("a-own"), INSERTED)) << ("g", "s", result("own", INSERTED))
        pb >> ("agent", update("hidden")) << ("g", "s", update("hidden"))
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb.wake(MOST_WAIT) << Noted("warning", "g", "had a turn while others waited for 120 s")
        pb << ("agent", stop())
        pb.wake(LAST_WORDS)
        if carries:
            pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
            passed(pb)
        else:
            pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb >> ("agent", update("shown")) << ("client", update("shown"))


# -- several in a row ------------------------------------------------------------------------------


def two(first: Policy | None, second: Policy | None) -> Playbook:
    """Two guests, `f` before `g`."""
    one, other = guest(name="f"), guest()
    return chain_of(
        Component("f", one.label, one.dialect, policy=first),
        Component("g", other.label, other.dialect, policy=second),
    )


def prompters() -> tuple[Policy | None, Policy | None]:
    """Two that may prompt within a turn; the second carries text too."""
    one = guest(CARRIES, grants="turns=within").policy
    other = guest(profile="full").policy
    return one, other


@pytest.mark.parametrize("swapped", [False, True])
def test_a_turn_of_one_nests_in_a_prompt_that_another_holds(swapped: bool) -> None:
    first, second = prompters()
    with two(second, first) if swapped else two(first, second) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        # The first prompts by itself: that goes through the second, as any prompt of a session.
        pb >> ("f", "s", request("f-own", PROMPT, prompt("of f")))
        pb << ("g", "p", request(Hole("g-own"), PROMPT, prompt("of f")))
        # The component holds it, and prompts by itself within.
        pb >> ("g", "s", request("own", PROMPT, prompt("of g")))
        pb << ("agent", request(Hole("a-g"), PROMPT, prompt("of g")))
        pb >> ("agent", update("for g")) << ("g", "s", update("for g"))
        pb >> ("agent", result(Hole("a-g"), DONE)) << ("g", "s", result("own", DONE))
        # Now that of the first goes on, and its text is for the first alone.
        pb >> ("g", "s", request(Hole("g-own"), PROMPT, prompt("of f")))
        pb << ("agent", request(Hole("a-f"), PROMPT, prompt("of f")))
        pb >> ("agent", update("for f"))
        if not swapped:  # the second carries text
            pb << ("g", "s", update("for f"))
            pb >> ("g", "p", update("for f"))
        pb << ("f", "s", update("for f"))
        pb >> ("agent", result(Hole("a-f"), DONE)) << ("g", "s", result(Hole("g-own"), DONE))
        pb >> ("g", "p", result(Hole("g-own"), DONE)) << ("f", "s", result("f-own", DONE))
        # And the user's, at last.
        pb >> ("f", "s", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("f", "s", result(Hole("f-a"), DONE))
        pb >> ("f", "p", result(Hole("f-a"), DONE)) << ("client", result("a", DONE))
        pb >> (lambda router: heard(router, "f"))  # it has kept the messages for it
        assert settled(pb.router)


# -- rounds, and programs --------------------------------------------------------------------------


def test_what_is_a_request_is_not_sent_as_a_notification_nor_the_other_way_round() -> None:
    with chain("down:session/cancel:originate", **WITHIN) as pb:
        pb >> ("g", "s", notification(PROMPT, prompt("mine")))
        broke(pb, "rights", "may not send `session/prompt` as a notification")
        pb >> ("g", "s", request("s", "session/cancel", {"sessionId": "S"}))
        broke(pb, "rights", "may not send `session/cancel` as a request")
        refused(pb, "s")


# -- turns of the user's beside its own ------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", ["answers", "late"])
def test_the_user_s_prompt_that_goes_on_without_it_counts(how: str, version: int) -> None:
    """The component's own turn runs on in the same session; later updates are the user's too."""
    with chain(CARRIES, version=version, hold=5.0, **WITHIN) as pb:
        given(pb)
        own(pb)
        if how == "late":
            pb.wake(5.0)
        else:
            pb >> ("g", "p", result(Hole("g-a"), DONE))
        skip(pb)
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        pb >> ("g", "s", stop())
        lacks(pb, "originate", "session/cancel")


@pytest.mark.parametrize("ended", ["a", "b"])
def test_the_end_of_one_of_the_user_s_prompts_forgets_no_other(ended: str) -> None:
    """Two prompts have gone on without the component, and one of them runs beside its own turn."""
    with chain(CARRIES, hold=5.0, **WITHIN) as pb:
        for id_ in ("a", "b", "c"):
            pb >> ("client", request(id_, PROMPT, prompt("hi")))
            pb << ("g", "p", request(Hole(f"g-{id_}"), PROMPT, prompt("hi")))
            if id_ != "c":
                pb.wake(5.0)
                del pb.effects[0]  # the component has held the prompt for too long
                pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole(f"a-{ended}"), DONE)) << ("client", result(ended, DONE))
        own(pb)
        pb >> ("agent", update("shown")) << ("client", update("shown"))
        pb >> ("g", "s", stop())
        lacks(pb, "originate", "session/cancel")


def test_in_version_2_a_prompt_that_would_nest_waits_until_the_agent_is_idle() -> None:
    with chain(CARRIES, version=2, **WITHIN) as pb:
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), INSERTED)) << ("g", "s", result(Hole("g-a"), INSERTED))
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        pb >> ("agent", state("idle")) << ("client", state("idle"))
        pb << ("agent", request(Hole("a-own"), PROMPT, prompt("mine")))
        pb >> ("agent", result(Hole("a-own"), INSERTED)) << ("g", "s", result("own", INSERTED))
        pb >> ("agent", state("idle")) << ("g", "s", state("idle"))


def test_in_version_2_an_idle_forgets_no_prompt_that_waits() -> None:
    with chain(version=2, grants="turns=unprompted") as pb:
        for id_ in ("a", "b"):
            pb >> ("client", request(id_, PROMPT, prompt("hi")))
            pb << ("agent", request(Hole(f"a-{id_}"), PROMPT, prompt("hi")))
        pb >> ("agent", result(Hole("a-a"), INSERTED)) << ("client", result("a", INSERTED))
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        pb >> ("agent", state("idle")) << ("client", state("idle"))
        pb >> ("agent", update("shown")) << ("client", update("shown"))


def test_its_own_cancellation_is_as_plain_as_all_it_sends() -> None:
    with chain(grants="turns=unprompted") as pb:
        own(pb)
        odds: list[Json] = [{"session_id": "T"}, {"SessionId": "T"}, {"_meta": {"claudeCode": {}}}]
        for odd in odds:
            pb >> ("g", "s", notification("session/cancel", {"sessionId": "S", **odd}))
            (violated,) = skip(pb)
            assert isinstance(violated, Violated)
        pb >> ("g", b's{"jsonrpc":"2.0","method":"session/cancel","params":' + TWICE + b"}")
        (violated,) = skip(pb)
        assert isinstance(violated, Violated)
        pb >> ("g", "s", stop()) << ("agent", stop())


def test_a_turn_that_the_user_has_cancelled_is_not_gone_on_with() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        given(pb)
        passed(pb)
        pb >> ("client", stop()) << ("agent", stop())
        pb >> ("agent", result(Hole("a-a"), CANCELLED))
        pb << ("g", "s", result(Hole("g-a"), CANCELLED))
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi")))
        broke(pb, "identity", "once more, or too late")
        refused(pb, Hole("g-a"))
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        broke(pb, "turns", "may prompt the agent only within a turn of the user's")
        refused(pb, "own")
        pb >> ("g", "p", result(Hole("g-a"), CANCELLED)) << ("client", result("a", CANCELLED))


def test_a_prompt_towards_the_client_is_no_turn() -> None:
    with chain(CARRIES, **WITHIN) as pb:
        pb >> ("g", "p", request("up", PROMPT, prompt("mine")))
        lacks(pb, "originate", PROMPT)
        refused(pb, "up", side="p")


def test_what_the_user_asks_a_sub_agent_is_the_user_s() -> None:
    child = {"sessionUpdate": "subagent_update", "sessionId": "S/1"}
    with chain(grants="turns=unprompted") as pb:
        said = notification(UPDATE, {"sessionId": "S", "update": child})
        pb >> ("agent", said) << ("client", said)
        own(pb)
        pb >> ("client", request("u", PROMPT, prompt("hi", "S/1")))
        pb << ("agent", request(Hole("a-u"), PROMPT, prompt("hi", "S/1")))
        pb >> ("agent", update("shown", "S/1")) << ("client", update("shown", "S/1"))
