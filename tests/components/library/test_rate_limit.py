"""Rate limiting: `rate-limit`."""

from typing import Any

import pytest

from guest_sdk.python import ProxyError
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Rig

TWO = {"prompts": 2, "seconds": 10}


async def test_the_window_slides() -> None:
    async with play("rate-limit", config=TWO, grants=["clock"]) as p:
        passed = []
        for second in range(25):
            try:
                await p.prompt(str(second))
                passed.append(second)
            except ProxyError as error:
                assert error.data["retryAfterMs"] % 1000 == 0  # noqa: PT017 - of most of them
            p.services.advance(1)
        assert passed == [0, 1, 10, 11, 20, 21]
        assert p.agent.prompts == [str(second) for second in passed]


@pytest.mark.parametrize(("per", "passes"), [("session", 4), ("all", 2)])
async def test_what_is_counted_together(per: str, passes: int) -> None:
    async with play("rate-limit", config={**TWO, "per": per}) as p:
        sessions = [await p.new_session(), await p.new_session()]
        for number in range(3):
            for session in sessions:
                try:
                    await p.prompt(str(number), session=session)
                except ProxyError as error:
                    assert str(error).startswith("rate-limit: 2 prompts in 10 s have passed")  # noqa: PT017
        assert len(p.agent.prompts) == passes


async def test_waiting_in_order_and_giving_up() -> None:
    async with play("rate-limit", config={**TWO, "over": "wait"}) as p:
        started = [await p.start_prompt(str(number)) for number in range(6)]
        assert p.agent.prompts == ["0", "1"]
        thoughts = [one.raw["params"]["update"] for one in p.heard]
        assert [t["content"]["text"] for t in thoughts
                if t["sessionUpdate"] == "agent_thought_chunk"] == [
                    "rate limit: this prompt waits 10 s\n"]  # fmt: skip
        p.cancel(started[2])
        p.services.advance(9)
        assert p.agent.prompts == ["0", "1"]
        p.services.advance(1)
        assert p.agent.prompts == ["0", "1", "3", "4"]  # 2 was given up, and did not count
        p.services.advance(10)
        assert p.agent.prompts[-1] == "5"
        for number in started:
            assert p.answer_to("p", number) is not None


async def test_without_a_clock_nothing_passes() -> None:
    async with play("rate-limit", grants=[]) as p:
        with pytest.raises(ProxyError, match=r"cannot be kept: .*clock"):
            await p.prompt("x")
        assert p.agent.prompts == []


@pytest.mark.parametrize("config", [{"prompts": 0}, {"seconds": 0}, {"per": "day"}])
async def test_settings_that_cannot_be(config: Any) -> None:
    async with play("rate-limit", config=config) as p:
        with pytest.raises(ProxyError):
            await p.initialize()


@pytest.mark.parametrize("version", [1, 2])
def test_a_session_with_a_prompt_that_waits_can_be_closed(rig: Rig, version: int) -> None:
    config = {"prompts": 1, "seconds": 3600, "over": "wait"}
    chain = agent(rig, component("rate-limit", config), rig.demo())
    info = {"info": {"name": "c", "version": "1"}, "capabilities": {}} if version == 2 else {}
    chain.initialize(protocolVersion=version, **info)
    session = chain.new_session()
    assert "result" in chain.answer(chain.start_prompt(session, "one"))
    waiting = chain.start_prompt(session, "two")
    chain.until(lambda: "rate limit: " in "".join(chain.texts(session)), "the prompt waits")
    assert "result" in chain.request("session/close", {"sessionId": session})
    answer = chain.answer(waiting)
    if version == 1:
        assert answer["result"] == {"stopReason": "cancelled"}
    else:
        assert answer["error"]["code"] == -32800
    assert len(received(rig, "session/prompt")) == 1
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_a_prompt_that_waits_can_be_cancelled_behind_a_real_agent(rig: Rig) -> None:
    config = {"prompts": 1, "seconds": 3600, "over": "wait"}
    chain = agent(rig, component("rate-limit", config), rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "one") == "one"
    waiting = chain.start_prompt(session, "two")
    chain.until(lambda: "rate limit: " in "".join(chain.texts(session)), "the prompt waits")
    chain.notify("session/cancel", {"sessionId": session})
    assert chain.answer(waiting)["result"] == {"stopReason": "cancelled"}
    prompts = [params["prompt"][0]["text"] for params in received(rig, "session/prompt")]
    assert prompts == ["one"]
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_behind_a_real_agent(rig: Rig) -> None:
    clock = ("-c", "clock=2025-10-08T12:34:56+00:00")
    chain = agent(rig, component("rate-limit", TWO), rig.demo(), options=clock)
    session = chain.begin()
    assert [chain.prompt(session, text) for text in ("one", "two")] == ["one", "two"]
    error = chain.answer(chain.start_prompt(session, "three"))["error"]
    assert error["message"].endswith("2 prompts in 10 s have passed; try again in 10 s")
    assert chain.prompt(chain.new_session(), "four") == "four"
    prompts = [params["prompt"][0]["text"] for params in received(rig, "session/prompt")]
    assert prompts == ["one", "two", "four"]
    assert chain.finish() == 0
    assert chain.stderr == ""
