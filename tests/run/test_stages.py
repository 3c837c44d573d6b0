"""Who a chain waits for, for what and since when: sentences over a clock that is passed in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from conductor.cli.status import Status
from conductor.core import UPSTREAM, Component
from conductor.core.router import Router
from conductor.run.planned import Planned
from conductor.run.stages import CLIENT, COMPILING, LONG, Stage, Stages
from conductor.spec.model import Spec


class Chain:
    """The part of a router that stages are read from, and of its plan."""

    def __init__(self, *names: str, guests: tuple[str, ...] = ()) -> None:
        self.open: dict[str, dict[bytes, Pending]] = {name: {} for name in (UPSTREAM, *names)}
        """By who is to answer: the open requests; those of the client under ``."""
        self.sent: list[tuple[bytes, str]] = []
        """The requests that the client is to answer."""
        self.held: list[str] = []
        """Components that cannot be written to yet and have messages waiting."""
        self.hosts = ["host"]
        """The hosts that still load their guests."""
        planned = {
            name: Planned(
                Component(name, name),
                cast("Any", None),
                guests=guests if name == "host" else (),
                specs=(Spec(name=name, command=["run", name]),),
            )
            for name in names
        }
        self.planned = planned
        self.stages = Stages(cast("Router", self), planned)

    @property
    def peers(self) -> dict[str, Any]:
        """As `Router.peers`."""
        return {
            name: Peer(name, requests, name in self.held) for name, requests in self.open.items()
        }

    def waiting_on(self, name: str) -> list[tuple[bytes, str]]:
        """As `Router.waiting_on`."""
        assert name == UPSTREAM
        return self.sent

    def loading(self, name: str | None = None) -> bool:
        """As `Router.loading`."""
        return bool(self.hosts) if name is None else name in self.hosts

    def ask(self, method: str, *names: str) -> None:
        """The client asks, and these have not answered."""
        for name in (UPSTREAM, *names):
            self.open[name][b"1"] = Pending(method)

    def stage(self, now: float) -> Stage | None:
        """The stage for which the chain waits."""
        self.stages.look(now)
        return self.stages.now


class Peer:
    """A peer with one id space, which the client has asked, or which is asked."""

    def __init__(self, name: str, requests: dict[bytes, Pending], backlog: object) -> None:
        self.backlog = backlog
        self.received, self.sent = (requests, {}) if name == UPSTREAM else ({}, requests)
        self.id_spaces: list[Any] = [self]


class Pending:
    """A pending request."""

    wanted = True

    def __init__(self, method: str) -> None:
        self.method = method


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("session/new", "waiting for `agent` to open the session, 5 s"),
        ("session/prompt", "waiting for the answer of `agent`, 5 s"),
        ("session/set_mode", "waiting for `agent` to answer `session/set_mode`, 5 s"),
    ],
)
def test_the_sentence_says_for_what(method: str, sentence: str) -> None:
    chain = Chain("proxy", "agent")
    chain.ask(method, "proxy", "agent")
    assert (stage := chain.stage(5.0)) is not None
    assert stage.timed(10.0) == sentence


def test_a_host_loads_its_guests_and_may_compile_them() -> None:
    chain = Chain("host", "agent", guests=("x", "y"))
    chain.ask("initialize", "host")
    assert (stage := chain.stage(0.0)) is not None
    assert stage.timed(3.0) == "loading `x`, `y` into a sandbox, 3 s"
    assert "compiles it" in stage.advice
    chain.stages.compiling = True
    assert (stage := chain.stage(4.0)) is not None
    assert (stage.what, stage.timed(13.0)) == (
        COMPILING,
        "compiling the Python guest (once), 9 s",
    )
    chain.hosts.clear()
    assert (stage := chain.stage(14.0)) is not None
    assert stage.timed(14.0) == "waiting for `x`, `y` to answer `initialize`, 14 s"
    assert not chain.stages.compiling


def test_who_asks_the_client_is_not_waited_for() -> None:
    chain = Chain("agent")
    chain.ask("session/prompt", "agent")
    chain.sent = [(b"9", "session/request_permission")]
    assert (stage := chain.stage(0.0)) is not None
    assert (stage.who, stage.waits_for_client) == (CLIENT, True)


def test_a_request_that_nobody_has_is_the_conductors() -> None:
    chain = Chain("agent")
    chain.ask("session/prompt")
    assert (stage := chain.stage(0.0)) is not None
    assert stage.text == "waiting for the answer of the conductor"


@pytest.mark.parametrize(("held", "who"), [((), "c"), (("a",), "a"), (("a", "b"), "b")])
def test_who_holds_up_a_request_that_nobody_has_is_named(held: tuple[str, ...], who: str) -> None:
    """The client has its answer to `initialize`, these have not answered it."""
    chain = Chain("a", "b", "c", "agent")
    chain.ask("session/new")
    chain.held += held
    for name in "abc":
        chain.open[name][b"2"] = Pending("initialize")
    assert (stage := chain.stage(0.0)) is not None
    assert stage.timed(5.0) == f"waiting for `{who}` to answer `initialize`, 5 s"


def test_after_a_long_time_it_says_what_may_be_wrong_and_what_to_run() -> None:
    chain = Chain("agent")
    chain.ask("initialize", "agent")
    assert (stage := chain.stage(0.0)) is not None
    assert (stage.is_long(LONG - 1), stage.is_long(LONG)) == (False, True)
    assert "may not speak ACP" in stage.advice
    assert "`run agent` by itself" in stage.advice
    known = Stage("`opencode`", "initialize", 0.0, ("/usr/bin/opencode", "acp"))
    assert known.advice.endswith("; `conductor agents opencode` tells")
    chain.open = {UPSTREAM: {}, "agent": {}}
    chain.ask("session/prompt", "agent")
    assert (stage := chain.stage(0.0)) is not None
    assert "by itself" not in stage.advice, "it runs, and thinks"


def test_what_has_happened_is_said_with_its_time() -> None:
    chain = Chain("proxy", "agent")
    chain.ask("initialize", "proxy", "agent")
    assert chain.stages.look(0.0) == [
        "`initialize` came from the client",
        "`initialize` went to `proxy`",
        "`initialize` went to `agent`",
    ]
    assert chain.stages.look(0.5) == []
    chain.open["agent"].clear()
    assert chain.stages.look(0.25) == ["`agent` answered `initialize` after 250 ms"]
    for requests in chain.open.values():
        requests.clear()
    assert chain.stages.look(12.0) == [
        "`proxy` answered `initialize` after 12.0 s",
        "the chain answered `initialize` after 12.0 s",
    ]


def test_what_is_noted_before_a_look_is_reported_together() -> None:
    chain = Chain("agent")
    stages = chain.stages
    for begun, spent in ((0.0, 0.012), (0.02, 0.003), (0.03, 0.005)):
        chain.ask("session/set_mode", "agent")
        stages.passed(begun)
        for requests in chain.open.values():
            requests.clear()
        stages.passed(begun + spent)
    chain.ask("session/prompt", "agent")
    stages.passed(0.04)
    assert stages.look(0.1) == [
        "the chain answered `session/set_mode` 3 times, after 3 ms to 12 ms",
        "`session/prompt` came from the client",
        "`session/prompt` went to `agent`",
    ]
    assert stages.look(0.2) == []


async def test_no_request_waits_for_the_log() -> None:
    """Whatever its method, what is said of it is gathered."""
    chain = Chain("proxy", "agent")
    said: list[str] = []
    runtime = cast("Any", SimpleNamespace(router=chain, planned=chain.planned))
    status = Status(runtime, lambda level, name, text: said.append(text), "nowhere")
    for method in ("initialize", "session/new", *["session/set_mode"] * 200):
        chain.ask(method, "proxy", "agent")
        status.passed()
        for requests in chain.open.values():
            requests.clear()
        status.passed()
    assert said == []
    status.close()
    assert [line.partition(" after")[0] for line in said] == [
        "the chain answered `initialize`",
        "the chain answered `session/new`",
        "the chain answered `session/set_mode` 200 times,",
    ]


def test_looks_are_needed_only_where_something_may_have_changed() -> None:
    chain = Chain("agent")
    assert chain.stages.passed(0.0)
    assert not chain.stages.passed(0.0)
    chain.ask("session/prompt", "agent")
    assert chain.stages.passed(0.0), "a prompt has come"
    assert not chain.stages.passed(0.0)
    chain.open[UPSTREAM][b"2"] = Pending("session/new")
    assert chain.stages.passed(0.0)
    assert chain.stages.passed(0.0), "anything may bring it forward"


def test_the_requests_that_are_kept_are_bounded() -> None:
    chain = Chain("agent")
    for number in range(10_000):
        chain.open[UPSTREAM][b"%d" % number] = Pending("session/prompt")
    assert len(chain.stages.look(0.0)) == 100
    chain.open[UPSTREAM].clear()
    assert chain.stages.look(1.0) == [
        "the chain answered `session/prompt` 100 times, after 1000 ms to 1000 ms"
    ]
