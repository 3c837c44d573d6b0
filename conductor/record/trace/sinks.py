"""Where the events of a trace go: a file, the page of a chat, telemetry."""

from __future__ import annotations

from collections.abc import Sequence

from conductor.record.turns.line import Line


class Sink:
    """Takes the events of a trace. Nothing that it does holds up the chain, and no method
    raises."""

    failed = False
    """Whether it takes nothing more."""

    def begin(self, line: bytes) -> None:
        """Takes the first line, before there is an event loop."""

    def write(self, line: Line) -> None:
        """Takes an event."""

    def gather(self, record: bytes) -> None:
        """Takes a record of what a component got and sent (`conductor.record.trace.records`)."""

    def close(self) -> None:
        """Nothing more will come."""


class Several(Sink):
    """Passes every event on to several sinks."""

    def __init__(self, sinks: Sequence[Sink]) -> None:
        self._sinks = sinks

    def begin(self, line: bytes) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.begin(line)

    def write(self, line: Line) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.write(line)
        self.failed = all(sink.failed for sink in self._sinks)

    def gather(self, record: bytes) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.gather(record)

    def close(self) -> None:
        """See `Sink`."""
        for sink in self._sinks:
            sink.close()
