"""The trace of one chain: what its router reports, and what the hosts of guests report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from conductor.core import Trace, Violated
from conductor.run.host_record import CROSSED, RecordReader, is_record, trace_of
from conductor.run.plan import Planned
from conductor.run.report_checks import Tracing, named
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded


class TracedChain:
    """Passes on to `tracing` what a chain and its hosts report.

    Whatever becomes of the trace, the chain goes on. `log` takes level, component and text.
    """

    def __init__(
        self, tracing: Tracing, planned: Sequence[Planned], log: Callable[[str, str, str], None]
    ) -> None:
        self._tracing = tracing
        self._log = log
        self._readers: dict[str, RecordReader] = {}
        """Of the records of hosts, by host."""
        self._early: dict[str, list[Sequence[Any]]] = {}
        """What hosts have reported that have not joined the chain yet."""
        self._is_incomplete = False
        self._named = frozenset(one.component.name for one in planned)
        """The peers that the trace knows."""
        tracing.begin(named(planned))

    def rearranged(self, planned: Sequence[Planned]) -> None:
        """The chain has these components from now on."""
        self._tracing.rearranged(named(planned))
        self._named = frozenset(one.component.name for one in planned)
        for host in self._named & self._early.keys():
            for entry in self._early.pop(host):
                self._take(host, entry)

    def watched(self, planned: Planned) -> Planned:
        """A component whose lines are recorded; those of guests their host reports."""
        if planned.guests:
            return planned
        name, renew = planned.component.name, planned.renew

        def recorded(transport: Transport) -> Transport:
            recorder = self._tracing.recorder(name)
            return transport if recorder is None else Recorded(transport, recorder)

        def again(make: Callable[[], Transport]) -> Callable[[], Transport]:
            return lambda: recorded(make())

        return msgspec.structs.replace(
            planned, transport=recorded(planned.transport), renew=renew and again(renew)
        )

    def crossed(self, trace: Trace, mode: str) -> None:
        """A message crossed between two peers of the router, which is in `mode`."""
        self._note("conductor", self._tracing.crossed, trace, mode)

    def violated(self, violation: Violated) -> None:
        """A component broke a rule of its policy."""
        self._note("conductor", self._tracing.violated, violation)

    def happened(self, event: str, component: str, text: str) -> None:
        """Something has happened to a component (`Tracing.happened`)."""
        self._note("conductor", self._tracing.happened, event, component, text)

    def close(self) -> None:
        """The chain has ended."""
        self._tracing.close()

    def without_record(self, planned: Planned | None, frames: list[bytes]) -> list[bytes]:
        """Lines without those of a host's record, which are taken; None: no host sent them."""
        if planned is None or not planned.guests or not any(map(is_record, frames)):
            return frames
        host = planned.component.name
        for line in filter(is_record, frames):
            self._note(host, self._read, host, line)
        return [frame for frame in frames if not is_record(frame)]

    def _read(self, host: str, line: bytes) -> None:
        for entry in self._readers.setdefault(host, RecordReader()).read(line):
            if host in self._named:
                self._take(host, entry)
            else:
                self._early.setdefault(host, []).append(entry)

    def _take(self, host: str, entry: Sequence[Any]) -> None:
        """Takes an entry. A host runs strangers' code: the trace checks that it reports nothing but
        its own guests."""
        kind, at, *what = entry
        if kind == CROSSED:
            self._tracing.hop(host, trace_of(what[0]), at)
        else:
            self._tracing.delivered(host, *what, at=at)

    def _note(self, name: str, take: Callable[..., None], *args: Any) -> None:
        try:
            take(*args)
        except Exception as error:
            if not self._is_incomplete:
                self._is_incomplete = True
                self._log("warning", name, f"the trace is incomplete: {str(error) or repr(error)}")
