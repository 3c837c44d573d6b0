"""Whole conversations through chains of pass-through proxies, every dialect before every other."""

import itertools
from collections.abc import Sequence

import pytest

from conductor.core import CHANNEL, DIALECTS, Component
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import (
    FORMS,
    Actor,
    Agent,
    Stage,
    chain,
    conversation,
    proxy,
)

KINDS = (*FORMS, "scp", "channel")


@pytest.mark.parametrize("told", [True, False], ids=["told", "found-out"])
@pytest.mark.parametrize(
    "kinds", [(kind,) for kind in KINDS] + list(itertools.product(KINDS, KINDS))
)
def test_the_client_sees_the_same_whatever_the_dialects(kinds: tuple[str, ...], told: bool) -> None:
    stage = chain(kinds, told=told)
    assert conversation(stage) == conversation(chain(()))
    assert stage.effects == []


class Nested(Actor):
    """A conductor in proxy mode as a component of another one."""

    def __init__(self, name: str, kinds: Sequence[str], outer: str) -> None:
        super().__init__(name)
        names = [f"{name}.{number}" for number in range(len(kinds))]
        parts = [
            Component(one, dialect=CHANNEL if kind == "channel" else None)
            for one, kind in zip(names, kinds, strict=True)
        ]
        upstream = CHANNEL if outer == "channel" else None
        actors = [proxy(kind, one) for one, kind in zip(names, kinds, strict=True)]
        self.stage = Stage(Router(parts, "proxy", options=RouterOptions(upstream=upstream)), actors)

    def hear(self, peer: str, line: bytes) -> list[tuple[str, bytes]]:
        before = len(self.stage.lines)
        self.stage.say(line)
        return [(peer, said) for said in self.stage.lines[before:]]


@pytest.mark.parametrize("kinds", [(), ("acp",), ("sacp", "channel"), ("pacp", "sdk", "scp")])
@pytest.mark.parametrize("outer", ["acp", "sdk", "sacp", "pacp", "channel"])
def test_a_conductor_is_a_proxy_in_every_dialect(kinds: tuple[str, ...], outer: str) -> None:
    dialects = (DIALECTS[outer], DIALECTS["sdk"])
    parts = [Component(name, dialect=d) for name, d in zip("ab", dialects, strict=True)]
    actors = [Nested("a", kinds, outer), Nested("b", ("acp",), "sdk"), Agent("agent")]
    stage = Stage(Router([*parts, Component("agent")]), actors)
    assert conversation(stage) == conversation(chain(()))
    assert stage.effects == []
