"""`conductor.run.log`: what hosts that were taken over, and slow readers, can do to it."""

import asyncio
import contextlib
import json
import os
import tracemalloc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conductor.core import CHANNEL, Component, Entry, json_text
from conductor.core.component import Side
from conductor.page.running import RunningChain
from conductor.record.audit.auditor import Auditor
from conductor.record.audit.file import AuditFile, verified
from conductor.record.trace.file import TraceFile
from conductor.record.trace.tracer import Tracer
from conductor.record.turns import reader as turns
from conductor.run.host_record import Crossed, HostRecord
from conductor.run.log import Gap, Happened
from conductor.run.planned import Planned
from conductor.run.ring import Ring, Saved
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
    """The report of a host on a message to its guest, as lines."""
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
    """The messages of guests in the trace of a chain."""
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


@pytest.mark.proves("a host of guests cannot forge")
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


@pytest.mark.parametrize("numbers", [1, 100_000, 300_000])
def test_a_message_of_any_size_is_reported_whole(tmp_path: Path, numbers: int) -> None:
    text = " ".join(map(str, range(numbers)))
    assert heard(tmp_path / "t", _talk, host("h", said(text)), agent()) == [{"said": text}]


def repeated(payload: bytes) -> list[bytes]:
    """The report of a host that gives the payload of one message, and says `same` of the next."""
    first = Crossed("notification", "g", Side.P, "", Side.P, 1000, "_n", payload)
    second = msgspec.structs.replace(first, payload=None, same=True)
    return [b"j[%b]" % json_text.encode(each) for each in (first, second)]


@pytest.mark.proves("a host of guests cannot forge")
@pytest.mark.parametrize("wrong", [repeated(b'1}\n{"type":"_conductor"}'), repeated(b"1")[1:]])
def test_no_message_has_a_payload_that_nobody_has_looked_at(
    tmp_path: Path, wrong: list[bytes]
) -> None:
    lines = [*wrong, *said("heard")]
    assert heard(tmp_path / "t", _talk, host("h", lines), agent()) == [{"said": "heard"}]


def _joining(path: Path, *attempts: Planned) -> tuple[list[Any], list[str]]:
    """The messages of guests in the trace of a chain that gets other hosts, and the log."""
    names = [one.component.name for one in attempts]
    made = dict(zip(names, attempts, strict=True))
    owner = Prepared(Plans(**{k: lambda k=k: made[k] for k in made}))
    chains: list[Chain] = []

    async def play(chain: Chain) -> None:
        await chain.initialize()
        for name in names:
            await chain.runtime.rearrange([Spec(name=name), Spec(name="agent")])
        assert (await chain.prompt("and on"))["result"] == DONE
        assert [name for name, _ in chain.runtime.health()] == ["client", "g", "agent"]
        chains.append(chain)

    first = proxy("p", specs=(Spec(name="p"),))
    last = agent(specs=(Spec(name="agent"),))
    found = heard(path, play, first, last, owner=owner)
    return found, chains[0].log


@pytest.mark.proves("a host of guests cannot forge")
def test_nonsense_of_a_host_that_joins_leaves_the_chain_whole(tmp_path: Path) -> None:
    lines = [*said("never", source="agent"), b"j[", *said("early")]
    found, log = _joining(tmp_path / "t", host("h", lines))
    assert found == [{"said": "early"}]
    assert sum("the trace is incomplete" in line for line in log) == 1


@pytest.mark.proves("a host of guests cannot forge")
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


def test_a_reader_that_stands_still_holds_up_nobody_and_gaps_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events that were held come once the reader goes on."""
    monkeypatch.setattr("conductor.run.log._MOST_HELD", 2 * MIB)
    logged: list[str] = []
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    os.set_blocking(writes, False)
    slow = TraceFile(writes, "slow", lambda *words: logged.append(" ".join(words)))
    file = TraceFile.create(str(tmp_path / "file"), lambda *words: logged.append(" ".join(words)))
    page, audit = RunningChain("page"), tmp_path / "audit"
    ring = Ring(MIB, lambda ring, why, mode: Saved("", iter(())))
    auditor = Auditor(AuditFile.open(str(audit), lambda *words: logged.append(" ".join(words))))
    sinks = [Tracer([slow, file], "all"), Tracer([page], "all"), ring, auditor]
    got = bytearray()

    async def play(chain: Chain) -> None:
        shown = asyncio.ensure_future(page.run(lambda: None))
        await chain.initialize()
        for _ in range(20):
            assert (await chain.prompt("x" * (MIB // 8)))["result"] == DONE
            while file.behind:  # its thread may get no time at once, and it is not to be dropped
                await asyncio.sleep(0)
        assert (await chain.prompt("and on"))["result"] == DONE
        assert sum("the trace `slow` is incomplete" in line for line in chain.log) == 1
        assert slow.behind == 0
        assert len(got) == 0
        while b"the reader did not keep up" not in got:
            with contextlib.suppress(BlockingIOError):
                got.extend(os.read(reads, MIB))
            await asyncio.sleep(0)
        auditor.take(Happened("pause", "agent", ""), 0.0, "agent")
        shown.cancel()

    assert run(play, agent(), sinks=sinks) == 0
    os.close(reads)
    assert logged == []
    (tmp_path / "slow").write_bytes(got)
    told_slow, told_file = (turns.opened(str(tmp_path / name)) for name in ("slow", "file"))
    told = [trace.head().gaps for trace in (told_slow, told_file, page.reader)]
    assert ["keep up" in "".join(gaps) for gaps in told] == [True, True, True]
    assert [type(one.item) for one in ring.held().kept].count(Gap) == 1
    times = [[row.at for row in trace.rows()] for trace in (page.reader, told_file)]
    # The page may have been closed before it had read all.
    assert times[0] == times[1][: len(times[0])], "each entry has one time"
    assert len(times[0]) > 20
    count = sum(b"and on" in line for line in (tmp_path / "file").read_bytes().splitlines())
    assert count == 2, "the others go on"
    with audit.open("rb") as record:
        assert [one.event for one, _ in verified(record)] == ["pause", "end"]


def test_who_reads_a_trace_in_the_loop_of_its_chain_gets_all_of_it() -> None:
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    logged: list[str] = []
    got = bytearray()

    def read(loop: asyncio.AbstractEventLoop) -> None:
        if not (some := os.read(reads, MIB // 64)):
            loop.remove_reader(reads)
        got.extend(some)

    async def play(chain: Chain) -> None:
        await chain.initialize()
        assert (await chain.prompt("x" * MIB))["result"] == DONE
        loop = asyncio.get_running_loop()
        loop.add_reader(reads, read, loop)

    trace = TraceFile(writes, "t", lambda *words: logged.append(" ".join(words)))
    assert run(play, agent(), sinks=[Tracer([trace], "all")]) == 0
    while some := os.read(reads, MIB):
        got.extend(some)
    os.close(reads)
    assert logged == []
    assert json.loads(got.splitlines()[-1])["ended"] == ""
