"""Prompts of version 2 that a component answers: it says why the turn ended, as in version 1, and
the client gets what version 2 says."""

from __future__ import annotations

from typing import Any

import pytest

from conductor.core import agent_turns
from tests.harness.router.policed import (
    DONE,
    PROMPT,
    UPDATE,
    Hole,
    Json,
    chain,
    chain_of,
    error,
    given,
    notification,
    request,
    result,
    trusted,
)

ANSWERS = "down:session/prompt:carry+answer"
IDLE: Json = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}


def idle() -> Json:
    """The update that ends a turn."""
    return notification(UPDATE, {"sessionId": "S", "update": IDLE})


def test_the_client_gets_a_message_and_the_end_of_the_turn() -> None:
    with chain(ANSWERS, version=2) as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        pb << ("client", result("a", {"messageId": 'conductor-"a"'})) << ("client", idle())


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


def test_errors_stay_and_results_of_other_requests() -> None:
    with chain_of(trusted("g"), version=2) as pb:
        given(pb)
        pb >> ("g", "p", error(Hole("g-a"), -32000, "no")) << ("client", error("a", -32000, "no"))
        pb >> ("client", request("b", "_x", {})) << ("g", "p", request(Hole("x"), "_x", {}))
        pb >> ("g", "p", result(Hole("x"), DONE)) << ("client", result("b", DONE))
        pb >> ("client", request("c", PROMPT, {})) << ("g", "p", request(Hole("y"), PROMPT, {}))
        pb >> ("g", "p", result(Hole("y"), DONE)) << ("client", result("c", DONE))


def test_what_is_no_result_says_nothing() -> None:
    assert agent_turns.stop_reason(b'["stopReason"]') is None
    assert not agent_turns.only_begun(1, b"result", b"{}")
