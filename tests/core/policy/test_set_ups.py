"""Copies of set-ups: a component that carries prompts has the answer before it is prompted."""

import pytest

from conductor.core.policy import ordering
from tests.harness.router.policed import (
    PROMPT,
    Hole,
    Json,
    Playbook,
    chain,
    heard,
    prompt,
    request,
    result,
)

NEW = "session/new"
FOLDER: Json = {"cwd": "/w", "mcpServers": []}
ASKS = ("down:session/prompt:carry", "down:session/new:copy", "down:session/load:copy")


def made(pb: Playbook, session: str = "S") -> None:
    """The client has a session; `g` has a copy of the request for it."""
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
