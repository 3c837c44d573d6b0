"""The sudden events: a rack of workers dies, gateways die, the leader of a bucket dies."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from benchmarks.fleet.simulation import costs, demand
from benchmarks.fleet.simulation.events import Act, Clock, Station
from benchmarks.fleet.simulation.shape import SERVERS, Design, Size, Use, cell_of
from benchmarks.stats import percentile

RACK: Final = 0.02
"""The part of all workers that stands in one rack; all of them belong to one cell."""
MISSED: Final = 3
"""Heartbeats that may be missed."""
OURS: Final = 0.3
"""The part of a worker's cores that is in use before."""


@dataclass(slots=True)
class Storm:
    """The wait of each room, in seconds."""

    waits: list[float] = field(default_factory=list)
    fenced: float = 0.0
    """The longest time from a write until the last watcher had heard of it."""

    @property
    def median(self) -> float:
        """Half of them waited no longer."""
        return percentile(self.waits, 0.5)

    @property
    def worst(self) -> float:
        """99 of 100 waited no longer."""
        return percentile(self.waits, 0.99)


class _Cell:
    """The stations of one cell, each with its steady load."""

    def __init__(self, size: Size, use: Use, design: Design, seed: int, gateways: float) -> None:
        """``gateways``: the part of the gateways that is left."""
        self.size, self.use, self.design = cell_of(size, design), use, design
        self.random = Random(seed)  # noqa: S311
        self.clock = Clock()
        busy = min(demand.gateway_share(size, use, design) / gateways, 0.95)
        left = max(1, round(self.size.gateways * gateways))
        self.gateways = [Station(self.clock, 1, busy) for _ in range(left)]
        sent = min(demand.network_share(size, use, design), 0.95)
        self.network = [Station(self.clock, 1, sent) for _ in range(SERVERS)]
        self.buckets = [Station(self.clock) for _ in range(design.buckets)]
        self.watch = Station(self.clock)
        self._workers: dict[int, Station] = {}
        self.storm = Storm()

    def worker(self) -> Station:
        """The worker that takes the next room: NATS chooses at random."""
        number = self.random.randrange(self.size.workers)
        return self.station(number)

    def station(self, number: int) -> Station:
        """The cores of a worker."""
        if number not in self._workers:
            self._workers[number] = Station(self.clock, costs.CORES, OURS)
        return self._workers[number]

    def write(self, then: Act) -> None:
        """Writes a lease; the server of its leader tells the watchers."""
        bucket = self.random.choice(self.buckets)

        def written() -> None:
            watchers = self.size.workers if self.design.whole_watch else 1
            done = self.watch.serve(watchers * costs.WATCHED / costs.CORES)
            self.storm.fenced = max(self.storm.fenced, done - self.clock.now)
            self.clock.after(costs.PUT, then)

        bucket.serve(costs.pace(100), written)

    def load(self, worker: Station, gateway: Station, then: Act) -> None:
        """Loads the sessions of a room: from the worker, over NATS, through the gateway."""
        sessions = self.size.sessions_a_room if self.design.loads_all else 1
        updates = sessions * self.use.history
        sent = updates * (self.use.update_bytes + costs.FRAMING) / costs.NETWORK

        def through() -> None:
            gateway.serve(updates * costs.REPLAYED, then)

        def over() -> None:
            self.random.choice(self.network).serve(sent, through)

        worker.serve(updates * costs.RECEIVE, over)

    def waited(self, since: float) -> None:
        """One more is served again."""
        self.storm.waits.append(self.clock.now - since)


def rack(size: Size, use: Use, design: Design, seed: int) -> Storm:
    """A rack dies at once. How long each of its rooms waits until a prompt is answered again."""
    cell = _Cell(size, use, design, seed, gateways=1.0)
    clock, random = cell.clock, cell.random
    heard = 1 if design.watchers is None else 2  # a gateway that hears it tells the others
    for _ in range(max(1, round(size.workers * RACK))):
        silence = MISSED * design.beat - random.random() * design.beat + heard * costs.HOP
        for _ in range(round(cell.size.rooms_a_worker)):
            clock.at(silence, _placing(cell))
    clock.run()
    return cell.storm


def _placing(cell: _Cell) -> Act:
    """A gateway asks for a place; the worker that answers takes the lease and starts a chain."""

    def place() -> None:
        gateway, worker = cell.random.choice(cell.gateways), cell.worker()

        def started() -> None:
            cell.load(worker, gateway, lambda: cell.waited(0.0))

        def leased() -> None:
            worker.serve(costs.CHAIN, started)

        def asked() -> None:
            cell.clock.after(2 * costs.HOP, lambda: cell.write(leased))

        gateway.serve(costs.ASK, asked)

    return place


def gateways(size: Size, use: Use, design: Design, seed: int) -> Storm:
    """A third of the gateways dies: a zone. How long each of their clients waits."""
    cell = _Cell(size, use, design, seed, gateways=2 / 3)
    for _ in range(round(cell.size.principals / 3)):
        delay = cell.random.random() * design.spread
        cell.clock.at(delay, _returning(cell))
    cell.clock.run()
    return cell.storm


def _returning(cell: _Cell) -> Act:
    """A client comes to another gateway, which finds its room and loads its sessions."""

    def come() -> None:
        gateway, worker = cell.random.choice(cell.gateways), cell.worker()

        def found() -> None:
            cell.load(worker, gateway, lambda: cell.waited(0.0))

        def accepted() -> None:
            cell.clock.after(costs.GET + 2 * costs.HOP, found)

        gateway.serve(costs.ACCEPT + costs.ASK, accepted)

    return come


def election(size: Size, use: Use, design: Design, seed: int) -> Storm:
    """One of three servers dies, and with it the leader of its buckets. How long each room waits
    that is opened in that time."""
    cell = _Cell(size, use, design, seed, gateways=1.0)
    for bucket in cell.buckets[::SERVERS]:
        bucket.close(costs.ELECTION)
    return _opened(cell, costs.ELECTION)


def morning(size: Size, use: Use, design: Design, seed: int, seconds: float = 20.0) -> Storm:
    """Rooms are opened, and nothing goes wrong: how long each waits for its place."""
    return _opened(_Cell(size, use, design, seed, gateways=1.0), seconds)


def _opened(cell: _Cell, seconds: float) -> Storm:
    time = 0.0
    rate = cell.size.principals * cell.use.arrivals
    while (time := time + cell.random.expovariate(rate)) < seconds:
        cell.clock.at(time, _opening(cell, time))
    cell.clock.run()
    return cell.storm


def _opening(cell: _Cell, time: float) -> Act:
    def leased() -> None:
        cell.clock.after(costs.HOP, lambda: cell.waited(time))

    def asked() -> None:
        cell.clock.after(costs.HOP, lambda: cell.write(leased))

    def opens() -> None:
        cell.random.choice(cell.gateways).serve(costs.ASK, asked)

    return opens
