"""Prompts that are held until their release, and the conductor's own requests to the client."""

import pytest

from conductor.core import Answered, Closure, Component
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Playbook
from tests.harness.router.plays import (
    V1,
    agent_mode,
    agent_only,
    begin,
    begin_acp,
    error,
    proxy_mode,
    request,
    result,
)
from tests.harness.router.policed import DONE, PROMPT, cancel, mode, prompt, stop

REFUSED = (-32800, "Request cancelled")
OVER = Closure("the chain is over")


def held(version: int = 1, *, tracing: bool = False) -> Playbook:
    """A chain of an agent, initialized, that holds prompts."""
    pb = begin(agent_only(tracing=tracing), version)
    pb.router.hold()
    return pb


def test_prompts_wait_in_order_and_set_up_passes() -> None:
    with agent_only() as pb:
        pb.router.hold()
        begin(pb)
        pb >> ("client", request(1, PROMPT, prompt("one")))
        pb >> ("client", request(2, "session/new", {"cwd": "/"}))
        pb << ("agent", request(Hole("new"), "session/new", {"cwd": "/"}))
        pb >> ("client", request(3, PROMPT, prompt("two", "T")))
        assert pb.router.pending() == 3
        assert pb.held == ["S", "T"]
        pb >> (lambda r: r.release())
        pb << ("agent", request(Hole("one"), PROMPT, prompt("one")))
        pb << ("agent", request(Hole("two"), PROMPT, prompt("two", "T")))
        pb >> ("agent", result(Hole("two"), DONE)) << ("client", result(3, DONE))
        pb >> ("agent", result(Hole("one"), DONE)) << ("client", result(1, DONE))
        pb >> ("client", request(4, PROMPT, prompt("three")))
        pb << ("agent", request(Hole("three"), PROMPT, prompt("three")))


def test_prompts_wait_for_all_who_hold_them() -> None:
    with held() as pb:
        pb.router.hold()
        pb >> ("client", request(1, PROMPT, prompt("one")))
        pb >> (lambda r: r.release())
        pb >> (lambda r: r.release()) << ("agent", request(Hole("one"), PROMPT, prompt("one")))
        pb >> (lambda r: r.release())  # by nobody


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("how", ["session/cancel", "session/close"])
def test_the_end_of_a_turn_answers_held_prompts_of_its_session(version: int, how: str) -> None:
    with held(version) as pb:
        for id_, session in ((1, "S"), (2, "T"), (3, "S")):
            pb >> ("client", request(id_, PROMPT, prompt("hi", session)))
        pb >> ("client", request(4, "session/set_mode", mode()))
        if how == "session/cancel":
            pb >> ("client", stop())
        else:
            pb >> ("client", request(9, how, {"sessionId": "S"}))
        for id_ in (1, 3):
            cancelled = result(id_, {"stopReason": "cancelled"})
            pb << ("client", cancelled if version == 1 else error(id_, *REFUSED))
        if how == "session/cancel":
            pb << ("agent", stop())
        else:
            pb << ("agent", request(Hole("close"), how, {"sessionId": "S"}))
        pb >> (lambda r: r.release())
        pb << ("agent", request(Hole("two"), PROMPT, prompt("hi", "T")))
        pb << ("agent", request(Hole("mode"), "session/set_mode", mode()))


def test_a_held_prompt_is_cancelled_by_its_id() -> None:
    with held() as pb:
        pb >> ("client", request(1, PROMPT, prompt("one")))
        pb >> ("client", request(2, PROMPT, prompt("two")))
        pb >> ("client", cancel(2)) << ("client", error(2, *REFUSED))
        pb >> ("client", cancel(2))
        # A request that is not held is cancelled where it is.
        pb >> ("client", request(3, "_x")) << ("agent", request(Hole("x"), "_x"))
        pb >> ("client", cancel(3)) << ("agent", cancel(Hole("x")))
        pb >> (lambda r: r.release())
        pb << ("agent", request(Hole("one"), PROMPT, prompt("one")))


def test_held_prompts_of_a_chain_that_ends_are_answered_and_not_sent() -> None:
    with held() as pb:
        pb >> ("client", request(1, PROMPT, prompt("one")))
        pb >> (lambda r: r.abandon(OVER)) << ("client", error(1, -32603, OVER.text))
        pb >> ("client", stop()) << ("agent", stop())
        pb >> ("client", request(2, PROMPT, prompt("two")))
        pb >> (lambda r: r.closed("client", OVER))
        pb >> (lambda r: r.release())


# -- requests of the conductor's own -----------------------------------------------------------


def test_the_client_answers_the_conductor_past_every_proxy() -> None:
    with begin_acp(agent_mode("acp")) as pb:
        pb >> (lambda r: r.ask("session/request_permission", b'{"a":1}', 7))
        pb << ("client", request(Hole("q"), "session/request_permission", {"a": 1}))
        pb >> (lambda r: r.ask("_x", b"{}", 8)) << ("client", request(Hole("x"), "_x", {}))
        assert not pb.router.pending()
        pb >> ("client", error(Hole("x"), 5, "no"))
        pb << Answered(8, b"error", b'{"code": 5, "message": "no"}')
        pb >> ("client", result(Hole("q"), 3)) << Answered(7, b"result", b"3")
        pb >> (lambda r: r.abandon(OVER))


@pytest.mark.parametrize("how", ["its end", "the chain's", "the connection's"])
def test_what_the_client_cannot_answer_any_more_is_an_error(how: str) -> None:
    with begin(agent_only()) as pb:
        pb >> (lambda r: r.ask("_x", b"{}", 1)) << ("client", request(Hole("x"), "_x", {}))
        answer = Answered(1, b"error", b'{"code":-32603,"message":"the chain is over"}')
        if how == "its end":
            pb >> (lambda r: r.upstream_ended(OVER)) << answer
        elif how == "the chain's":
            pb >> (lambda r: r.abandon(OVER)) << answer
        else:
            pb >> (lambda r: r.closed("client", OVER)) << answer
            return
        pb >> ("client", result(Hole("x"), "too late"))
        pb >> (lambda r: r.ask("_x", b"{}", 2)) << nobody(2)


def nobody(token: int) -> Answered:
    """The answer where no client is."""
    body = b'{"code":-32603,"message":"no client is there to answer"}'
    return Answered(token, b"error", body)


def test_without_a_client_there_is_no_asking() -> None:
    with agent_only() as pb:  # it has not sent `initialize`
        pb >> (lambda r: r.ask("_x", b"{}", 1)) << nobody(1)
    with Playbook(Router([Component("p")], "auto")) as pb:
        pb >> (lambda r: r.ask("_x", b"{}", 1)) << nobody(1)
    with proxy_mode("acp", "acp") as pb:
        pb >> ("client", request("i", "proxy/initialize", V1))
        pb << ("p", request(Hole("i"), "proxy/initialize", V1))
        pb >> (lambda r: r.ask("_x", b"{}", 1)) << nobody(1)
