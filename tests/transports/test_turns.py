"""Turns of an event loop: whose bytes are looked at."""

import asyncio

import pytest

from conductor.transports.turns import Turns


class Connection:
    """A connection that has much to look at."""

    def __init__(self, turns: Turns, principal: str, pieces: int, looked_at: list[str]) -> None:
        self._turns = turns
        self._principal = principal
        self._looked_at = looked_at
        self.left = pieces

    def look(self) -> None:
        while self.left:
            if not self._turns.may(self._principal):
                self._turns.later(self._principal, self.look)
                return
            self.left -= 1
            self._looked_at.append(self._principal)


@pytest.mark.proves("frames of six bytes, or lines")
async def test_a_flood_of_one_waits_for_the_others() -> None:
    turns, looked_at = Turns(asyncio.get_running_loop()), list[str]()
    flood = [Connection(turns, "alice", 100, looked_at) for _ in range(50)]
    others = [Connection(turns, name, 3, looked_at) for name in ("bob", "carol")]
    for one in (*flood, *others):
        one.look()
    while any(one.left for one in others):
        await asyncio.sleep(0)
    assert looked_at.count("alice") < 50
    while any(one.left for one in flood):
        await asyncio.sleep(0)
    assert looked_at.count("alice") == 5000


@pytest.mark.proves("frames of six bytes, or lines")
async def test_connections_of_one_principal_have_their_turns() -> None:
    turns, looked_at = Turns(asyncio.get_running_loop()), list[str]()
    several = [Connection(turns, "alice", 1000, looked_at) for _ in range(5)]
    for one in several:
        one.look()
    for _ in range(30):
        await asyncio.sleep(0)
    assert all(1000 > one.left > 900 for one in several)


async def test_who_has_ended_keeps_nobody_waiting() -> None:
    turns, looked_at = Turns(asyncio.get_running_loop()), list[str]()
    several = [Connection(turns, "alice", 9, looked_at) for _ in range(9)]
    for one in several:
        one.look()
    for one in several[:-1]:
        one.left = 0
    for _ in range(30):
        await asyncio.sleep(0)
    assert not several[-1].left
