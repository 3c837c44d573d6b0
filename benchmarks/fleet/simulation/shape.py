"""How large a fleet is, how it is used, and how it is built."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Final


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of a fleet's parts; a room is the hub of one principal."""

    workers: int
    principals: int
    sessions: int
    gateways: int

    @property
    def rooms_a_worker(self) -> float:
        """Rooms of one worker."""
        return self.principals / self.workers

    @property
    def sessions_a_room(self) -> int:
        """Sessions of one room."""
        return round(self.sessions / self.principals)


@dataclass(frozen=True, slots=True)
class Use:
    """The busiest quarter of an hour."""

    open_turns: float = 0.05
    """Share of sessions whose agent answers at this moment."""
    updates: float = 20.0
    """Updates a second of an open turn."""
    update_bytes: int = 300
    arrivals: float = 0.5 / 900
    """Rooms a second and principal: half of the principals come in a quarter of an hour."""
    history: int = 300
    """Updates in one session's history."""
    average: float = 0.3
    """The average of a day, as a part of this."""


@dataclass(frozen=True, slots=True)
class Design:
    """The parts of a fleet's design that can change."""

    name: str
    cells: int = 1
    """Clusters of three NATS servers, each with its gateways and workers; a principal belongs to
    one cluster by the hash of its name. Clusters reach each other by leaf nodes."""
    principals_a_gateway: int = 1_000
    journals: int = 1
    """Streams of the journal in a cell."""
    merged: float = 0.0
    """Updates of a room within so many seconds are one record of the journal."""
    acked: float = 0.020
    """A link tells which packets it has after so many seconds, or 64 packets."""
    beat: float = 0.250
    """Seconds between two heartbeats; three missed are the end of a worker."""
    watchers: int | None = None
    """So many gateways hear the heartbeats of a worker, and tell the other gateways when they end;
    None: every gateway that uses the worker."""
    whole_watch: bool = True
    """Each worker watches the whole bucket `rooms`; otherwise who takes a room over tells the
    worker that had it."""
    buckets: int = 1
    """Buckets for rooms in a cell, chosen by hash."""
    loads_all: bool = True
    """Whether a client that comes back loads all sessions of a room before the first prompt;
    otherwise it loads the session that is asked for."""
    spread: float = 0.0
    """Clients of a lost gateway come back within so many seconds, at random."""


SERVERS: Final = 3
"""NATS servers of a cell; every stream has three replicas."""

FIRST: Final = Design("first")
CHANGED: Final = Design(
    "changed",
    cells=5,
    principals_a_gateway=500,
    journals=4,
    merged=0.250,
    acked=0.250,
    watchers=2,
    whole_watch=False,
    buckets=16,
    loads_all=False,
    spread=5.0,
)


def size_of(workers: int, design: Design) -> Size:
    """A fleet as large fleets are taken to be: 10 rooms of 10 sessions for each worker."""
    principals = 10 * workers
    gateways = max(3, ceil(principals / design.principals_a_gateway))
    return Size(workers, principals, 10 * principals, gateways)


def cell_of(size: Size, design: Design) -> Size:
    """One cell's part of a fleet; a small fleet has fewer cells."""
    cells = min(design.cells, max(1, size.workers // 200))
    if cells == 1:
        return size
    return replace(
        size,
        workers=ceil(size.workers / cells),
        principals=ceil(size.principals / cells),
        sessions=ceil(size.principals / cells) * size.sessions_a_room,
        gateways=max(3, ceil(size.gateways / cells)),
    )
