"""Takes what is seen of messages and writes it to a file (`--trace FILE`).

Events are what passes between components (`conductor.record.trace.events`). Lines of type
`_conductor` hold the lines that each component got and sent (`conductor.record.trace.records`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from conductor.core import UPSTREAM, Trace, Violated, json_text
from conductor.core.tracing import best_effort
from conductor.record.trace.chain import ChainComponent
from conductor.record.trace.events import Events
from conductor.record.trace.hops import ChainNames, Crossings, Departure, shown_name
from conductor.record.trace.records import Conversation, header, text_lines
from conductor.record.trace.sinks import Sink
from conductor.run.report_checks import KINDS, Tracing
from conductor.transports.recorded import Recorder


class Tracer(Tracing):
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
        self._events = Events(content, self._crossings)
        self._mode = ""
        self._guests: dict[str, Conversation] = {}
        """The conversations of guests in a child, by name."""
        self._runs: Counter[str] = Counter()
        """How many instances of each component there have been."""

    def begin(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """Writes the header.

        Args:
            chain: the chain's peers in order, each with the guests it hosts and, if the messages
                between those are followed, their numbers.
        """
        self._names.begin(chain)
        components = [name for peer, guests, _ in chain for name in guests or (peer,)]
        self._file.begin(header(self._content, components, self._began, self._chain))

    def rearranged(self, chain: Sequence[tuple[str, Sequence[str], range | None]]) -> None:
        """The chain has other peers from now on; as `begin`."""
        self._names.begin(chain)

    def recorder(self, name: str) -> Recorder | None:
        """Takes the lines of the next instance of a component that hosts nothing."""
        return _LineRecorder(self, name)

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
        self._passed(trace, departure, target, now)

    @best_effort
    def hop(self, host: str, trace: Trace, at: float) -> None:
        """Writes a message that a guest got, or keeps one that is about to leave its host. `at`: by
        the machine's clock.

        Raises `ValueError` for any other message: a host is not trusted.
        """
        ends = self._names.guests[host] | {"", UPSTREAM}
        if trace.source not in ends or trace.target not in ends:
            raise ValueError(f"not a message of a guest of {host}")
        is_new = trace.source != UPSTREAM and trace.kind != "response"
        if is_new and trace.number not in self._names.hosts[host]:
            raise ValueError(f"not a number of a message of {host}")
        _check_form(trace)
        at = self.now(at - self._start)
        departure: Departure | None = Departure(shown_name(trace.source), at, trace, (host,))
        if trace.source == UPSTREAM:
            departure = self._crossings.take(host, trace.number, inward=True)
        if departure is None:
            return  # a copy: its original has been written
        if trace.target == UPSTREAM and not trace.lost:
            self._crossings.put(host, departure, trace.number, inward=False)
        else:
            size = len(trace.payload or b"")
            self._passed(trace, departure, shown_name(trace.target), at, size, host)

    @best_effort
    def delivered(
        self, host: str, guest: str, given: bytes, returned: bytes, failed: str, *, at: float
    ) -> None:
        """Writes down the lines that a guest in a host got and returned; it got none: it has
        started. Raises `ValueError` for one that is no guest of that host."""
        if guest not in self._names.guests[host]:
            raise ValueError(f"`{guest}` is not one of its guests")
        if not given or guest not in self._guests:
            self._guests[guest] = self.conversation(guest)
        self._guests[guest].delivered(self.now(at - self._start), given, returned, failed)

    @best_effort
    def violated(self, violation: Violated) -> None:
        """Writes a verdict: conductor has undone what a component did."""
        self._file.write(self._events.verdict(violation, shown_name(violation.peer), self.now()))

    @best_effort
    def happened(self, event: str, component: str, text: str) -> None:
        """Writes what has happened to a component: it was restarted, paused, replaced …"""
        name = "agent" if self.is_agent(component) else shown_name(component)
        self._file.write(self._events.happened(event, name, text, self.now()))

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
        """Seconds since the start, or a time that a host has reported, if that can be right.

        Never less than before, as readers expect.
        """
        now = self._clock() - self._start
        if reported is not None and reported <= now:
            now = reported
        self._last = max(now, self._last)
        return self._last

    def _passed(
        self,
        trace: Trace,
        departure: Departure,
        target: str,
        at: float,
        size: int | None = None,
        host: str | None = None,
    ) -> None:
        if self._file.failed:
            return
        line = self._events.hop(trace, departure, target, at, size, host)
        if line is not None:
            self._file.write(line)

    def _service(self, trace: Trace, source: str, target: str, size: int) -> None:
        """Writes what passed between a component and the conductor itself."""
        self._passed(trace, Departure(source, self._last, trace), target, self._last, size)


def _check_form(trace: Trace) -> None:
    """Raises `ValueError` for what is no message: it could break out of its line in the trace."""
    id_ = None if trace.id is None else trace.id.encode()
    if trace.kind not in KINDS or b"\n" in (id_ or b""):
        raise ValueError("its record has something that is no message")
    for text in (id_, trace.payload):
        if text is not None:
            text.decode()
            json_text.decode(text, type=msgspec.Raw)


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
