"""A message that goes past a component overtakes those that it carries only after its round, and
keeps its order; nothing waits for ever."""

import json
from functools import partial

import pytest

from conductor.core import Closure
from tests.harness.router.policed import (
    CARRY_TEXT,
    DONE,
    KINDS,
    PERMISSION,
    PROMPT,
    Hole,
    Json,
    Playbook,
    cancel,
    chain,
    chain_of,
    error,
    failed,
    given,
    guest,
    heard,
    lacks,
    mode,
    notification,
    passed,
    permission,
    prompt,
    request,
    result,
    settled,
    skip,
    state,
    tool_call,
    update,
    wrapped,
)

CARRIES = "down:session/prompt:carry"
NEXT = notification("_next", {"sessionId": "S"})
GONE = Closure("proxy `g` died", "", {"component": "g"})


def past(pb: Playbook, asked: object = "a", text: str = "hi") -> None:
    """A prompt goes past `g`; `g` gets a copy of the prompt and passes the copy on."""
    pb >> ("client", request(asked, PROMPT, prompt(text)))
    pb << ("g", "p", request(Hole(f"g-{asked}"), PROMPT, prompt(text)))
    pb << ("agent", request(Hole(f"a-{asked}"), PROMPT, prompt(text)))
    pb >> ("g", "s", request(Hole(f"g-{asked}"), PROMPT, prompt(text)))


# -- down: behind a request ------------------------------------------------------------------------


def test_what_goes_past_waits_for_a_request_of_its_session() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        pb >> ("client", NEXT) >> ("client", request("m", "session/set_mode", mode()))
        other = notification("_next", {"sessionId": "T"})
        pb >> ("client", other) << ("agent", other)
        pb >> ("client", notification("_x")) << ("agent", notification("_x"))
        pb >> ("agent", update("up")) << ("client", update("up"))
        passed(pb)
        pb << ("agent", NEXT) << ("agent", request(Hole("m"), "session/set_mode", mode()))
        pb >> ("client", NEXT) << ("agent", NEXT)
        assert settled(pb.router)


def test_after_a_round_only_settings_wait_for_the_prompt() -> None:
    with chain(CARRIES) as pb:
        pb >> heard
        given(pb)
        pb >> ("client", NEXT)
        pb >> ("client", request("m", "session/set_mode", mode()))
        pb >> ("client", request("x", "_x", {"sessionId": "S"}))
        pb >> heard << ("agent", NEXT)
        pb >> ("client", NEXT)  # keeps its order among messages that go past
        passed(pb)
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))
        pb << ("agent", request(Hole("x"), "_x", {"sessionId": "S"})) << ("agent", NEXT)
        assert settled(pb.router)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_has_a_deadline_instead(kind: str) -> None:
    with chain(CARRIES, kind=kind) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g"), PROMPT, prompt("hi")))
        pb >> ("client", NEXT) >> ("client", NEXT)
        pb.wake(1.0)
        pb << ("agent", NEXT) << ("agent", NEXT)
        pb >> ("client", request("m", "session/set_mode", mode()))
        pb.wake(1.0)
        pb >> ("g", wrapped(kind, request("m", PROMPT, prompt("hi"))))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode()))
        assert settled(pb.router)


HOW = ["answer", "wrong", "cancel", "closed", "bypassed", "leaving", "asker"]


@pytest.mark.proves("every request gets its answer")
@pytest.mark.parametrize("how", HOW)
def test_what_waits_goes_on_whatever_becomes_of_the_request(how: str) -> None:
    with chain(CARRIES + ("+answer" if how == "answer" else "")) as pb:
        given(pb)
        pb >> ("client", NEXT)
        if how == "answer":
            pb >> ("g", "p", result(Hole("g-a"), DONE))
        elif how == "wrong":
            pb >> ("g", "p", result(Hole("g-a"), DONE))
            lacks(pb, "answer", PROMPT)
        elif how == "cancel":
            pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("g-a")))
            pb >> ("g", "p", error(Hole("g-a"), -32800, "x"))
        elif how == "asker":
            pb >> (lambda router: router.closed("client", Closure("gone")))
            pb << ("g", "p", cancel(Hole("g-a")))
            pb.wake(2.0)
        else:
            pb >> (lambda router: getattr(router, how)("g", GONE))
        assert any("_next" in str(one) for one in skip(pb))
        assert settled(pb.router)


# -- up: answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["bypassed", "closed", "leaving"])
def test_an_answer_is_not_lost_with_the_component_that_it_waits_for(how: str) -> None:
    with chain(CARRY_TEXT) as pb:
        past(pb)
        pb >> ("agent", update("one")) << ("g", "s", update("one"))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> (lambda router: getattr(router, how)("g", GONE)) << ("client", result("a", DONE))
        skip(pb)
        assert settled(pb.router)


def test_an_answer_it_amends_pushes_on_what_came_before() -> None:
    with chain(profile="full") as pb:
        pb >> heard
        given(pb)
        passed(pb)
        pb >> ("agent", update("one")) << ("g", "s", update("one"))
        pb >> ("agent", tool_call("t")) << ("g", "s", tool_call("t"))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        pb << ("client", tool_call("t")) << ("client", result("a", DONE))
        pb >> ("g", "p", update("one")) << ("client", update("one"))  # too late, but not lost
        assert settled(pb.router)


# -- up: messages with a place among texts ---------------------------------------------------------


@pytest.mark.proves("the answer that ends a turn does")
def test_the_end_of_a_turn_follows_what_its_carrier_releases_on_it() -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        past(pb)
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> heard  # it keeps that
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("agent", NEXT)  # nor does this overtake it
        pb >> ("g", "p", update("one")) << ("client", update("one"))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        pb << ("client", NEXT)
        assert settled(pb.router)


def test_who_passes_a_prompt_on_and_carries_text_has_its_answer_s_place_too() -> None:
    with chain(CARRY_TEXT, CARRIES) as pb:
        pb >> heard
        given(pb)
        passed(pb)
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> heard
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("g", "p", update("one")) << ("client", update("one"))
        pb >> ("g", "p", error(Hole("g-a"), 1, "no"))
        lacks(pb, "amend", PROMPT)
        pb << ("client", result("a", DONE))
        assert settled(pb.router)


def test_what_it_passes_on_lets_go_one_after_the_other_before_that() -> None:
    with chain(CARRY_TEXT, CARRIES) as pb:
        pb >> heard
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> ("agent", NEXT) >> ("agent", update("1"))
        pb << ("g", "s", update("1"))
        pb >> ("g", "p", update("1"))
        pb << ("client", result("a", DONE)) << ("client", NEXT) << ("client", update("1"))
        assert settled(pb.router)


def test_an_answer_that_waits_and_is_not_wanted_any_more() -> None:
    with chain(CARRY_TEXT, CARRIES) as pb:
        pb >> heard
        given(pb)
        passed(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> (lambda router: router.abandon(GONE))
        failed(pb, "a", GONE.text)
        pb >> heard
        assert settled(pb.router)


def test_closing_a_session_waits_for_no_prompt() -> None:
    with chain(CARRIES) as pb:
        given(pb)
        pb >> ("client", request("c", "session/close", {"sessionId": "S"}))
        pb << ("g", "p", notification("session/cancel", {"sessionId": "S"}))
        pb << ("agent", request(Hole("c"), "session/close", {"sessionId": "S"}))


def test_a_cancellation_answers_no_prompt_that_is_a_notification() -> None:
    setup = {"sessionId": "S", "cwd": "/w", "mcpServers": []}
    said, stopped = (
        notification(PROMPT, prompt("hi")),
        notification("session/cancel", {"sessionId": "S"}),
    )
    with chain("down:session/load:carry") as pb:
        pb >> ("client", request("l", "session/load", setup))
        pb << ("g", "p", request(Hole("l"), "session/load", setup))
        pb >> ("client", said) >> ("client", stopped) << ("agent", stopped)
        pb >> ("g", "s", request(Hole("l"), "session/load", setup))
        pb << ("agent", request(Hole("al"), "session/load", setup)) << ("agent", said)


@pytest.mark.parametrize("kind", KINDS)
def test_settings_hold_up_what_comes_after_them(kind: str) -> None:
    """Messages that go past keep their order among themselves, deadlines or not."""
    with chain(CARRIES, kind=kind) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", request(Hole("g"), PROMPT, prompt("hi")))
        pb >> ("client", request("m", "session/set_mode", mode())) >> ("client", NEXT)
        pb.wake(1.0)
        pb >> ("g", wrapped(kind, request("m", PROMPT, prompt("hi"))))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("m"), "session/set_mode", mode())) << ("agent", NEXT)


@pytest.mark.parametrize("last", ["round", "answer"])
def test_in_version_2_the_end_of_a_turn_is_that_it_is_idle(last: str) -> None:
    with chain(CARRY_TEXT, version=2) as pb:
        pb >> heard
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> heard
        pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
        if last == "answer":
            pb >> ("g", "p", update("one")) << ("client", update("one"))
            pb >> ("g", "p", state("idle")) << ("client", state("idle"))
        else:
            pb >> heard << ("client", state("idle"))
        assert settled(pb.router)


@pytest.mark.parametrize("last", ["round", "passed", "answer"])
def test_a_question_follows_what_was_said_before_it(last: str) -> None:
    with chain(CARRY_TEXT) as pb:
        pb >> heard
        pb >> ("agent", update("1")) << ("g", "s", update("1"))
        pb >> heard
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("g", "s", request(Hole("g-q"), PERMISSION, permission()))
        pb >> ("agent", update("2")) << ("g", "s", update("2"))
        if last == "round":
            pb >> heard
        else:
            pb >> ("g", "p", update("one")) << ("client", update("one"))
            if last == "passed":
                pb >> ("g", "p", request(Hole("g-q"), PERMISSION, permission()))
            else:
                pb >> ("g", "s", result(Hole("g-q"), {}))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        pb >> ("client", result(Hole("q"), {"outcome": {"outcome": "cancelled"}}))
        skip(pb)
        pb >> ("g", "p", update("2")) << ("client", update("2"))
        assert settled(pb.router)


def test_it_cannot_turn_the_order() -> None:
    """The agent asks a question after the end of a turn: the question may not overtake that end."""
    with chain(CARRY_TEXT) as pb:
        past(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        for asked, session in (("q", "S"), ("r", "T")):
            pb >> ("agent", request(asked, PERMISSION, permission(session)))
            pb << ("g", "s", request(Hole(f"g-{asked}"), PERMISSION, permission(session)))
        for asked, session in (("q", "S"), ("r", "T")):
            pb >> ("g", "p", request(Hole(f"g-{asked}"), PERMISSION, permission(session)))
            if asked == "r":
                pb << ("client", request(Hole("r"), PERMISSION, permission("T")))
        pb >> ("g", "p", result(Hole("g-a"), DONE)) << ("client", result("a", DONE))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        assert settled(pb.router)


# -- programs --------------------------------------------------------------------------------------


def turn(pb: Playbook, kind: str, session: str = "S", number: int = 1) -> None:
    """A prompt goes past a program, which passes its copy on."""
    said = prompt("hi", session)
    pb >> ("client", request(number, PROMPT, said))
    pb << ("g", request(Hole(f"p{number}"), PROMPT, said))
    pb << ("agent", request(Hole(f"a{number}"), PROMPT, said))
    pb >> ("g", wrapped(kind, request(f"m{number}", PROMPT, said)))


def told(pb: Playbook, kind: str, *texts: str, session: str = "S") -> None:
    """The agent says something, which the program is given."""
    for text in texts:
        pb >> ("agent", update(text, session)) << ("g", wrapped(kind, update(text, session)))


def holding(kind: str) -> Playbook:
    """A program that carries text and looks on else."""
    return chain(CARRY_TEXT, profile="observer", kind=kind)


@pytest.mark.proves("the answer that ends a turn does")
@pytest.mark.parametrize("kind", KINDS)
def test_the_answer_waits_for_the_updates_it_holds(kind: str) -> None:
    with holding(kind) as pb:
        turn(pb, kind)
        told(pb, kind, "one", "two")
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))  # and nobody else
        pb >> ("g", update("one")) << ("client", update("one"))
        pb >> ("g", update("2")) << ("client", update("2"))
        pb >> ("g", result(Hole("p1"), DONE)) << ("client", result(1, DONE))
        assert settled(pb.router)


@pytest.mark.parametrize("kind", KINDS)
def test_but_no_longer_than_a_round(kind: str) -> None:
    with holding(kind) as pb:
        turn(pb, kind)
        told(pb, kind, "one")
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))
        pb.wake(1.0)
        pb << ("client", result(1, DONE))
        pb >> ("g", update("one")) << ("client", update("one"))
        pb >> ("g", result(Hole("p1"), DONE))
        assert settled(pb.router)


# -- two in a row ----------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_the_end_of_a_turn_follows_what_each_of_two_releases(swapped: bool) -> None:
    names = ("g", "f") if swapped else ("f", "g")
    above, below = names
    with chain_of(*(guest(CARRY_TEXT, name=name) for name in names)) as pb:
        for name in names:
            pb >> partial(heard, name=name)
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        for name in names:
            pb << (name, "p", request(Hole(f"{name}-a"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        for name in names:
            pb >> (name, "s", request(Hole(f"{name}-a"), PROMPT, prompt("hi")))
        pb >> ("agent", update("1")) << (below, "s", update("1"))
        pb >> (below, "p", update("1")) << (above, "s", update("1"))
        pb >> ("agent", update("2")) << (below, "s", update("2"))
        pb >> ("agent", tool_call("t"))
        pb >> ("agent", result(Hole("a"), DONE)) << (below, "s", result(Hole(f"{below}-a"), DONE))
        pb >> (below, "p", update("2")) << (above, "s", update("2"))
        pb >> (below, "p", result(Hole(f"{below}-a"), DONE))
        pb << (above, "s", result(Hole(f"{above}-a"), DONE))
        pb >> (above, "p", update("1")) << ("client", update("1"))
        pb >> (above, "p", update("2"))
        pb << ("client", update("2")) << ("client", tool_call("t"))
        pb >> (above, "p", result(Hole(f"{above}-a"), DONE)) << ("client", result("a", DONE))
        assert settled(pb.router)


# -- without a session -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["channel", "acp"])
def test_what_is_of_no_session_keeps_its_place_behind_updates_that_are_carried(
    kind: str, version: int
) -> None:
    """No message of the agent overtakes another, whatever session it names."""
    with chain(CARRY_TEXT, version=version, kind=kind) as pb:
        asked = request("x", "_x/z", {})
        for session in ("S", "T"):
            said = update("one", session)
            pb >> ("agent", said)
            inside = {"method": "session/update", "params": said["params"]}
            told = said if kind == "channel" else notification("proxy/successor", inside)
            pb << ("g", "s" if kind == "channel" else "", told)
        pb >> ("agent", notification("_n", {})) >> ("agent", asked)
        above = "p" if kind == "channel" else ""
        pb >> ("g", above, update("one", "S")) << ("client", update("one", "S"))
        pb >> ("g", above, update("one", "T")) << ("client", update("one", "T"))
        pb << ("client", notification("_n", {})) << ("client", request(Hole("x"), "_x/z", {}))
        # A message that is kept back longer than a round holds up nothing.
        pb >> ("agent", update("kept"))
        skip(pb)
        pb >> ("agent", notification("_n", {}))
        pb >> heard if kind == "channel" else pb.wake()
        pb << ("client", notification("_n", {}))


def test_nor_does_it_wait_behind_that_once_its_copy_has_come_back() -> None:
    asked: Json = {"mode": "form", "message": "?"}
    held: Json = {"connectionId": "k", "method": "tools/call"}
    with chain(CARRY_TEXT, grants="mcp=others") as pb:
        pb >> ("agent", request("m", "mcp/message", held))
        pb << ("g", "s", request(Hole("g-m"), "mcp/message", held))
        pb >> ("agent", request("e", "elicitation/create", asked))
        pb << ("g", "s", request(Hole("g-e"), "elicitation/create", asked))
        pb >> ("g", "p", request(Hole("g-e"), "elicitation/create", asked))
        pb << ("client", request(Hole("e"), "elicitation/create", asked))


@pytest.mark.parametrize("carries", [True, False])
def test_an_answer_within_an_array_is_waited_for_by_nobody(carries: bool) -> None:
    """The array is written once all its answers are there, and one may never come."""
    with chain(CARRY_TEXT, *([CARRIES] if carries else []), grants="methods=_x") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        skip(pb)
        array = [request(2, PROMPT, prompt("hi")), request("z", "_x", {})]
        pb >> heard >> ("g", b"s" + json.dumps(array).encode())
        skip(pb)
        (id_,) = [k for k, one in pb.router.peers["agent"].p.requests.sent.items() if one.session]
        pb >> ("agent", result(int(id_), DONE)) << ("client", result("a", DONE))
