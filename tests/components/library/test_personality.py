"""Personality: `personality`."""

from collections.abc import Callable
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError, Record, text
from guest_sdk.python.playground import Agent
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Rig

HI = {"prompts": "/symposium:hi"}


def holding(*words: str) -> Callable[[Record], Any]:
    """An agent that does not answer prompts with these texts by itself."""

    def answer(request: Record) -> Any:
        prompted = request.method == "session/prompt"
        said = request.raw["params"]["prompt"][0]["text"] if prompted else ""
        return Agent.HOLD if said in words else None

    return answer


def ended(p: Playground, at: int, reason: str = "end_turn") -> None:
    """Lets the agent end a turn."""
    prompts = [one for one in p.agent.requests if one.method == "session/prompt"]
    p.agent.reply(prompts[at], {"stopReason": reason})


async def test_once_in_each_session_and_nobody_sees_it() -> None:
    async with play("personality", config=HI) as p:
        one, two = await p.new_session(), await p.new_session()
        for session, said in ((one, "a"), (one, "b"), (two, "c")):
            turn = await p.prompt(said, session=session)
            assert (turn.text, turn.stop_reason) == (said, "end_turn")
        await p.request("session/load", {"sessionId": "old", "cwd": "/"})
        await p.prompt("d", session="old")
        assert p.agent.prompts == ["/symposium:hi", "a", "b", "/symposium:hi", "c", "d"]


@pytest.mark.parametrize(
    ("config", "prompts", "seen"),
    [
        ({}, ["a"], "a"),
        ({"prompts": ["x", "", "y"]}, ["x", "y", "a"], "a"),
        ({"prompts": ["x", "y"], "show": "forwarded"}, ["x", "y", "a"], "x\n\ny\n\na"),
        ({"prompts": ["x", "y"], "show": "merged"}, ["x\ny\na"], "x\ny\na"),
    ],
)
async def test_settings(config: Any, prompts: list[str], seen: str) -> None:
    async with play("personality", config=config) as p:
        turn = await p.prompt("a")
        assert (p.agent.prompts, turn.text) == (prompts, seen)
        assert (await p.prompt("b")).text == "b"


async def test_merged_waits_for_a_prompt_that_is_no_command() -> None:
    async with play("personality", config={"prompts": "x", "show": "merged"}) as p:
        await p.prompt("/review y")
        await p.prompt("a")
        assert p.agent.prompts == ["/review y", "x\na"]


async def test_what_is_about_the_session_is_not_hidden_and_others_are_left_alone() -> None:
    async with play("personality", config=HI, answer=holding("/symposium:hi")) as p:
        one, two = await p.new_session(), await p.new_session()
        turn = await p.start_prompt("a", session=one)
        p.agent.say(one, "hidden")
        p.agent.update(one, "agent_thought_chunk", content=text("hidden"))
        p.agent.update(one, "available_commands_update", availableCommands=[])
        p.agent.say(two, "other")
        asked = p.agent.request("session/request_permission", {"sessionId": one, "options": []})
        assert p.answer_to("s", asked) is not None
        ended(p, 0)
        seen = [o.raw["params"].get("update", {}) for o in p.heard]
        kinds = [one.get("sessionUpdate") for one in seen]
        assert kinds == ["available_commands_update", "agent_message_chunk", None,
                         "agent_message_chunk"]  # fmt: skip
        assert (seen[1]["content"]["text"], seen[3]["content"]["text"]) == ("other", "a")
        assert p.result("p", turn) == {"stopReason": "end_turn"}


async def test_a_cancelled_turn_is_tried_again_and_prompts_wait_their_turn() -> None:
    async with play("personality", config=HI, answer=holding("/symposium:hi")) as p:
        session = await p.new_session()
        first = await p.start_prompt("a")
        p.notify("session/cancel", {"sessionId": session})
        assert p.result("p", first) == {"stopReason": "cancelled"}
        assert [one.method for one in p.agent.notifications] == ["session/cancel"]
        second = await p.start_prompt("b")
        assert p.agent.prompts == ["/symposium:hi"]
        p.agent.say(session, "hidden")
        ended(p, 0, "cancelled")
        assert p.agent.prompts == ["/symposium:hi"] * 2
        third = await p.start_prompt("c")
        assert p.answer_to("p", second) is None
        ended(p, 1)
        assert p.agent.prompts == ["/symposium:hi", "/symposium:hi", "b", "c"]
        assert [p.result("p", one) for one in (second, third)] == [{"stopReason": "end_turn"}] * 2
        assert "hidden" not in str(p.heard)


async def test_a_prompt_taken_back_does_not_undo_what_was_begun() -> None:
    async with play("personality", config=HI, answer=holding("/symposium:hi")) as p:
        await p.new_session()
        first = await p.start_prompt("a")
        p.cancel(first)
        with pytest.raises(ProxyError):
            p.result("p", first)
        ended(p, 0)
        assert (await p.prompt("b")).text == "b"
        assert p.agent.prompts == ["/symposium:hi", "b"]


async def test_nothing_more_is_said_once_a_turn_is_cancelled() -> None:
    async with play("personality", config={"prompts": ["x", "y"]}, answer=holding("x")) as p:
        session = await p.new_session()
        await p.start_prompt("a")
        p.notify("session/cancel", {"sessionId": session})
        ended(p, 0)
        assert p.agent.prompts == ["x"]
        turn = await p.start_prompt("b")
        ended(p, 1)
        assert p.agent.prompts == ["x", "x", "y", "b"]
        assert p.turn(turn).text == "b"


async def test_an_agent_that_never_lets_it_happen() -> None:
    def answer(request: Record) -> Any:
        own = request.method == "session/prompt" and "/sym" in str(request.raw["params"])
        return {"stopReason": "cancelled"} if own else None

    async with play("personality", config=HI, answer=answer) as p:
        assert (await p.prompt("a")).text == "a"
        assert p.agent.prompts == ["/symposium:hi", "/symposium:hi", "a"]

    def refuse(request: Record) -> Any:
        if request.method == "session/prompt" and "/sym" in str(request.raw["params"]):
            raise ProxyError("no such command")
        return None

    async with play("personality", config=HI, answer=refuse) as p:
        assert (await p.prompt("a")).text == "a"
        await p.prompt("b")
        assert p.agent.prompts == ["/symposium:hi", "a", "b"]
        assert p.services.log == ["warn: `/symposium:hi` came to nothing: no such command"]


async def test_version_two_ends_a_turn_by_a_state() -> None:
    def answer(request: Record) -> Any:
        return {"messageId": "m"} if request.method == "session/prompt" else None

    async with play("personality", config=HI, answer=answer) as p:
        session = await p.new_session()
        turn = await p.start_prompt("a")
        p.agent.update(session, "state_update", state="running")
        p.agent.say(session, "hidden")
        assert p.agent.prompts == ["/symposium:hi"]
        p.agent.update(session, "state_update", state="idle", stopReason="end_turn")
        assert p.agent.prompts == ["/symposium:hi", "a"]
        assert p.result("p", turn) == {"messageId": "m"}
        assert p.heard == []
        p.agent.update(session, "state_update", state="idle")
        assert len(p.heard) == 1


def test_cancelled_behind_a_real_agent(rig: Rig) -> None:
    chain = agent(
        rig,
        component("personality", {"prompts": "/permission x"}, allow="command:permission"),
        rig.demo(),
    )
    chain.serves["session/request_permission"] = None
    session = chain.begin()
    turn = chain.start_prompt(session, "a")
    chain.expect("session/request_permission")
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(turn)["result"]["stopReason"] == "cancelled"
    chain.serves["session/request_permission"] = lambda _: {"outcome": {"outcome": "cancelled"}}
    assert chain.prompt(session, "b") == "b"
    assert received(rig, "session/cancel") == [{"sessionId": session}]
    prompts = [one["prompt"][0]["text"] for one in received(rig, "session/prompt")]
    assert prompts == ["/permission x", "/permission x", "b"]
    assert chain.finish() == 0
    assert chain.stderr == ""
