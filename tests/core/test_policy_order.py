"""What passes a component by does not overtake what it was given before, and is not held up."""

from __future__ import annotations

import pytest

from conductor.core import Closure
from tests.core.plays import error, notification, request, result
from tests.core.policed import (
    Json,
    cancel,
    chain,
    heard,
    lacks,
    permission,
    prompt,
    refusal,
    skip,
    update,
)
from tests.playbook import Hole, Playbook

PROMPT, PERMISSION = "session/prompt", "session/request_permission"
NEXT = notification("_next", {"sessionId": "S"})
MODE: Json = {"sessionId": "S", "modeId": "m"}
DONE = {"stopReason": "end_turn"}
UPDATES = "up:session/update:modify"


def ask_prompt(pb: Playbook, text: str = "hi", asked: str = "a") -> None:
    """The client prompts, and the component is given it."""
    pb >> ("client", request(asked, PROMPT, prompt(text)))
    pb << ("g", "p", request(Hole(f"in-{asked}"), PROMPT, prompt(text)))


def send_prompt_on(pb: Playbook, text: str = "hi", asked: str = "a") -> None:
    """The component sends it on."""
    pb >> ("g", "s", request(f"m-{asked}", PROMPT, prompt(text)))
    pb << ("agent", request(Hole(f"out-{asked}"), PROMPT, prompt(text)))


# -- behind a request ------------------------------------------------------------------------------


def test_what_passes_by_waits_for_a_request_of_its_session() -> None:
    with chain("down:session/prompt:modify") as pb:
        ask_prompt(pb)
        pb >> ("client", NEXT)
        pb >> ("client", request("b", "session/set_mode", MODE))
        other = notification("_next", {"sessionId": "T"})
        pb >> ("client", other) << ("agent", other)
        pb >> ("client", notification("_x")) << ("agent", notification("_x"))
        pb >> ("agent", update("up")) << ("client", update("up"))
        send_prompt_on(pb)
        pb << ("agent", NEXT) << ("agent", request(Hole("out-b"), "session/set_mode", MODE))
        pb >> ("client", NEXT) << ("agent", NEXT)


def test_it_does_not_wait_for_what_came_after_it() -> None:
    with chain("down:session/prompt:modify") as pb:
        ask_prompt(pb)
        pb >> ("client", NEXT)
        ask_prompt(pb, "again", "b")
        send_prompt_on(pb)
        pb << ("agent", NEXT)
        send_prompt_on(pb, "again", "b")


@pytest.mark.parametrize("how", ["answer", "wrong", "break", "die", "bypass", "leave", "cancel"])
def test_what_waits_goes_on_whatever_becomes_of_the_request(how: str) -> None:
    answers = ["down:session/prompt:answer"] if how == "answer" else []
    with chain("down:session/prompt:modify", *answers) as pb:
        ask_prompt(pb)
        pb >> ("client", NEXT)
        if how == "answer":
            pb >> ("g", "p", result(Hole("in-a"), DONE)) << ("client", result("a", DONE))
        elif how == "wrong":
            pb >> ("g", "p", result(Hole("in-a"), DONE)) << lacks("answer", "down", PROMPT)
            pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        elif how == "break":
            pb >> ("g", "s", request("m", PROMPT, prompt("hi", "T")))
            (
                pb
                << lacks("originate", "down", PROMPT)
                << ("g", "s", refusal("m", "originate", PROMPT))
            )
            pb >> ("g", "p", error(Hole("in-a"), 1, "no")) << lacks("answer", "down", PROMPT)
            pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        elif how == "cancel":
            pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("in-a")))
            (
                pb
                >> ("g", "p", error(Hole("in-a"), -32800, "x"))
                << ("client", error("a", -32800, "x"))
            )
        else:
            endings = {"die": "closed", "bypass": "bypassed", "leave": "leaving"}
            pb >> (lambda router: getattr(router, endings[how])("g", Closure("gone")))
            pb << ("client", error("a", -32603, "gone"))
        pb << ("agent", NEXT)
        if how == "die":
            skip(pb)


def test_what_waits_and_whose_asker_is_gone_goes_nowhere() -> None:
    with chain("up:session/request_permission:modify") as pb:
        pb >> ("agent", request("a", PERMISSION, permission()))
        pb << ("g", "s", request(Hole("in"), PERMISSION, permission()))
        pb >> ("agent", request("b", "_q", {"sessionId": "S"})) >> ("agent", update("last words"))
        pb.router.closed("agent", Closure("gone"))
        pb >> ("g", "p", request("m", PERMISSION, permission()))
        pb << ("client", request(Hole("out"), PERMISSION, permission()))
        pb << ("client", cancel(Hole("out"))) << ("client", update("last words"))


def test_a_cancelled_request_that_waits_is_cancelled_where_it_goes() -> None:
    with chain("down:session/prompt:modify") as pb:
        ask_prompt(pb)
        pb >> ("client", request("b", "_q", {"sessionId": "S"})) >> ("client", cancel("b"))
        send_prompt_on(pb)
        pb << ("agent", request(Hole("out-b"), "_q", {"sessionId": "S"}))
        pb << ("agent", cancel(Hole("out-b")))


# -- answers ---------------------------------------------------------------------------------------


def test_an_answer_waits_for_what_the_component_still_has() -> None:
    """The turn does not end before the question that was asked in it."""
    with chain("up:session/request_permission:modify") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("g", "s", request(Hole("in"), PERMISSION, permission()))
        pb >> ("agent", update("later")) >> ("agent", result(Hole("out"), DONE))
        pb >> ("g", "p", request("m", PERMISSION, permission()))
        pb << ("client", request(Hole("asked"), PERMISSION, permission()))
        pb << ("client", update("later")) << ("client", result("a", DONE))


def test_so_does_one_that_goes_straight_back() -> None:
    with chain("up:session/request_permission:modify", "down:session/prompt:modify") as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("g", "s", request(Hole("in"), PERMISSION, permission()))
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb >> ("g", "s", result("nothing", DONE))
        skip(pb)
        pb >> (lambda router: router.bypassed("g", Closure("gone")))
        pb << ("agent", error("q", -32603, "gone")) << ("client", result("a", DONE))


# -- answers it may change -------------------------------------------------------------------------


def test_what_comes_after_an_answer_waits_for_the_guest_that_may_change_it() -> None:
    """Until it has had its say; if it wants to ask something first, it does not get stuck."""
    with chain("down:session/prompt:modify", "up:session/prompt:modify") as pb:
        pb >> heard
        for text, asked in (("hi", "a"), ("again", "b")):
            ask_prompt(pb, text, asked)
            send_prompt_on(pb, text, asked)
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        (
            pb
            >> ("agent", update("after"))
            >> ("agent", update("T", "T"))
            << ("client", update("T", "T"))
        )
        pb >> ("g", "p", result(Hole("in-a"), {"stopReason": "refusal"}))
        pb << ("client", result("a", {"stopReason": "refusal"})) << ("client", update("after"))
        pb >> heard
        pb.router.delivering("g")
        pb >> ("agent", result(Hole("out-b"), DONE)) << ("g", "s", result("m-b", DONE))
        pb >> ("agent", update("late"))
        assert pb.router.delivered("g") == []  # it has not been given that answer yet
        pb >> heard << ("client", update("late"))
        pb >> ("agent", update("later")) << ("client", update("later"))
        pb >> ("g", "p", result(Hole("in-b"), "changed")) << ("client", result("b", "changed"))


def test_it_cannot_make_that_wait_longer_by_asking_in_an_array() -> None:
    with chain("down:session/prompt:modify", "up:session/prompt:modify") as pb:
        pb >> heard
        ask_prompt(pb)
        pb >> ("g", "s", [request("m", PROMPT, prompt("hi")), request("n", "_n", {})])
        pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        skip(pb)
        pb >> ("agent", result(Hole("out"), DONE))
        skip(pb)
        pb >> ("agent", update("after")) << ("client", update("after"))


@pytest.mark.parametrize("how", ["closed", "bypassed", "leaving"])
def test_what_waits_for_such_an_answer_goes_on_without_the_guest(how: str) -> None:
    with chain("down:session/prompt:modify", "up:session/prompt:modify") as pb:
        pb >> heard
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb >> ("agent", update("after"))
        pb >> (lambda router: getattr(router, how)("g", Closure("gone")))
        pb << ("client", error("a", -32603, "gone")) << ("client", update("after"))
        skip(pb)


# -- shown for its place ---------------------------------------------------------------------------


def test_the_end_of_a_turn_follows_its_updates() -> None:
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> heard
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb >> ("agent", notification("_n", {"sessionId": "S"}))  # nor does this overtake it
        pb >> ("g", "p", update("one")) << ("client", update("one"))
        pb >> ("g", "p", result(Hole("in-a"), DONE)) << ("client", result("a", DONE))
        pb << ("client", notification("_n", {"sessionId": "S"}))


@pytest.mark.parametrize("step", ["request", "answer"])
def test_a_guest_that_keeps_what_it_is_only_shown_does_not_stop_it(step: str) -> None:
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        if step == "request":
            pb >> heard << ("agent", request(Hole("out-a"), PROMPT, prompt("hi")))
            pb >> ("agent", result(Hole("out-a"), DONE)) << ("client", result("a", DONE))
            pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
            over = f"`{PROMPT}` has been answered, or has gone on, without this"
            pb << ("g", "s", error("m", -32600, over))
        else:
            send_prompt_on(pb)
            pb >> heard
            pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
            pb >> heard << ("client", result("a", DONE))
        pb >> ("g", "p", result(Hole("in-a"), "late"))


def test_what_it_is_given_in_its_round_belongs_to_the_next() -> None:
    with chain(UPDATES) as pb:
        pb.router.delivering("g")
        ask_prompt(pb)
        assert pb.router.delivered("g") == []
        send_prompt_on(pb)
        pb.router.delivering("g")
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        assert pb.router.delivered("g") == []
        pb >> ("g", "p", result(Hole("in-a"), DONE)) << ("client", result("a", DONE))


@pytest.mark.parametrize("answer", ["other", None])
def test_it_may_not_change_what_it_is_only_shown(answer: str | None) -> None:
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        pb >> ("g", "s", request("m", PROMPT, prompt("changed"))) << lacks("modify", "down", PROMPT)
        pb << ("g", "s", refusal("m", "modify", PROMPT))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        ask_prompt(pb, "again", "b")
        send_prompt_on(pb, "again", "b")
        pb >> ("agent", result(Hole("out-b"), DONE)) << ("g", "s", result("m-b", DONE))
        pb >> ("g", "p", result(Hole("in-b"), answer)) << lacks("modify", "down", PROMPT)
        pb << ("client", result("b", DONE))
        ask_prompt(pb, "third", "c")
        pb >> ("g", "p", result(Hole("in-c"), answer)) << lacks("answer", "down", PROMPT)
        pb << ("agent", request(Hole("out-c"), PROMPT, prompt("third")))


def test_it_is_shown_one_after_the_other() -> None:
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        pb >> ("client", request("b", PROMPT, prompt("again")))
        pb >> ("client", NEXT)
        send_prompt_on(pb)
        pb << ("g", "p", request(Hole("in-b"), PROMPT, prompt("again")))
        send_prompt_on(pb, "again", "b")
        pb << ("agent", NEXT)


def test_it_cannot_turn_the_order_of_what_it_is_shown() -> None:
    """A question is asked after the end of the turn before: it may not be put in front of that."""
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb >> ("agent", request("r", PERMISSION, permission("T")))
        pb << ("g", "s", request(Hole("in-r"), PERMISSION, permission("T")))
        pb >> ("g", "p", request("m-r", PERMISSION, permission("T")))
        pb << ("client", request(Hole("r"), PERMISSION, permission("T")))
        pb >> ("g", "p", result(Hole("in-a"), DONE)) << ("client", result("a", DONE))
        pb << ("g", "s", request(Hole("in-q"), PERMISSION, permission()))


def test_an_answer_it_forges_does_not_turn_the_order_either() -> None:
    with chain(UPDATES) as pb:
        for text, asked in (("hi", "a"), ("again", "b")):
            ask_prompt(pb, text, asked)
            send_prompt_on(pb, text, asked)
            pb >> ("agent", result(Hole(f"out-{asked}"), DONE))
            pb << ("g", "s", result(f"m-{asked}", DONE))
        pb >> ("g", "p", result(Hole("in-b"), "forged")) << lacks("modify", "down", PROMPT)
        pb << ("client", result("a", DONE)) << ("client", result("b", DONE))


@pytest.mark.parametrize("step", ["given", "sent", "answered"])
@pytest.mark.parametrize("how", ["closed", "bypassed", "leaving"])
def test_what_it_is_only_shown_outlives_it(step: str, how: str) -> None:
    with chain(UPDATES) as pb:
        ask_prompt(pb)
        if step != "given":
            send_prompt_on(pb)
        if step == "answered":
            pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb >> (lambda router: getattr(router, how)("g", Closure("gone")))
        if step == "given":
            pb << ("agent", request(Hole("out-a"), PROMPT, prompt("hi")))
        if step == "answered":
            pb << ("client", result("a", DONE))
        if how == "closed":
            skip(pb)
        if step != "answered":
            pb >> ("agent", result(Hole("out-a"), DONE)) << ("client", result("a", DONE))
        if how == "closed":  # nobody is there to be shown it
            pb >> ("client", request("b", PROMPT, prompt("on")))
            pb << ("agent", request(Hole("out-b"), PROMPT, prompt("on")))


# -- cancelling ------------------------------------------------------------------------------------


def test_cancelling_reaches_the_agent_whatever_the_component_does_about_it() -> None:
    with chain("down:session/prompt:modify") as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("in-a")))
        pb << ("agent", cancel(Hole("out-a")))
        pb >> ("g", "s", cancel("m-a"))
        ask_prompt(pb, "again", "b")
        pb >> ("client", cancel("b")) << ("g", "p", cancel(Hole("in-b")))
        send_prompt_on(pb, "again", "b")
        pb << ("agent", cancel(Hole("out-b")))


def test_who_holds_verbs_on_cancelling_passes_it_on_itself() -> None:
    with chain(profile="full") as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("in-a")))
        pb >> ("g", "s", cancel("m-a")) << ("agent", cancel(Hole("out-a")))
        ask_prompt(pb, "again", "b")
        send_prompt_on(pb, "again", "b")
        pb >> ("g", "s", cancel("m-b")) << ("agent", cancel(Hole("out-b")))


def test_nobody_else_cancels_what_others_have_asked() -> None:
    with chain("down:session/prompt:modify") as pb:
        ask_prompt(pb)
        send_prompt_on(pb)
        pb >> ("g", "s", cancel("m-a")) << lacks("originate", "down", "$/cancel_request")
        pb >> ("agent", result(Hole("out-a"), DONE)) << ("g", "s", result("m-a", DONE))
        pb << ("client", result("a", DONE))
        pb >> ("g", "s", cancel("m-a")) >> ("g", "s", cancel(1)) >> ("g", "p", cancel("a"))
