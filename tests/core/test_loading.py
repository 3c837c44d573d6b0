"""A host that still loads its guests: no time counts against them, and `initialize` goes past it
where none of them may take part."""

import msgspec
import pytest

from conductor.core import Closure, Component
from conductor.core.component import HOLD_INITIALIZE
from conductor.core.policy.held_requests import HOLD_SETUP
from conductor.core.router import Router
from conductor.core.waits import LOADING
from tests.harness.router.policed import (
    V1,
    Hole,
    Json,
    Playbook,
    broke,
    guest,
    notification,
    request,
    result,
    skip,
    trusted,
)

ANSWER: Json = {"protocolVersion": 1, "agentCapabilities": {}}
NEW: Json = {"cwd": "/", "mcpServers": []}
SET_UP = "down:session/new:carry"


def loading(component: Component) -> Playbook:
    """A chain with a host `g` that has not loaded its guests, before `initialize`."""
    host = msgspec.structs.replace(component, hosts=True)
    return Playbook(Router([host, Component("agent", "agent `agent`")]))


def load(pb: Playbook) -> None:
    """The host reports that it has loaded its guests."""
    assert pb.router.loading("g")
    pb >> (lambda router: router.loaded("g"))
    assert not pb.router.loading("g")
    assert not pb.router.loading()


def test_it_may_hold_initialize_as_long_as_it_loads() -> None:
    with loading(guest(profile="full")) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", "p", request(Hole("g-i"), "initialize", V1))
        assert [wake.seconds for wake in pb.wakes] == [LOADING]
        load(pb)
        pb.wake(HOLD_INITIALIZE)
        broke(pb, "hold", "has held `initialize` for more than 60 s")
        pb << ("agent", request(Hole("a"), "initialize", V1))


@pytest.mark.parametrize("before", [True, False])
def test_what_comes_meanwhile_may_wait_as_long(before: bool) -> None:
    with loading(guest(SET_UP)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        skip(pb)
        pb >> ("agent", result(1, ANSWER)) << ("client", result("i", ANSWER))
        if before:
            load(pb)
        pb >> ("client", request("n", "session/new", NEW))
        pb << ("g", "p", request(Hole("g-n"), "session/new", NEW))
        assert [wake.seconds for wake in pb.wakes] == [HOLD_SETUP if before else LOADING]
        if not before:
            load(pb)
        pb.wake(HOLD_SETUP)
        broke(pb, "hold", "held `session/new` for more than 60 s")
        pb << ("agent", request(Hole("a-n"), "session/new", NEW))


def test_one_deadline_bounds_the_loading_of_a_host_whatever_waits_for_it() -> None:
    with loading(guest(SET_UP)) as pb:
        pb >> ("client", request("i", "initialize", V1))
        skip(pb)
        pb >> ("agent", result(1, ANSWER)) << ("client", result("i", ANSWER))
        for name in ("n", "m"):
            pb >> ("client", request(name, "session/new", NEW))
            pb << ("g", "p", request(Hole(f"g-{name}"), "session/new", NEW))
        assert [wake.seconds for wake in pb.wakes] == [LOADING]
        load(pb)
        assert [wake.seconds for wake in pb.wakes] == [LOADING, HOLD_SETUP, HOLD_SETUP]


@pytest.mark.proves("a host that never reports that")
def test_a_host_that_never_reports_it_gains_nothing() -> None:
    with loading(guest(profile="full")) as pb:
        pb >> ("client", request("i", "initialize", V1))
        skip(pb)
        pb.wake(LOADING)
        assert not pb.router.loading()
        pb.wake(HOLD_INITIALIZE)
        broke(pb, "hold", "has held `initialize` for more than 60 s")
        pb << ("agent", request(Hole("a"), "initialize", V1))


def test_one_that_is_started_again_loads_again() -> None:
    with loading(guest(SET_UP)) as pb:
        load(pb)
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        load(pb)
        pb >> (lambda router: router.leaving("g", Closure("gone")))
        assert pb.router.loading()
        pb >> (lambda router: router.bypassed("g", Closure("gone for good")))
        assert not pb.router.loading()


def test_initialize_goes_past_a_host_that_may_not_take_part() -> None:
    """The host has no policy here: its guests have theirs. All other messages go through it."""
    host = msgspec.structs.replace(trusted("g"), initialize_passes=True)
    with loading(host) as pb:
        pb >> ("client", request("i", "initialize", V1))
        pb << ("g", "p", request(Hole("g-i"), "initialize", V1))
        pb << ("agent", request(Hole("a"), "initialize", V1))
        pb >> ("agent", result(Hole("a"), ANSWER)) << ("client", result("i", ANSWER))
        pb >> ("client", request("n", "session/new", NEW))
        pb << ("g", "p", request(Hole("g-n"), "session/new", NEW))
        pb >> ("agent", notification("_x", {})) << ("g", "s", notification("_x", {}))
        load(pb)
        pb >> ("g", "s", request("f", "initialize", V1)) << ("g", "s", result("f", ANSWER))
        pb >> ("g", "p", result(Hole("g-i"), ANSWER))
        pb >> ("g", "s", request("n", "session/new", NEW))
        pb << ("agent", request(Hole("a-n"), "session/new", NEW))
