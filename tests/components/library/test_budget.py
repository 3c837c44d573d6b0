"""Tokens and cost of a session, by the agent's reports: `budget`."""

from functools import partial
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import agent, component, play, received
from tests.harness.process.rig import Chain, Rig


def spending(p: Playground, *, used: int = 0, cost: Any = None, usage: Any = None) -> Any:
    """An agent that reports this with every prompt, times how many there have been."""

    def answer(request: Any) -> Any:
        if request.method != "session/prompt":
            return None
        number = len(p.agent.prompts)
        amount = {"amount": cost * number, "currency": "USD"} if cost is not None else None
        p.agent.update(request.params.session_id, "usage_update", used=used * number, cost=amount)
        return {"stopReason": "end_turn", **({"usage": usage} if usage else {})}

    return answer


async def prompts(p: Playground, most: int = 10) -> tuple[int, str]:
    """The number of prompts that pass, and the client's messages meanwhile."""
    told = ""
    for number in range(most):
        try:
            told += (await p.prompt("x")).text
        except ProxyError as error:
            return number, told + str(error)
    return most, told


@pytest.mark.parametrize(
    ("config", "spent", "passes", "told"),
    [
        ({}, {"used": 10, "cost": 1.0}, 10, []),
        ({"cost": 2.5}, {"cost": 1.0}, 3, ["2 of 2.5 USD used", "used up, 3 of 2.5 USD;"]),
        ({"cost": 2, "warn": 0.1}, {"cost": 1.0}, 2, ["1 of 2 USD used", "used up, 2 of 2 USD"]),
        ({"tokens": 2500}, {"used": 1000}, 3, ["2,000 of 2,500 tokens used", "used up, 3,000"]),
        ({"tokens": 100}, {"usage": {"totalTokens": 40}}, 3, ["80 of 100 tokens", "used up, 120"]),
        ({"tokens": 100}, {"usage": {"inputTokens": 30, "outputTokens": 10}}, 3, ["used up, 120"]),
        ({"tokens": 100, "turns": "total"}, {"usage": {"totalTokens": 40}}, 10, []),
        ({"tokens": 9, "cost": 9}, {"used": 3, "cost": 1.0}, 3, ["used up, 9 of 9 tokens"]),
        ({"cost": 1, "currency": "EUR"}, {"cost": 1.0}, 10, []),
        ({"cost": 1, "currency": "usd"}, {"cost": 1.0}, 1, ["used up"]),
        (
            {"tokens": 5, "cost": 5},
            {"usage": {"totalTokens": "9", "inputTokens": -9}},
            10,
            ["[budget: the agent reports no tokens and no cost, so that is not limited]\n"],
        ),
    ],
)
async def test_budgets(config: Any, spent: Any, passes: int, told: list[str]) -> None:
    async with play("budget", config=config, grants=[]) as p:
        p.agent.answer = spending(p, **spent)
        found, said = await prompts(p)
        assert found == passes
        at = -1
        for text in told:
            at = said.index(text, at + 1)
        assert ("budget" in said) is bool(told)
        assert len(p.agent.prompts) == passes
        # Another session has a budget of its own.
        await p.new_session()
        await p.prompt("x")
        assert len(p.services.log) == 2 * ("EUR" in config.values())


@pytest.mark.parametrize("cancel", [True, False])
async def test_the_turn_that_uses_it_up_is_cancelled_once(cancel: bool) -> None:
    async with play("budget", config={"tokens": 10, "cancel": cancel}, grants=[]) as p:
        session = await p.new_session()
        p.agent.answer = lambda _: p.agent.HOLD
        started = await p.start_prompt("x")
        for used in (9, 11, 12):
            p.agent.update(session, "usage_update", used=used)
        cancels = [one.method for one in p.agent.notifications]
        assert cancels == ["session/cancel"] * cancel
        p.agent.reply(p.agent.requests[-1], {"stopReason": "cancelled"})
        turn = p.turn(started)
        assert turn.stop_reason == "cancelled"
        assert turn.text.count("used up") == 1
        assert ("this turn is stopped" in turn.text) is cancel


async def test_a_prompt_that_waits_behind_the_one_that_uses_it_up_is_cancelled_too() -> None:
    async with play("budget", config={"tokens": 10}, grants=[]) as p:
        await p.new_session()
        p.agent.answer = lambda _: p.agent.HOLD
        first, second = await p.start_prompt("a"), await p.start_prompt("b")
        a, b = p.agent.requests[-2:]
        p.agent.reply(a, {"stopReason": "end_turn", "usage": {"totalTokens": 20}})
        assert p.result("p", first)["stopReason"] == "end_turn"
        assert [one.method for one in p.agent.notifications] == ["session/cancel"]
        p.agent.reply(b, {"stopReason": "cancelled"})
        assert p.result("p", second)["stopReason"] == "cancelled"


async def test_acp_v2_and_a_session_that_is_loaded() -> None:
    async with play("budget", config={"tokens": 10}, grants=[]) as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            if request.method == "session/load":
                p.agent.update(session, "usage_update", used=9)
                return {}
            return {"messageId": "m"}

        p.agent.answer = answer
        await p.request("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        assert [one.params.update["sessionUpdate"] for one in p.heard] == ["usage_update"]
        await p.prompt("x")
        p.agent.update(session, "state_update", state="idle", usage={"totalTokens": 20})
        assert p.agent.notifications == []  # the turn is over: there is nothing to cancel
        with pytest.raises(ProxyError, match="used up, 20 of 10 tokens"):
            await p.prompt("y")


@pytest.mark.parametrize("config", [{"tokens": -1}, {"cost": -1}, {"warn": 0}, {"turns": "x"}])
async def test_settings_that_cannot_be(config: Any) -> None:
    async with play("budget", config=config) as p:
        with pytest.raises(ProxyError):
            await p.initialize()


def test_budget_behind_a_real_agent(rig: Rig) -> None:
    chain = agent(rig, component("budget", {"cost": 0.2}), rig.demo())
    session = chain.begin()
    silent = "\n[budget: the agent reports no cost, so that is not limited]\n"
    assert chain.prompt(session, "one") == f"one{silent}"
    assert chain.prompt(chain.new_session(), "of another session") == "of another session"
    # The demo reports 0.25 USD, and ends its turn at once: it has nothing left to cancel.
    shown = chain.prompt(session, "/usage")
    assert "[budget: used up, 0.25 of 0.2 USD; this turn is stopped]" in shown
    error = chain.answer(chain.start_prompt(session, "two"))["error"]
    assert error["message"].startswith("budget: used up, 0.25 of 0.2 USD in this session")
    assert chain.prompt(chain.new_session(), "three") == "three"
    assert len(received(rig, "session/prompt")) == 4
    assert len(received(rig, "session/cancel")) == 1
    assert chain.finish() == 0
    assert chain.stderr == ""


def test_the_end_of_a_turn_of_acp_v2_does_not_overtake_the_answer(rig: Rig) -> None:
    """The agent says that the turn is over right after its answer, which `budget` still has. Its
    neighbour may change updates, so that these reach their host at all."""
    guests = component("budget", {"tokens": 1000}), component("redact")
    chain = agent(rig, *guests, rig.demo())
    chain.initialize(protocolVersion=2, info={"name": "c", "version": "1"}, capabilities={})
    session = chain.new_session()
    for _ in range(3):
        before = len(ends(chain))
        prompted = chain.start_prompt(session, "x")
        chain.answer(prompted)
        chain.until(partial(more_ends, chain, before), "the end of the turn")
        (answered,) = [at for at, f in enumerate(chain.frames) if f.get("id") == prompted]
        assert answered < ends(chain)[-1]
    assert chain.finish() == 0


def more_ends(chain: Chain, before: int) -> bool:
    """Whether another turn is over."""
    return len(ends(chain)) > before


def ends(chain: Chain) -> list[int]:
    """Where in all it was told the client was told that a turn is over."""
    updates = [f.get("params", {}).get("update", {}) for f in chain.frames]
    return [at for at, update in enumerate(updates) if update.get("state") == "idle"]
