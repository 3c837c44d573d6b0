"""The steps by which a pool comes to run a bundle, as tables of moves. Pure: no clock, no network.

    record    the bundles that the pool runs, ran before and is offered (kept by `pool_record`)
    holding   one worker's state of the bundles that the record names
    verdict   a controller's conclusion from the workers' reports

A controller changes the record by compare-and-set, workers follow it. A worker uses a bundle only
if it has prepared it, so a bad bundle changes nothing: the worker keeps its own, and reports why.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Final, TypeAlias

import msgspec

from conductor.errors import UsageError

Name = Annotated[
    str,
    msgspec.Meta(max_length=1024, pattern=r"^((oci:/)?/[^\x00-\x1f\x7f]*@sha256:[0-9a-f]{64})?\Z"),
]
"""The place of a bundle, by its digest (`conductor.fleet.bundle.Where`); empty: none."""


# -- the record ------------------------------------------------------------------------------------


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The bundles of a pool. Fields that a later conductor adds are left alone."""

    active: Name = ""
    previous: Name = ""
    """The bundle that ran before, which workers still have: the way back."""
    candidate: Name = ""
    """The bundle that workers prepare."""
    revision: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    """Rises with each change: a bundle that failed is tried again in a later revision, and workers
    take no lower revision than they have seen."""


def offered(record: Record, name: str) -> Record:
    """A bundle is published: workers prepare it, and nothing else changes."""
    return _changed(record, candidate=name)


def switched(record: Record, name: str) -> Record:
    """The candidate is active from now on. Raises `UsageError` if there is another by now."""
    if record.candidate != name:
        raise UsageError(
            "the rollout is over: another candidate, or none, has taken its place",
            "`conductor fleet rollout --status` shows it; roll out again if this one is to win",
        )
    if name == record.active:  # it was offered again: nothing to switch, and the way back stays
        return _changed(record, candidate="")
    return _changed(record, active=name, previous=record.active, candidate="")


def back(record: Record) -> Record:
    """The previous bundle becomes active again, and a rollout that is under way is over. Raises
    `UsageError` if no bundle was active before."""
    if not record.previous:
        raise UsageError(
            "there is nothing to go back to: no other bundle was active before",
            "`conductor fleet rollout BUNDLE` rolls out the one that you want",
        )
    return _changed(record, active=record.previous, previous=record.active, candidate="")


def dated(record: Record, milliseconds: int) -> Record:
    """The record with a revision that is no lower than the time: it is higher than all before, also
    where NATS has lost the record before."""
    return msgspec.structs.replace(record, revision=max(record.revision, milliseconds))


def _changed(record: Record, **fields: str) -> Record:
    return msgspec.structs.replace(record, **fields, revision=record.revision + 1)


# -- a worker --------------------------------------------------------------------------------------


class Phase(enum.Enum):
    """The state of one bundle on a worker."""

    PREPARING = "preparing"
    READY = "ready"
    IN_USE = "in use"
    FAILED = "failed"


class Event(enum.Enum):
    """The events of a bundle on a worker."""

    PREPARED = "prepared"
    """The bundle is here: digest and signature hold, its chains resolve, modules are compiled."""
    REFUSED = "refused"
    """The bundle cannot be used."""
    USED = "used"
    """New chains start from it."""
    REPLACED = "replaced"
    """New chains start from another bundle."""
    AGAIN = "again"
    """The record names it in another revision."""


MOVES: Final[Mapping[tuple[Phase, Event], Phase]] = {
    (Phase.PREPARING, Event.PREPARED): Phase.READY,
    (Phase.PREPARING, Event.REFUSED): Phase.FAILED,
    (Phase.READY, Event.USED): Phase.IN_USE,
    (Phase.READY, Event.REFUSED): Phase.FAILED,
    (Phase.IN_USE, Event.REPLACED): Phase.READY,
    (Phase.FAILED, Event.AGAIN): Phase.PREPARING,
}
"""All moves; a pair that is missing is no move."""


class Prepare(msgspec.Struct, frozen=True):
    """Get this bundle, compare digest and signature, resolve its chains and compile its modules;
    then report PREPARED or REFUSED."""

    name: str


class Use(msgspec.Struct, frozen=True):
    """Start new chains from the bundle, and let running chains take it when they are idle; then
    report USED or REFUSED."""

    name: str


class Forget(msgspec.Struct, frozen=True):
    """Nobody needs the bundle here any more; the task that prepares it may end."""

    name: str


Effect: TypeAlias = Prepare | Use | Forget


class Held(msgspec.Struct, frozen=True):
    """One bundle on a worker."""

    phase: Phase
    why: str = ""
    """For a failed bundle, the reason."""


class Holding:
    """The bundles of one worker, and its next steps. Every method returns effects, in order.

    Attributes:
        record: The record of the pool, as this worker knows it.
        bundles: The bundles that the worker has or gets, by name.
        in_use: The bundle that new chains start from; empty: none yet.
    """

    def __init__(self) -> None:
        self.record = Record()
        self.bundles: dict[str, Held] = {}
        self.in_use = ""
        self._using = ""
        """The bundle for which `Use` was asked; empty: none."""

    def follow(self, record: Record) -> list[Effect]:
        """The record is this now. One with a lower revision changes nothing: somebody has put an
        old record back, or NATS has lost its own."""
        if record.revision < self.record.revision:
            return []
        is_another = record.revision != self.record.revision
        self.record = record
        effects: list[Effect] = []
        for name in _wanted(record):
            held = self.bundles.get(name)
            if held is None:
                self.bundles[name] = Held(Phase.PREPARING)
                effects.append(Prepare(name))
            elif held.phase is Phase.FAILED and is_another:
                self._move(name, Event.AGAIN)
                effects.append(Prepare(name))
        return [*effects, *self._settle()]

    def happened(self, name: str, event: Event, why: str = "") -> list[Effect]:
        """Takes the result of an effect. A result for a forgotten bundle does not count."""
        held = self.bundles.get(name)
        if held is None or (held.phase, event) not in MOVES:
            return []
        if event is Event.USED:
            if self.in_use:
                self._move(self.in_use, Event.REPLACED)
            self.in_use = name
        if name == self._using:
            self._using = ""
        self._move(name, event, why)
        return self._settle()

    def report(self) -> dict[str, str]:
        """The report for a controller: the phase of each bundle, with the reason of a failure."""
        return {
            name: f"{held.phase.value}: {held.why}" if held.why else held.phase.value
            for name, held in self.bundles.items()
        }

    def _settle(self) -> list[Effect]:
        """Takes the active bundle if it is ready; forgets bundles that nobody names."""
        effects: list[Effect] = []
        active = self.record.active
        held = self.bundles.get(active)
        if held is not None and held.phase is Phase.READY and not self._using:
            self._using = active
            effects.append(Use(active))
        keep = {*_wanted(self.record), self.in_use, self._using}
        for name in [*self.bundles]:
            if name not in keep:
                del self.bundles[name]
                effects.append(Forget(name))
        return effects

    def _move(self, name: str, event: Event, why: str = "") -> None:
        phase = MOVES[self.bundles[name].phase, event]
        self.bundles[name] = Held(phase, why if phase is Phase.FAILED else "")


def _wanted(record: Record) -> list[str]:
    """The bundles that a worker must have, the active bundle first."""
    named = (record.active, record.candidate, record.previous)
    return [name for name in dict.fromkeys(named) if name]


# -- a controller ----------------------------------------------------------------------------------


class Verdict(enum.Enum):
    """The next step of a controller."""

    WAIT = "wait"
    SWITCH = "switch"
    GIVE_UP = "give up"
    """So many have failed that there will never be enough."""


class Count(msgspec.Struct, frozen=True):
    """The progress of a pool's workers with one bundle."""

    workers: int
    ready: int
    failed: int
    needed: int

    @property
    def verdict(self) -> Verdict:
        """The controller's next step."""
        if self.ready >= self.needed:
            return Verdict.SWITCH
        hopeless = self.failed and self.workers - self.failed < self.needed
        return Verdict.GIVE_UP if hopeless else Verdict.WAIT


def counted(name: str, reports: Iterable[Mapping[str, str]], percent: int) -> Count:
    """The progress of the workers, from each `Holding.report`, and the number that must be ready.

    With 0 percent none; else at least one, so nobody switches a pool of no worker by accident.
    """
    phases = [report.get(name, "").partition(":")[0] for report in reports]
    needed = max(1, math.ceil(len(phases) * percent / 100)) if percent else 0
    return Count(
        workers=len(phases),
        ready=sum(phase in (Phase.READY.value, Phase.IN_USE.value) for phase in phases),
        failed=phases.count(Phase.FAILED.value),
        needed=needed,
    )
