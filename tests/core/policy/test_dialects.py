"""Well-behaved components of every dialect under every profile: nobody can tell."""

from __future__ import annotations

import itertools

import pytest

from conductor.core import CHANNEL, DIALECTS, Component
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from tests.core.test_chains import Nested
from tests.harness.router.actors import (
    FORMS,
    NEW,
    PROMPT,
    Actor,
    Agent,
    Launching,
    Stage,
    chain,
    proxy,
)
from tests.harness.router.actors import INITIALIZE as FIRST
from tests.harness.router.actors import conversation as converse
from tests.harness.router.playbook import Hole, Playbook
from tests.harness.router.plays import notification, request, result
from tests.harness.router.policed import CARRY_TEXT, policy
from tests.harness.router.rules import PROFILES, held

KINDS = (*FORMS, "scp", "channel")
POLICIES = {
    **{profile: held(profile) for profile in PROFILES},
    "updates": policy(CARRY_TEXT),
    "answers": policy("down:session/prompt:answer", "down:initialize:carry"),
    "results": policy("down:initialize:carry+amend", "down:session/prompt:carry+amend"),
    "granted": policy(
        profile="full",
        grants="turns=within permission=narrow mcp=others sessions=own options texts methods=_* "
        "editor=panel capabilities=* commands=*",
    ),
    "gatekeeper": policy(profile="full", fails="closed", hold=60.0),
}
PAIRED = ("observer", "filter", "full", "updates", "granted")


def policed(kinds: tuple[str, ...], policies: tuple[Policy, ...], *, told: bool) -> Stage:
    """A chain of pass-through components under these policies."""
    names = [f"p{number}" for number in range(len(kinds))]
    components = [
        Component(name, dialect=DIALECTS[kind] if told or kind == "channel" else None, policy=held)
        for name, kind, held in zip(names, kinds, policies, strict=True)
    ]
    actors = [proxy(kind, name) for name, kind in zip(names, kinds, strict=True)]
    return Stage(Router([*components, Component("agent")]), [*actors, Agent("agent")])


@pytest.mark.proves("an honest component breaks no")
@pytest.mark.parametrize("told", [True, False], ids=["told", "found-out"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_can_tell(kind: str, name: str, told: bool) -> None:
    stage = policed((kind,), (POLICIES[name],), told=told)
    assert converse(stage) == converse(chain(()))
    assert stage.effects == []
    assert seen(stage) == seen_alone()


@pytest.mark.parametrize("names", list(itertools.product(PAIRED, PAIRED)))
def test_nor_with_two(names: tuple[str, str]) -> None:
    for kinds in (("channel", "acp"), ("sdk", "channel"), ("scp", "pacp")):
        stage = policed(kinds, (POLICIES[names[0]], POLICIES[names[1]]), told=True)
        assert converse(stage) == converse(chain(()))
        assert stage.effects == []
        assert seen(stage) == seen_alone()


def seen(stage: Stage) -> list[object]:
    """What the agent was told, without the ids."""
    agent = stage.actors["agent"]
    assert isinstance(agent, Agent)
    return [(m.get("method"), m.get("params"), m.get("result")) for m in agent.seen if "id" in m]


def seen_alone() -> list[object]:
    """The same of an agent alone."""
    alone = chain(())
    converse(alone)
    return seen(alone)


@pytest.mark.parametrize("outer", ["acp", "sdk", "sacp", "pacp", "channel"])
@pytest.mark.parametrize("name", POLICIES)
def test_nor_in_a_conductor_that_is_a_proxy(outer: str, name: str) -> None:
    inner = PolicedWithin("a", outer, POLICIES[name])
    stage = Stage(
        Router([Component("a", dialect=DIALECTS[outer]), Component("agent")]),
        [inner, Agent("agent")],
    )
    assert converse(stage) == converse(chain(()))
    assert stage.effects == inner.stage.effects == []


class PolicedWithin(Nested):
    """A conductor in proxy mode over one policed guest."""

    def __init__(self, name: str, outer: str, held: Policy) -> None:
        Actor.__init__(self, name)
        upstream = CHANNEL if outer == "channel" else None
        part = Component(f"{name}.0", dialect=CHANNEL, policy=held)
        router = Router([part], "proxy", options=RouterOptions(upstream=upstream))
        self.stage = Stage(router, [proxy("channel", part.name)])


def test_initializing_again_is_nothing_special() -> None:
    for one in POLICIES.values():
        for kind in FORMS.keys() | {"channel"}:
            stage, alone = policed((kind,), (one,), told=True), chain(())
            for each in (stage, alone):
                converse(each)
            assert stage.say({**FIRST, "id": 77}) == alone.say({**FIRST, "id": 77})
            assert stage.say({**NEW, "id": 78}) == alone.say({**NEW, "id": 78})
            assert stage.effects == []


class Greedy(Launching):
    """An `scp` proxy that also sends a request of its own over its successor's connection."""

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        if b'"id":"own"' in line:
            return []
        said = super().hear(peer, line)
        if b"session/prompt" in line:
            mine = b'{"jsonrpc":"2.0","id":"own","method":"session/set_mode","params":{}}'
            said.append((f"{self.name}/successor", mine))
        return said


def test_the_second_connection_of_an_scp_proxy_is_policed_too() -> None:
    components = [
        Component("p", dialect=DIALECTS["scp"], policy=held("context")),
        Component("agent"),
    ]
    stage = Stage(Router(components), [Greedy("p"), Agent("agent")])
    stage.say(FIRST)
    stage.say(NEW)
    stage.say(PROMPT)
    (violated,) = stage.effects
    assert (violated.peer, violated.rule) == ("p", "rights")  # type: ignore[union-attr]
    assert '"method":"session/set_mode"' not in "".join(
        entry for entry in stage.log if entry.startswith("agent<")
    )


def test_two_observers_say_nothing_of_each_other() -> None:
    stage = policed(("acp", "channel"), (held("observer"),) * 2, told=True)
    converse(stage)
    answers = stage.say(request(9, "_unknown"))
    assert [answer["error"]["code"] for answer in answers] == [-32601]
    assert stage.say(notification("_n")) == []


def test_a_session_that_it_opens_there_is_its_own() -> None:
    components = [Component("p", dialect=DIALECTS["scp"], policy=POLICIES["granted"])]
    router = Router([*components, Component("agent")])
    stage = Stage(router, [Launching("p"), Agent("agent")])
    stage.say(FIRST)
    stage.say(NEW)
    setup = NEW["params"]
    with Playbook(router) as pb:
        pb >> ("p/successor", request("own", "session/new", setup))
        pb << ("agent", request(Hole("new"), "session/new", setup))
        pb >> ("agent", result(Hole("new"), {"sessionId": "mine"}))
        pb << ("p/successor", result("own", {"sessionId": "mine"}))
        fork = {**setup, "sessionId": "mine"}
        pb >> ("p/successor", request("fork", "session/fork", fork))
        pb << ("agent", request(Hole("fork"), "session/fork", fork))
