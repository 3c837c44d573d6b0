"""Takes the entries of a log and writes them as a trace (`--trace FILE`), without secrets.

Events are the messages between components (`conductor.record.trace.events`). Lines of type
`_conductor` tell of everything else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from conductor.core import UPSTREAM, Entry, Violated
from conductor.core.component import Side
from conductor.record.trace.chain import ChainComponent, header
from conductor.record.trace.events import Events
from conductor.record.trace.hops import ChainNames, Crossings, Departure, shown_name
from conductor.record.turns.line import Line
from conductor.run.log import Chain, Ended, Gap, Happened, Item, OfHost, Sink


class Tracer(Sink[Item]):
    """Makes the lines of a trace; `content` is `redacted`, `all` or `none` (sizes only)."""

    takes = (*Sink.takes, Ended)

    def __init__(
        self,
        sinks: Sequence[Sink[Line]],
        content: str = "redacted",
        *,
        chain: Sequence[ChainComponent] = (),
        head: Line | None = None,
    ) -> None:
        """
        Args:
            sinks: Each takes the lines.
            content: How much of each message is written.
            chain: The components as the header describes them.
            head: The first line; None: the line describes the chain that begins.
        """
        self._sinks = sinks
        self.is_live = any(sink.is_live for sink in sinks)
        self._chain = chain
        self._content = content
        self._start = -1.0
        """When the first entry came."""
        self._last = 0.0
        self._names = ChainNames()
        self._has_begun = False
        self._head = head
        self._crossings = Crossings()
        self._events = Events(content, self._crossings)
        self._mode = ""

    def take(self, item: Item, at: float, mode: str) -> None:
        """Makes lines of one entry. Raises `ValueError` if no honest host can report such an
        entry."""
        self._mode = mode
        if self._start < 0:
            self._start = at
        match item:
            case Entry():
                self._crossed(item, self._now(at))
            case OfHost(host, Entry() as entry):
                self._hop(host, entry, self._now(at))
            case Chain():
                self._names.begin(item.peers)
                if not self._has_begun:
                    self._has_begun = True
                    began = time.time() - (time.monotonic() - self._start)
                    names = components(item)
                    self._put(self._head or header(self._content, names, began, self._chain))
                if item.unwatched:
                    keeps = {shown_name(name): keeps for name, keeps in item.unwatched.items()}
                    self._put(Line(type="_conductor", ts=self._now(at), unwatched=keeps))
            case Violated():
                name = shown_name(item.peer)
                self._put(self._events.verdict(item, name, self._now(at)))
            case Happened(event, component, text):
                if event not in ("pause", "resume", "adapt"):
                    self._gone(component, self._now(at))
                is_agent = self._mode == "agent" and component == self._names.agent
                name = "agent" if is_agent else shown_name(component)
                self._put(self._events.happened(event, name, text, self._now(at)))
            case Gap(text):
                self._put(self._events.gap(text, self._now(at)))
            case Ended(failure) if self._has_begun:
                for host in self._names.hosts:
                    self._gone(host, self._now(at))
                self._put(self._events.ended(failure or "", self._now(at)))

    @property
    def behind(self) -> int:
        """See `Sink`."""
        return sum(sink.behind for sink in self._sinks)

    def drop(self) -> str:
        """See `Sink`. Only the slowest of its own is dropped."""
        return max(self._sinks, key=lambda sink: sink.behind).drop()

    def close(self) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.close()

    def _put(self, line: Line) -> None:
        for sink in self._sinks:
            if not sink.failed:
                sink.take(line, line.ts, self._mode)

    # -- messages ------------------------------------------------------------------------------

    def _crossed(self, entry: Entry, at: float) -> None:
        """Writes a message that crossed between two peers of the router, or keeps a message that
        goes to a host."""
        hosts, mode = self._names.hosts, self._mode
        from_host = entry.source if entry.source in hosts else None
        to_host = entry.target if entry.target in hosts else None
        departure = None
        if from_host is not None and entry.kind == "response":
            asked = self._crossings.take(from_host, entry.request, inward=True)
            if asked is not None:
                self._swallowed(from_host, asked, at)
        if from_host is not None:
            departure = self._crossings.take(from_host, entry.number, inward=False)
        if departure is None:
            source = self._names.end(entry.source, entry.source_side, mode)
            # A host's message passes on a message that only the host knows.
            seen = entry
            if from_host is not None:
                seen = msgspec.structs.replace(entry, passes=0, past=False)
            departure = Departure(source, self._left(entry, at), seen)
        if to_host is not None and not entry.lost:
            self._crossings.put(to_host, departure, entry.number, inward=True)
            return
        target = self._names.end(entry.target, entry.target_side, mode)
        self._passed(entry, departure, target, at)

    def _gone(self, host: str, at: float) -> None:
        """A host is gone."""
        for departure in self._crossings.swallowed(host):
            self._swallowed(host, departure, at)

    def _swallowed(self, host: str, departure: Departure, at: float) -> None:
        """No guest has got a message that went to its host."""
        target = self._names.end(host, Side.P, self._mode)
        lost = msgspec.structs.replace(departure.entry, lost=True)
        self._passed(lost, msgspec.structs.replace(departure, hosts=()), target, at)

    def _hop(self, host: str, entry: Entry, at: float) -> None:
        """Writes a message that a guest got, or keeps a message that is about to leave its host."""
        source, left = shown_name(entry.source), self._left(entry, at)
        departure: Departure | None = Departure(source, left, entry, (host,))
        if entry.source == UPSTREAM:
            departure = self._crossings.take(host, entry.number, inward=True)
        if departure is None:
            return  # a copy: its original has been written
        if entry.target == UPSTREAM and not entry.lost:
            self._crossings.put(host, departure, entry.number, inward=False)
        else:
            self._passed(entry, departure, shown_name(entry.target), at, host)

    def _passed(
        self, entry: Entry, departure: Departure, target: str, at: float, host: str | None = None
    ) -> None:
        if all(sink.failed for sink in self._sinks):
            return
        line = self._events.hop(entry, departure, target, at, host)
        if line is not None:
            self._put(line)

    def _left(self, entry: Entry, at: float) -> float:
        """When a message that is seen now left its sender; a message that goes past its sender
        leaves now."""
        waited = entry.read and not entry.past
        return min(max(entry.read - self._start, 0.0), at) if waited else at

    def _now(self, at: float) -> float:
        """Whole microseconds since the start, in seconds; never less than before, as readers
        expect, nor later than now, whatever a host has reported."""
        since = int((min(at, time.monotonic()) - self._start) * 1_000_000) / 1_000_000
        self._last = max(since, self._last)
        return self._last


def components(chain: Chain) -> list[str]:
    """The components of a chain as a trace has them. Guests are listed by themselves, where their
    host reports the messages between them."""
    return [
        name
        for peer, guests, numbers in chain.peers
        for name in ((guests if numbers is not None else ()) or (peer,))
    ]
