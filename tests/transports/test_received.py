"""Accounts of bytes that have come: who waits, who reads on, who goes."""

import asyncio

import pytest

from conductor.transports.received import Entry, Received


class Connection:
    """A connection that does as it is told."""

    def __init__(self, received: Received, principal: str) -> None:
        self.waits = self.gone = False
        self.entry: Entry = received.entry(principal, self)

    def wait(self) -> None:
        self.waits = True

    def go_on(self) -> None:
        self.waits = False

    def go(self) -> None:
        self.gone = True

    def read(self, size: int) -> None:
        """Reads, as long as it may."""
        for _ in range(size):
            if not self.waits:
                self.entry.count(1)


def many(received: Received, principal: str, count: int) -> list[Connection]:
    return [Connection(received, principal) for _ in range(count)]


async def test_one_principal_holds_half_of_what_is_free_and_reads_on_one_by_one() -> None:
    received = Received(900)
    first, *others = many(received, "alice", 5)
    for one in (first, *others):
        one.read(200)
    assert received.held <= 900 // 3 + 5
    assert not first.waits
    assert all(one.waits for one in others[1:])
    first.entry.set(0)  # it is taken
    assert not any(one.waits for one in others)
    for one in others:
        one.entry.close()
    assert received.held == 0


async def test_whatever_some_hold_there_is_room_for_another() -> None:
    received = Received(20_000)
    for name in range(50):
        for one in many(received, f"stranger {name}", 4):
            one.read(10_000)
    assert received.held < 20_000 + 200  # a piece of each
    last = Connection(received, "bob")
    last.read(1)
    assert last.entry.held == 1


@pytest.mark.proves("frames, fragments, bodies, packets")
@pytest.mark.parametrize("principals", [1, 3, 20])
@pytest.mark.parametrize("piece", [1, 50, 400])
async def test_one_reads_on_whatever_came_at_once(principals: int, piece: int) -> None:
    """Only who reads sees that its client has left."""
    received = Received(900)
    left = [one for at in range(principals) for one in many(received, f"{at}", 9)]
    for one in left:
        one.entry.count(piece)
    while left:
        reads = [one for one in left if not one.waits]
        assert reads
        reads[0].entry.close()
        left.remove(reads[0])
    assert received.held == 0


@pytest.mark.proves("frames, fragments, bodies, packets")
async def test_who_keeps_others_waiting_for_too_long_goes() -> None:
    received = Received(90, patience=0.001)
    first, second, *others = many(received, "alice", 6)
    elsewhere = Connection(received, "bob")
    elsewhere.read(3)
    for one in (first, second, *others):
        one.read(60)
    while not first.gone:
        await asyncio.sleep(0.001)
    assert not elsewhere.gone
    second.entry.set(0)  # it had time to end; the others have not
    while not all(one.gone for one in others[:-1]):
        for one in others:
            one.read(60)
        await asyncio.sleep(0.001)
    assert not second.gone


async def test_nobody_goes_for_whom_nobody_waits() -> None:
    received = Received(90, patience=0.001)
    alone, other = many(received, "alice", 2)
    alone.read(40)
    other.read(1)
    assert other.waits
    other.entry.close()
    await asyncio.sleep(0.01)
    assert not alone.gone
    alone.entry.close()
    alone.entry.count(5)  # what has ended counts no more
    assert received.held == 0
