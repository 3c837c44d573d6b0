"""Well-behaved components of every dialect under every profile: nobody can tell."""

import pytest

from conductor.core import CHANNEL, DIALECTS, Component
from conductor.core.policy.rules import Policy
from conductor.core.router import Router, RouterOptions
from tests.core.test_chains import Nested
from tests.harness.router.actors import (
    FORMS,
    Actor,
    Agent,
    Stage,
    chain,
    proxy,
)
from tests.harness.router.actors import conversation as converse
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


def seen(stage: Stage) -> list[object]:
    """The messages that the agent got, without the ids."""
    agent = stage.actors["agent"]
    assert isinstance(agent, Agent)
    return [(m.get("method"), m.get("params"), m.get("result")) for m in agent.seen if "id" in m]


def seen_alone() -> list[object]:
    """The messages that an agent alone got, without the ids."""
    alone = chain(())
    converse(alone)
    return seen(alone)


@pytest.mark.parametrize("outer", ["acp", "sdk", "sacp", "pacp", "channel"])
@pytest.mark.parametrize("name", POLICIES)
def test_nobody_can_tell_in_a_conductor_that_is_a_proxy(outer: str, name: str) -> None:
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
