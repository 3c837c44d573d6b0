"""How a chain ends: by its client, by a failure, or by a signal."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable

import pytest

from conductor.core import CHANNEL, Closure, Component
from conductor.core.router import Router
from conductor.run.teardown import NEXT, Phase, Teardown, closure
from conductor.spec.options import Options
from conductor.transports.base import Ended
from conductor.transports.memory import Channel
from tests.run.chains import PATIENCE, Chain, agent, proxy, run

DONE = {"stopReason": "end_turn"}


def teardown() -> Teardown:
    """The teardown of a chain of one agent."""
    return Teardown(Router([Component("agent", dialect=CHANNEL)]))


ACTS = {
    Phase.DRAINING: Teardown.client_gone,
    Phase.FAILED: lambda end: end.fail(Closure("broken")),
    Phase.STOPPED: Teardown.stop,
    Phase.CLOSING: Teardown.close,
}


def test_every_sequence_of_events_moves_by_the_table() -> None:
    for acts in itertools.product(ACTS, repeat=4):
        end, expected = teardown(), Phase.SERVING
        for phase in acts:
            ACTS[phase](end)
            expected = phase if phase in NEXT[expected] else expected
            assert end.phase is expected
        assert end.failure == (Closure("broken") if Phase.FAILED in acts else None)


def test_no_phase_comes_back() -> None:
    order = list(Phase)
    for phase, following in NEXT.items():
        assert all(order.index(after) > order.index(phase) for after in following)


def test_the_first_failure_stands() -> None:
    end = teardown()
    assert end.fail(Closure("first"))
    assert not end.fail(Closure("second"))
    assert end.failure == Closure("first")


def test_open_requests_are_answered_after_the_client_closed_its_end() -> None:
    chains: list[Chain] = []

    async def slow(channel: Channel) -> None:
        while (line := await channel.receive()) is not None:
            message = json.loads(line)
            if message.get("method") == "initialize":
                await asyncio.sleep(0.05)
                channel.send(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % message["id"])

    async def play(chain: Chain) -> None:
        chains.append(chain)
        await chain.begin("initialize", {"protocolVersion": 1})

    assert run(play, proxy("p"), agent(slow)) == 0
    assert not any("before the client closed" in line for line in chains[0].log)


def test_what_is_not_answered_in_time_fails_the_chain_and_is_named() -> None:
    chains: list[Chain] = []

    async def play(chain: Chain) -> None:
        chains.append(chain)
        await chain.initialize()
        await chain.begin_prompt("wait")

    assert run(play, proxy("p"), agent(), options=Options(grace=1, drain=0.05)) == 1
    (chain,) = chains
    assert chain.runtime.failure is not None
    assert "before the client closed its end" in chain.runtime.failure.text
    assert "`drain`" in chain.runtime.failure.hint


def test_a_signal_ends_the_chain_whatever_it_waits_for() -> None:
    async def play(chain: Chain) -> None:
        await chain.initialize()
        await chain.begin_prompt("wait")
        chain.leave()
        await asyncio.sleep(0.05)
        chain.runtime.stop()

    run(play, proxy("p"), agent(), options=Options(grace=1, drain=10 * PATIENCE))


def test_a_component_is_asked_to_end_from_head_to_tail() -> None:
    ended: list[str] = []

    def noticing(name: str) -> Callable[[Channel], Awaitable[None]]:
        async def component(channel: Channel) -> None:
            while await channel.receive() is not None:
                pass
            ended.append(name)

        return component

    async def play(chain: Chain) -> None:
        await asyncio.sleep(0)

    parts = [proxy(name, noticing(name)) for name in "pqr"]
    assert run(play, *parts, agent()) == 0
    assert ended == ["p", "q", "r"]


@pytest.mark.parametrize(
    ("host", "data", "hint"),
    [
        (False, {"command": "x", "exitCode": 3}, "run its command by itself"),
        (True, {"command": "x", "exitCode": 3}, "please report this"),
        (True, {"command": "x", "exitCode": -9}, "ran out of memory"),
        (False, {}, ""),
    ],
)
def test_the_end_of_a_component_in_words(host: bool, data: dict[str, object], hint: str) -> None:
    how = Ended("exited with code 3", data={**data, "stderr": ["a", "b", "c", "d"]})
    reason = closure("p", "proxy `p`", how, host=host)
    assert reason.text == "proxy `p` exited with code 3; its last words: b | c | d"
    assert hint in reason.hint
    assert bool(reason.hint) is bool(hint)
