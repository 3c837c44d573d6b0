"""Copies of set-ups: a component that carries prompts has the answer before it is prompted."""

from __future__ import annotations

import pytest

from conductor.core import Closure
from conductor.core.policy import ordering
from conductor.core.router import Router
from tests.harness.router.policed import (
    CANCELLED,
    DONE,
    PROMPT,
    Hole,
    Json,
    Playbook,
    cancel,
    chain,
    error,
    heard,
    mode,
    prompt,
    request,
    result,
    settled,
    stop,
)

NEW = "session/new"
SETTING = "session/set_mode"
FOLDER: Json = {"cwd": "/w", "mcpServers": []}
ASKS = ("down:session/prompt:carry", "down:session/new:copy", "down:session/load:copy")
GONE = Closure("gone", "", {"component": "g"})


def made(pb: Playbook, session: str = "S") -> None:
    """The client has a session; `g` has a copy of what asked for it."""
    pb >> ("client", request(session, NEW, FOLDER))
    pb << ("g", "p", request(Hole(f"g-{session}"), NEW, FOLDER))
    pb << ("agent", request(Hole(f"a-{session}"), NEW, FOLDER))
    pb >> ("agent", result(Hole(f"a-{session}"), {"sessionId": session}))
    pb << ("client", result(session, {"sessionId": session}))


def sees(pb: Playbook, session: str = "S") -> None:
    """`g` passes the copy on, and gets the answer."""
    pb >> ("g", "s", request(Hole(f"g-{session}"), NEW, FOLDER))
    pb << ("g", "s", result(Hole(f"g-{session}"), {"sessionId": session}))


def prompted(pb: Playbook, asked: str = "a", session: str = "S") -> None:
    """`g` gets a prompt."""
    pb << ("g", "p", request(Hole(f"g-{asked}"), PROMPT, prompt(asked, session)))


def test_a_prompt_comes_behind_the_answer() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        sees(pb)
        prompted(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("a")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("a")))
        pb >> ("client", request("b", PROMPT, prompt("b")))
        prompted(pb, "b")


def test_several_come_in_order() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        pb >> ("client", request("b", PROMPT, prompt("b")))
        sees(pb)
        prompted(pb)
        prompted(pb, "b")


def test_it_waits_for_each_of_them() -> None:
    """Which session is set up by a request is known by the answer alone."""
    with chain(*ASKS) as pb:
        made(pb, "S")
        made(pb, "T")
        pb >> ("client", request("a", PROMPT, prompt("a")))
        sees(pb, "T")
        sees(pb, "S")
        prompted(pb)


def test_one_that_answers_a_copy_has_seen_it() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        pb >> ("g", "p", error(Hole("g-S"), 1, "no"))
        prompted(pb)


@pytest.mark.parametrize("early", [True, False])
def test_it_waits_for_a_round_and_no_longer(early: bool) -> None:
    with chain(*ASKS) as pb:
        made(pb)
        if early:
            pb >> ("client", request("a", PROMPT, prompt("a")))
        pb >> heard
        if not early:
            pb >> ("client", request("a", PROMPT, prompt("a")))
        prompted(pb)


def test_one_that_comes_within_the_round_waits_for_its_end() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb.router.delivering("g")
        pb >> ("client", request("a", PROMPT, prompt("a")))
        made(pb, "T")
        sees(pb)
        pb >> (lambda router: router.delivered("g"))
        pb >> ("client", request("b", PROMPT, prompt("b", "T")))
        pb >> heard
        prompted(pb)
        prompted(pb, "b", "T")


def test_a_program_has_the_time_of_a_round() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        pb.wake(1.0)
        prompted(pb)
        pb >> ("client", request("b", PROMPT, prompt("b")))
        prompted(pb, "b")


def test_a_cancelled_one_is_not_given() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        pb >> ("client", request("b", PROMPT, prompt("b")))
        pb >> ("client", cancel("b")) << ("client", error("b", -32800, "Request cancelled"))
        pb >> ("client", stop()) << ("client", result("a", CANCELLED)) << ("agent", stop())
        sees(pb)
        assert settled(pb.router)


def test_a_setting_keeps_its_place_behind_the_prompt() -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        pb >> ("client", request("m", SETTING, mode()))
        sees(pb)
        prompted(pb)
        pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("a")))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("a")))
        pb << ("agent", request(Hole("a-m"), SETTING, mode()))


@pytest.mark.parametrize("restarts", [True, False])
def test_without_the_component_it_goes_on(restarts: bool) -> None:
    with chain(*ASKS) as pb:
        made(pb)
        pb >> ("client", request("a", PROMPT, prompt("a")))
        if restarts:
            pb >> (lambda router: router.leaving("g", GONE))
            assert router_waits(pb.router)
        pb >> (lambda router: router.bypassed("g", GONE))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("a")))
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def router_waits(router: Router) -> bool:
    """Whether something waits for `g`."""
    return bool(router.peers["g"].backlog)


def test_of_copies_that_are_forgotten_nothing_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ordering, "_MOST_COPIES", 1)
    with chain(*ASKS) as pb:
        made(pb, "S")
        made(pb, "T")
        pb >> ("client", request("a", PROMPT, prompt("a")))
        sees(pb, "T")
        prompted(pb)
