"""The ring in memory: what it keeps, for how long, and that it never grows."""

from __future__ import annotations

import sys

import pytest

from conductor.core import UPSTREAM, Violated
from conductor.core.component import Component
from conductor.run.plan import Planned
from conductor.run.ring import AGE, Chain, Chunk, Kept, Ring, Saved
from conductor.transports.memory import MemoryTransport

KIB = 1024
MIB = 1024 * KIB


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def made(most: int = MIB, clock: Clock | None = None) -> Ring:
    """A ring that is never written."""
    return Ring(most, lambda ring, why, mode: Saved("", iter(())), clock=clock or Clock())


def texts(kept: Kept) -> list[bytes]:
    """All that was kept, without line ends."""
    found: list[bytes] = []
    for chunk in kept.chunks:
        lines = chunk.data.split(b"\n")
        found += [line for line in lines if line]
    return found


def weight(kept: Kept) -> int:
    """Bytes that Python says chunks and their lines take."""
    lines = {id(chunk.data): chunk.data for chunk in kept.chunks}
    return sum(map(sys.getsizeof, kept.chunks)) + sum(map(sys.getsizeof, lines.values()))


def planned(*names: str) -> list[Planned]:
    """Components that nothing runs."""

    async def nothing(*_: object) -> None:
        pass

    return [Planned(Component(name), MemoryTransport(nothing)) for name in names]


def test_it_keeps_what_passes_in_order() -> None:
    ring = made()
    assert not ring.begun
    ring.sent(UPSTREAM, [b"1", b"2"], 2)
    ring.given("agent", b"3\n4\n")
    assert not ring.begun, "no component has sent anything so far"
    ring.sent("agent", [b"5"], 1)
    assert ring.begun
    kept = ring.kept()
    assert texts(kept) == [b"1", b"2", b"3", b"4", b"5"]
    assert [(chunk.peer, chunk.sent) for chunk in kept.chunks] == [
        (UPSTREAM, True),
        ("agent", False),
        ("agent", True),
    ]
    assert not kept.forgotten


def test_what_goes_on_as_it_is_takes_memory_once() -> None:
    ring = made()
    ring.sent("agent", [b"1", b"2"], 2)
    waits = ring.given(UPSTREAM, bytes(bytearray(b"1\n2\n")))
    ring.given("observer", b"1\n3\n")
    first, second, third = ring.kept().chunks
    assert second.data is first.data
    assert waits is first.data, "also while it waits to be written"
    assert (second.peer, second.sent, third.data) == (UPSTREAM, False, b"1\n3\n")
    ring.sent("agent", [b"4"], 1)
    assert ring.given(UPSTREAM, b"4\n") == b"4\n"
    fourth, fifth = ring.kept().chunks[3:]
    assert fifth.data is fourth.data


def test_what_a_host_reports_is_nothing_to_see() -> None:
    ring = made()
    ring.sent("guests", [b'c{"method":"ready"}'], 19)
    assert not ring.begun


@pytest.mark.parametrize("length", [1, 400, 20 * KIB, 3 * MIB])
def test_300_mb_stay_within_its_bound(length: int) -> None:
    most, ring = MIB, made(MIB)
    each, total = 64 * KIB, 300 * MIB
    if length == 1:  # to make those lines takes long
        total = 2 * MIB
    passed, number = 0, 0
    while passed < total:
        lines = [b"%0*d" % (length, number) for _ in range(max(each // length, 1))]
        ring.sent("agent", lines, sum(map(len, lines)))
        ring.given(UPSTREAM, b"".join(line + b"\n" for line in lines))
        passed += 2 * length * len(lines)
        number += 1
        assert ring.size <= most
    kept = ring.kept()
    assert kept.forgotten == (length < MIB), "of long lines only the beginnings are kept"
    assert weight(kept) <= most * 1.1
    assert ring.size == sum(chunk.size for chunk in kept.chunks)
    assert kept.chunks, "the newest are there"


def test_a_line_that_is_too_long_is_cut_and_its_neighbours_are_not() -> None:
    ring = made(MIB)
    long = b"x" * (100 * KIB)
    ring.sent("agent", [b"before", long, b"behind"], len(long) + 12)
    ring.given(UPSTREAM, b"before\n" + long + b"\nbehind\n")
    kept = ring.kept()
    sizes = [len(b"".join(texts(Kept([chunk], Chain(), False)))) for chunk in kept.chunks]
    assert [(chunk.cut, size) for chunk, size in zip(kept.chunks, sizes, strict=True)] == 2 * [
        (0, 6),
        (100 * KIB, 4 * KIB + 128),
        (0, 6),
    ]  # fmt: skip


def test_what_is_old_is_forgotten_but_not_which_chain_it_is() -> None:
    clock = Clock()
    ring = made(clock=clock)
    ring.chain(planned("a", "b"))
    ring.sent("a", [b"1"], 1)
    clock.now += AGE - 1
    ring.sent("a", [b"2"], 1)
    assert not ring.kept().forgotten
    clock.now += 2
    kept = ring.kept()
    assert texts(kept) == [b"2"]
    assert kept.forgotten
    assert [name for name, _, _ in kept.chain.peers] == ["a", "b"]
    clock.now += AGE
    assert ring.kept().chunks == []
    assert ring.size == 0


def test_events_of_the_chain_have_a_place_in_it() -> None:
    ring = made()
    ring.chain(planned("a"))
    violation = Violated("a", "rights", "up", "session/update", "", "no", False)
    ring.violated(violation)
    first, second = ring.kept().chunks
    assert isinstance(first.event, Chain)
    assert second == Chunk(100.0, "", False, b"", event=violation)


def test_components_that_fail_again_and_again_write_one_file_a_minute() -> None:
    clock = Clock()
    ring = made(clock=clock)
    assert ring.may_save()
    ring.save("it failed", lambda: "agent")
    clock.now += 59
    assert not ring.may_save()
    clock.now += 1
    assert ring.may_save()
