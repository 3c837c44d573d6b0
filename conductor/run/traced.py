"""The trace of one chain: what its router reports, and what the hosts of guests report."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from conductor.core import Trace, Violated
from conductor.run.host_record import Crossed, RecordReader, is_record
from conductor.run.plan import Planned
from conductor.run.report_checks import Tracing, named
from conductor.transports.base import Transport
from conductor.transports.recorded import Recorded

_MOST_EARLY: Final = 4 * 1024 * 1024
"""Bytes of its record that are kept of a host that has not joined the chain yet."""


class TracedChain:
    """Passes on to each of `tracers` what a chain and its hosts report.

    Whatever becomes of the trace, the chain goes on. `log` takes level, component and text.
    """

    def __init__(self, tracers: Sequence[Tracing], log: Callable[[str, str, str], None]) -> None:
        self._tracers = tracers
        self._log = log
        self._readers: dict[str, RecordReader] = {}
        """Of the records of hosts, by host."""
        self._early: dict[str, bytearray] = {}
        """What hosts have reported that have not joined the chain yet, by the names they have until
        then."""
        self._incomplete: set[str] = set()
        """Of whom it was said that their part of the trace is incomplete."""

    def begin(self, planned: Sequence[Planned]) -> None:
        """The chain begins with these components."""
        for each in self._tracers:
            each.begin(named(planned))

    def rearranged(self, planned: Sequence[Planned], joined: Mapping[str, str]) -> None:
        """The chain has these components from now on. `joined`: the names of new ones, by those
        that they had before."""
        for each in self._tracers:
            each.rearranged(named(planned))
        for key, name in joined.items():
            for line in self._early.pop(key, b"").splitlines():
                self._note(name, self._read, name, bytes(line))

    def forget(self, name: str) -> None:
        """A component has left the chain, or does not join it."""
        self._readers.pop(name, None)
        self._early.pop(name, None)

    def watched(self, planned: Planned) -> Planned:
        """A component whose lines are recorded; those of guests their host reports."""
        if planned.guests:
            return planned
        name, renew = planned.name, planned.renew

        def recorded(transport: Transport) -> Transport:
            recorders = [found for each in self._tracers if (found := each.recorder(name))]
            return Recorded(transport, recorders) if recorders else transport

        def again(make: Callable[[], Transport]) -> Callable[[], Transport]:
            return lambda: recorded(make())

        return msgspec.structs.replace(
            planned, transport=recorded(planned.transport), renew=renew and again(renew)
        )

    def crossed(self, trace: Trace, mode: str) -> None:
        """A message crossed between two peers of the router, which is in `mode`."""
        for each in self._tracers:
            self._note("conductor", each.crossed, trace, mode)

    def violated(self, violation: Violated) -> None:
        """A component broke a rule of its policy."""
        for each in self._tracers:
            self._note("conductor", each.violated, violation)

    def happened(self, event: str, component: str, text: str) -> None:
        """Something has happened to a component (`Tracing.happened`)."""
        for each in self._tracers:
            self._note("conductor", each.happened, event, component, text)

    def close(self) -> None:
        """The chain has ended."""
        for each in self._tracers:
            each.close()

    def without_record(
        self, name: str, planned: Planned | None, frames: list[bytes]
    ) -> list[bytes]:
        """Lines without those of a host's record, which are taken.

        Args:
            name: Who sent them; a host that has not joined yet has another name than its component.
            planned: None: it is no component.
            frames: The lines.
        """
        if planned is None or not planned.guests or not any(map(is_record, frames)):
            return frames
        take = self._read if name == planned.name else self._keep
        for line in filter(is_record, frames):
            self._note(name, take, name, line)
        return [frame for frame in frames if not is_record(frame)]

    def _keep(self, name: str, line: bytes) -> None:
        early = self._early.setdefault(name, bytearray())
        if len(early) + len(line) > _MOST_EARLY:
            raise ValueError("its record is too long for a host that has not joined the chain")
        early += line + b"\n"

    def _read(self, host: str, line: bytes) -> None:
        """Takes a line. A host runs strangers' code: the trace checks that it reports nothing but
        its own guests."""
        entries = self._readers.setdefault(host, RecordReader()).read(line)
        for entry, each in itertools.product(entries, self._tracers):
            if isinstance(entry, Crossed):
                each.hop(host, entry, entry.at)
            else:
                guest, given, returned, failed, at = msgspec.structs.astuple(entry)
                each.delivered(host, guest, given, returned, failed, at=at)

    def _note(self, name: str, take: Callable[..., None], *args: Any) -> None:
        try:
            take(*args)
        except Exception as error:
            if name not in self._incomplete:
                self._incomplete.add(name)
                self._log("warning", name, f"the trace is incomplete: {str(error) or repr(error)}")
