"""Time as a heap of events, and stations where work waits in line."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Act = Callable[[], None]


class Clock:
    """Runs acts in order of time; of two at one time the act that was planned first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Act]] = []
        self._numbers = count()

    def at(self, time: float, act: Act) -> None:
        """Plans an act; the past is now."""
        heapq.heappush(self._due, (max(time, self.now), next(self._numbers), act))

    def after(self, delay: float, act: Act) -> None:
        """Plans an act so many seconds from now."""
        self.at(self.now + delay, act)

    def run(self, until: float | None = None) -> None:
        """Runs until nothing is planned, or up to a time."""
        while self._due and (until is None or self._due[0][0] <= until):
            self.now, _, act = heapq.heappop(self._due)
            act()
        if until is not None:
            self.now = max(self.now, until)


class Station:
    """So many servers that take jobs in the order of arrival.

    ``background`` is the share of each server that other work has already: a job takes longer by
    it. Jobs come in order of time, so no queue is kept: a job starts when the first server is free.

    Attributes:
        jobs: How many jobs have come.
        busy: Seconds of work that have come.
        waited: Seconds that jobs waited before they started, all together.
        longest: The longest wait.
    """

    def __init__(self, clock: Clock, servers: int = 1, background: float = 0.0) -> None:
        if not 0 <= background < 1:
            raise ValueError(f"a station with a background of {background} never ends a job")
        self._clock = clock
        self._slower = 1 / (1 - background)
        self._free = [0.0] * servers
        self._closed = 0.0
        self.jobs = 0
        self.busy = self.waited = self.longest = 0.0

    def serve(self, work: float, then: Act | None = None) -> float:
        """Takes a job of so many seconds, and acts when it is done; returns when that is."""
        now, work = self._clock.now, work * self._slower
        start = max(now, self._free[0], self._closed)
        heapq.heapreplace(self._free, start + work)
        self.jobs += 1
        self.busy += work
        self.waited += start - now
        self.longest = max(self.longest, start - now)
        if then is not None:
            self._clock.at(start + work, then)
        return start + work

    def close(self, until: float) -> None:
        """Starts no job before ``until``: a leader is elected."""
        self._closed = until
