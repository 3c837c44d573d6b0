"""Components that do not take their role: at their first start, started again, and joining."""

from typing import Any

import msgspec
import pytest

from conductor.core import DIALECTS, Closure, Component, Silent
from conductor.core.component import HOLD_INITIALIZE, newcomer
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Playbook
from tests.harness.router.plays import OK, V1, begin_acp, component, request, result
from tests.harness.router.policed import broke, guest, skip, trusted

GONE = Closure("it has failed", data={})
AGENT = Component("agent", "agent `agent`")
LATE = 5.0
"""Seconds that a program of these plays has."""


def program(component: Component) -> Component:
    """The component, as a program."""
    return msgspec.structs.replace(component, program=True, patience=LATE)


def proxy(name: str = "p") -> Component:
    """A program of dialect `acp`."""
    return program(component(name, "acp"))


def again(pb: Playbook, name: str) -> None:
    """A component fails, and is started again."""
    pb >> (lambda router: router.leaving(name, GONE))
    pb >> (lambda router: router.returned(name))


def asked(pb: Playbook, name: str = "p") -> None:
    """A program has its role request, behind which the others are."""
    pb >> ("client", request("i", "initialize", V1))
    pb << (name, request(Hole(name), "proxy/initialize", V1))


def passed(pb: Playbook, name: str = "p") -> None:
    """A proxy passes `initialize` on."""
    pb >> (name, request("f", "proxy/successor", {"method": "initialize", "params": V1}))


@pytest.mark.parametrize("profile", ["full", "context", "observer"])
def test_a_guest_that_never_takes_its_role_holds_up_no_other_components(profile: str) -> None:
    """The guest stays, and `initialize` goes past it: at once, or once the guest has had its
    time."""
    with Playbook(Router([guest(profile=profile), AGENT])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", "p", request(Hole("g"), "initialize", V1))
        if profile == "full":
            assert not pb.router.quiet()
            pb.wake(HOLD_INITIALIZE)
            broke(pb, "hold", "has held `initialize` for more than 60 s")
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("client", result("i", OK))
        assert pb.router.quiet()
        pb >> ("g", "s", request("f", "initialize", V1)) << ("g", "s", result("f", OK))
        pb >> ("g", "p", result(Hole("g"), OK))
        assert pb.router.quiet()


@pytest.mark.parametrize("profile", ["full", "context", "observer"])
@pytest.mark.parametrize("kind", ["scp", None])
def test_nothing_waits_for_a_guest_that_cannot_be_written_to(
    profile: str, kind: str | None
) -> None:
    with Playbook(Router([guest(profile=profile, kind=kind), AGENT])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        skip(pb)
        pb.wake(HOLD_INITIALIZE) << Silent("g", "initialize", HOLD_INITIALIZE)


def test_nobody_can_answer_before_those_behind_it() -> None:
    with Playbook(Router([proxy("p"), proxy("q"), program(AGENT)])) as pb:
        asked(pb)
        passed(pb)
        pb << ("q", request(Hole("q"), "proxy/initialize", V1))
        passed(pb, "q")
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb.wake(LATE) << Silent("agent", "initialize", LATE)
        pb >> ("agent", result(Hole("a"), OK)) << ("q", result("f", OK))
        pb.wake(LATE) << Silent("q", "initialize", LATE)
        pb >> ("q", result(Hole("q"), OK)) << ("p", result("f", OK))
        pb.wake(LATE) << Silent("p", "initialize", LATE)


def test_a_trusted_guest_keeps_the_answer() -> None:
    with Playbook(Router([trusted("g"), AGENT])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", "p", request(Hole("g"), "initialize", V1))
        pb >> ("g", "s", request("f", "initialize", V1))
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("g", "s", result("f", OK))
        pb.wake(HOLD_INITIALIZE) << Silent("g", "initialize", HOLD_INITIALIZE)


def test_one_that_joins_has_its_time_from_then_on() -> None:
    with Playbook(Router([proxy("p"), AGENT])) as pb:
        begin_acp(pb)
        pb.wake()
        pb >> (lambda r: r.prepare([proxy("p"), component("q", "acp"), AGENT]))
        pb << (newcomer("q"), request(Hole("q"), "proxy/initialize", V1))
        pb.wake()
        pb >> (lambda r: r.rearrange(Closure("others")))
        pb.wake(HOLD_INITIALIZE) << Silent("q", "initialize", HOLD_INITIALIZE)


def test_a_peer_agent_is_silent() -> None:
    owner = Component("p", "proxy `p`", DIALECTS["acp"], ports={"peer": False})
    peer = program(Component("peer", "agent `peer`", peer_agent=True))
    with Playbook(Router([owner, peer, AGENT])) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("p", request(Hole("p"), "proxy/initialize", Hole("listed")))
        passed(pb)
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb >> ("agent", result(Hole("a"), OK)) << ("p", result("f", OK))
        pb >> ("p", result(Hole("p"), OK)) << ("client", result("i", OK))
        pb << ("peer", request(Hole("peer"), "initialize", Hole("given")))
        pb.wake(LATE) << Silent("peer", "initialize", LATE)


@pytest.mark.parametrize("silent_in", ["initialize", "session/load", "authenticate"])
def test_an_agent_that_is_started_again_is_silent(silent_in: str) -> None:
    """The agent has its role once its session is loaded again. A login may need the user."""
    able: dict[str, Any] = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    setup: dict[str, Any] = {"cwd": "/", "mcpServers": []}
    agent = program(Component("agent", "agent `agent`", revived=True))
    with Playbook(Router([agent])) as pb:
        for id_, method, params, answer in (
            ("i", "initialize", V1, able),
            ("l", "authenticate", {"methodId": "key"}, {}),
            ("n", "session/new", setup, {"sessionId": "S"}),
        ):
            pb >> ("client", request(id_, method, params))
            pb << ("agent", request(Hole(id_), method, params))
            pb >> ("agent", result(Hole(id_), answer)) << ("client", result(id_, answer))
        again(pb, "agent")
        pb << ("agent", request(Hole("i2"), "initialize", V1))
        if silent_in != "initialize":
            pb >> ("agent", result(Hole("i2"), able))
            pb << ("agent", request(Hole("s"), "session/load", {"sessionId": "S", **setup}))
        if silent_in == "authenticate":
            needed = {"code": -32000, "message": "log in"}
            pb >> ("agent", {"jsonrpc": "2.0", "id": Hole("s"), "error": needed})
            pb << ("agent", request(Hole("l2"), "authenticate", {"methodId": "key"}))
        pb.wake(LATE)
        if silent_in != "authenticate":
            pb << Silent("agent", silent_in, LATE)
