"""Prompts of version 2 that a component answers: it says why the turn ended, as in version 1, and
the client gets the messages of version 2."""

from typing import Any

import pytest

from conductor.core import agent_turns
from tests.harness.router.policed import (
    UPDATE,
    Hole,
    Json,
    chain,
    chain_of,
    given,
    notification,
    prompt,
    request,
    result,
    state,
    trusted,
)

IDLE: Json = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}


def idle() -> Json:
    """The update that ends a turn."""
    return notification(UPDATE, {"sessionId": "S", "update": IDLE})


@pytest.mark.parametrize(
    "body",
    [
        {"messageId": "m"},
        {"messageId": "m", "stopReason": "end_turn"},
        {"stopReason": 5},
        {"stopReason": None},
    ],
)
def test_every_other_result_stays(body: Any) -> None:
    with chain_of(trusted("g"), version=2) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), body)) << ("client", result("a", body))


@pytest.mark.parametrize("body", [{"messageId": "m"}, {}])
def test_the_answer_of_a_component_that_cannot_report_idle_ends_the_turn(body: Any) -> None:
    with chain("down:session/prompt:answer", version=2) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), body))
        pb << ("client", result("a", {"messageId": Hole("m")}))
        pb << ("client", idle())


@pytest.mark.parametrize("early", [False, True])
def test_so_does_an_answer_that_it_takes_from_a_turn_of_its_own(early: bool) -> None:
    """The client is told `idle` once, when the agent has done its work."""
    begun: Json = {"messageId": "m"}
    with chain("down:session/prompt:carry+answer", version=2, grants="turns=within") as pb:
        given(pb)
        pb >> ("g", "s", request("own", "session/prompt", prompt("mine")))
        pb << ("agent", request(Hole("a-own"), "session/prompt", prompt("mine")))
        pb >> ("agent", result(Hole("a-own"), begun)) << ("g", "s", result("own", begun))
        pb >> ("agent", state("running")) << ("g", "s", state("running"))
        if not early:
            pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
        pb >> ("g", "p", result(Hole("g-a"), begun))
        pb << ("client", result("a", {"messageId": Hole("m")}))
        if early:
            pb >> ("agent", state("idle")) << ("g", "s", state("idle"))
        pb << ("client", idle())


def test_what_is_no_result_says_nothing() -> None:
    assert agent_turns.stop_reason(b'["stopReason"]') is None
    assert not agent_turns.only_begun(1, b"result", b"{}")
