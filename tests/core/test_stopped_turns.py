"""`session/cancel` where it passes a component by that holds the prompt it is about."""

from __future__ import annotations

import json
from typing import Final

import pytest

from conductor.core import Closure, Component, Router, Send
from conductor.core.policy import PolicyWords
from tests.core.actors import FORMS, Guest, PassThrough, dump
from tests.core.plays import error, notification, request, result
from tests.core.policed import (
    Json,
    broke,
    chain,
    component,
    heard,
    initialize,
    lacks,
    policy,
    prompt,
    refusal,
    skip,
    taken,
)
from tests.playbook import Hole, Playbook

PROMPT, LOAD = "session/prompt", "session/load"
STOP = notification("session/cancel", {"sessionId": "S"})
OTHER = notification("session/cancel", {"sessionId": "T"})
NEXT = notification("_next", {"sessionId": "S"})
STOPPED = {"stopReason": "cancelled"}
DONE = {"stopReason": "end_turn"}
OVER = f"`{PROMPT}` has been answered, or has gone on, without this"
HOLDS: Final = "down:session/prompt:modify"
ANSWERS: Final = "down:session/prompt:answer"


def ask(pb: Playbook, text: str = "hi", asked: str = "a", session: str = "S") -> None:
    """The client prompts, and the component is given it."""
    given = prompt(text, session)
    pb >> ("client", request(asked, PROMPT, given))
    pb << ("g", "p", request(Hole(f"in-{asked}"), PROMPT, given))


def stop(pb: Playbook, *asked: str) -> None:
    """The client cancels: these prompts are answered, and component and agent hear of it."""
    pb >> ("client", STOP)
    for id_ in asked:
        pb << ("client", result(id_, STOPPED))
    pb << ("g", "p", STOP) << ("agent", STOP)


def late(pb: Playbook, text: str = "hi", id_: object = "m") -> None:
    """The component sends a prompt on that is cancelled."""
    pb >> ("g", "s", request(id_, PROMPT, prompt(text))) << ("g", "s", result(id_, STOPPED))


# -- whoever may not answer prompts ----------------------------------------------------------------


def test_who_holds_the_prompt_hears_of_it_and_the_agent_never_hears_of_the_prompt() -> None:
    with chain(profile="context") as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "s", STOP)  # it passes its copy on: nobody needs it
        late(pb)
        pb >> ("g", "p", result(Hole("in-a"), STOPPED))
        ask(pb, "more", "b")
        pb >> ("g", "s", request("n", PROMPT, prompt("more")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("more")))
        pb >> ("agent", result(Hole("out"), DONE)) << ("g", "s", result("n", DONE))
        pb << ("client", result("b", DONE))


def test_in_version_2_the_prompt_was_not_inserted() -> None:
    with chain(profile="context") as pb:
        pb.router._exchange.version = 2
        ask(pb)
        pb >> ("client", STOP) << ("client", error("a", -32800, "Request cancelled"))
        pb << ("g", "p", STOP) << ("agent", STOP)
        pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
        pb << ("g", "s", error("m", -32800, "Request cancelled"))


def test_what_it_says_to_a_stopped_prompt_does_not_count() -> None:
    with chain(profile="context") as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "p", error(Hole("in-a"), 1, "no"))
        late(pb)
        pb >> ("g", "s", request("m", PROMPT, prompt("hi"))) << lacks("originate", "down", PROMPT)
        pb << ("g", "s", refusal("m", "originate", PROMPT))


@pytest.mark.parametrize("rules", [[HOLDS], [HOLDS, "down:session/cancel:observe"]])
def test_it_is_told_once_and_has_one_copy_to_pass_on(rules: list[str]) -> None:
    with chain(*rules) as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "s", STOP)
        pb >> ("g", "s", STOP) << lacks("originate", "down", "session/cancel")
        pb >> ("g", "s", OTHER) << lacks("originate", "down", "session/cancel")


def test_one_that_may_cancel_does_not_cancel_twice() -> None:
    may = "down:session/cancel:originate"
    with chain(HOLDS, may, unguard="session-lifecycle") as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "s", STOP)
        pb >> ("g", "s", OTHER) << ("agent", OTHER)
        pb >> ("g", "s", STOP) << ("agent", STOP)


def test_who_holds_nothing_of_the_session_hears_nothing() -> None:
    with chain(profile="context") as pb:
        pb >> ("client", STOP) << ("agent", STOP)
        ask(pb, session="T")
        pb >> ("client", STOP) << ("agent", STOP)
        (
            pb
            >> ("client", notification("session/cancel"))
            << (
                "agent",
                notification("session/cancel"),
            )
        )
        pb >> ("g", "s", request("m", PROMPT, prompt("hi", "T")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("hi", "T")))
        pb >> ("client", OTHER) << ("agent", OTHER)  # that one is the agent's by now
        pb >> ("agent", result(Hole("out"), STOPPED)) << ("g", "s", result("m", STOPPED))
        pb << ("client", result("a", STOPPED))


def test_who_holds_the_cancellation_itself_is_left_to_it() -> None:
    with chain(HOLDS, "down:session/cancel:modify") as pb:
        ask(pb)
        pb >> ("client", STOP) << ("g", "p", STOP)
        pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("hi")))
        pb >> ("g", "s", STOP) << ("agent", STOP)


@pytest.mark.parametrize("answer", [result(0, STOPPED), error(0, -32800, "cancelled")])
def test_who_holds_the_cancellation_may_end_the_prompt(answer: Json) -> None:
    with chain(profile="filter") as pb:
        for asked in "ab":  # the second time it is known to hold such notifications
            ask(pb, "hi", asked)
            pb >> ("client", STOP) << ("g", "p", STOP)
            pb >> ("g", "p", {**answer, "id": Hole(f"in-{asked}")})
            pb << ("client", {**answer, "id": asked})
            pb >> ("g", "s", STOP) << ("agent", STOP)
        ask(pb, "hi", "c")
        pb >> ("client", STOP) << ("g", "p", STOP)
        pb >> ("g", "p", result(Hole("in-c"), DONE)) << lacks("answer", "down", PROMPT)
        pb << ("client", result("c", STOPPED))


def test_setup_does_not_hold_it_up() -> None:
    """A turn may be running in the session already."""
    with chain(profile="context") as pb:
        given = {"sessionId": "S", "cwd": "/", "mcpServers": []}
        pb >> ("client", request("l", LOAD, given)) << ("g", "p", request(Hole("in"), LOAD, given))
        ask(pb)
        stop(pb, "a")
        pb >> ("client", NEXT)
        pb >> ("client", STOP)  # not even this one overtakes what waits
        pb >> ("g", "s", request("m", LOAD, given))
        pb << ("agent", request(Hole("out"), LOAD, given)) << ("agent", NEXT) << ("agent", STOP)


def test_what_waited_for_the_prompt_goes_first() -> None:
    with chain(profile="context") as pb:
        ask(pb)
        pb >> ("client", NEXT)
        ask(pb, "more", "b")
        (
            pb
            >> ("client", STOP)
            << ("client", result("a", STOPPED))
            << ("client", result("b", STOPPED))
        )
        pb << ("g", "p", STOP) << ("agent", NEXT) << ("agent", STOP)
        late(pb, "more")
        late(pb, "hi", "n")


# -- whoever may answer prompts --------------------------------------------------------------------


@pytest.mark.parametrize("rules", [[HOLDS, ANSWERS], [ANSWERS]])
def test_who_may_answer_does(rules: list[str]) -> None:
    with chain(*rules) as pb:
        ask(pb)
        pb >> ("client", NEXT)
        pb >> ("client", STOP) << ("g", "p", STOP) << ("agent", NEXT) << ("agent", STOP)
        pb >> ("client", STOP) << ("agent", STOP)  # it knows already
        pb >> ("g", "p", result(Hole("in-a"), STOPPED)) << ("client", result("a", STOPPED))
        late(pb)


def test_or_sends_it_on_and_gets_the_answer_for_it() -> None:
    with chain(HOLDS, ANSWERS) as pb:
        ask(pb)
        stop(pb)
        late(pb)
        pb >> ("g", "p", result(Hole("in-a"), STOPPED)) << ("client", result("a", STOPPED))
        ask(pb, "more", "b")
        stop(pb)
        late(pb, "more")
        pb >> ("g", "p", result(Hole("in-b"), DONE)) << lacks("modify", "down", PROMPT)
        pb << ("client", result("b", STOPPED))


def test_an_answer_it_may_not_give_is_the_agents() -> None:
    with chain(ANSWERS) as pb:
        ask(pb)
        stop(pb)
        pb >> ("g", "p", b'{"jsonrpc":"2.0","id":2,"result":{"stopReason":"a","stopReason":"b"}}')
        broke(pb, "duplicate-keys")
        pb << ("client", result("a", STOPPED))


def test_one_that_dies_leaves_it_answered() -> None:
    for rules in ([HOLDS, ANSWERS], [HOLDS, "down:session/cancel:modify"]):
        with chain(*rules) as pb:
            ask(pb)
            pb.router.receive("client", dump(STOP))
            pb >> (lambda router: router.leaving("g", Closure("gone")))
            pb << ("client", result("a", STOPPED))
            way = pb.router.peers["g"].s.way
            assert not way.busy
            assert not way.gone


# -- which prompt it was ---------------------------------------------------------------------------


def test_a_late_prompt_is_not_taken_for_the_next_one() -> None:
    """Both are changed, so that no bytes tell which is which."""
    with chain(profile="context") as pb:
        ask(pb, "what is the time")
        stop(pb, "a")
        ask(pb, "make me a coffee", "b")
        for id_, text in (("n", "make me a coffee"), ("m", "what is the time")):
            changed = prompt(text)
            changed["prompt"].insert(0, {"type": "text", "text": "be brief"})
            pb >> ("g", "s", request(id_, PROMPT, changed))
            if id_ == "n":
                pb << ("agent", request(Hole("out"), PROMPT, changed))
            else:
                pb << ("g", "s", result("m", STOPPED))


def test_the_same_text_again_is_the_next_one() -> None:
    """Here a component drops what is stopped without a word."""
    with chain(profile="context") as pb:
        for asked in "abc":
            ask(pb, "again", asked)
            if asked != "c":
                stop(pb, asked)
        respelled = json.dumps(request("m", PROMPT, prompt("again")), indent=1).replace("\n", "")
        pb >> ("g", "s", respelled.encode())
        pb << ("agent", request(Hole("out"), PROMPT, prompt("again")))
        ask(pb, "again", "d")
        changed = prompt("again")
        changed["prompt"].append({"type": "text", "text": "and again"})
        pb >> ("g", "s", request("n", PROMPT, changed))
        pb << ("agent", request(Hole("more"), PROMPT, changed))


def test_what_breaks_a_rule_is_not_taken_for_a_late_one() -> None:
    with chain(profile="context") as pb:
        ask(pb)
        stop(pb, "a")
        ask(pb, "hello there", "b")
        changed = {**prompt("hello there"), "permissionMode": "bypass"}
        pb >> ("g", "s", request("m", PROMPT, changed))
        broke(pb, "prompt-options", "/permissionMode")
        (refused, goes_on) = taken(pb, 2)
        assert isinstance(refused, Send)
        assert b'"rule":"prompt-options"' in refused.frame
        assert isinstance(goes_on, Send)
        assert (goes_on.peer, b"bypass" in goes_on.frame) == ("agent", False)


def test_what_reads_the_same_but_is_not_is_looked_at_all_the_same() -> None:
    with chain(profile="context") as pb:
        ask(pb)
        stop(pb, "a")
        ask(pb, "hello", "b")
        twice = dump(request("m", PROMPT, prompt("hello"))).replace(
            b'"sessionId":', b'"sessionId":"T","sessionId":'
        )
        pb >> ("g", "s", twice)
        broke(pb, "duplicate-keys")
        (_, goes_on) = taken(pb, 2)
        assert isinstance(goes_on, Send)
        assert (goes_on.peer, b'"T"' in goes_on.frame) == ("agent", False)


def test_one_that_was_answered_is_not_looked_for_while_there_are_others() -> None:
    """Its answer says that it gave it up, so what it sends is the next one, however changed."""
    with chain(profile="context") as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "p", error(Hole("in-a"), -32800, "cancelled"))
        ask(pb, "hi!", "b")
        pb >> ("g", "s", request("m", PROMPT, prompt("quite another")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("quite another")))
        late(pb, "something else", "n")


def test_what_is_the_components_own_is_not_taken_for_a_late_one() -> None:
    with chain(HOLDS, "down:session/prompt:originate") as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "s", request("m", PROMPT, prompt("of its own")))
        pb << ("agent", request(Hole("out"), PROMPT, prompt("of its own")))
        late(pb, "hi", "n")


# -- others ----------------------------------------------------------------------------------------


def test_one_that_is_only_shown_it_is_passed_by() -> None:
    """Its place in the order is all that was the component's to say."""
    with chain("up:session/update:modify") as pb:
        ask(pb)
        pb >> ("client", request("b", PROMPT, prompt("more"))) >> ("client", STOP)
        pb << ("agent", request(Hole("a"), PROMPT, prompt("hi")))
        pb << ("g", "p", request(Hole("in-b"), PROMPT, prompt("more")))
        pb << ("agent", request(Hole("b"), PROMPT, prompt("more"))) << ("agent", STOP)
        pb >> ("g", "s", request("m", PROMPT, prompt("hi"))) << ("g", "s", error("m", -32600, OVER))
        pb >> ("agent", result(Hole("a"), STOPPED)) << ("client", result("a", STOPPED))
        pb >> ("agent", result(Hole("b"), STOPPED)) << ("client", result("b", STOPPED))
        pb >> heard


def test_what_waits_for_one_that_is_started_again_it_never_hears_of() -> None:
    with chain(profile="context") as pb:
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        pb >> ("client", request("a", PROMPT, prompt("hi")))
        pb >> ("client", STOP) << ("client", result("a", STOPPED)) << ("agent", STOP)
        pb >> (lambda router: router.returned("g"))
        skip(pb)
        pb >> ("g", "s", request(1, "initialize", {"protocolVersion": 1}))
        pb << ("g", "s", result(1, {"protocolVersion": 1, "agentCapabilities": {}}))
        pb >> ("g", "p", result(2, {"protocolVersion": 1, "agentCapabilities": {}}))
        ask(pb, "more", "b")


def test_each_in_the_chain_that_holds_one() -> None:
    """The first has sent its prompt on, to the second, and holds another."""
    held = [component(policy(HOLDS), "channel", name) for name in ("f", "g")]
    router = Router([*held, Component("agent", "agent `agent`")])
    initialize(router, {"f": Guest("f"), "g": Guest("g")})
    with Playbook(router) as pb:
        pb >> ("client", request("a", PROMPT, prompt("one")))
        pb << ("f", "p", request(Hole("f-a"), PROMPT, prompt("one")))
        pb >> ("f", "s", request("m", PROMPT, prompt("ONE")))
        pb << ("g", "p", request(Hole("g-a"), PROMPT, prompt("ONE")))
        (
            pb
            >> ("client", STOP)
            << ("f", "s", result("m", STOPPED))
            << ("client", result("a", STOPPED))
        )
        pb << ("g", "p", STOP) << ("agent", STOP)
        pb >> ("client", request("b", PROMPT, prompt("two")))
        pb << ("f", "p", request(Hole("f-b"), PROMPT, prompt("two")))
        pb >> ("client", STOP) << ("client", result("b", STOPPED))
        pb << ("f", "p", STOP) << ("agent", STOP)


@pytest.mark.parametrize("kind", ["acp", "sdk", "sacp", "pacp"])
def test_programs_of_every_dialect(kind: str) -> None:
    """One that passes everything on, but holds the prompt until it has been cancelled."""
    form = FORMS[kind]
    words = PolicyWords("context").policy()
    router = Router([component(words, kind), Component("agent", "agent `agent`")])
    actor = PassThrough("g", form)
    initialize(router, {"g": actor})

    def sent(*lines: bytes, by: str = "client") -> list[tuple[str, Json]]:
        effects = [one for line in lines for one in router.receive(by, line)]
        assert all(isinstance(one, Send) for one in effects)
        return [(one.peer, json.loads(one.frame)) for one in effects if isinstance(one, Send)]

    given = sent(dump(request("a", PROMPT, prompt("hi"))), dump(STOP))
    assert [peer for peer, _ in given] == ["g", "client", "g", "agent"]
    assert given[1][1] == result("a", STOPPED)
    held = [line for peer, one in given if peer == "g" for _, line in actor.hear("g", dump(one))]
    answers = sent(*held, by="g")
    assert [(peer, one["result"]) for peer, one in answers] == [("g", STOPPED)]
    passed_back = [line for _, one in answers for _, line in actor.hear("g", dump(one))]
    assert sent(*passed_back, by="g") == []


def test_it_is_no_change_for_an_audit() -> None:
    router = Router(
        [component(policy(HOLDS), "channel"), Component("agent", "agent `agent`")], audited=["g"]
    )
    initialize(router, {"g": Guest("g")})
    with Playbook(router) as pb:
        ask(pb)
        stop(pb, "a")
        pb >> ("g", "s", STOP)
        late(pb)
        pb >> ("g", "p", result(Hole("in-a"), STOPPED))
        pb >> (lambda router: router.settled("g"))


# -- sessions that are closed ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
@pytest.mark.parametrize("rule", [HOLDS, ANSWERS])
def test_closing_a_session_waits_for_no_prompt(method: str, rule: str) -> None:
    with chain(rule) as pb:
        ask(pb)
        ask(pb, "other", "b", "T")
        pb >> ("client", request("c", method, {"sessionId": "S"}))
        if rule == HOLDS:
            pb << ("client", result("a", STOPPED))
        pb << ("g", "p", STOP) << ("agent", request(Hole("out"), method, {"sessionId": "S"}))
        if rule == ANSWERS:
            pb >> ("g", "p", result(Hole("in-a"), STOPPED)) << ("client", result("a", STOPPED))
        pb >> ("agent", result(Hole("out"), {})) << ("client", result("c", {}))
        late(pb)
        pb >> ("client", request("d", method, {})) << ("agent", request(Hole("d"), method, {}))
        pb >> ("g", "s", request("n", PROMPT, prompt("other", "T")))
        pb << ("agent", request(Hole("on"), PROMPT, prompt("other", "T")))


def test_closing_a_session_waits_for_all_else() -> None:
    with chain(HOLDS, "down:session/load:modify") as pb:
        ask(pb)
        given = {"sessionId": "S", "cwd": "/", "mcpServers": []}
        (
            pb
            >> ("client", request("l", LOAD, given))
            << ("g", "p", request(Hole("load"), LOAD, given))
        )
        pb >> ("client", request("c", "session/close", {"sessionId": "S"}))
        pb << ("client", result("a", STOPPED)) << ("g", "p", STOP)
        pb >> ("g", "s", request("m", LOAD, given)) << ("agent", request(Hole("on"), LOAD, given))
        pb << ("agent", request(Hole("out"), "session/close", {"sessionId": "S"}))


def test_whose_own_cancellations_are_to_pass_on_is_told_of_none_that_nobody_sent() -> None:
    with chain(HOLDS, "down:session/cancel:modify") as pb:
        ask(pb)
        pb >> ("client", request("c", "session/close", {"sessionId": "S"}))
        pb >> ("g", "s", request("m", PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("on"), PROMPT, prompt("hi")))
        pb << ("agent", request(Hole("out"), "session/close", {"sessionId": "S"}))
