"""Whole conversations through chains of pass-through proxies, every dialect before every other."""

from __future__ import annotations

import itertools

import pytest

from tests.core.actors import FORMS, INITIALIZE, Agent, chain, conversation

KINDS = (*FORMS, "scp", "channel")


@pytest.mark.parametrize("told", [True, False], ids=["told", "found-out"])
@pytest.mark.parametrize(
    "kinds", [(kind,) for kind in KINDS] + list(itertools.product(KINDS, KINDS))
)
def test_the_client_sees_the_same_whatever_the_dialects(kinds: tuple[str, ...], told: bool) -> None:
    stage = chain(kinds, told=told)
    assert conversation(stage) == conversation(chain(()))
    assert stage.effects == []


def test_all_dialects_in_one_chain() -> None:
    stage = chain(KINDS, told=False)
    assert conversation(stage) == conversation(chain(()))
    agent = stage.actors["agent"]
    assert isinstance(agent, Agent)
    assert agent.seen[0]["params"] == INITIALIZE["params"]
    assert not any("proxy" in str(message.get("method")) for message in agent.seen)
