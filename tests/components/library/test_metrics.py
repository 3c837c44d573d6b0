"""Metrics: `metrics`."""

from collections import Counter
from typing import Any

import pytest

from guest_sdk.python import Playground, ProxyError
from tests.components.library.support import agent, component, play
from tests.harness.process.rig import Rig


def counts(p: Playground) -> Counter[str]:
    """The counts, by name and labels."""
    found: Counter[str] = Counter()
    for one in p.services.metrics:
        found[" ".join([one["name"], *one.get("labels", {}).values()])] += one["value"]
    return found


async def test_counts_and_latencies() -> None:
    async with play("metrics", config={"buckets": [100, 5000]}, grants=["clock"]) as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            if request.method == "session/prompt":
                p.services.advance(2)
                call = {"sessionUpdate": "tool_call", "toolCallId": "1", "kind": "read"}
                p.agent.notify("session/update", {"sessionId": session, "update": call})
                p.agent.update(session, "tool_call_update", status="failed", toolCallId="1")
            return None

        p.agent.answer = answer
        for _ in range(3):
            await p.prompt("x")
        with pytest.raises(ProxyError, match="Method not found"):
            await p.request("_odd", {})
        found = counts(p)
        expected = {
            "messages down request session/prompt": 3,
            "messages up notification session/update": 9,
            "requests down session/prompt ok": 3,
            "requests down _odd error": 1,
            "request_ms_sum session/prompt": 6000,
            "request_ms_count session/prompt": 3,
            "request_ms_bucket session/prompt 5000": 3,
            "request_ms_bucket session/prompt +Inf": 3,
            "request_ms_bucket session/prompt 100": 0,
            "turns end_turn": 3,
            "updates agent_message_chunk": 3,
            "tool_calls read": 3,
            "tool_results failed": 3,
        }
        assert {key: found[key] for key in expected} == expected


async def test_replays_cancelled_requests_turns_of_v2_and_too_many_names() -> None:
    async with play("metrics", grants=["clock"]) as p:
        session = await p.new_session()

        def answer(request: Any) -> Any:
            if request.method == "session/load":
                p.agent.say(session, "old")
                p.agent.update(session, "tool_call_update", toolCallId="old")
                return {}
            return p.agent.HOLD

        p.agent.answer = answer
        await p.request("session/load", {"sessionId": session, "cwd": "/", "mcpServers": []})
        p.cancel(await p.start_prompt("x"))
        p.agent.reply(p.agent.requests[-1], {"stopReason": "cancelled"})
        p.agent.update(session, "state_update", state="idle")
        for call in ("old", *["new"] * 3, *(f"n{number}" for number in range(600))):
            p.agent.update(session, "tool_call_update", toolCallId=call)  # v2 has no `tool_call`
        for number in range(200):
            p.notify(f"_n{number}", {})
        found = counts(p)
        assert found["updates agent_message_chunk"] == 0
        assert found["requests down session/prompt cancelled"] == 1
        assert found["turns cancelled"] == 1
        assert found["tool_calls other"] == 601
        assert found["turns end_turn"] == 1
        assert found["messages down notification other"] > 90


async def test_without_a_clock_all_else_is_counted() -> None:
    async with play("metrics", grants=[]) as p:
        await p.prompt("x")
        await p.prompt("x")
        assert counts(p)["turns end_turn"] == 2
        assert not any(name.startswith("request_ms") for name in counts(p))
        assert len(p.services.log) == 1
        assert "not measured" in p.services.log[0]


def test_behind_a_real_agent(rig: Rig) -> None:
    path = rig.folder / "metrics.prom"
    options = ("-c", f"metrics={path}", "-c", "clock=2025-10-08T12:34:56+00:00")
    chain = agent(rig, component("metrics"), rig.demo(), options=options)
    session = chain.begin()
    assert chain.prompt(session, "/updates 3")
    assert chain.prompt(session, "/toolcall")
    assert "error" in chain.request(
        "session/load", {"sessionId": "no", "cwd": "/", "mcpServers": []}
    )
    assert chain.finish() == 0
    found = dict(line.rsplit(" ", 1) for line in path.read_text().splitlines() if line[0] != "#")
    us = 'component="metrics"'
    prompt = f'{us},method="session/prompt"'
    expected = {
        f'requests{{{prompt},outcome="ok",way="down"}}': "2",
        f'requests{{{us},method="session/load",outcome="error",way="down"}}': "1",
        f'turns{{{us},stop="end_turn"}}': "2",
        f'tool_results{{{us},status="completed"}}': "1",
        f"request_ms_count{{{prompt}}}": "2",
        f"request_ms_sum{{{prompt}}}": "0",
        f'request_ms_bucket{{{us},le="10",method="session/prompt"}}': "2",
    }
    assert {name: found.get(f"conductor_proxy_{name}") for name in expected} == expected
    assert chain.stderr == ""
