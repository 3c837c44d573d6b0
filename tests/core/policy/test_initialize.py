"""`initialize` and a policed component: the component takes its role, and no part beyond its
policy."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from conductor.core import (
    Changed,
    Closure,
    Component,
    Effect,
    Entry,
    Fail,
    Listen,
    Send,
    Silent,
    Violated,
)
from conductor.core.component import HOLD_INITIALIZE
from conductor.core.router import Router, RouterOptions
from tests.harness.router.policed import (
    LABEL,
    V1,
    Hole,
    Json,
    Noted,
    Playbook,
    broke,
    chain,
    chain_of,
    error,
    guest,
    lacks,
    notification,
    refused,
    request,
    result,
    skip,
    taken,
    trusted,
    update,
)

ASKED = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": False}}}
GREEDY = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": True}}}
ANSWER = {"protocolVersion": 1, "agentCapabilities": {"loadSession": False}}
CLAIM = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}


def session_cancel(session: str = "S") -> Json:
    """A cancellation, which observers get a copy of."""
    return notification("session/cancel", {"sessionId": session})


def before(
    *rules: str,
    profile: str = "none",
    kind: str | None = "channel",
    tracing: bool = False,
    **more: Any,
) -> Playbook:
    """A chain before `initialize`."""
    held = guest(*rules, profile=profile, kind=kind, **more)
    return Playbook(
        Router([held, Component("agent", "agent `agent`")], options=RouterOptions(tracing=tracing))
    )


def given(pb: Playbook, asked: Json = ASKED, id_: str = "i") -> None:
    """The client initializes, and only the component is told."""
    pb >> ("client", request(id_, "initialize", asked))
    pb << ("g", "p", request(Hole(f"g-{id_}"), "initialize", asked))


def forwarded(pb: Playbook, sent: Json = ASKED, on: Json = ASKED, id_: str = "i") -> None:
    """The component forwards it, and the agent is told."""
    pb >> ("g", "s", request(f"f-{id_}", "initialize", sent))
    pb << ("agent", request(Hole(f"a-{id_}"), "initialize", on))


def answered(pb: Playbook, answer: Json = ANSWER, id_: str = "i") -> None:
    """The agent answers, and the component is told."""
    pb >> ("agent", result(Hole(f"a-{id_}"), answer))
    pb << ("g", "s", result(f"f-{id_}", answer))


def test_an_answer_to_it_that_does_not_fit_goes_past_the_component() -> None:
    """The component never got the answer, so its error breaks no rule."""
    with before("down:initialize:carry") as pb:
        given(pb)
        forwarded(pb)
        answered(pb)
        lost = b"s" + json.dumps(result("f-i", ANSWER)).encode()
        pb >> (lambda router: router.undeliverable("g", lost, "too deep"))
        skip(pb)
        pb >> ("g", "p", error(Hole("g-i"), -32603, "lost")) << ("client", result("i", ANSWER))


def test_a_component_that_speaks_version_1_only_takes_the_chain_along() -> None:
    asked = {"protocolVersion": 2, "info": {"name": "c", "version": "1"}, "capabilities": {}}
    chosen = {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": asked["info"]}
    with before(profile="full") as pb:
        given(pb, asked)
        forwarded(pb, chosen, chosen)
        answered(pb)
        pb >> ("g", "p", result(Hole("g-i"), ANSWER)) << ("client", result("i", ANSWER))
        assert pb.router.version == 1


# -- as a copy -------------------------------------------------------------------------------------


def copied(pb: Playbook) -> None:
    """The client initializes, the agent is told, and the component has a copy."""
    pb >> ("client", request("i", "initialize", ASKED))
    pb << ("g", "p", request(Hole("g"), "initialize", ASKED))
    pb << ("agent", request(Hole("a"), "initialize", ASKED))


def test_it_may_forward_its_copy_late_twice_or_not_at_all() -> None:
    with before() as pb:
        copied(pb)
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))
        for id_ in ("f", "again"):
            pb >> ("g", "s", request(id_, "initialize", ASKED))
            told = taken(pb)
            assert isinstance(told, Send)
            assert json.loads(told.frame[1:]) == result(id_, ANSWER)
        pb >> ("client", request("j", "initialize", ASKED))
        pb << ("agent", request(Hole("b"), "initialize", ASKED))  # it is not done with the first
        pb >> ("agent", result(Hole("b"), ANSWER)) << ("client", result("j", ANSWER))
        pb >> ("g", "p", error(Hole("g"), 1, "no"))
        pb >> ("client", request("k", "initialize", ASKED))
        pb << ("g", "p", request(Hole("g2"), "initialize", ASKED))
        pb << ("agent", request(Hole("c"), "initialize", ASKED))


def test_one_that_ends_before_it_answers_its_copy_is_started_again_as_one_with_a_role() -> None:
    """Nobody waits for the component: the chain went on without it."""
    gone = Closure("gone")
    with before() as pb:
        assert not pb.router.has_role("g")
        copied(pb)
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))
        for copy in ("g2", "g3"):
            assert pb.router.has_role("g")
            pb >> (lambda router: router.leaving("g", gone)) >> (lambda r: r.returned("g"))
            pb << ("g", "p", request(Hole(copy), "initialize", ASKED))
        pb >> ("g", "s", request("f", "initialize", ASKED))
        pb << ("g", "s", result("f", ANSWER))
        pb >> ("g", "p", result(Hole("g3"), ANSWER))
        assert pb.router.has_role("g")
        pb >> ("client", request("j", "initialize", ASKED))
        pb << ("g", "p", request(Hole("g4"), "initialize", ASKED))
        pb << ("agent", request(Hole("b"), "initialize", ASKED))


def test_one_that_answers_its_copy_with_an_error_counts_as_one_that_has_ended() -> None:
    """Nobody gets that error: else the component would stay in the chain and answer nothing."""
    with before() as pb:
        copied(pb)
        pb >> ("g", "p", error(Hole("g"), 1, "g: bad"))
        pb << Silent("g", "initialize", 0.0, "bad")
        assert Silent("g", "initialize", 0.0, "bad").text == "refuses to start: bad"
        assert Silent("g", "initialize", 2.5).text == "did not answer `initialize` within 2.5 s"
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        pb >> (lambda router: router.returned("g"))
        pb << ("g", "p", request(Hole("g2"), "initialize", ASKED))
        pb >> ("g", "s", request("f", "initialize", ASKED))
        pb >> ("agent", result(Hole("a"), ANSWER))
        pb << ("client", result("i", ANSWER)) << ("g", "s", result("f", ANSWER))
        pb >> ("g", "p", result(Hole("g2"), ANSWER))
        assert pb.router.has_role("g")


def test_an_observer_misses_something_if_there_is_too_much() -> None:
    with before(profile="observer", kind="scp") as pb:
        pb >> ("client", request("i", "initialize", V1))
        skip(pb)
        for n in range(5000):
            pb.router.receive("client", json.dumps(session_cancel(str(n))).encode())
        assert pb.router.forget_lost("g") == 904
        assert pb.router.forget_lost("g") == 0
        assert pb.router.forget_lost("agent") == 0
        assert pb.router.forget_lost("nobody") == 0


# -- as the message itself -------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [True, False])
def test_one_asked_to_launch_its_successor_may_not_answer_in_the_agents_place(
    *, silent: bool
) -> None:
    flag = {"symposium": {"version": "1.0", "proxy": True}}
    claimed = {**CLAIM, "agentCapabilities": {"loadSession": True, "_meta": flag}}
    with before(profile="full", kind=None) as pb:
        pb >> ("client", request("i", "initialize", ASKED))
        pb << ("g", request(1, "proxy/initialize", ASKED))
        pb >> ("g", error(1, -32601, "")) << ("g", request(2, "_proxy/initialize", ASKED))
        pb >> ("g", error(2, -32601, "")) << ("g", request(3, "initialize", Hole("offer")))
        pb >> ("g", result(3, claimed)) << Listen("g")
        pb >> (lambda r: r.listening("g", b"{}"))
        pb << ("g", request(4, "_scp/proxy", {"servers": [{}]}))
        if silent:
            pb >> (lambda r: r.not_launching("g"))
            pb << Noted("warning", "g", "did not answer `_scp/proxy`")
        else:
            pb >> ("g", error(4, -32601, "what?"))
        lacks(pb, "answer", "initialize")
        pb << ("agent", request(1, "initialize", ASKED))
        pb >> ("agent", result(1, ANSWER)) << ("client", result("i", ANSWER))


def test_one_that_never_initializes_the_successor_it_has_launched_may_neither() -> None:
    """The proxy is ready all the same: the messages for it do not wait."""
    with before(profile="full", kind="scp") as pb:
        pb >> ("client", request("i", "initialize", ASKED))
        pb << ("g", request(1, "initialize", Hole("offer")))
        flag = {"symposium": {"version": "1.0", "proxy": True}}
        answer = {"protocolVersion": 1, "agentCapabilities": {"_meta": flag}}
        pb >> ("g", result(1, answer)) << Listen("g")
        pb >> (lambda r: r.listening("g", b"{}"))
        pb << ("g", request(2, "_scp/proxy", {"servers": [{}]}))
        pb >> ("g", result(2, {}))
        pb >> (lambda r: r.not_launching("g"))
        pb << Noted("warning", "g", "without forwarding it")
        lacks(pb, "answer", "initialize")
        pb << ("agent", request(1, "initialize", ASKED))
        pb >> ("agent", result(1, ANSWER)) << ("client", result("i", ANSWER))
        pb >> ("client", request("n", "session/new", {"cwd": "/"}))
        pb << ("g", request(3, "session/new", {"cwd": "/"}))


def test_of_two_at_once_each_has_an_answer() -> None:
    with before(profile="full") as pb:
        given(pb)
        pb >> ("client", request("j", "initialize", ASKED))
        pb >> ("g", "p", error(Hole("g-i"), 1, "g: bad")) << Silent("g", "initialize", 0.0, "bad")
        pb >> (lambda r: r.bypassed("g", Closure("it is gone")))
        pb << ("client", error("i", -32603, "it is gone"))
        pb << ("client", error("j", -32603, "it is gone"))


def test_the_second_of_two_comes_once_the_first_is_answered() -> None:
    with before(profile="full") as pb:
        given(pb)
        pb >> ("client", request("j", "initialize", ASKED))
        forwarded(pb)
        answered(pb)
        pb >> ("g", "p", result(Hole("g-i"), ANSWER)) << ("client", result("i", ANSWER))
        pb << ("g", "p", request(Hole("g-j"), "initialize", ASKED))


def test_it_may_not_claim_more_than_the_client_said() -> None:
    with before(profile="full") as pb:
        given(pb)
        pb >> ("g", "s", request("f-i", "initialize", GREEDY))
        assert broke(pb, "capability-claims").pointer == "/clientCapabilities/fs/readTextFile"
        pb << ("agent", request(Hole("a-i"), "initialize", ASKED))
        answered(pb)
        pb >> ("g", "p", result(Hole("g-i"), ANSWER)) << ("client", result("i", ANSWER))


def test_nor_more_than_the_agent() -> None:
    with before(profile="full") as pb:
        given(pb)
        forwarded(pb)
        answered(pb)
        pb >> ("g", "p", result(Hole("g-i"), CLAIM))
        assert broke(pb, "capability-claims").pointer == "/agentCapabilities/loadSession"
        pb << ("client", result("i", ANSWER))


def test_what_it_may_not_change_goes_as_it_was() -> None:
    with before("down:initialize:carry") as pb:
        given(pb)
        forwarded(pb)
        answered(pb)
        pb >> ("g", "p", result(Hole("g-i"), {"protocolVersion": 1}))
        lacks(pb, "amend", "initialize")
        pb << ("client", result("i", ANSWER))


def test_what_says_the_same_is_no_change() -> None:
    with before("down:initialize:carry") as pb:
        given(pb)
        forwarded(pb)
        answered(pb)
        spelled = b'{"agentCapabilities":{"loadSession":false},"protocolVersion":1.0}'
        pb >> ("g", "p", b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (pb.values["g-i"], spelled))
        pb << ("client", result("i", ANSWER))


def test_without_answer_it_cannot_answer_in_the_agents_place() -> None:
    with before("down:initialize:carry") as pb:
        given(pb)
        pb >> ("g", "p", result(Hole("g-i"), ANSWER))
        taken(pb)  # a warning that it has not forwarded it
        lacks(pb, "answer", "initialize")
        pb << ("agent", request(Hole("a"), "initialize", ASKED))
        pb >> ("g", "s", request("late", "initialize", ASKED))
        broke(pb, "identity", "sent an `initialize` that it was not given")
        refused(pb, "late")
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))


def test_its_error_ends_it() -> None:
    with before("down:initialize:carry") as pb:
        given(pb)
        pb >> ("g", "p", error(Hole("g-i"), 1, "no")) << Silent("g", "initialize", 0.0, "no")


def test_nor_before_the_agent_has() -> None:
    with before("down:initialize:carry") as pb:
        given(pb)
        forwarded(pb)
        pb >> ("g", "p", result(Hole("g-i"), CLAIM))
        lacks(pb, "answer", "initialize")
        pb >> ("agent", result(Hole("a-i"), ANSWER)) << ("g", "s", result("f-i", ANSWER))
        pb << ("client", result("i", ANSWER))
        given(pb, id_="j")
        forwarded(pb, id_="j")


def test_nor_while_its_dialect_is_found_out() -> None:
    """Messages that were to wait for the component go on when the agent has answered."""
    with before("down:initialize:carry", kind=None) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", request(Hole("g"), "proxy/initialize", V1))
        pb >> ("g", result(Hole("g"), ANSWER))
        taken(pb)  # a warning that it has not forwarded it
        lacks(pb, "answer", "initialize")
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))


def test_its_error_ends_it_also_while_its_dialect_is_found_out() -> None:
    """The error reaches nobody, so who reads the log is told of it."""
    with before("down:initialize:carry", kind=None) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", request(Hole("g"), "proxy/initialize", V1))
        pb >> ("g", error(Hole("g"), 1, "g: no")) << Silent("g", "initialize", 0.0, "no")


@pytest.mark.parametrize("profile", ["full", "filter", "observer", "none"])
def test_it_initializes_nobody_of_its_own_accord(profile: str) -> None:
    with chain(profile=profile) as pb:
        pb >> ("g", "s", request("x", "initialize", GREEDY))
        if profile == "full":
            broke(pb, "identity", "sent an `initialize` that it was not given")
            refused(pb, "x")
        else:  # as its copy was answered
            told = taken(pb)
            assert isinstance(told, Send)
            assert told.peer == "g"


def test_it_forwards_each_once() -> None:
    with before(profile="full") as pb:
        given(pb)
        forwarded(pb)
        pb >> ("g", "s", request("again", "initialize", ASKED))
        broke(pb, "identity", "sent an `initialize` that it was not given")
        refused(pb, "again")


# -- other ways past a policy ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "rule", "method"),
    [
        (b's{"jsonrpc":"2.0","method":"f\\u0073/read_text_file","id":1}', "files", None),
        (b's{"jsonrpc":"2.0","method":"FS/read_text_file","id":1}', "method-spelling", None),
        (b's{"jsonrpc":"2.0","method":"_x","method":"fs/read_text_file","id":1}', "files", None),
        (b'p{"jsonrpc":"2.0","method":"fs/write_text_file","id":1}', "files", None),
        (b'p{"jsonrpc":"2.0","method":"session/request_permission","id":1}', None, None),
        (b'p{"jsonrpc":"2.0","method":"elicitation/create","id":1}', "elicitation", None),
        (b's{"jsonrpc":"2.0","method":"authenticate","id":1}', "authentication", None),
        (b's[{"jsonrpc":"2.0","method":"terminal/create","id":1}]', "terminals", None),
    ],
)
def test_full_is_still_guarded(line: bytes, rule: str | None, method: str | None) -> None:
    with chain(profile="full") as pb:
        pb >> (lambda router: router.receive("g", line))
        first, second = taken(pb), taken(pb)
        assert isinstance(first, Violated)
        assert first.rule in (rule or "permission-requests", "rights")
        assert isinstance(second, Send)
        assert second.peer == "g"
        assert first.text.startswith(LABEL)


def peers(effects: Sequence[Effect]) -> set[str]:
    """The peers that effects send something."""
    return {effect.peer for effect in effects if isinstance(effect, Send)}


# -- held for too long -----------------------------------------------------------------------------


def test_one_that_never_passes_initialize_on_is_gone_past() -> None:
    with before(profile="full") as pb:
        given(pb)
        pb.wake(HOLD_INITIALIZE)
        broke(pb, "hold", "has held `initialize` for more than 60 s")
        pb << ("agent", request(Hole("a"), "initialize", ASKED))
        pb >> ("client", notification("session/cancel", {"sessionId": "S"}))
        skip(pb)
        pb >> ("g", "s", request("f", "initialize", GREEDY))  # late, as if it had been a copy
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))
        told = taken(pb)
        assert isinstance(told, Send)
        assert json.loads(told.frame[1:]) == result("f", ANSWER)
        pb >> ("g", "p", result(Hole("g-i"), CLAIM))
        pb >> ("agent", update("a")) << ("g", "s", update("a"))


@pytest.mark.parametrize("how", ["closed", "trusted"])
def test_but_one_that_fails_closed_or_is_trusted_is_waited_for_in_vain(how: str) -> None:
    more: Json = {"profile": "full", "fails": "closed"}
    with before(**more) as pb:
        if how == "trusted":
            pb.router.peers["g"].policy_state = None
        given(pb)
        pb.wake(HOLD_INITIALIZE)
        pb << ("client", error("i", -32603, Hole("why"), {"component": "g"}))
        assert "has held `initialize` for more than 60 s" in pb.values["why"]
        assert "is it a proxy?" in pb.values["why"]
        failed = taken(pb)
        assert isinstance(failed, Fail)
        assert failed.peer == "g"


@pytest.mark.parametrize("when", ["passed", "over", "again"])
def test_who_has_passed_it_on_may_take_its_time(when: str) -> None:
    with before(profile="full") as pb:
        given(pb)
        forwarded(pb)
        if when != "passed":
            answered(pb)
            pb >> ("g", "p", result(Hole("g-i"), ANSWER)) << ("client", result("i", ANSWER))
        if when == "again":
            pb >> (lambda router: router.leaving("g", Closure("gone")))
            pb >> (lambda router: router.returned("g"))
            skip(pb)
        pb.wake(HOLD_INITIALIZE)
        if when == "again":
            pb << Silent("g", "initialize", HOLD_INITIALIZE)


def test_one_that_keeps_the_answer_is_gone_past_as_well() -> None:
    with before(profile="full") as pb:
        given(pb)
        forwarded(pb)
        answered(pb)
        pb.wake(HOLD_INITIALIZE)
        broke(pb, "hold", "has held the answer to `initialize` for more than 60 s")
        pb << ("client", result("i", ANSWER))
        pb >> ("g", "p", result(Hole("g-i"), CLAIM))
        pb.wake(HOLD_INITIALIZE)


def test_a_trusted_one_that_is_watched_may_initialize_its_successor_again() -> None:
    with chain_of(trusted("g"), audited={"g"}) as pb:
        pb >> ("g", "s", request("again", "initialize", V1))
        changed = taken(pb)
        assert isinstance(changed, Changed)
        assert changed.change == "originated"
        pb << ("agent", request(Hole("a"), "initialize", V1))


def test_a_trace_tells_of_it_too() -> None:
    with before(profile="full", tracing=True) as pb:
        pb >> ("client", request("i", "initialize", ASKED))
        skip(pb)
        pb >> ("g", "s", request("f", "initialize", ASKED))
        assert any("initialize" in str(one) for one in skip(pb))
        pb >> ("agent", result(1, ANSWER))
        skip(pb)
        pb >> ("g", "p", result(1, CLAIM))  # which it may not say: the agent's goes past it
        told = [one for one in skip(pb) if isinstance(one, Entry) and one.target == "client"]
        assert [one.past for one in told] == [True]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-31900, {"code": -31900, "message": "g: no", "data": {"component": "g"}}),
        (-32000, {"code": 5, "message": "broken"}),
    ],
)
def test_an_error_names_its_component_and_shows_no_login(code: int, told: Json) -> None:
    with before("down:initialize:carry+amend") as pb:
        given(pb)
        pb >> ("g", "s", request(Hole("g-i"), "initialize", ASKED))
        pb << ("agent", request(Hole("a-i"), "initialize", ASKED))
        pb >> ("agent", error(Hole("a-i"), 5, "broken"))
        pb << ("g", "s", error(Hole("g-i"), 5, "broken"))
        pb >> ("g", "p", error(Hole("g-i"), code, "no"))
        if code == -32000:
            broke(pb, "handshake", "log in")
        pb << ("client", {"jsonrpc": "2.0", "id": "i", "error": told})
