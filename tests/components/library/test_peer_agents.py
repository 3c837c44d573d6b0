"""SEEDS §25 rows 26, 29 and 30: `router` and `coordinator`, with peer agents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.components.library.support import agent, component

if TYPE_CHECKING:
    from tests.harness.process.rig import Rig

RULES = [
    {"to": "a", "prefix": "a:"},
    {"to": "b", "pattern": "^b:"},
    {"to": "c", "prefix": "c:", "project": "*"},
]


def peer(name: str, *components: str) -> tuple[str, str]:
    """The option for a peer agent that is a chain."""
    return "--peer", f"{name}={json.dumps(components)}"


def marked(mark: str) -> str:
    """A proxy that puts a mark in front of each prompt."""
    return component("prompt-prefix", {"text": mark})


def test_a_router_chooses_the_branch_by_rule(rig: Rig) -> None:
    options = (*peer("a", marked("ONE "), "demo"), *peer("b", marked("TWO "), "demo"))
    router = component("router", {"rules": RULES}, peers="a+b+c")
    chain = agent(rig, router, marked("OWN "), rig.demo(), options=(*options, "--peer", "c=demo"))
    session = chain.begin()
    said = [chain.prompt(session, text) for text in ("a: x", "b: y", "d: z")]
    assert [text.split() for text in said] == [["ONE", "x"], ["TWO", "b:", "y"], ["OWN", "d:", "z"]]
    # What ends a peer agent fails the prompts for it, and no other.
    for _ in range(2):
        failed = chain.answer(chain.start_prompt(session, "c: /exit 3"))
        assert "agent `c`" in failed["error"]["message"]
    assert chain.prompt(session, "d: z").split() == ["OWN", "d:", "z"]
    assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_makes_one_turn_of_three_agents(rig: Rig, version: int) -> None:
    options = (*peer("research", "demo"), *peer("review", "demo"))
    config = {"research_task": "R", "review_task": "V"}
    coordinator = component("coordinator", config, peers="research+review")
    chain = agent(rig, coordinator, rig.demo(), options=options)
    info: dict[str, Any] = {"info": {"name": "c", "version": "1"}, "capabilities": {}}
    chain.initialize(protocolVersion=version, **(info if version == 2 else {}))
    session = chain.new_session()
    chain.answer(chain.start_prompt(session, "hi"))
    work = "hi\nWhat the agent `research` found:\nR\n\nhi"
    review = f"[review] V\n\nThe task:\nhi\n\nThe work:\n{work}"
    # In version 2 the turn goes on behind its answer.
    chain.until(lambda: "".join(chain.texts(session)).endswith(review), "the review")
    assert f"[research] R\n\nhi\n\n{work}" in "".join(chain.texts(session))
    assert chain.finish() == 0
