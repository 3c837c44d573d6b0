"""The demand of a fleet on its parts while nothing goes wrong: computed, not played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

from benchmarks.fleet.simulation import costs
from benchmarks.fleet.simulation.shape import SERVERS, Design, Size, Use, cell_of, size_of


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one cell, a second."""

    updates: float
    acks: float
    beats: float
    heard: float
    """Heartbeats delivered."""
    records: float
    record_bytes: float
    """Bytes of one record of the journal, without its frame."""
    writes: float
    """To the buckets of rooms."""
    watched: float
    """Writes delivered to watchers."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a fleet and how much of it is used, where more than ``limit`` is too much."""

    name: str
    used: float
    limit: float
    words: str


def rates(cell: Size, use: Use, design: Design) -> Rates:
    """The rates of a cell."""
    updates = cell.sessions * use.open_turns * use.updates
    records = cell.principals * _gathered(cell, use, design.merged)
    hearers = design.watchers or gateways_of_worker(cell)
    beats = cell.workers / design.beat
    writes = cell.principals * use.arrivals * 2  # a room comes, and another goes
    return Rates(
        updates=updates,
        acks=cell.principals * _gathered(cell, use, design.acked, at_most=64),
        beats=beats,
        heard=beats * min(hearers, cell.gateways),
        records=records,
        record_bytes=use.update_bytes * updates / records,
        writes=writes,
        watched=writes * (cell.workers if design.whole_watch else 1),
    )


def gateways_of_worker(cell: Size) -> float:
    """The number of gateways with clients of a worker, each room at a random gateway."""
    missed: float = (1 - 1 / cell.gateways) ** cell.rooms_a_worker
    return cell.gateways * (1 - missed)


def gathered(rate: float, delay: float, at_most: float = float("inf")) -> float:
    """How often a second a timer ends that starts with the first event behind its last end.

    Events come at random. ``at_most`` so many end it earlier: then they alone count.
    """
    return max(rate / (1 + rate * delay), rate / at_most)


def _gathered(cell: Size, use: Use, delay: float, at_most: float = float("inf")) -> float:
    """The same for one room: the mean over the number of its sessions with an open turn."""
    many, share = cell.sessions_a_room, use.open_turns

    def chance(turns: int) -> float:
        return float(share**turns * (1 - share) ** (many - turns))

    return sum(
        comb(many, turns) * chance(turns) * gathered(turns * use.updates, delay, at_most)
        for turns in range(1, many + 1)
    )


def parts(size: Size, use: Use, design: Design) -> list[Part]:
    """Each part of the busiest cell."""
    cell = cell_of(size, design)
    found = rates(cell, use, design)
    return [
        *_journal(found, use, design),
        _network(found, use, design),
        _processors(found),
        _route(found),
        _gateway(cell, found),
        _heartbeats(cell, found),
        _interest(cell, design),
        _buckets(found, design),
    ]


def gateway_share(size: Size, use: Use, design: Design) -> float:
    """The used part of a gateway's one processor."""
    cell = cell_of(size, design)
    return _gateway(cell, rates(cell, use, design)).used


def network_share(size: Size, use: Use, design: Design) -> float:
    """How much of the busiest server's network is used."""
    return _network(rates(cell_of(size, design), use, design), use, design).used


def _journal(found: Rates, use: Use, design: Design) -> list[Part]:
    size = found.record_bytes + costs.FRAMING
    each = found.records / design.journals
    kept = found.records * size * 86_400 * use.average
    return [
        Part(
            "journal: writes of one leader",
            each * costs.pace(found.record_bytes),
            0.7,
            f"{each:,.0f} records a second",
        ),
        Part(
            "journal: a day on one server's disk",
            kept / costs.DISK,
            0.7,
            f"{found.records * size / 1e6:,.0f} MB a second",
        ),
    ]


def _network(found: Rates, use: Use, design: Design) -> Part:
    """The bytes sent by the busiest server: a journal's leader sends each record to two others."""
    away = (SERVERS - 1) / SERVERS
    live = (found.updates * (use.update_bytes + costs.FRAMING)) * (1 + away)
    small = (found.acks * (1 + away) + found.heard) * costs.FRAMING
    record = found.records * (found.record_bytes + costs.FRAMING)
    leading = record / min(design.journals, SERVERS) * (SERVERS - 1)
    total = (live + small + record * away) / SERVERS + leading
    return Part(
        "network of a NATS server",
        total / costs.NETWORK,
        0.7,
        f"{total / 1e6:,.0f} MB a second sent",
    )


def _processors(found: Rates) -> Part:
    away = (SERVERS - 1) / SERVERS
    message = costs.MESSAGE * (1 - away) + 2 * costs.ROUTED * away
    record = costs.write(found.record_bytes) + 2 * costs.copy(found.record_bytes)
    used = (
        (found.updates + found.acks) * message
        + found.beats * message
        + max(0.0, found.heard - found.beats) * costs.DELIVERY
        + found.records * record
        + found.writes * (costs.write(100) + 2 * costs.copy(100))
        + found.watched * costs.WATCHED
    )
    return Part(
        "processors of the NATS servers",
        used / (SERVERS * costs.CORES),
        0.7,
        f"{used:.2g} of {SERVERS * costs.CORES} cores",
    )


def _route(found: Rates) -> Part:
    """Messages of an account from one server to another share one connection."""
    crossing = (found.updates + found.acks + found.records + found.heard) / SERVERS**2
    return Part(
        "one connection between two NATS servers",
        crossing * costs.ROUTED,
        0.7,
        f"{crossing:,.0f} messages a second",
    )


def _gateway(cell: Size, found: Rates) -> Part:
    each = (
        found.updates * costs.PASSED + found.acks * costs.PUBLISH + found.heard * costs.RECEIVE
    ) / cell.gateways
    return Part("a gateway's processor", each, 0.7, f"{found.updates / cell.gateways:,.0f} updates")


def _heartbeats(cell: Size, found: Rates) -> Part:
    """Heartbeats may take a tenth of a gateway."""
    return Part(
        "heartbeats a gateway hears",
        found.heard / cell.gateways * costs.RECEIVE,
        0.1,
        f"{found.heard:,.0f} delivered a second",
    )


def _interest(cell: Size, design: Design) -> Part:
    """Subscriptions: four of each process, and heartbeats."""
    heard = min(design.watchers or gateways_of_worker(cell), cell.gateways) * cell.workers
    subjects = 4 * (cell.workers + cell.gateways) + heard
    own, others = costs.SUBJECT_BYTES, costs.SUBJECT_ELSEWHERE_BYTES
    memory = subjects / SERVERS * (own + (SERVERS - 1) * others)
    return Part(
        "memory of subscriptions, one server",
        memory / costs.MEMORY,
        0.7,
        f"{subjects:,.0f} subjects, {memory / 1e6:,.0f} MB",
    )


def _buckets(found: Rates, design: Design) -> Part:
    each = found.writes / design.buckets
    return Part(
        "bucket of rooms: writes of one leader",
        each * costs.pace(100),
        0.7,
        f"{each:,.1f} writes a second",
    )


def breaks(name: str, use: Use, design: Design, highest: int = 10_000_000) -> int | None:
    """With how many workers a part is used too much; None: not up to ``highest``."""

    def over(workers: int) -> bool:
        found = {part.name: part for part in parts(size_of(workers, design), use, design)}[name]
        return found.used > found.limit

    return first_over(over, highest)


def first_over(over: Callable[[int], bool], highest: int) -> int | None:
    """The smallest number for which ``over`` holds, where it holds for all above too."""
    if not over(highest):
        return None
    low, high = 0, highest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if over(middle) else (middle, high)
    return high
