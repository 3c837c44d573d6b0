"""The findings of the model: each part and each storm, in the first design and the changed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.fleet.simulation import costs, demand, storms
from benchmarks.fleet.simulation.shape import CHANGED, FIRST, Design, Size, Use, size_of

SIZES: Final = (10, 30, 100, 300, 1_000, 3_000, 10_000)
"""Workers of the fleets in which storms are played."""

CHANGES: Final = {
    "journal: writes of one leader": (
        "four streams in each of five cells; 250 ms of a room are one record"
    ),
    "journal: a day on one server's disk": "the same",
    "network of a NATS server": "five cells of three servers",
    "processors of the NATS servers": (
        "the same; acknowledgements after 250 ms; nobody watches the whole bucket"
    ),
    "one connection between two NATS servers": "five cells",
    "a gateway's processor": "twice as many gateways, so that a third may die",
    "heartbeats a gateway hears": "two gateways hear a worker, and tell the others",
    "memory of subscriptions, one server": "five cells",
    "bucket of rooms: writes of one leader": "16 buckets in each cell",
    "a rack of 2 % of the workers dies": (
        "a gateway loads the session that is asked for, not all of a room"
    ),
    "… until every watcher has heard of it": "who takes a room tells the last worker",
    "a third of the gateways dies": (
        "clients come back within 5 s, with one session; twice as many gateways"
    ),
    "the leader of `rooms` dies": "16 buckets: a third of the rooms waits, not all",
}
"""The change for each part or storm."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: used or waited at the largest size, and where it breaks."""

    name: str
    limit: float
    first: float
    first_breaks: int | None
    changed: float
    changed_breaks: int | None
    words: str


def parts(workers: int, use: Use) -> list[Row]:
    """Shares of steady load; the part that breaks first comes first."""
    before = demand.parts(size_of(workers, FIRST), use, FIRST)
    after = demand.parts(size_of(workers, CHANGED), use, CHANGED)
    rows = [
        Row(
            one.name,
            one.limit,
            one.used,
            demand.breaks(one.name, use, FIRST),
            two.used,
            demand.breaks(two.name, use, CHANGED),
            one.words,
        )
        for one, two in zip(before, after, strict=True)
    ]
    return sorted(rows, key=lambda row: row.first_breaks or 10**9)


@dataclass(frozen=True, slots=True)
class _Kind:
    name: str
    limit: float
    """Seconds."""
    play: Callable[[Size, Use, Design, int], storms.Storm]
    read: Callable[[storms.Storm], float]


KINDS: Final = (
    _Kind("a rack of 2 % of the workers dies", 3.0, storms.rack, lambda storm: storm.worst),
    _Kind("… until every watcher has heard of it", 1.0, storms.rack, lambda storm: storm.fenced),
    _Kind("a third of the gateways dies", 10.0, storms.gateways, lambda storm: storm.worst),
    _Kind("the leader of `rooms` dies", 3.0, storms.election, lambda storm: storm.worst),
)


def sudden(sizes: Sequence[int], use: Use, seed: int) -> list[Row]:
    """The wait of 99 of 100 in storms, in seconds; each kind at each size."""
    rows = []
    for kind in KINDS:
        before = [_played(kind, workers, use, FIRST, seed) for workers in sizes]
        after = [_played(kind, workers, use, CHANGED, seed) for workers in sizes]
        rows.append(
            Row(
                kind.name,
                kind.limit,
                before[-1],
                _first_over(kind, sizes, before),
                after[-1],
                _first_over(kind, sizes, after),
                "",
            )
        )
    return rows


def _played(kind: _Kind, workers: int, use: Use, design: Design, seed: int) -> float:
    found = kind.play(size_of(workers, design), use, design, seed)
    return kind.read(found) if found.waits else 0.0


def _first_over(kind: _Kind, sizes: Sequence[int], waits: Sequence[float]) -> int | None:
    over = (size for size, wait in zip(sizes, waits, strict=True) if wait > kind.limit)
    return next(over, None)


def waiting_share(workers: int, use: Use, design: Design, seed: int) -> float:
    """The part of the rooms opened in an election that waits longer than 5 ms."""
    found = storms.election(size_of(workers, design), use, design, seed).waits
    return sum(wait > 5 * costs.MS for wait in found) / max(1, len(found))
