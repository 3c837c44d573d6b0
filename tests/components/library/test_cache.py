"""Caching: `cache`."""

import json
import sys
from typing import Any

import pytest

from guest_sdk.python import ProxyError, text
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Rig
from tests.places import COMPONENTS


@pytest.mark.parametrize(
    ("config", "said", "reach"),
    [
        ({}, ["a", "a", "b", "a"], ["a", "b"]),
        ({"match": "^b"}, ["a", "a", "b", "b"], ["a", "a", "b"]),
        ({"most": 1}, ["a", "b", "a", "a"], ["a", "b", "a"]),
        ({}, ["/x", "/x"], ["/x", "/x"]),
        ({"seconds": 0}, ["a", "a"], ["a", "a"]),
    ],
)
async def test_what_reaches_the_agent(config: Any, said: list[str], reach: list[str]) -> None:
    async with play("cache", config=config, grants=["clock"]) as p:
        for one in said:
            turn = await p.prompt(one)
            assert (turn.text, turn.stop_reason) == (one, "end_turn")
        assert p.agent.prompts == reach


async def test_scopes_age_and_blocks() -> None:
    for scope, reach in (("session", 3), ("folder", 2)):
        async with play("cache", config={"scope": scope}) as p:
            for cwd in ("/project", "/project", "/other"):
                session = await p.new_session(cwd=cwd)
                await p.prompt("a", session=session)
            assert len(p.agent.prompts) == reach
            p.services.advance(3601)
            await p.prompt("a")
            await p.prompt("a", {"type": "image", "data": "x"})
            assert len(p.agent.prompts) == reach + 2


async def test_what_was_done_is_done_again() -> None:
    async with play("cache") as p:
        session = await p.new_session()
        stop, kind = "end_turn", "tool_call"

        def answer(request: Any) -> Any:
            if request.method != "session/prompt":
                return None
            p.agent.update(session, kind, content=text("x", _meta={"k": 1}))
            p.agent.say(session, "done")
            return {"stopReason": stop}

        p.agent.answer = answer
        for kind, stop, reach in (
            ("tool_call", "end_turn", 2),
            ("brand_new", "end_turn", 4),
            ("agent_thought_chunk", "cancelled", 6),
            ("agent_thought_chunk", "end_turn", 7),
        ):
            turns = [await p.prompt("a") for _ in range(2)]
            assert len(p.agent.prompts) == reach, (kind, stop)
            assert turns[0].text == turns[1].text == "done"
        assert turns[1].updates[0].raw == {"sessionUpdate": kind, "content": text("x")}


async def test_errors_acp_v2_and_no_clock_leave_it_to_the_agent() -> None:
    for given, grants in (
        (ProxyError("busy"), None),
        ({"messageId": "m"}, None),
        ({"stopReason": "end_turn"}, []),
    ):
        async with play("cache", grants=grants) as p:
            await p.new_session()

            def answer(_: Any, given: Any = given) -> Any:
                if isinstance(given, ProxyError):
                    raise given
                return given

            p.agent.answer = answer
            for _ in range(2):
                p.answer_to("p", await p.start_prompt("a"))
            assert p.agent.prompts == ["a", "a"]


async def test_version_2_ends_a_turn_by_its_state() -> None:
    """A turn that a state ends is remembered, unless it was cancelled, asked something, or was not
    prompted."""
    async with play("cache") as p:
        session = await p.new_session()

        def state(state: str, **more: Any) -> None:
            p.agent.update(session, "state_update", state=state, **more)

        def say(said: str) -> None:
            p.agent.update(session, "agent_message_chunk", messageId="m", content=text(said))

        def answer(request: Any) -> Any:
            return {"messageId": "u"} if request.method == "session/prompt" else None

        p.agent.answer = answer
        for stop, asks, reach in (("cancelled", 0, 1), ("end_turn", 1, 2), ("end_turn", 0, 3)):
            id_ = await p.start_prompt("a")
            assert p.answer_to("p", id_)["result"] == {"messageId": "u"}  # type: ignore[index]
            state("running")
            p.agent.update(session, "user_message", messageId="u", content=[text("a")])
            if asks:
                state("requires_action")
                state("running")
            say("answer")
            state("idle", stopReason=stop)
            say("unprompted")
            state("idle", stopReason="end_turn")
            assert len(p.agent.prompts) == reach
        for _ in range(2):
            turn = await p.prompt("a")
            assert (turn.text, turn.stop_reason) == ("answer", "end_turn")
        ids = [one.messageId for one in [*turn.updates] if one.get("messageId")]
        assert ids == ["cache-2-m"]
        assert len(p.agent.prompts) == 3


async def test_two_prompts_at_once_are_not_remembered() -> None:
    async with play("cache") as p:
        held: list[Any] = []

        def hold(request: Any) -> Any:
            if request.method == "session/prompt":
                held.append(request)
                return p.agent.HOLD
            return None

        p.agent.answer = hold
        session = await p.new_session()
        for prompts in (("a", "b"), ("a", "/x")):
            for said in prompts:
                await p.start_prompt(said)
            for request in held:
                p.agent.say(session, "answer")
                p.agent.reply(request, {"stopReason": "end_turn"})
            held.clear()
        assert p.agent.prompts == ["a", "b", "a", "/x"]
        p.agent.answer = None
        for said in ("a", "b", "a"):
            assert (await p.prompt(said)).text == said
        assert p.agent.prompts[4:] == ["a", "b"]
        # While another is answered, nothing is said in between.
        p.agent.answer = hold
        await p.start_prompt("c")
        await p.start_prompt("a")
        assert p.agent.prompts[6:] == ["c", "a"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("fs/read_text_file", {"path": "/x"}),
        ("terminal/create", {"command": "date"}),
        ("session/request_permission", {"options": []}),
    ],
)
async def test_what_the_agent_asks_for_may_be_otherwise_the_next_time(
    method: str, params: Any
) -> None:
    async with play("cache") as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            if request.method == "session/prompt":
                p.agent.request(method, {"sessionId": session, **params})
            return None

        p.agent.answer = answer
        for _ in range(2):
            assert (await p.prompt("a")).text == "a"
        assert p.agent.prompts == ["a", "a"]


async def test_another_mode_is_another_answer() -> None:
    async with play("cache", answer=lambda one: {} if "set_" in one.method else None) as p:
        session = await p.new_session()
        for method, params in (
            ("session/set_mode", {"modeId": "plan"}),
            ("session/set_config_option", {"configId": "model", "value": "large"}),
            ("session/set_config_option", {"configId": "effort", "value": "high"}),
        ):
            for _ in range(2):
                await p.prompt("a")
            await p.request(method, {"sessionId": session, **params})
        p.agent.update(session, "current_mode_update", currentModeId="code")
        for _ in range(2):
            await p.prompt("a")
        assert len(p.agent.prompts) == 4


@pytest.mark.parametrize("form", ["sandboxed", "program"])
def test_in_version_2(rig: Rig, form: str) -> None:
    """The prompt that `personality` sends of its own, which nobody sees, is not remembered."""
    cache = component("cache")
    if form == "program":
        path = str(COMPONENTS / "cache" / "cache.py")
        cache = rig.program(sys.executable, path, name="cache")
    hidden = component("personality", {"prompts": ["be brief"]})
    chain = agent(rig, cache, hidden, rig.demo())
    chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    session = chain.new_session()

    def said(text: str) -> list[Any]:
        """The client's view of a turn: the words, and the reason for its end."""
        mark = len(chain.seen("session/update"))
        result = chain.answer(chain.start_prompt(session, text))["result"]
        assert list(result) == ["messageId"]

        def updates() -> list[Any]:
            return [one["params"]["update"] for one in chain.seen("session/update")[mark:]]

        chain.until(lambda: any(one.get("state") == "idle" for one in updates()), "the end")
        words = [one["content"]["text"] for one in updates() if "chunk" in one["sessionUpdate"]]
        return ["".join(words), updates()[-1]["stopReason"]]

    assert [said("one two") for _ in range(2)] == [["one two", "end_turn"]] * 2
    hanging = chain.start_prompt(session, "/hang")
    assert "result" in chain.answer(hanging)
    chain.notify("session/cancel", {"sessionId": session})
    chain.until(lambda: '"cancelled"' in json.dumps(chain.frames), "the end of the cancelled turn")
    assert [said("be brief") for _ in range(2)] == [["be brief", "end_turn"]] * 2
    prompts = [params["prompt"][0]["text"] for params in received(rig, "session/prompt")]
    assert prompts == ["be brief", "one two", "/hang", "be brief"]
    assert chain.finish() == 0
