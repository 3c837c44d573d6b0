"""`conductor.run.log`: what a host of guests that was taken over can do to a trace."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from conductor.core import CHANNEL, Component, Entry
from conductor.core.component import Side
from conductor.run.host_record import HostRecord
from conductor.run.plan import Planned
from conductor.spec.model import Spec
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.memory import Channel
from tests.record.trace.files import traced
from tests.run.chains import Chain, agent, pass_through, proxy, run
from tests.run.test_rearrangement import Plans, Prepared

NUMBERS: Final = range(1000, 2000)
READY: Final = b'c{"jsonrpc":"2.0","method":"ready","params":{"digests":{}}}'
DONE: Final = {"stopReason": "end_turn"}
MANY: Final = 200
MIB: Final = 1024 * 1024


def said(text: str, source: str = "g") -> list[bytes]:
    """What a host reports of a message to its guest, as lines."""
    lines: list[bytes] = []
    record = HostRecord(LINE_LIMIT, lines.append)
    payload = json.dumps({"said": text}).encode()
    record.crossed(Entry("notification", source, Side.P, "", Side.P, 1000, "_n", payload))
    record.send()
    return [line.rstrip(b"\n") for line in lines]


def host(name: str, lines: Sequence[bytes]) -> Planned:
    """A host of the guest `g` that reports lines, says that it is ready, and passes all on."""

    async def behaviour(channel: Channel) -> None:
        for line in lines:
            channel.send(line)
        channel.send(READY)
        await pass_through(channel)

    component = Component(
        name, f"host `{name}`", CHANNEL, numbers=NUMBERS, services=frozenset({"ready"})
    )
    return proxy(name, behaviour, component=component, guests=("g",))


def heard(
    path: Path, play: Callable[[Chain], Awaitable[None]], *planned: Planned, **more: Any
) -> list[Any]:
    """What guests said, by the trace of a chain."""
    tracer = traced(path)
    assert run(play, *planned, sinks=[tracer], **more) == 0
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [one["params"] for one in events if one.get("from") == "g"]


async def _talk(chain: Chain) -> None:
    await chain.initialize()
    assert (await chain.prompt("and on"))["result"] == DONE


NONSENSE: Final[dict[str, list[bytes]]] = {
    "no JSON": [b"j[", b"j\xff", b"j"],
    "another form": [b'j[["crossed"]]', b'j[["other",1]]', b"j[[]]", b"j{}"],
    "many values": [b"j[" + b"[]," * MIB + b"[]]"],
    "too long": [b"J%d" % (1 << 62), *[b"+" + b"x" * MIB] * MANY],
    "endless digits": [b"J" + b"9" * MIB, *[b"+" + b"x" * MIB] * MANY],
    "no length": [b"J-1", b"+x", b"J", b"+x"],
    "begun again and again": [b"J%d" % MIB, b"+" + b"x" * (MIB // 2)] * MANY,
    "of others": said("never", source="agent"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_a_host_reports_costs_nobody_else_anything(tmp_path: Path, name: str) -> None:
    chains: list[Chain] = []

    async def play(chain: Chain) -> None:
        chains.append(chain)
        await _talk(chain)

    lines = [*NONSENSE[name], *said("heard"), *NONSENSE[name]]
    tracemalloc.start()
    try:
        found = heard(tmp_path / "t", play, host("h", lines), agent())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [{"said": "heard"}]
    assert peak < 48 * MIB
    told = [line for line in chains[0].log if "the trace is incomplete" in line]
    assert len(told) == (name != "begun again and again")


def _joining(path: Path, *attempts: Planned) -> tuple[list[Any], list[str]]:
    """What guests said by the trace of a chain that gets other hosts, and the log."""
    names = [one.component.name for one in attempts]
    made = dict(zip(names, attempts, strict=True))
    owner = Prepared(Plans(**{k: lambda k=k: made[k] for k in made}))
    log: list[str] = []

    async def play(chain: Chain) -> None:
        await chain.initialize()
        for name in names:
            await chain.runtime.rearrange([Spec(name=name), Spec(name="agent")])
        assert (await chain.prompt("and on"))["result"] == DONE
        assert [name for name, _ in chain.runtime.health()] == ["client", "g", "agent"]
        log.extend(chain.log)

    first = proxy("p", specs=(Spec(name="p"),))
    last = agent(specs=(Spec(name="agent"),))
    return heard(path, play, first, last, owner=owner), log


def test_nonsense_of_a_host_that_joins_leaves_the_chain_whole(tmp_path: Path) -> None:
    lines = [*said("never", source="agent"), b"j[", *said("early")]
    found, log = _joining(tmp_path / "t", host("h", lines))
    assert found == [{"said": "early"}]
    assert sum("the trace is incomplete" in line for line in log) == 1


def test_what_hosts_report_that_have_not_joined_is_bounded(tmp_path: Path) -> None:
    lines = [*said("early"), *said("long" * MIB) * MANY]
    tracemalloc.start()
    try:
        found, log = _joining(tmp_path / "t", host("h", lines))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [{"said": "early"}]
    assert "has not joined the chain" in "".join(log)
    assert peak < 64 * MIB
