"""Takes what is seen of messages and writes it to a file (`--trace FILE`).

Events are what passes between components (`conductor.record.trace.events`). Lines of type
`_conductor` hold the lines that each component got and sent (`conductor.record.trace.records`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Trace, Violated
from conductor.core.json_text import read_members, write_members
from conductor.core.tracing import best_effort
from conductor.record.trace.chain import ChainComponent
from conductor.record.trace.events import EventWriter
from conductor.record.trace.hops import ChainNames, Crossings, Departure, shown_name
from conductor.record.trace.records import Conversation, header
from conductor.record.trace.sinks import Sink
from conductor.run.plan import Planned
from conductor.run.report_checks import Tracing
from conductor.run.report_lines import Delivered, text_lines
from conductor.run.segment_spec import TRACE_FIELDS, Hop
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded

_KINDS: Final = frozenset({"request", "response", "notification"})

_LATE: Final = 1.0
"""Seconds by which a child's report may be older than its arrival to be dated by it."""

_delivered = msgspec.json.Decoder(Delivered)
_hop = msgspec.json.Decoder(Hop)
_id = msgspec.json.Decoder(int | str | None)


class Tracer:
    """Writes the trace of one chain; `content` is `redacted`, `all` or `none` (sizes only)."""

    def __init__(
        self,
        file: Sink,
        content: str = "redacted",
        *,
        chain: Sequence[ChainComponent] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`chain`: what the header says of the components."""
        self._file = file
        self._chain = chain
        self._content = content
        self._clock = clock
        self._start = clock()
        self._began = time.time()
        self._last = 0.0
        self._names = ChainNames()
        self._crossings = Crossings()
        self._events = EventWriter(file, content, self._crossings)
        self._mode = ""
        self._guests: dict[str, Conversation] = {}
        """The conversations of guests in a child, by name."""
        self._runs: Counter[str] = Counter()
        """How many instances of each component there have been."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Writes the header.

        Args:
            chain: the chain's peers in order, each with the guests it hosts and, if it reports what
                passes between them, the numbers of their messages.
        """
        self._names.begin(chain)
        components = [name for peer, guests, _ in chain for name in guests or (peer,)]
        self._file.begin(header(self._content, components, self._began, self._chain))

    def rearranged(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """The chain has other peers from now on; as `begin`."""
        self._names.begin(chain)

    def watched(self, planned: Planned) -> Planned:
        """A component whose lines are written down; a host reports those of its guests itself."""
        if planned.guests:
            return planned
        name, renew = planned.component.name, planned.renew

        def again(make: Callable[[], Transport]) -> Callable[[], Transport]:
            return lambda: Recorded(make(), _LineRecorder(self, name))

        return msgspec.structs.replace(
            planned,
            transport=Recorded(planned.transport, _LineRecorder(self, name)),
            renew=renew and again(renew),
        )

    @best_effort
    def crossed(self, trace: Trace, mode: str) -> None:
        """Writes a message that crossed between two peers of the router, which is in `mode`."""
        self._mode = mode
        hosts = self._names.hosts
        from_host = trace.source if trace.source in hosts else None
        to_host = trace.target if trace.target in hosts else None
        now = self.now()
        departure = None
        if from_host is not None:
            departure = self._crossings.take(from_host, trace.number, inward=False)
        if departure is None:
            source = self._names.end(trace.source, trace.source_side, mode)
            # What a host sends passes on something that only the host knows.
            if from_host is not None:
                departure = Departure(
                    source, now, msgspec.structs.replace(trace, passes=0, past=False)
                )
            else:
                departure = Departure(source, now, trace)
        if to_host is not None and not trace.lost:
            self._crossings.put(to_host, departure, trace.number, inward=True)
            return
        target = self._names.end(trace.target, trace.target_side, mode)
        self._events.write(trace, departure, target, now)

    @best_effort
    def hop(self, segment: str, params: bytes) -> None:
        """Writes a message that a guest got, as the child that hosts it reported it, or keeps the
        report of a message that is about to leave the child.

        Raises `ValueError` for a report of anything else: a child is not trusted.
        """
        hop, payload = _read_hop(params)
        ends = self._names.guests[segment] | {"", UPSTREAM}
        if hop.source not in ends or hop.target not in ends or hop.kind not in _KINDS:
            raise ValueError(f"not a message of a guest of {segment}")
        is_new = hop.source != UPSTREAM and hop.kind != "response"
        if is_new and hop.number not in self._names.hosts[segment]:
            raise ValueError(f"not a number of a message of {segment}")
        at = self.now(hop.at - self._start)
        trace = Trace(payload=payload, **{field: getattr(hop, field) for field in TRACE_FIELDS})
        departure: Departure | None = Departure(shown_name(hop.source), at, trace, (segment,))
        if hop.source == UPSTREAM:
            departure = self._crossings.take(segment, hop.number, inward=True)
        if departure is None:
            return  # a copy: its original has been written
        if hop.target == UPSTREAM and not hop.lost:
            self._crossings.put(segment, departure, hop.number, inward=False)
        else:
            target = shown_name(hop.target)
            self._events.write(trace, departure, target, at, hop.size, segment)

    @best_effort
    def delivered(self, segment: str, params: bytes) -> None:
        """Writes down the lines that a guest got and sent, as its host reported them.

        Raises `ValueError` for a report that is none, or is about a component it does not host.
        """
        try:
            report = _delivered.decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ValueError(str(error)) from None
        if report.component not in self._names.guests[segment]:
            raise ValueError(f"`{report.component}` is not one of its guests")
        at = self.now(report.at - self._start)
        if report.number == 0 or report.component not in self._guests:
            self._guests[report.component] = self.conversation(report.component)
        self._guests[report.component].reported(report, at)

    @best_effort
    def violated(self, violation: Violated) -> None:
        """Writes a verdict: conductor has undone what a component did."""
        self._events.verdict(violation, shown_name(violation.peer), self.now())

    @best_effort
    def happened(self, event: str, component: str, text: str) -> None:
        """Writes what has happened to a component: it was restarted, paused, replaced …"""
        name = "agent" if self.is_agent(component) else shown_name(component)
        self._events.happened(event, name, text, self.now())

    def close(self) -> None:
        """Writes what is left."""
        self._file.close()

    def conversation(self, name: str) -> Conversation:
        """The conversation of the next instance of a component."""
        self._runs[name] += 1
        run = self._runs[name]
        return Conversation(name, run, self._file.gather, self._service, self._content)

    def is_agent(self, name: str) -> bool:
        """Whether it is the agent; not known before the first message has passed."""
        return self._mode == "agent" and name == self._names.agent

    def now(self, reported: float | None = None) -> float:
        """Seconds since the start, or a time that a child has reported, if that can be right.

        Never less than before, as readers expect.
        """
        now = self._clock() - self._start
        if reported is not None and now - _LATE < reported < now:
            now = reported
        self._last = max(now, self._last)
        return self._last

    def _service(self, trace: Trace, source: str, target: str, size: int) -> None:
        """Writes what passed between a component and the conductor itself."""
        self._events.write(trace, Departure(source, self._last, trace), target, self._last, size)


class Both:
    """Two traces of one chain: one may hold less of each message than the other."""

    def __init__(self, first: Tracing, second: Tracing) -> None:
        self._first = first
        self._second = second

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """See `Tracing`."""
        self._first.begin(chain)
        self._second.begin(chain)

    def watched(self, planned: Planned) -> Planned:
        """See `Tracing`."""
        return self._second.watched(self._first.watched(planned))

    def rearranged(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """See `Tracing`."""
        self._first.rearranged(chain)
        self._second.rearranged(chain)

    def crossed(self, trace: Trace, mode: str) -> None:
        """See `Tracing`."""
        self._first.crossed(trace, mode)
        self._second.crossed(trace, mode)

    def hop(self, segment: str, params: bytes) -> None:
        """See `Tracing`."""
        self._first.hop(segment, params)
        self._second.hop(segment, params)

    def delivered(self, segment: str, params: bytes) -> None:
        """See `Tracing`."""
        self._first.delivered(segment, params)
        self._second.delivered(segment, params)

    def violated(self, violation: Violated) -> None:
        """See `Tracing`."""
        self._first.violated(violation)
        self._second.violated(violation)

    def happened(self, event: str, component: str, text: str) -> None:
        """See `Tracing`."""
        self._first.happened(event, component, text)
        self._second.happened(event, component, text)

    def close(self) -> None:
        """See `Tracing`."""
        self._first.close()
        self._second.close()


def _read_hop(params: bytes) -> tuple[Hop, bytes | None]:
    """A child's report, and the payload in it. Raises `ValueError`."""
    held = read_members(params)
    if held is None:
        raise ValueError("it is no object")
    payload = held.pop("payload", None)
    try:
        hop = _hop.decode(write_members(held))
        if hop.id is not None:
            _id.decode(hop.id)
            if "\n" in hop.id:  # it is written into a line as it is
                raise ValueError("its id is none")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    return hop, None if payload is None else bytes(payload)


class _LineRecorder:
    """Takes the lines of a component that is no host; those of the agent are not recorded."""

    def __init__(self, tracer: Tracer, name: str) -> None:
        self._tracer = tracer
        self._name = name
        self._known: Conversation | None = None

    def _conversation(self) -> Conversation:
        """Begun with the first line, so that instances are numbered in the order they are used."""
        if self._known is None:
            self._known = self._tracer.conversation(self._name)
        return self._known

    @best_effort
    def given(self, data: bytes) -> None:
        """Lines were written to the component."""
        if not self._tracer.is_agent(self._name):
            self._conversation().write(self._tracer.now(), text_lines(data), ())

    @best_effort
    def sent(self, frames: list[bytes]) -> None:
        """Lines came from the component."""
        if not self._tracer.is_agent(self._name):
            lines = [frame.decode("utf-8", "backslashreplace") for frame in frames]
            self._conversation().write(self._tracer.now(), (), lines)

    @best_effort
    def delivered(self, given: bytes, sent: bytes, failed: str) -> None:
        """Lines were delivered to it, and it returned others."""
        self._conversation().delivered(self._tracer.now(), given, sent, failed)
