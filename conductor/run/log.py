"""The log of one chain: its entries, in one order, for all readers.

The router, the hosts of guests and the shell add entries; sinks take them (`Sink`). An entry names
its sender, its message and its receiver, as the engine knows them: so nobody has to guess. Entries
wait while messages are written, and are handed on a little later: to take many at once costs
less. The start path loads this module.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from conductor.core import Changed, Entry, Violated
from conductor.core.json_text import read_members
from conductor.errors import one_line
from conductor.run.planned import Planned

if TYPE_CHECKING:
    from conductor.run.host_record import Crossed, Delivered, RecordReader
    from conductor.run.report_lines import Sized
    from conductor.spec.model import Spec

_MOST_HELD: Final = 32 * 1024 * 1024
"""The most bytes that sinks may hold together. Beyond it the sink that holds most is dropped: the
chain does not wait for it, and memory is bounded."""
_MOST_EARLY: Final = 4 * 1024 * 1024
"""The most bytes of the record of a host that has not joined the chain yet."""
_MANY: Final = 64 * 1024
"""Bytes of messages whose entries wait."""
_LONGEST: Final = 400
"""Characters of why something is missing."""
_now: Final = time.monotonic


class Chain(msgspec.Struct, frozen=True):
    """The chain has these components from now on."""

    peers: Sequence[tuple[str, Sequence[str], range | None]] = ()
    """In order: the name of each, its guests and, if it reports the messages between its guests,
    their numbers."""
    unwatched: Mapping[str, bool] = MappingProxyType({})
    """Components whose passed messages nobody watches, and whether these keep their ids."""
    joined: Sequence[Spec] = ()
    """The components that have joined now, while the chain runs."""


class RecordLine(msgspec.Struct, frozen=True):
    """A line of the record of a host, with entries that nobody has looked at yet."""

    host: str
    line: bytes


class Happened(msgspec.Struct, frozen=True):
    """An event of a component: `failure`, `restart`, `bypass`, `swap`, `add`, `remove`, `replace`;
    by the user `pause`, `resume`; `adapt`: an agent got words for content that it does not take."""

    event: str
    component: str
    text: str


class OfHost(msgspec.Struct, frozen=True):
    """The report of a host about its guests, once checked that they are its own."""

    host: str
    entry: Crossed | Delivered


class Change(msgspec.Struct, frozen=True):
    """A component changed the conversation."""

    changed: Changed
    before: Sized | None = None
    after: Sized | None = None
    """In place of payloads that were too large for the report of a host."""


class Outside(msgspec.Struct, frozen=True):
    """A component had an effect outside of the chain, or was refused it, or failed at it."""

    component: str
    what: str
    where: str
    size: int
    outcome: str
    text: str = ""


class Loaded(msgspec.Struct, frozen=True):
    """A host has loaded the module of a guest, also when the guest was restarted."""

    component: str
    digest: str


class Gap(msgspec.Struct, frozen=True):
    """A gap, for one sink or for all: the missing part and the reason, in words."""

    text: str


class Ended(msgspec.Struct, frozen=True):
    """The chain has ended, and why it failed if it did."""

    failure: str | None


Item: TypeAlias = (
    Entry | Violated | Chain | Happened | OfHost | Change | Outside | Loaded | Gap | Ended
)
"""The entries of a log."""

Taken_contra = TypeVar("Taken_contra", contravariant=True)


def session_in(payload: Raw | bytes | None) -> bytes:
    """The `sessionId` of a payload, as it is written; empty: there is none."""
    # The search comes first: most payloads then need not be opened.
    if payload is None or b'"sessionId"' not in bytes(payload):
        return b""
    return bytes((read_members(payload) or {}).get("sessionId", b""))


class Sink(Generic[Taken_contra]):
    """Takes the entries of a log, or lines of a trace that were made of those.

    The chain waits for `take`. So a sink that writes to a disk or a pipe writes in a thread, and
    says how many bytes wait there (`behind`). The chain waits for no writing but an audit's.
    """

    takes: Collection[type] = (Entry, Violated, Chain, Happened, OfHost, Gap)
    """The types of entries that it gets. Entries that nobody takes are not made."""
    watches = True
    """Whether it needs entries of passed messages, and of messages within hosts: every message then
    costs more. A sink that does not watch gets these entries if another sink watches."""
    at_once = False
    """Whether it gets each entry before any message goes on: for an audit, which nothing must
    overtake."""
    is_live = False
    """Whether somebody looks at it while the chain runs: then no entry waits for others."""
    failed = False
    """Whether it takes nothing more."""

    def take(self, item: Taken_contra, at: float, mode: str) -> None:
        """Takes an item of a time by the machine's monotonic clock. `mode`: the mode of the router.

        Raises `ValueError` for an item that no host can mean.
        """

    @property
    def behind(self) -> int:
        """The bytes that it has taken and that wait for a slow reader; 0 once it was dropped."""
        return 0

    def drop(self) -> str:
        """It holds too much: it takes nothing more, and its readers learn so. Returns its name,
        in words."""
        self.failed = True
        return "a sink"

    def must_last(self, fail: Callable[[str], None]) -> None:
        """The chain may not run without an audit: has `fail` called with the reason once this is
        one and nothing more can be written, or now if that is so already."""

    def close(self) -> None:
        """Nothing more will come: it passes on the entries that it holds. That may take seconds, so
        a watched chain calls this in a thread of its own."""


class ChainLog:
    """Hands on the added items to sinks, in order.

    Whatever becomes of a sink, the chain goes on. `say` takes level, component and text.
    """

    def __init__(self, sinks: Sequence[Sink[Item]], say: Callable[[str, str, str], None]) -> None:
        self.sinks = [*sinks]
        self._at_once: defaultdict[type, list[Callable[[Item, float, str], None]]]
        self._at_once = defaultdict(list)
        """By the types that the sinks take."""
        self.watches = any(sink.watches for sink in sinks)
        """Whether any sink watches."""
        self._is_live = any(sink.is_live for sink in sinks)
        # Where no sink watches, handing on an entry costs no more than keeping it.
        self._later = [sink for sink in sinks if self.watches and not sink.at_once]
        self._kept = frozenset(kind for sink in self._later for kind in sink.takes)
        """The types that any of these sinks takes."""
        for sink in sinks:
            for kind in sink.takes if sink not in self._later else ():
                self._at_once[kind].append(sink.take)
        self._say = say
        self._waiting: list[tuple[float, Item | RecordLine]] = []
        self._passed = 0
        """Bytes of messages since the last entry was handed on."""
        self.mode = ""
        """The mode of the router."""
        self._chain = Chain()
        self._readers: dict[str, RecordReader] = {}
        """Readers of the records of hosts, by host."""
        self._early: dict[str, bytearray] = {}
        """The records of hosts that have not joined the chain yet, by the names that they have
        until then."""
        self._incomplete: set[str] = set()
        """The names for which the log has said that their part is incomplete."""

    # -- entries -------------------------------------------------------------------------------

    def add(self, item: Item, at: float | None = None) -> None:
        """Adds an item of now, or of a time by the machine's monotonic clock."""
        at, kind = _now() if at is None else at, type(item)
        for take in self._at_once[kind]:
            take(item, at, self.mode)
        if kind in self._kept:
            self._waiting.append((at, item))

    def passed(self, size: int) -> None:
        """So many bytes of messages have passed, whose entries wait: this bounds waiting
        entries."""
        self._passed += size

    @property
    def is_due(self) -> bool:
        """Whether the waiting entries are to be handed on now."""
        return self._is_live or self._passed > _MANY

    @property
    def waits(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def drain(self) -> None:
        """Hands on the waiting entries."""
        self._passed = 0
        if not self._waiting:
            return
        lines, self._waiting = self._waiting, []
        waiting: list[tuple[float, Item]] = []
        for at, line in lines:
            if isinstance(line, RecordLine):
                waiting += self._read(line.host, line.line)
            else:
                waiting.append((at, line))
        for sink in self._later:
            take, takes = sink.take, sink.takes
            for at, item in waiting:
                if type(item) not in takes:
                    continue
                try:
                    take(item, at, self.mode)
                except Exception as error:
                    self._is_incomplete(item.host if type(item) is OfHost else "conductor", error)
        if sum(sink.behind for sink in self._later) > _MOST_HELD:
            self._drop(max(self._later, key=lambda sink: sink.behind))

    def _drop(self, slowest: Sink[Item]) -> None:
        why = "its reader does not keep up"
        text = f"{slowest.drop()} is incomplete, nothing more is written to it: {why}"
        self._say("error", "conductor", f"{text}\nhint: write it to a file, and read that")
        self.add(Gap(text))

    def wants(self, kind: type) -> bool:
        """Whether any sink takes such entries."""
        return any(kind in sink.takes for sink in self.sinks)

    def end(self, failure: str | None = None) -> None:
        """The chain has ended; `failure`: why it failed."""
        self.add(Ended(failure))
        self.drain()

    def close(self) -> None:
        """Closes the sinks, which may take seconds."""
        for sink in self.sinks:
            sink.close()

    def _is_incomplete(self, name: str, error: Exception) -> None:
        if name not in self._incomplete:
            self._incomplete.add(name)
            # A host may have chosen the words.
            text = f"the trace is incomplete: {one_line(str(error) or repr(error), _LONGEST)}"
            self._say("warning", name, text)
            self.add(Gap(f"{name}: {text}"))

    # -- the components ------------------------------------------------------------------------

    def chain(self, planned: Sequence[Planned], joined: Mapping[str, str]) -> None:
        """The chain has these components from now on. `joined`: the names of new ones, by their
        former names."""
        if not self.sinks:
            return
        self.drain()  # these reports of hosts are about the former chain
        peers = [(p.name, p.guests, p.component.numbers) for p in planned]
        trusted = [p.component for p in planned if p.component.policy is None and not self.watches]
        keeps = {one.name: one.dialect is not None and one.dialect.sideband for one in trusted}
        new = [spec for p in planned if p.name in joined.values() for spec in p.specs]
        self._chain = Chain(peers, keeps, new)
        self.add(self._chain)
        for key, name in joined.items():
            for line in self._early.pop(key, b"").splitlines():
                self._waiting.append((_now(), RecordLine(name, bytes(line))))

    def forget(self, name: str) -> None:
        """A component has left the chain, or does not join it."""
        self._readers.pop(name, None)
        self._early.pop(name, None)

    # -- the records of hosts ------------------------------------------------------------------

    def without_record(
        self, name: str, planned: Planned | None, frames: list[bytes]
    ) -> list[bytes]:
        """The lines without those of a host's record, which the log takes.

        Args:
            name: The sender; a host that has not joined yet has another name than its component.
            planned: None: the sender is no component.
            frames: The lines.
        """
        if planned is None or not planned.guests:
            return frames
        from conductor.run.host_record import is_record  # few hosts have one

        if not any(map(is_record, frames)):
            return frames
        for line in filter(is_record, frames):
            if name == planned.name:
                self._waiting.append((_now(), RecordLine(name, line)))
            else:
                self._keep(name, line)
        return [frame for frame in frames if not is_record(frame)]

    def _keep(self, name: str, line: bytes) -> None:
        early = self._early.setdefault(name, bytearray())
        if len(early) + len(line) <= _MOST_EARLY:
            early += line + b"\n"
        else:
            why = "its record is too long for a host that has not joined the chain"
            self._is_incomplete(name, ValueError(why))

    def _read(self, host: str, line: bytes) -> Iterator[tuple[float, Item]]:
        """The items in a line of a record. A host runs strangers' code: it may report about its own
        guests only, under its own numbers."""
        from conductor.run.host_record import Delivered, RecordReader
        from conductor.run.report_checks import check_entry

        reader = self._readers.get(host)
        if reader is None:
            reader = self._readers[host] = RecordReader()
        try:
            guests, numbers = next((g, n) for name, g, n in self._chain.peers if name == host)
            for entry in reader.read(line):
                if not isinstance(entry, Delivered):
                    check_entry(entry, host, guests, numbers or ())
                elif entry.guest not in guests:
                    raise ValueError(f"`{entry.guest}` is not one of its guests")
                yield entry.at, OfHost(host, entry)
        except Exception as error:
            self._is_incomplete(host, error)
