"""The components `router` and `coordinator`, with peer agents."""

import json
import shlex
from typing import Any

import pytest

from tests.components.library.support import agent, component
from tests.harness.process.rig import Chain, Rig
from tests.harness.process.serving import new_token, served

RULES = [
    {"to": "a", "prefix": "a:"},
    {"to": "b", "pattern": "^b:"},
    {"to": "c", "pattern": "^/exit", "project": "*"},
]


def peer(name: str, *components: str) -> tuple[str, str]:
    """The option for a peer agent that is a chain."""
    return "-c", f"peer.{name}={json.dumps(components)}"


def marked(mark: str) -> str:
    """A proxy that puts a mark in front of each prompt."""
    return component("prompt-prefix", {"text": mark})


def states(chain: Chain) -> list[str]:
    """The state of the session in each update; empty: none."""
    updates = [frame["params"]["update"] for frame in chain.seen("session/update")]
    first = next(at for at, update in enumerate(updates) if "state" in update)
    return [update.get("state", "") for update in updates[first:]]


def initialize(version: int) -> dict[str, Any]:
    """The params of `initialize`."""
    info: dict[str, Any] = {"info": {"name": "c", "version": "1"}, "capabilities": {}}
    return {"protocolVersion": version, **(info if version == 2 else {})}


@pytest.mark.parametrize("version", [1, 2])
def test_a_router_chooses_the_branch_by_rule(rig: Rig, version: int) -> None:
    marked_two = json.dumps(shlex.quote(marked("TWO ")))
    options = (*peer("a", marked("ONE "), "demo"), "-c", f"branch.b={marked_two}")
    router = component("router", {"rules": RULES}, allow="peer:a+peer:b+peer:c")
    chain = agent(rig, router, marked("OWN "), rig.demo(), options=(*options, "-c", "peer.c=demo"))
    chain.initialize(**initialize(version))
    session = chain.new_session()

    def prompt(text: str) -> list[str]:
        before = len(chain.texts(session))
        answer = chain.answer(chain.start_prompt(session, text))
        assert "error" not in answer, answer
        chain.until(lambda: len(chain.texts(session)) > before, "what an agent says")
        return "".join(chain.texts(session)[before:]).split()

    assert prompt("a: x") == ["ONE", "x"]
    assert prompt("b: y") == ["TWO", "b:", "y"]
    assert prompt("d: z") == ["OWN", "d:", "z"]
    # Text that becomes a command only without its prefix does not reach the peer agent.
    refused = chain.answer(chain.start_prompt(session, "a:/yolo on"))
    assert "may read '/yolo' as a command" in refused["error"]["message"]
    # The end of a peer agent fails the prompts for it, and no other prompts.
    for _ in range(2):
        failed = chain.answer(chain.start_prompt(session, "/exit 3"))
        assert "agent `c`" in failed["error"]["message"]
    assert prompt("d: z") == ["OWN", "d:", "z"]
    assert chain.finish() == 0


def test_a_branch_ends_in_the_agent_elsewhere(rig: Rig) -> None:
    token = new_token(rig, "me")
    access = ("--listen", "ws://127.0.0.1:0", "--tokens", f"{rig.folder}/tokens")
    with served(rig, "serve", rig.demo(), *access) as server:
        options = ("-c", f"branch.b={json.dumps(shlex.quote(marked('TWO ')))}")
        router = component("router", {"rules": [{"to": "b", "pattern": "^b:"}]}, allow="peer:b")
        words = (*options, router, f"{server.address},token=env:DOOR,name=far")
        chain = rig.run("agent", *words, DOOR=token)
        session = chain.begin()
        assert chain.prompt(session, "b: y").split() == ["TWO", "b:", "y"]
        assert chain.prompt(session, "d: z") == "d: z"
        assert chain.finish() == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_makes_one_turn_of_three_agents(rig: Rig, version: int) -> None:
    options = (*peer("research", "demo"), *peer("review", "demo"))
    config = {"research_task": "R", "review_task": "V"}
    coordinator = component("coordinator", config, allow="peer:research+peer:review")
    chain = agent(rig, coordinator, rig.demo(), options=options)
    chain.initialize(**initialize(version))
    session = chain.new_session()
    chain.answer(chain.start_prompt(session, "hi"))
    work = "hi\nWhat the agent `research` found:\nR\n\nhi"
    review = f"[review] V\n\nThe task:\nhi\n\nThe work:\n{work}"
    # In version 2 the turn goes on behind its answer.
    chain.until(lambda: "".join(chain.texts(session)).endswith(review), "the review")
    assert f"[research] R\n\nhi\n\n{work}" in "".join(chain.texts(session))
    if version == 2:  # one turn is one turn: its end is behind the review
        chain.until(lambda: "idle" in states(chain), "the end")
        assert states(chain) == ["running", *[""] * (len(states(chain)) - 2), "idle"]
    assert chain.finish() == 0
