"""Every message of a small fleet for some seconds: counted, to compare with :mod:`.demand`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from benchmarks.fleet.simulation import costs
from benchmarks.fleet.simulation.events import Act, Clock, Station
from benchmarks.fleet.simulation.shape import Design, Size, Use

Ended = Callable[[int], None]


@dataclass(slots=True)
class Count:
    """The messages that passed in the played seconds."""

    seconds: float
    updates: int = 0
    acks: int = 0
    heard: int = 0
    records: int = 0
    rooms: dict[int, int] = field(default_factory=dict)
    """Open turns of a room, where there are some."""
    leaders: list[Station] = field(default_factory=list)
    """The journal's streams."""

    def a_second(self, count: int) -> float:
        """A count as a rate."""
        return count / self.seconds


class _Gathering:
    """Events of a room that become one when a delay ends, or when there are enough of them."""

    def __init__(self, clock: Clock, delay: float, at_most: float) -> None:
        self._clock, self._delay, self._at_most = clock, delay, at_most
        self._held = self._turn = 0

    def add(self, ended: Ended) -> None:
        """Adds an event; ``ended`` gets the number of events that became one."""
        self._held += 1
        if self._held >= self._at_most or self._delay == 0:
            self._end(ended)
        elif self._held == 1:
            turn = self._turn
            self._clock.after(self._delay, lambda: self._end(ended) if turn == self._turn else None)

    def _end(self, ended: Ended) -> None:
        held, self._held = self._held, 0
        self._turn += 1
        ended(held)


def play(cell: Size, use: Use, design: Design, seconds: float, seed: int) -> Count:
    """Plays one cell."""
    random = Random(seed)  # noqa: S311
    return _Play(cell, use, design, random).run(seconds)


class _Play:
    def __init__(self, cell: Size, use: Use, design: Design, random: Random) -> None:
        self._cell, self._use, self._design, self._random = cell, use, design, random
        self._clock = Clock()
        self._count = Count(0.0)
        self._count.leaders = [Station(self._clock) for _ in range(design.journals)]

    def run(self, seconds: float) -> Count:
        self._turns()
        self._beats()
        self._clock.run(until=seconds)
        self._count.seconds = seconds
        return self._count

    def _turns(self) -> None:
        """Each session has an open turn by chance, and it stays open."""
        for room in range(self._cell.principals):
            many = range(self._cell.sessions_a_room)
            turns = sum(self._random.random() < self._use.open_turns for _ in many)
            if not turns:
                continue
            self._count.rooms[room] = turns
            link = _Gathering(self._clock, self._design.acked, 64)
            journal = _Gathering(self._clock, self._design.merged, float("inf"))
            for _ in range(turns):
                self._next_update(room, link, journal)

    def _next_update(self, room: int, link: _Gathering, journal: _Gathering) -> None:
        def update() -> None:
            self._count.updates += 1
            link.add(self._acked)
            journal.add(lambda held: self._recorded(room, held))
            self._next_update(room, link, journal)

        self._clock.after(self._random.expovariate(self._use.updates), update)

    def _acked(self, held: int) -> None:
        self._count.acks += 1

    def _recorded(self, room: int, held: int) -> None:
        self._count.records += 1
        leader = self._count.leaders[room % len(self._count.leaders)]
        leader.serve(costs.pace(held * self._use.update_bytes))

    def _beats(self) -> None:
        """Each room has its client at a random gateway."""
        homes: list[set[int]] = [set() for _ in range(self._cell.workers)]
        for room in range(self._cell.principals):
            homes[room % self._cell.workers].add(self._random.randrange(self._cell.gateways))
        for users in homes:
            hearers = min(len(users), self._design.watchers or len(users))
            self._clock.after(self._random.random() * self._design.beat, self._beating(hearers))

    def _beating(self, hearers: int) -> Act:
        def beat() -> None:
            self._count.heard += hearers
            self._clock.after(self._design.beat, beat)

        return beat
