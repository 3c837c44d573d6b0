"""Components that end: messages that they held go on, are answered, or wait for their return."""

import itertools
from functools import partial

import pytest

from conductor.core import Closure, Component, Fail
from conductor.core.router import Router
from tests.harness.router.plays import OK
from tests.harness.router.policed import (
    DONE,
    PERMISSION,
    PROMPT,
    V1,
    Hole,
    Json,
    Playbook,
    broke,
    cancel,
    chain,
    chain_of,
    error,
    failed,
    given,
    guest,
    initialize,
    lacks,
    notification,
    passed,
    permission,
    prompt,
    request,
    result,
    settled,
    skip,
    trusted,
    update,
)

ALL = "down:session/prompt:carry+answer+amend"
GONE = Closure("proxy `g` died", "start it again", {"component": "g"})
TEXT = "proxy `g` died\nhint: start it again"
NEXT = notification("_next", {"sessionId": "S"})


def back(pb: Playbook) -> None:
    """The component is there again, and takes its role."""
    pb >> (lambda router: router.returned("g"))
    pb << ("g", "p", request(Hole("role"), "initialize", V1))
    pb >> ("g", "s", request("f", "initialize", V1)) << ("g", "s", result("f", OK_HERE))
    pb >> ("g", "p", result(Hole("role"), OK_HERE))


OK_HERE = {"protocolVersion": 1, "agentCapabilities": {}}


@pytest.mark.proves("the conductor in its stead")
@pytest.mark.parametrize(
    ("how", "state"),
    list(itertools.product(["closed", "bypassed", "leaving"], ["given", "passed", "returned"])),
)
def test_a_prompt_in_each_state(how: str, state: str) -> None:
    with chain(ALL) as pb:
        given(pb)
        pb >> ("client", NEXT)
        if state != "given":
            pb >> ("g", "s", request(Hole("g-a"), PROMPT, prompt("hi!")))
            pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi!"))) << ("agent", NEXT)
        if state == "returned":
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> (lambda router: getattr(router, how)("g", GONE))
        if state == "given" and how == "closed":
            failed(pb, "a", TEXT)
            pb << ("agent", NEXT)
        elif state == "given":
            pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi"))) << ("agent", NEXT)
        elif state == "returned":
            pb << ("client", result("a", DONE))
        if how == "closed":
            pb << Fail("g", GONE)
        if state == "passed" or (state == "given" and how != "closed"):
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))
        assert settled(pb.router)
        if how == "leaving":
            back(pb)
            given(pb, asked="b")
            passed(pb, asked="b")


def test_what_it_has_asked_of_its_own_is_withdrawn() -> None:
    with chain(ALL, grants="turns=within") as pb:
        given(pb)
        pb >> ("g", "s", request("own", PROMPT, prompt("mine")))
        pb << ("agent", request(Hole("own"), PROMPT, prompt("mine")))
        pb >> (lambda router: router.leaving("g", GONE))
        pb << ("agent", request(Hole("a-a"), PROMPT, prompt("hi")))
        pb << ("agent", cancel(Hole("own")))
        pb >> ("agent", result(Hole("own"), DONE))
        back(pb)
        pb >> ("agent", result(Hole("a-a"), DONE)) << ("client", result("a", DONE))


def test_a_request_outlives_all_who_had_it_and_may_not_answer_it() -> None:
    """`f` has passed the request on, `g` was given it; then both end."""
    first, second = guest("down:session/prompt:carry", name="f"), guest("down:session/prompt:carry")
    with chain_of(first, second) as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb >> ("f", "s", request(Hole("f-a"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("hi")))
        pb >> (lambda router: router.bypassed("f", GONE))
        pb >> (lambda router: router.bypassed("g", GONE))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb >> ("client", cancel("a")) << ("agent", cancel(Hole("a")))
        pb >> ("agent", result(Hole("a"), DONE)) << ("client", result("a", DONE))


def test_a_watched_component_that_is_trusted_fails_what_it_had() -> None:
    """The policy state of the component is for its audit alone, and changes nothing here."""
    for how in ("leaving", "bypassed"):
        with chain_of(trusted("g"), audited={"g"}) as pb:
            given(pb)
            given(pb, asked="b")
            passed(pb, asked="b")
            end = Router.leaving if how == "leaving" else Router.bypassed
            pb >> partial(end, name="g", reason=GONE)
            pb << ("client", error("a", -32603, TEXT, GONE.data))
            pb << ("client", error("b", -32603, TEXT, GONE.data))
            pb << ("agent", cancel(Hole("a-b")))
            assert settled(pb.router)


# -- the chain's end -----------------------------------------------------------------------------


def test_a_turn_that_is_ended_for_its_agent_s_silence_is_answered_through_the_component() -> None:
    reason = Closure("agent `agent` is silent", "", {"component": "agent"})
    with chain(ALL) as pb:
        given(pb)
        passed(pb)
        ((key, method),) = pb.router.waiting_on("agent")
        assert method == PROMPT
        pb >> (lambda router: router.end_turn("agent", key, reason))
        pb << ("agent", notification("session/cancel", {"sessionId": "S"}))
        pb << ("agent", cancel(Hole("a-a")))
        said: Json = error(Hole("g-a"), -32603, reason.text, reason.data)
        pb << ("g", "s", said)
        pb >> ("g", "p", said) << ("client", {**said, "id": "a"})


@pytest.mark.parametrize("state", ["given", "passed", "returned"])
def test_everything_is_abandoned(state: str) -> None:
    with chain(ALL) as pb:
        given(pb)
        pb >> ("client", NEXT)
        if state != "given":
            passed(pb)
            skip(pb)
        if state == "returned":
            pb >> ("agent", result(Hole("a-a"), DONE)) << ("g", "s", result(Hole("g-a"), DONE))
        pb >> (lambda router: router.abandon(GONE))
        pb << ("client", error("a", -32603, TEXT, GONE.data))
        if state == "given":
            pb << ("agent", NEXT)
        pb >> ("g", "p", result(Hole("g-a"), DONE))
        skip(pb)
        assert settled(pb.router)
        assert pb.router.waiting_on("g") == []


def test_an_observer_s_end_is_nothing_to_anybody() -> None:
    with chain(profile="observer") as pb:
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("c"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb >> ("g", "s", request(Hole("c"), PROMPT, prompt("hi")))
        pb >> (lambda router: router.leaving("g", GONE))
        pb >> ("agent", result(Hole("a"), DONE)) << ("client", result("a", DONE))
        pb >> ("agent", update("a")) << ("client", update("a"))
        pb >> (lambda router: router.returned("g"))
        pb << ("g", "p", request(Hole("role"), "initialize", V1))
        pb >> ("g", "p", result(Hole("role"), OK)) << ("g", "s", update("a"))
        pb >> ("g", "p", update("b"))
        lacks(pb, "carry", "session/update[agent_message_chunk]")


def test_one_that_ends_before_the_chain_is_joined() -> None:
    router = Router([guest(ALL), Component("agent")], "auto")
    assert router.closed("g", GONE)


def test_a_turn_that_is_over_is_not_ended() -> None:
    with chain(ALL) as pb:
        pb >> (lambda router: router.end_turn("agent", b"0:99", GONE))


def test_when_a_peer_was_heard_last() -> None:
    agent = Component("agent", limited=True)
    router = Router([guest(ALL), agent])
    initialize(router, [guest(ALL)])
    with Playbook(router) as pb:
        before = pb.router.heard("agent")
        assert before is not None
        pb >> ("agent", update("a")) << ("client", update("a"))
        now = pb.router.heard("agent")
        assert now is not None
        assert now > before
        pb >> ("agent", request("q", PERMISSION, permission()))
        pb << ("client", request(Hole("q"), PERMISSION, permission()))
        assert pb.router.heard("agent") is None  # it waits for the user


def test_one_that_is_trusted_and_watched_and_was_not_given_its_request() -> None:
    for gone in ("client", "g"):
        with chain_of(trusted("g"), audited={"g"}) as pb:
            pb >> (lambda router: router.leaving("g", GONE))
            pb >> ("client", request("a", PROMPT, prompt("hi")))
            pb >> partial(Router.closed, name=gone, reason=GONE)
            skip(pb)
            if gone == "client":
                pb >> (lambda router: router.returned("g"))
                skip(pb)
                pb >> ("g", "p", result(2, {}))
                skip(pb)
            assert settled(pb.router)


def test_one_that_breaks_a_rule_it_may_not_is_ended_for_it() -> None:
    with chain(on_violation="fail") as pb:
        pb >> ("g", "p", update("mine"))
        reason = broke(pb).closure
        assert reason.data["component"] == "g"
        assert "it broke the rule `rights`" in reason.hint


def test_who_asked_what_a_peer_was_asked_and_who_is_next_to_it() -> None:
    with chain_of(trusted("f"), guest(ALL)) as pb:
        pb >> ("client", request("c", "_x", {}))
        pb << ("f", "p", request(Hole("x"), "_x", {}))
        key = str(pb.values["x"]).encode()
        assert pb.router.asker("f", "p", key) == ("client", '"c"')
        assert pb.router.asker("f", "s", b"99") is None
        pb >> (lambda router: router.closed("client", GONE))
        skip(pb)
        assert pb.router.asker("f", "p", key) is None
        assert pb.router.neighbour("f", "p") == "client"
        assert pb.router.neighbour("f", "s") is None
        assert pb.router.neighbour("agent", "s") is None
