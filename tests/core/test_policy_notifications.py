"""Notifications and a policed component: every verb, both ways, and what it does with them."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from conductor.core import Component, Router, Send
from tests.core.plays import V1, notification, request
from tests.core.policed import Json, broke, chain, component, heard, lacks, policy, update
from tests.playbook import Hole, Playbook

A, B = update("a"), update("b")


class Route(NamedTuple):
    """How a notification goes through the component."""

    way: str
    source: str
    inlet: str
    outlet: str
    target: str
    method: str


DOWN = Route("down", "client", "p", "s", "agent", "_n")
UP = Route("up", "agent", "s", "p", "client", "_n")
ROUTES = pytest.mark.parametrize("r", [DOWN, UP], ids=["down", "up"])


def said(r: Route, n: object, session: str = "S") -> Json:
    return notification(r.method, {"sessionId": session, "n": n})


@ROUTES
@pytest.mark.parametrize("verbs", ["answer", "originate", "answer+originate"])
def test_without_modify_or_observe_it_passes_by(r: Route, verbs: str) -> None:
    with chain(f"{r.way}:_n:{verbs}") as pb:
        pb >> (r.source, said(r, 1)) << (r.target, said(r, 1))
        pb >> (r.source, said(r, 2)) << (r.target, said(r, 2))


@ROUTES
def test_what_is_not_in_the_rule_passes_by(r: Route) -> None:
    other = "up" if r.way == "down" else "down"
    with chain(f"{other}:_n:modify", f"{r.way}:_m:modify") as pb:
        pb >> (r.source, said(r, 1)) << (r.target, said(r, 1))


@ROUTES
@pytest.mark.parametrize("profile", ["filter", "full", "none"])
def test_modify_lets_it_forward_drop_and_change(r: Route, profile: str) -> None:
    with chain(*([f"{r.way}:_n:modify"] if profile == "none" else []), profile=profile) as pb:
        for n in range(3):
            pb >> (r.source, said(r, n)) << ("g", r.inlet, said(r, n))
        pb >> ("g", r.outlet, said(r, 0)) << (r.target, said(r, 0))
        pb >> ("g", r.outlet, said(r, "changed")) << (r.target, said(r, "changed"))
        pb >> heard


@ROUTES
def test_it_spends_a_token_for_each_it_sends_on(r: Route) -> None:
    with chain(f"{r.way}:_n:modify") as pb:
        pb >> (r.source, said(r, 1)) << ("g", r.inlet, said(r, 1))
        pb >> ("g", r.outlet, said(r, 1)) << (r.target, said(r, 1))
        pb >> ("g", r.outlet, said(r, 1)) << lacks("originate", r.way, "_n")
        pb >> ("g", r.outlet, said(r, 2)) << lacks("originate", r.way, "_n")
        pb >> (r.source, notification("_n")) << ("g", r.inlet, notification("_n"))
        pb >> ("g", r.outlet, notification("_n")) << (r.target, notification("_n"))


@ROUTES
def test_a_token_is_for_one_method_session_and_direction(r: Route) -> None:
    with chain("up:*:modify", "down:*:modify") as pb:
        pb >> (r.source, said(r, 1)) << ("g", r.inlet, said(r, 1))
        back = "up" if r.way == "down" else "down"
        pb >> ("g", r.inlet, said(r, 1)) << lacks("originate", back, "_n")
        wrong = notification("_m", {"sessionId": "S", "n": 1})
        pb >> ("g", r.outlet, wrong) << lacks("originate", r.way, "_m")
        pb >> ("g", r.outlet, said(r, 1, "T")) << lacks("originate", r.way, "_n")
        pb >> ("g", r.outlet, said(r, 1)) << (r.target, said(r, 1))


@ROUTES
def test_originate_lets_it_speak_first(r: Route) -> None:
    with chain(f"{r.way}:_n:originate") as pb:
        pb >> ("g", r.outlet, said(r, 1)) << (r.target, said(r, 1))
        wrong = lacks("originate", "up" if r.way == "down" else "down", "_n")
        pb >> ("g", r.inlet, said(r, 1)) << wrong


@ROUTES
def test_nothing_may_be_sent_without_a_verb(r: Route) -> None:
    with chain() as pb:
        pb >> (r.source, said(r, 1)) << (r.target, said(r, 1))
        pb >> ("g", r.outlet, said(r, 1)) << lacks("originate", r.way, "_n")


@ROUTES
def test_an_observer_is_given_copies_and_says_nothing(r: Route) -> None:
    with chain(f"{r.way}:_n:observe") as pb:
        pb >> (r.source, said(r, 1)) << copy_of(r, 1) << (r.target, said(r, 1))
        pb >> (r.source, said(r, 2)) << copy_of(r, 2) << (r.target, said(r, 2))
        pb >> ("g", r.outlet, said(r, 2)) >> ("g", r.outlet, said(r, "changed"))
        pb >> ("g", r.outlet, said(r, 1)) << lacks("originate", r.way, "_n")


@ROUTES
def test_an_observer_that_may_originate_is_understood(r: Route) -> None:
    with chain(f"{r.way}:_n:observe+originate") as pb:
        pb >> (r.source, said(r, 1)) << copy_of(r, 1) << (r.target, said(r, 1))
        pb >> ("g", r.outlet, said(r, "own")) << (r.target, said(r, "own"))
        pb >> ("g", r.outlet, said(r, 1))
        pb >> ("g", r.outlet, said(r, 1)) << (r.target, said(r, 1))


def copy_of(r: Route, n: object) -> Send:
    frame = json.dumps(said(r, n)["params"]).encode()
    head = b'%b{"jsonrpc":"2.0","method":"_n","params":' % r.inlet.encode()
    return Send("g", head + frame + b"}\n", True)


def test_a_guest_that_has_had_its_say_keeps_what_it_has_not_sent_on() -> None:
    with chain("up:_n:modify", "down:_n:observe") as pb:
        pb >> ("agent", said(UP, 1)) << ("g", "s", said(UP, 1))
        pb >> ("client", said(DOWN, 1)) << copy_of(DOWN, 1) << ("agent", said(DOWN, 1))
        pb >> heard
        pb >> ("g", "p", said(UP, 1)) << lacks("originate", "up", "_n")
        pb >> ("g", "s", said(DOWN, 1)) << lacks("originate", "down", "_n")


def test_others_may_be_late() -> None:
    """A process is not asked whether it has had its say: it may send on what it was told before."""
    with chain(profile="filter", kind="acp") as pb:
        for n in range(40):
            pb >> ("agent", said(UP, n))
            pb << ("g", notification("proxy/successor", said_plainly(n)))
        for n in (1, 39, 0, 38):  # not in order, but understood
            pb >> ("g", said(UP, n)) << ("client", said(UP, n))
        pb >> ("g", said(UP, 39)) << lacks("originate", "up", "_n")


def said_plainly(n: int) -> Json:
    message = said(UP, n)
    del message["jsonrpc"]
    return message


def test_sessions_do_not_wait_for_each_other() -> None:
    with chain("up:_n:modify") as pb:
        for n, session in enumerate("SSTST"):
            pb >> ("agent", said(UP, n, session)) << ("g", "s", said(UP, n, session))
        for n, session in ((2, "T"), (1, "S"), (4, "T"), (3, "S"), (0, "S")):
            pb >> ("g", "p", said(UP, n, session)) << ("client", said(UP, n, session))


def test_a_violation_of_a_guard_sends_the_original_on() -> None:
    tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "rm -rf /", "kind": "delete"}
    with chain(profile="full") as pb:
        params = {"sessionId": "S", "update": tool}
        hidden = {"sessionId": "S", "update": {**tool, "title": "ls"}}
        pb >> ("agent", notification("session/update", params))
        pb << ("g", "s", notification("session/update", params))
        pb >> ("g", "p", notification("session/update", hidden))
        broke(pb, "tool-calls", "/update/title")
        pb << ("client", notification("session/update", params))


def test_a_component_may_add_its_own_words_before_it_sends_on() -> None:
    with chain(profile="full") as pb:
        tool = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}
        call = notification("session/update", {"sessionId": "S", "update": tool})
        pb >> ("agent", call) << ("g", "s", call)
        pb >> ("g", "p", update("mine")) << ("client", update("mine"))
        pb >> ("g", "p", call) << ("client", call)


def test_one_that_swallows_much_is_still_understood() -> None:
    with chain("up:session/update:modify") as pb:
        for n in range(3000):
            pb >> ("agent", update(f"{n}")) << ("g", "s", update(f"{n}"))
        pb >> ("g", "p", update("2500")) << ("client", update("2500"))
        pb >> ("g", "p", update("2499")) << ("client", update("2499"))
        # What it skipped long ago is nobody's any more.
        pb >> ("g", "p", update("2501")) << ("client", update("2501"))
        pb >> heard


@pytest.mark.parametrize(("size", "count"), [(100, 40_000), (3000, 30_000)], ids=["many", "much"])
def test_the_memory_for_one_that_swallows_all_is_bounded(size: int, count: int) -> None:
    pb = chain("up:_n:modify", kind="acp")
    line = json.dumps(notification("_n", {"x": "y" * size})).encode()
    with pb:
        for _ in range(count):
            pb.router.receive("agent", line)
    (told,) = pb.router.peers["g"].p.told.values()
    kept = sum(len(bytes(params)) for params in told if isinstance(params, bytes) or params)
    assert 0 < len(told) <= 32_769
    assert kept <= 65 * 1024 * 1024


def test_the_methods_remembered_are_bounded() -> None:
    with chain("up:*:modify", "down:*:observe", kind="acp") as pb:
        for n in range(600):
            pb.router.receive("agent", json.dumps(notification(f"_m{n}", {"n": n})).encode())
            pb.router.receive("client", json.dumps(notification(f"_m{n}", {"n": n})).encode())
        peer = pb.router.peers["g"]
        assert len(peer.p.told) <= 256
        assert len(peer.s.way.copies) <= 256
        assert len(peer.gate.told) <= 256  # type: ignore[union-attr]


def test_what_waits_for_a_component_is_told_it_in_order() -> None:
    held = component(policy(profile="filter"), None)
    with Playbook(Router([held, Component("agent", "agent `agent`")])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", request(Hole("i1"), "proxy/initialize", V1))
        pb >> ("client", said(DOWN, 1)) >> ("client", said(DOWN, 2))
        wrapped = {"method": "initialize", "params": V1}
        pb >> ("g", request("f", "proxy/successor", wrapped))
        pb << ("g", said(DOWN, 1)) << ("g", said(DOWN, 2))
        pb << ("agent", request(Hole("i2"), "initialize", V1))
        # What it was told in this round it hears in the next.
        pb >> heard
        again = {"method": "_n", "params": said(DOWN, 1)["params"]}
        pb >> ("g", notification("proxy/successor", again)) << ("agent", said(DOWN, 1))
        pb >> heard
        again = {"method": "_n", "params": said(DOWN, 2)["params"]}
        pb >> ("g", notification("proxy/successor", again))
        pb << lacks("originate", "down", "_n")
