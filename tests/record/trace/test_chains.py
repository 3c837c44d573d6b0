"""Traces of real chains of every kind are true: each request has its answer at every hop."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

import conductor
from conductor.errors import ConductorError
from conductor.record.turns import reader
from conductor.record.turns.line import KINDS
from conductor.record.turns.model import Row
from tests.harness.process.rig import Rig
from tests.places import ACTORS
from tests.record.trace import pairs

TALK: Final = ("what day is it?", "/permission Edit x", "/plan", "/read x.txt", "/ext _nope {}")
FULL: Final = ("datetime", "redact", "tools-demo", "context")

CHAINS: Final[dict[str, tuple[Sequence[str], Sequence[str], dict[str, Any]]]] = {
    "no proxy": ((), TALK, {}),
    "guests": (("datetime", "redact", "tools-demo", "context"), TALK, {}),
    "alone": (
        tuple(f"{name},only=full,fails=open" for name in FULL), TALK, {"isolation": "separate"}
    ),
    "inline": (
        tuple(f"{name},only=trusted" for name in FULL), TALK, {"isolation": "inline"}
    ),
    "mixed": (("datetime", "PROGRAM", "redact", "PROGRAM"), TALK, {}),
    "tools": (("datetime", "tools-demo"), ('/tool add {"a":2,"b":3}',), {}),
    "answers itself": (("datetime", "cache", "redact"), ("hi", "hi"), {}),
    "restarts": (("datetime", "PROGRAM,on_failure=restart", "redact"), ("hi", "DIE", "hi"), {}),
    "is left out": (("datetime", "PROGRAM,on_failure=bypass", "redact"), ("hi", "DIE", "hi"), {}),
    "ends the chain": (("datetime", "PROGRAM", "redact"), ("hi", "DIE"), {}),
    "agent ends": (("datetime", "redact"), ("hi", "/exit 3 bye"), {}),
}  # fmt: skip
"""Proxies, prompts and options, by name."""


async def _talk(
    file: Path, chain: Sequence[str], prompts: Sequence[str], options: dict[str, Any]
) -> None:
    running = conductor.open(
        *chain,
        "demo",
        cwd=file.parent,
        permissions="allow-once",
        files="read",
        trace=str(file),
        **options,
    )
    with contextlib.suppress(ConductorError):
        async with running as opened:
            for prompt in prompts:
                with contextlib.suppress(ConductorError):
                    await opened.prompt(prompt)


@pytest.mark.parametrize("name", CHAINS)
def test_each_request_is_answered_at_every_hop(tmp_path: Path, name: str) -> None:
    proxies, prompts, options = CHAINS[name]
    (tmp_path / "x.txt").write_text("x")
    program = f"{sys.executable} {ACTORS / 'forward.py'} DIE {tmp_path / 'died'}"
    chain = [each.replace("PROGRAM", program) for each in proxies]
    asyncio.run(_talk(tmp_path / "t", chain, prompts, options))
    events = pairs.read(tmp_path / "t")
    assert pairs.wrong(events) == []
    read = reader.opened(str(tmp_path / "t"))
    _times_fit(events, read.rows(limit=len(read)))
    assert read.head().gaps == ()
    turns = read.turns[1:]
    assert [turn.prompt for turn in turns] == list(prompts)
    for turn in turns:
        assert turn.ms is not None
        assert all(0 <= share.ms <= turn.ms for share in turn.shares)
        assert turn.person_ms <= turn.ms


def test_a_cancelled_turn(tmp_path: Path) -> None:
    async def talk() -> None:
        chain = conductor.open("datetime", "redact", "demo", cwd=tmp_path, trace=str(file))
        async with chain as opened:
            turn = opened.stream("/sleep 600")
            while not opened.cancel():
                await asyncio.sleep(0)
            await turn

    file = tmp_path / "t"
    asyncio.run(talk())
    assert pairs.wrong(pairs.read(file)) == []
    assert reader.opened(str(file)).turns[1].stop == "cancelled"


def test_a_turn_of_acp_v2(rig: Rig, tmp_path: Path) -> None:
    """The prompt is answered at once, and the turn's end is an update."""
    file = tmp_path / "t"
    chain = rig.agent("datetime", "redact", rig.demo(), options=("--trace", str(file)))
    chain.initialize(protocolVersion=2, capabilities={}, info={"name": "t", "version": "1"})
    session = chain.new_session()
    chain.start_prompt(session, "/sleep 0.05")
    chain.until(lambda: b'"idle"' in b"".join(chain.lines), "the end of the turn")
    assert chain.finish() == 0
    events = pairs.read(file)
    assert pairs.wrong(events) == []
    (turn,) = reader.opened(str(file)).turns[1:]
    agent = turn.shares[-1]
    assert (turn.stop, agent.component) == ("end_turn", "agent")
    assert turn.ms is not None
    # Not only until it answered that the prompt is inserted.
    read = reader.opened(str(file))
    rows = read.rows(limit=len(read))
    answer = next(one for one in rows if (one.kind, one.source, one.method)
                  == ("response", "agent", "session/prompt"))  # fmt: skip
    assert answer.ms_in < agent.ms <= turn.ms


def _times_fit(events: list[pairs.Event], rows: Sequence[Row]) -> None:
    """Along the way of a request, the times of those who had it are no longer than the whole."""
    asked = {one["_conductor"]["n"]: one for one in events if "n" in one["_conductor"]}
    times = {
        one["_conductor"]["of"]: one["_conductor"] for one in events if "of" in one["_conductor"]
    }
    had = {
        one["_conductor"]["of"]: row.ms_in
        for one, row in zip(events, (row for row in rows if row.kind in KINDS), strict=True)
        if "of" in one["_conductor"]
    }
    for number, own in times.items():
        at, inside = number, 0.0
        while at in times:
            inside += had[at]
            passed = [n for n, one in asked.items() if one["_conductor"].get("passes") == at
                      and one["type"] == "request"]  # fmt: skip
            at = passed[0] if len(passed) == 1 else 0
        assert inside <= own["ms"] + 0.01 * len(times), asked[number]
