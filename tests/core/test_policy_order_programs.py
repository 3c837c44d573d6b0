"""A program that may change updates and only watches the rest: no answer overtakes what it holds.

Programs have no rounds by which to tell that they have had their say, as guests do.
"""

from __future__ import annotations

import pytest

from conductor.core import Closure
from tests.core.plays import notification, request, result
from tests.core.policed import Json, chain, lacks, prompt, update
from tests.playbook import Hole, Playbook

ENVELOPES = {"acp": "proxy/successor", "sdk": "_proxy/successor"}
KINDS = pytest.mark.parametrize("kind", ENVELOPES)
DONE = {"stopReason": "end_turn"}


def holding(kind: str) -> Playbook:
    """The chain, as `profile=observer,allow=up:session/update:modify` makes it."""
    return chain("up:session/update:modify", profile="observer", kind=kind)


def wrapped(kind: str, message: Json) -> Json:
    """A message from or to the successor."""
    inner = {name: message[name] for name in ("method", "params") if name in message}
    return {**message, "method": ENVELOPES[kind], "params": inner}


def turn(pb: Playbook, kind: str, session: str = "S", number: int = 1) -> None:
    """A prompt, shown to the component for its place in the order, which passes it on."""
    given = prompt("hi", session)
    pb >> ("client", request(number, "session/prompt", given))
    pb << ("g", request(Hole(f"p{number}"), "session/prompt", given))
    pb >> ("g", wrapped(kind, request(f"m{number}", "session/prompt", given)))
    pb << ("agent", request(Hole(f"a{number}"), "session/prompt", given))


def told(pb: Playbook, kind: str, *texts: str, session: str = "S") -> None:
    """The agent sends updates, which the component is given."""
    for text in texts:
        pb >> ("agent", update(text, session)) << ("g", wrapped(kind, update(text, session)))


@KINDS
def test_the_answer_waits_for_the_updates_it_holds(kind: str) -> None:
    with holding(kind) as pb:
        turn(pb, kind)
        told(pb, kind, "one", "two")
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))  # and nobody else
        pb >> ("g", update("one")) << ("client", update("one"))
        pb >> ("g", update("2")) << ("client", update("2"))
        pb >> ("g", result(Hole("p1"), DONE)) << ("client", result(1, DONE))


@KINDS
def test_whatever_it_answers_it_is_the_agents_answer(kind: str) -> None:
    with holding(kind) as pb:
        turn(pb, kind)
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))
        pb >> ("g", result(Hole("p1"), {"stopReason": "refusal"}))
        pb << lacks("modify", "down", "session/prompt") << ("client", result(1, DONE))


@KINDS
def test_other_sessions_do_not_wait(kind: str) -> None:
    with holding(kind) as pb:
        turn(pb, kind)
        told(pb, kind, "one")
        turn(pb, kind, "T", 2)
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))
        pb >> ("agent", result(Hole("a2"), DONE)) << ("g", result("m2", DONE))
        pb >> ("g", result(Hole("p2"), DONE)) << ("client", result(2, DONE))
        pb >> ("g", update("one")) << ("client", update("one"))
        pb >> ("g", result(Hole("p1"), DONE)) << ("client", result(1, DONE))


@KINDS
def test_what_it_holds_up_does_not_outlive_it(kind: str) -> None:
    """The answer is given, and the prompt goes on, when it is gone: what it held is lost."""
    with holding(kind) as pb:
        turn(pb, kind)
        told(pb, kind, "one")
        pb >> ("agent", result(Hole("a1"), DONE)) << ("g", result("m1", DONE))
        given = prompt("more", "T")
        pb >> ("client", request(2, "session/prompt", given))
        pb << ("g", request(Hole("p2"), "session/prompt", given))
        pb >> (lambda router: router.bypassed("g", Closure("it is gone")))
        pb << ("client", result(1, DONE))
        pb << ("agent", request(Hole("a2"), "session/prompt", given))
        pb >> ("client", notification("_n")) << ("agent", notification("_n"))
