"""The latest work of each component, for somebody who watches: counted from the ring.

A chain that nobody watches counts nothing.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from conductor.record.ring.played import Player, paced
from conductor.record.trace.tracer import Tracer
from conductor.record.turns import counts
from conductor.record.turns import filter as filters
from conductor.record.turns.fold import Fold
from conductor.record.turns.line import Line, written
from conductor.record.turns.rows import row_of
from conductor.run.log import Sink
from conductor.run.ring import AGE, Kept, Ring

_MOST_EVENTS: Final = 50_000
"""After so many events the count begins anew, with the entries of the ring: a bound of memory."""
_MOST_COUNTED: Final = 20_000
"""Messages of which the figures are: to sort them must not hold up the chain."""


class _Sent(NamedTuple):
    """A message that a component sent."""

    at: float
    name: str
    ms: float | None
    number: int
    """Of its event."""


class Counted(NamedTuple):
    """The counts of one component; its times in milliseconds, in order."""

    messages: int
    changed: int
    times: Sequence[float]


class Figures(Sink[Line]):
    """Counts the messages that passed in the last minutes."""

    def __init__(self, ring: Ring, mode: Callable[[], str], wanted: str = "") -> None:
        """`mode`: of the router. `wanted`: a filter; only events that it chooses are counted.
        Raises `UsageError`."""
        self.wanted = wanted
        self._ring = ring
        self._mode = mode
        self._chosen = filters.parse(wanted)
        self._begin()

    def _begin(self) -> None:
        held = self._ring.held()
        self._is_of = self._mode()
        self._todo: deque[Kept] = deque(held.kept)
        self._last = held.kept[-1] if held.kept else None
        self._since = held.kept[0].at if held.kept else time.monotonic()
        self._fold = Fold()
        self._sent: deque[_Sent] = deque(maxlen=_MOST_COUNTED)
        self._changed: set[int] = set()
        """Events that their senders have changed."""
        self._most = 0
        self._player = Player(held, Tracer([self], "all"), self._is_of)

    def work(self) -> Iterator[None]:
        """Counts the entries since the last call. A step takes a few milliseconds."""
        return paced(self._taken())

    def _taken(self) -> Iterator[None]:
        new = None if self._last is None else self._ring.since(self._last)
        if new is None or self._is_of != self._mode() or self._fold.number > self._most > 0:
            self._begin()
        elif new:
            self._todo.extend(new)
            self._last = new[-1]
        while self._todo:
            self._player.take(self._todo.popleft())
            yield
        self._most = self._most or max(_MOST_EVENTS, 2 * self._fold.number)
        while self._sent and self._sent[0].at < time.monotonic() - AGE:
            self._sent.popleft()

    def take(self, item: Line, at: float, mode: str) -> None:
        """Counts an event."""
        line, event = item, self._fold.take(item)
        if event is None:
            return
        self._changed.difference_update(event.uncut)
        pair = event.asked.event if event.asked is not None and line.type == "response" else -1
        shown = row_of(
            event.number, line, event.turn.number, pair=pair, ms_in=event.ms_in,
            change=event.change,
        )  # fmt: skip
        if shown is None or not counts.counts(shown):
            return
        if self._chosen.text.strip() and not self._chosen.matches(shown, lambda _: _text(line)):
            return
        if event.change in counts.CHANGED:
            self._changed.add(event.number)
        at = self._player.start + line.ts
        self._sent.append(_Sent(at, line.source, counts.time(shown), event.number))

    @property
    def seconds(self) -> float:
        """Seconds before now of which the figures are."""
        is_full = len(self._sent) == _MOST_COUNTED
        since = self._sent[0].at if is_full else self._since
        return min(time.monotonic() - since, AGE)

    def counted(self) -> dict[str, Counted]:
        """The figures by component, as a trace names them."""
        by_name: defaultdict[str, list[_Sent]] = defaultdict(list)
        for sent in self._sent:
            by_name[sent.name].append(sent)
        return {
            name: Counted(
                len(sent),
                sum(one.number in self._changed for one in sent),
                sorted(one.ms for one in sent if one.ms is not None),
            )
            for name, sent in by_name.items()
        }


def _text(line: Line) -> str:
    return written(line).decode("utf-8", "replace")
