"""Prompt transformation: `prompt-prefix`."""

from typing import Any

import pytest

from guest_sdk.python import text
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Rig


def blocks(playground: Any, at: int = -1) -> Any:
    """The blocks of a prompt that the agent got."""
    prompts = [one for one in playground.agent.requests if one.method == "session/prompt"]
    return prompts[at].raw["params"]["prompt"]


@pytest.mark.parametrize(
    ("config", "given", "expected"),
    [
        ({}, ["a"], ["a"]),
        ({"text": "T"}, ["a"], ["T", "a"]),
        ({"suffix": "S"}, ["a"], ["a", "S"]),
        ({"text": "T", "suffix": "S"}, ["a", "b"], ["T", "a", "b", "S"]),
        ({"text": "in {cwd} {x}"}, ["a"], ["in /project {x}", "a"]),
        ({"text": "T"}, [], ["T"]),
        ({"text": "T"}, ["/review x"], ["/review x"]),
        ({"text": "T"}, ["/review\nx"], ["/review\nx"]),
        ({"text": "T"}, ["/home/me is full"], ["/home/me is full", "\nT"]),
        ({"text": "T"}, ["$skill"], ["$skill", "\nT"]),
        (
            {"text": "T", "suffix": "S", "commands": True},
            ["/review x"],
            ["/review x", "\nT", "\nS"],
        ),
    ],
)
async def test_what_the_agent_gets(config: Any, given: list[str], expected: list[str]) -> None:
    async with play("prompt-prefix", config=config, grants=[]) as p:
        await p.prompt(*given)
        assert blocks(p) == [text(one) for one in expected]


async def test_first_is_once_a_session_and_not_after_a_load() -> None:
    async with play("prompt-prefix", config={"text": "T", "when": "first"}) as p:
        one = await p.new_session()
        other = await p.new_session()
        for said in ("/command", "a", "b"):
            await p.prompt(said, session=one)
        await p.prompt("c", session=other)
        await p.request("session/load", {"sessionId": "old", "cwd": "/", "mcpServers": []})
        await p.prompt("d", session="old")
        assert p.agent.prompts == ["/command", "T\na", "b", "T\nc", "d"]


@pytest.mark.parametrize("odd", ["text", None, 7, {"a": 1}])
async def test_what_is_no_list_of_blocks_passes(odd: Any) -> None:
    async with play("prompt-prefix", config={"text": "T"}, answer=lambda _: {}) as p:
        p.send("p", {"method": "session/prompt", "params": {"sessionId": "s", "prompt": odd}},
               request=True)  # fmt: skip
        assert blocks(p) == odd


async def test_odd_blocks_and_unknown_members_survive() -> None:
    async with play("prompt-prefix", config={"text": "T"}, answer=lambda _: {}) as p:
        odd = ["text", None, {"type": "new", "x": 1}, {"type": "text"}]
        params = {"sessionId": "s", "prompt": odd, "_meta": {"a": 1}, "other": [1]}
        await p.request("session/prompt", params)
        got = p.agent.requests[-1].raw["params"]
        assert got == {**params, "prompt": [text("T"), *odd]}


def test_behind_a_real_agent(rig: Rig) -> None:
    chain = agent(rig, component("prompt-prefix", {"text": "Be brief."}), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "hello") == "Be brief.\nhello"
    assert received(rig, "session/prompt")[0]["prompt"] == [text("Be brief."), text("hello")]
    assert chain.finish() == 0
    assert chain.stderr == ""
