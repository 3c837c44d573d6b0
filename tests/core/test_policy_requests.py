"""Requests and a policed component: every verb, both ways, and what it does with them."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from conductor.core import Closure, Send
from tests.core.plays import error, request, result
from tests.core.policed import (
    Json,
    broke,
    cancel,
    chain,
    heard,
    lacks,
    permission,
    prompt,
    refusal,
    taken,
)
from tests.playbook import Hole, Noted, Playbook

OVER = "`_q` has been answered, or has gone on, without this"
NO = {"code": 1, "message": "no"}


class Route(NamedTuple):
    """How a request goes through the component."""

    way: str
    back: str
    source: str
    inlet: str
    outlet: str
    target: str

    def through(self, pb: Playbook, n: object = 1, asked: str = "a") -> None:
        """The asker asks, and the component is given it."""
        pb >> (self.source, request(asked, "_q", params(n)))
        pb << ("g", self.inlet, request(Hole(f"in-{asked}"), "_q", params(n)))

    def onward(self, pb: Playbook, n: object = 1, mine: str = "m", went: str = "out") -> None:
        """The component sends it on."""
        pb >> ("g", self.outlet, request(mine, "_q", params(n)))
        pb << (self.target, request(Hole(went), "_q", params(n)))


DOWN = Route("down", "up", "client", "p", "s", "agent")
UP = Route("up", "down", "agent", "s", "p", "client")
ROUTES = pytest.mark.parametrize("r", [DOWN, UP], ids=["down", "up"])


def params(n: object, session: str = "S") -> Json:
    return {"sessionId": session, "n": n}


# -- no verb ---------------------------------------------------------------------------------------


@ROUTES
@pytest.mark.parametrize("verbs", ["", ":originate"])
def test_without_a_verb_it_passes_by_and_so_does_its_answer(r: Route, verbs: str) -> None:
    with chain(*([f"{r.way}:_q{verbs}"] if verbs else [])) as pb:
        pb >> (r.source, request("a", "_q", params(1)))
        pb << (r.target, request(Hole("out"), "_q", params(1)))
        pb >> (r.target, result(Hole("out"), 5)) << (r.source, result("a", 5))


@ROUTES
def test_nothing_may_be_asked_without_a_verb(r: Route) -> None:
    with chain() as pb:
        pb >> ("g", r.outlet, request("m", "_q", params(1))) << lacks("originate", r.way, "_q")
        pb << ("g", r.outlet, refusal("m", "originate", "_q"))


@ROUTES
def test_originate_lets_it_ask(r: Route) -> None:
    with chain(f"{r.way}:_q:originate") as pb:
        r.onward(pb)
        pb >> ("g", r.outlet, cancel("m")) << (r.target, cancel(Hole("out")))
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))
        pb >> ("g", r.inlet, request("m", "_q")) << lacks("originate", r.back, "_q")
        pb << ("g", r.inlet, refusal("m", "originate", "_q"))


# -- modify ----------------------------------------------------------------------------------------


@ROUTES
@pytest.mark.parametrize("n", [1, "changed"])
def test_modify_lets_it_send_on_and_the_answer_goes_straight_back(r: Route, n: object) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        r.through(pb)
        r.onward(pb, n)
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))
        pb << (r.source, result("a", 5))
        pb >> ("g", r.inlet, result(Hole("in-a"), "forged"))


@ROUTES
@pytest.mark.parametrize("body", [{"result": "forged"}, {"error": NO}, {"x": 1}])
def test_without_answer_it_may_not_answer(r: Route, body: Json) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        r.through(pb)
        pb >> ("g", r.inlet, {"jsonrpc": "2.0", "id": Hole("in-a"), **body})
        pb << lacks("answer", r.way, "_q") << (r.target, request(Hole("out"), "_q", params(1)))
        pb >> ("g", r.outlet, request("m", "_q", params(1)))  # too late, and no violation
        pb << ("g", r.outlet, error("m", -32600, OVER))
        pb >> ("g", r.outlet, request("m", "_q", params(1))) << lacks("originate", r.way, "_q")
        pb << ("g", r.outlet, refusal("m", "originate", "_q"))
        pb >> (r.target, result(Hole("out"), 5)) << (r.source, result("a", 5))


@ROUTES
def test_without_answer_it_may_not_answer_before_the_other_side(r: Route) -> None:
    with chain(f"{r.way}:_q:modify", f"{r.back}:_q:modify") as pb:
        r.through(pb)
        r.onward(pb)
        pb >> ("g", r.inlet, result(Hole("in-a"), "early")) << lacks("answer", r.way, "_q")
        pb >> (r.source, cancel("a")) << ("g", r.inlet, cancel(Hole("in-a")))
        pb << (r.target, cancel(Hole("out")))
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))
        pb << (r.source, result("a", 5))


@ROUTES
def test_it_may_give_up_on_what_was_cancelled(r: Route) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        r.through(pb)
        pb >> (r.source, cancel("a")) << ("g", r.inlet, cancel(Hole("in-a")))
        pb >> ("g", r.inlet, error(Hole("in-a"), -32800, "cancelled"))
        pb << (r.source, error("a", -32800, "cancelled"))


@ROUTES
@pytest.mark.parametrize("answer", [5, "changed"])
def test_modify_both_ways_takes_the_answer_through(r: Route, answer: object) -> None:
    with chain(f"{r.way}:_q:modify", f"{r.back}:_q:modify") as pb:
        r.through(pb)
        r.onward(pb)
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))
        pb >> ("g", r.inlet, result(Hole("in-a"), answer)) << (r.source, result("a", answer))
        pb >> ("g", r.inlet, result(Hole("in-a"), answer))
        pb << Noted("warning", "g", "answer dropped")


@ROUTES
def test_two_of_one_session_are_told_apart(r: Route) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        first, second = {"x": 1, "y": 1, "z": 1}, {"x": 2, "y": 2, "z": 2}
        for asked, body in (("a", first), ("b", second)):
            pb >> (r.source, request(asked, "_q", body))
            pb << ("g", r.inlet, request(Hole(f"in-{asked}"), "_q", body))
        changed = {**second, "z": 3}
        pb >> ("g", r.outlet, request("m", "_q", changed))
        pb << (r.target, request(Hole("out"), "_q", changed))
        pb >> (r.target, result(Hole("out"), 2)) << ("g", r.outlet, result("m", 2))
        pb << (r.source, result("b", 2))
        pb >> ("g", r.outlet, request("n", "_q", first))
        pb << (r.target, request(Hole("out1"), "_q", first))
        pb >> (r.target, result(Hole("out1"), 1)) << ("g", r.outlet, result("n", 1))
        pb << (r.source, result("a", 1))


@ROUTES
def test_it_may_not_ask_twice_for_one_request(r: Route) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        r.through(pb)
        r.onward(pb)
        pb >> ("g", r.outlet, request("n", "_q", params(1))) << lacks("originate", r.way, "_q")
        pb << ("g", r.outlet, refusal("n", "originate", "_q"))
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))
        pb << (r.source, result("a", 5))


# -- answer ----------------------------------------------------------------------------------------


@ROUTES
def test_answer_lets_it_answer(r: Route) -> None:
    with chain(f"{r.way}:_q:answer") as pb:
        r.through(pb)
        pb >> ("g", r.inlet, result(Hole("in-a"), "mine")) << (r.source, result("a", "mine"))
        r.through(pb, asked="b")
        r.onward(pb)
        pb >> ("g", r.inlet, result(Hole("in-b"), "early")) << (r.source, result("b", "early"))
        pb >> (r.target, result(Hole("out"), 5)) << ("g", r.outlet, result("m", 5))


@ROUTES
def test_answer_lets_it_send_on_but_not_change(r: Route) -> None:
    with chain(f"{r.way}:_q:answer") as pb:
        r.through(pb)
        pb >> ("g", r.outlet, request("m", "_q", params(2))) << lacks("modify", r.way, "_q")
        pb << ("g", r.outlet, refusal("m", "modify", "_q"))
        pb << (r.target, request(Hole("out"), "_q", params(1)))
        pb >> (r.target, result(Hole("out"), 5)) << (r.source, result("a", 5))
        pb >> ("g", r.inlet, result(Hole("in-a"), "late"))


@ROUTES
def test_what_it_may_not_change_goes_on_as_it_was_spelled(r: Route) -> None:
    with chain(f"{r.way}:_q:answer") as pb:
        spelled = b'{"sessionId":"S" , "n":1.0e0}'
        pb >> (r.source, b'{"jsonrpc":"2.0","id":1,"method":"_q","params":%b}' % spelled)
        pb << ("g", r.inlet, request(Hole("in"), "_q", {"sessionId": "S", "n": 1.0}))
        again = b'{"n":1,"sessionId":"\\u0053"}'
        pb >> ("g", r.outlet, b'{"jsonrpc":"2.0","id":1,"method":"_q","params":%b}' % again)
        frame = b'{"jsonrpc":"2.0","id":%d,"method":"_q","params":%b}'
        (effect,) = taken(pb, 1)
        assert isinstance(effect, Send)
        assert effect.peer == r.target
        assert effect.frame[:-1] == frame % (json.loads(effect.frame)["id"], spelled)


# -- observe ---------------------------------------------------------------------------------------


@ROUTES
def test_an_observer_that_sends_on_is_answered_as_the_original_is(r: Route) -> None:
    with chain(f"{r.way}:_q:observe") as pb:
        pb >> (r.source, request("a", "_q", params(1)))
        copied(pb, r, "c1")
        pb << (r.target, request(Hole("out"), "_q", params(1)))
        pb >> ("g", r.outlet, request("m", "_q", params("whatever")))
        pb >> ("g", r.inlet, result(Hole("c1"), "forged"))
        pb >> (r.target, result(Hole("out"), 5)) << (r.source, result("a", 5))
        pb << Send("g", line(r.outlet, result("m", 5)), True)
        pb >> ("g", r.outlet, request("n", "_q", params(1))) << lacks("originate", r.way, "_q")
        pb << ("g", r.outlet, refusal("n", "originate", "_q"))


@ROUTES
def test_an_observer_may_be_late_or_never_come(r: Route) -> None:
    with chain(f"{r.way}:_q:observe") as pb:
        for n, asked in enumerate("ab"):
            pb >> (r.source, request(asked, "_q", params(n)))
            copied(pb, r, f"c{n}", n)
            pb << (r.target, request(Hole(f"out{n}"), "_q", params(n)))
            pb >> (r.target, result(Hole(f"out{n}"), n)) << (r.source, result(asked, n))
        pb >> ("g", r.outlet, request("m", "_q", params(1)))
        pb << Send("g", line(r.outlet, result("m", 1)), True)
        pb >> heard


@ROUTES
def test_an_observer_that_may_originate_is_told_apart(r: Route) -> None:
    with chain(f"{r.way}:_q:observe+originate") as pb:
        pb >> (r.source, request("a", "_q", params(1)))
        copied(pb, r, "c1")
        pb << (r.target, request(Hole("out"), "_q", params(1)))
        r.onward(pb, "own", "m", "own")
        pb >> ("g", r.outlet, request("n", "_q", params(1)))
        pb >> (r.target, result(Hole("own"), 1)) << ("g", r.outlet, result("m", 1))
        pb >> (r.target, result(Hole("out"), 2)) << (r.source, result("a", 2))
        pb << Send("g", line(r.outlet, result("n", 2)), True)


@ROUTES
def test_an_observer_hears_of_cancelling_and_cancels_nothing(r: Route) -> None:
    with chain(f"{r.way}:_q:observe") as pb:
        pb >> (r.source, request("a", "_q", params(1)))
        copied(pb, r, "c1")
        pb << (r.target, request(Hole("out"), "_q", params(1)))
        pb >> ("g", r.outlet, request("m", "_q", params(1)))
        pb >> ("g", r.outlet, cancel("m"))
        pb >> (r.source, cancel("a")) << (r.target, cancel(Hole("out")))
        pb << ("g", r.inlet, cancel(Hole("c1")))
        pb >> (r.target, error(Hole("out"), -32800, "cancelled"))
        pb << (r.source, error("a", -32800, "cancelled"))
        body = b'{"code": -32800, "message": "cancelled"}'
        told = b'%b{"jsonrpc":"2.0","id":"m","error":%b}\n' % (r.outlet.encode(), body)
        pb << Send("g", told, True)


def copied(pb: Playbook, r: Route, hole: str, n: object = 1) -> None:
    """The next effect is a copy of a request."""
    (effect,) = taken(pb, 1)
    assert isinstance(effect, Send)
    assert effect.copy
    message = json.loads(effect.frame[1:])
    pb.values[hole] = message["id"]
    told = b'"method":"_q","params":%b}\n' % json.dumps(params(n)).encode()
    assert effect.frame == b'%b{"jsonrpc":"2.0","id":%d,' % (r.inlet.encode(), message["id"]) + told


def line(side: str, message: Json) -> bytes:
    """A line for a guest."""
    return side.encode() + json.dumps(message, separators=(",", ":")).encode() + b"\n"


def test_the_memory_for_an_observer_that_sends_nothing_on_is_bounded() -> None:
    with chain(profile="observer") as pb:
        for n in range(3000):
            pb.router.receive("client", json.dumps(request(n, "_q", params(n))).encode())
            pb.router.receive("agent", json.dumps(result(n + 2, n)).encode())
        peer = pb.router.peers["g"]
        assert len(peer.p.link.sent) <= 1024
        assert len(peer.s.way.copied) <= 1024
        assert pb.router.pending() == 0


def test_the_memory_for_one_that_breaks_rules_is_bounded() -> None:
    """It answers wrongly, so the requests go on without it; its other answers never come."""
    with chain("down:_q:modify") as pb:
        for n in range(3000):
            (sent,) = pb.router.receive("client", json.dumps(request(n, "_q", params(n))).encode())
            assert isinstance(sent, Send)
            assert sent.peer == "g"
            wrong = request(n, "_q", {"sessionId": "S", "n": n, "sessionid": "T"})
            effects = pb.router.receive("g", b"s" + json.dumps(wrong).encode())
            assert [type(one).__name__ for one in effects] == ["Violated", "Send", "Send"]
        assert len(pb.router.peers["g"].p.link.sent) <= 1024
        assert pb.router.pending() == 3000


# -- guards, and what they are told ----------------------------------------------------------------


def test_a_violation_is_told_to_the_component_with_rule_and_pointer() -> None:
    evil = {"name": "x", "command": "sh", "args": [], "env": []}
    setup = {"cwd": "/", "mcpServers": []}
    with chain(profile="full") as pb:
        pb >> ("client", request("a", "session/new", setup))
        pb << ("g", "p", request(Hole("in"), "session/new", setup))
        pb >> ("g", "s", request("m", "session/new", {**setup, "mcpServers": [evil]}))
        text = broke(pb, "mcp-servers", "/mcpServers/0")
        data = {"rule": "mcp-servers", "pointer": "/mcpServers/0", "component": "g"}
        pb << ("g", "s", error("m", -32600, text, data))
        pb << ("agent", request(Hole("out"), "session/new", setup))
        pb >> ("agent", result(Hole("out"), {"sessionId": "S"}))
        pb << ("client", result("a", {"sessionId": "S"}))


def test_a_changed_answer_that_breaks_a_guard_is_undone() -> None:
    method, asked = "session/request_permission", permission()
    no = {"outcome": {"outcome": "cancelled"}}
    yes = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
    with chain(profile="full") as pb:
        pb >> ("agent", request("a", method, asked))
        pb << ("g", "s", request(Hole("in"), method, asked))
        pb >> ("g", "p", request("m", method, asked))
        pb << ("client", request(Hole("out"), method, asked))
        pb >> ("client", result(Hole("out"), no)) << ("g", "p", result("m", no))
        pb >> ("g", "s", result(Hole("in"), yes))
        broke(pb, "permission-answers", "/outcome")
        pb << ("agent", result("a", no))
        pb >> ("agent", request("b", method, asked))
        pb << ("g", "s", request(Hole("in2"), method, asked))
        pb >> ("g", "s", result(Hole("in2"), yes))
        broke(pb, "permission-answers", "/outcome")
        pb << ("client", request(Hole("out2"), method, asked))
        pb >> ("client", result(Hole("out2"), yes)) << ("agent", result("b", yes))


def test_the_failing_kind_of_violation_says_so() -> None:
    with chain(fail=True) as pb:
        pb >> ("g", "s", request("m", "_q")) << lacks("originate", "down", "_q", fatal=True)
        pb << ("g", "s", refusal("m", "originate", "_q"))


def test_a_batch_of_a_policed_component_is_checked_entry_by_entry() -> None:
    with chain("down:_q:modify", kind="acp") as pb:
        pb >> ("client", request("a", "_q", params(1)))
        pb << ("g", request(Hole("in"), "_q", params(1)))
        good = {"method": "_q", "params": params(1)}
        wrapped = request("m", "proxy/successor", good)
        bad = request("n", "proxy/successor", {"method": "_other"})
        pb >> ("g", json.dumps([wrapped, bad]).encode())
        pb << ("agent", request(Hole("out"), "_q", params(1)))
        pb << lacks("originate", "down", "_other")
        pb >> ("agent", result(Hole("out"), 5))
        pb << ("g", [refusal("n", "originate", "_other"), result("m", 5)])
        pb << ("client", result("a", 5))


# -- peers that are gone ---------------------------------------------------------------------------


@ROUTES
def test_a_request_whose_asker_is_gone_is_still_spent_once(r: Route) -> None:
    with chain(f"{r.way}:_q:modify") as pb:
        r.through(pb)
        pb.router.closed(r.source, Closure("gone"))
        effects = pb.router.receive("g", line(r.outlet, request("m", "_q", params(1))))
        sent = [effect.peer for effect in effects if isinstance(effect, Send)]
        assert sent == [r.target, r.target]  # the request, and that it is cancelled


def test_an_error_of_the_conductor_is_an_answer_of_the_other_side() -> None:
    """What the component sent on finds nobody: it may say so."""
    with chain("down:_q:modify", "up:_q:modify") as pb:
        DOWN.through(pb)
        pb.router.closed("agent", Closure("agent `agent` ended"))
        pb >> ("g", "s", request("m", "_q", params(1)))
        pb << ("g", "s", error("m", -32603, "agent `agent` ended"))
        pb >> ("g", "p", error(Hole("in-a"), -32603, "agent `agent` ended"))
        pb << ("client", error("a", -32603, "agent `agent` ended"))


def test_the_same_for_one_that_may_not_change_answers() -> None:
    with chain("down:_q:modify") as pb:
        DOWN.through(pb)
        pb.router.closed("agent", Closure("agent `agent` ended"))
        pb >> ("g", "s", request("m", "_q", params(1)))
        pb << ("g", "s", error("m", -32603, "agent `agent` ended"))
        pb << ("client", error("a", -32603, "agent `agent` ended"))


def test_a_prompt_goes_on_when_the_component_that_has_sent_it_on_ends() -> None:
    with chain(profile="context") as pb:
        pb >> ("client", request("a", "session/prompt", prompt("hi")))
        pb << ("g", "p", request(Hole("in"), "session/prompt", prompt("hi")))
        pb >> ("g", "s", request("m", "session/prompt", prompt("hi!")))
        pb << ("agent", request(Hole("out"), "session/prompt", prompt("hi!")))
        pb >> (lambda router: router.bypassed("g", Closure("gone")))
        pb >> ("agent", result(Hole("out"), {"stopReason": "end_turn"}))
        pb << ("client", result("a", {"stopReason": "end_turn"}))


def test_a_prompt_it_has_not_sent_on_ends_with_it() -> None:
    with chain(profile="context") as pb:
        pb >> ("client", request("a", "session/prompt", prompt("hi")))
        pb << ("g", "p", request(Hole("in"), "session/prompt", prompt("hi")))
        pb >> ("client", cancel("a")) << ("g", "p", cancel(Hole("in")))
        pb >> (lambda router: router.bypassed("g", Closure("gone")))
        pb << ("client", error("a", -32603, "gone"))


def test_one_that_answered_wrongly_is_not_waited_for() -> None:
    with chain("down:_q:modify", "up:_q:modify") as pb:
        DOWN.through(pb)
        DOWN.onward(pb)
        pb >> ("g", "p", result(Hole("in-a"), 0)) << lacks("answer", "down", "_q")
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        pb >> ("agent", result(Hole("out"), 5)) << ("client", result("a", 5))


@pytest.mark.parametrize("relay", [False, True])
def test_a_request_that_does_not_fit_a_component(relay: bool) -> None:
    """One that it may change does not get past it; one it is only shown does."""
    rules = ["up:session/update:modify"] if relay else ["down:session/prompt:modify"]
    with chain(*rules) as pb:
        pb >> ("client", request("a", "session/prompt", prompt("hi")))
        pb << ("g", "p", request(Hole("in"), "session/prompt", prompt("hi")))
        frame = b"p" + json.dumps(request(pb.values["in"], "session/prompt", {})).encode()
        pb >> (lambda router: router.undeliverable("g", frame, "too long"))
        pb << Noted("warning", "g", "not delivered: too long")
        if relay:
            pb << ("agent", request(Hole("out"), "session/prompt", prompt("hi")))
            pb >> ("agent", result(Hole("out"), {})) << ("client", result("a", {}))
        else:
            text = "proxy `g` was not given `session/prompt`: too long"
            pb << ("client", error("a", -32600, text, {"component": "g"}))
