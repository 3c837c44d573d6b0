"""`conductor fleet rollout`: publishes a bundle, waits for the workers, and has them switch."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from conductor.cli import report
from conductor.cli.fleet_bundle import BUNDLE, Keys, short
from conductor.cli.fleet_place import on_bus, place
from conductor.cli.typer_options import Json, argument, option, paragraphs, switch, takes
from conductor.errors import ConductorError, UsageError, agrees, are, counted, one_line
from conductor.fleet import bundle as bundles
from conductor.fleet import rollout as rolling
from conductor.fleet.rollout import Count, Phase, Record, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conductor.fleet.bus import Bus
    from conductor.fleet.messages import Status
    from conductor.fleet.pool_record import Signed
    from conductor.packages.signatures import Demand

HELP: Final = paragraphs(
    "Roll a bundle out to the workers of a pool. The workers fetch and check the bundle, and "
    "prepare its chains. When enough workers are ready, new chains start from the bundle, and "
    "running chains take it when idle. A worker that cannot use the bundle keeps the old bundle, "
    "and says why.",
    "Exit code 1 when too few workers became ready: the old bundle stays.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor fleet rollout oci://ghcr.io/me/pool:1 --key key.pem --pool gpu\n"
    "  conductor fleet rollout --status --bundle-key key.pub\n"
    "  conductor fleet rollout --back --key key.pem",
)

_ANSWERS: Final = 0.5
"""Seconds that workers have to answer one look."""
_MISSED: Final = 4
"""The looks without an answer after which NATS is asked whether a worker is gone."""
_SETTLED: Final = 30.0
"""The seconds in which workers must use a bundle that they have prepared."""


_Bundle = Annotated[str | None, argument("[BUNDLE]", BUNDLE)]
_Pool = Annotated[str, option("--pool", "NAME", "The pool of the workers.")]
_At = Annotated[int, option("--at", "PERCENT", "How many workers must be ready.", min=0, max=100)]
_Wait = Annotated[int, option("--wait", "SECONDS", "How long the workers may take.", min=0)]
_Back = Annotated[bool, switch("--back", "Go back to the previous bundle; workers still have it.")]
_Status = Annotated[bool, switch("--status", "Show the bundles of the pool and of each worker.")]
_Key = Annotated[
    str,
    option(
        "--key",
        "FILE",
        "Sign the pool's record with this private key (PEM, no password); workers have its "
        "`--bundle-key`.",
    ),
]


@takes("fleet")
def rollout(
    bundle: _Bundle = None,
    pool: _Pool = "main",
    at: _At = 100,
    wait: _Wait = 300,
    back: _Back = False,
    status: _Status = False,
    key: _Key = "",
    bundle_key: Keys = None,
    json_: Json = False,
    **values: Any,
) -> int:
    """Rolls a bundle out."""
    from conductor.fleet import names

    pool = names.word(pool, "the pool")
    if sum((bundle is not None, back, status)) != 1:
        raise UsageError(
            "`conductor fleet rollout` takes a BUNDLE, or `--back`, or `--status`",
            "for example `conductor fleet rollout oci://ghcr.io/me/pool:1`",
        )
    if not (key or status):
        raise UsageError(
            "the record of a pool is signed, and no key is given",
            "`--key FILE`: the private key that `conductor fleet bundle --key` has signed with",
        )
    keys = [*bundles.keys_of(bundle_key or []), *([bundles.key_of(key)] if key else [])]
    where = place(values, "fleet rollout")
    # The tag is read once: workers get the bundle that it named then.
    name = str(bundles.signed(bundles.parse(bundle), keys)) if bundle is not None else ""

    async def work(bus: Bus) -> int:
        controller = _Controller(bus, pool, keys, key, json_=json_)
        if status:
            return await controller.show()
        if back:
            return await controller.back()
        return await controller.roll(name, at, wait)

    return on_bus(where, work)


class Seen(msgspec.Struct, frozen=True):
    """A worker, as the last answer of it says."""

    id: str
    host: str
    bundles: dict[str, str] | None
    """The state of each bundle there, by name; None: the worker follows no rollouts."""
    refused: str = ""
    """Why the record of NATS counts for nothing there."""

    def phase(self, name: str) -> str:
        """The state of one bundle there, in words."""
        if self.bundles is None:
            return "follows no rollouts (it runs without `--bundle-key`)"
        return self.bundles.get(name, "has not heard of the bundle yet")


class _Controller:
    """Changes the bundle of a pool."""

    def __init__(
        self, bus: Bus, pool: str, keys: Sequence[Demand], key: str, *, json_: bool
    ) -> None:
        """`keys`: one of them has signed the record. `key`: the private key's file, which signs the
        next record."""
        from conductor.fleet.pool_record import PoolRecords

        self._bus, self._pool, self._json = bus, pool, json_
        self._keys, self._key = keys, key
        self._records = PoolRecords(bus, keys)
        self._seen: dict[str, Seen] = {}
        self._missed: dict[str, int] = {}
        self._shown: dict[str, Record] = {}
        """The records that workers have shown, by value: empty records where no key has signed."""
        self._name = ""
        """The bundle that is rolled out, by its digest."""
        self._revision = 0
        """The revision of the record that offers it: a worker that knows an older record reports
        about an earlier try."""

    async def roll(self, name: str, at: int, wait: float) -> int:
        """Names a bundle, and switches to it once enough workers are ready."""
        self._name = name
        known = await self._change(lambda record: rolling.offered(record, name))
        self._revision = known.record.revision
        self._say(f"named {name} for the pool `{self._pool}`: workers prepare it")
        count = await self._ready(name, at, wait)
        if count.verdict is not Verdict.SWITCH:
            raise ConductorError(
                f"{self._failure(count, wait)}; the pool still runs {short(known.record.active)}",
                "`conductor fleet rollout --status` shows more; correct the bundle, and roll out "
                "again",
            )
        known = await self._change(lambda record: rolling.switched(record, name))
        self._say(f"the pool `{self._pool}` runs {short(name)} from now on")
        await self._used(name)
        return self._done(known.record)

    async def back(self) -> int:
        """Switches to the bundle that ran before."""
        known = await self._change(rolling.back)
        self._say(f"the pool `{self._pool}` runs {short(known.record.active)} again")
        await self._used(known.record.active)
        return self._done(known.record)

    async def show(self) -> int:
        """Shows the bundle of the pool, and the state of each worker."""
        await self._look()
        known = await self._records.get(self._pool)
        self._warn(known.problem or self._older(known))
        if not self._keys:
            self._warn(
                "the signature of the pool's record was not checked: name the public key with "
                "`--bundle-key`"
            )
        record = known.record
        if self._json:
            return self._done(record)
        report.say(f"pool {self._pool}")
        for name in ("active", "previous", "candidate"):
            report.say(f"  {name:<10} {getattr(record, name) or 'none'}")
        report.say(*self._lines(record) or ["no worker answers"])
        return 0

    def _lines(self, record: Record) -> list[str]:
        lines = []
        for worker in self._workers:
            lines.append(f"worker {worker.id} ({worker.host})")
            if worker.refused:
                lines.append(
                    f"  refuses the pool's bundle as NATS names it: {one_line(worker.refused)}"
                )
            if worker.bundles is None:
                lines.append(f"  {worker.phase('')}")
                continue
            named = dict.fromkeys((record.active, record.candidate, record.previous))
            lines += [f"  {short(each)}  {worker.phase(each)}" for each in named if each]
        return lines

    async def _change(self, to: Any) -> Signed:
        if not self._seen:
            await self._look()
        known: Signed = await self._records.get(self._pool)
        self._warn(known.problem or self._older(known))
        record = rolling.dated(to(self._newest(known.record)), int(time.time() * 1000))
        return await self._records.change(self._pool, known, record, self._key)

    def _newest(self, record: Record) -> Record:
        """The newest signed record among those of NATS and of the workers: the next record rests on
        nothing that somebody has put back or made up."""
        return max((record, *self._shown.values()), key=lambda one: one.revision)

    def _older(self, known: Signed) -> str:
        """A warning about a record that is older than the newest one; empty: it is not older."""
        newest = self._newest(known.record)
        if newest == known.record:
            return ""
        return (
            f"the record of the pool has the revision {known.record.revision}, and workers have "
            f"{newest.revision}: somebody put an old record back, or NATS has lost the new record. "
            "Workers ignore this record"
        )

    async def _ready(self, name: str, at: int, wait: float) -> Count:
        """Waits until enough workers are ready, or never will be, or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait
        shown = ""
        while True:
            await self._look()
            reports = [worker.bundles or {} for worker in self._workers]
            count = rolling.counted(name, reports, at)
            text = f"{count.ready} of {counted(count.workers, 'worker')} ready" + (
                f", {count.failed} {agrees(count.failed, 'refuses', 'refuse')} it"
                if count.failed
                else ""
            )
            if text != shown:
                self._say(text)
                shown = text
            if count.verdict is not Verdict.WAIT or loop.time() >= deadline:
                return count

    async def _used(self, name: str) -> None:
        """Waits until the workers that are ready start new chains from it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _SETTLED
        while loop.time() < deadline:
            await self._look()
            phases = [worker.phase(name) for worker in self._workers]
            if Phase.READY.value not in phases:
                break
        used = sum(worker.phase(name) == Phase.IN_USE.value for worker in self._workers)
        self._say(
            f"{used} of {counted(len(self._workers), 'worker')} {agrees(used, 'uses', 'use')} it"
        )

    def _failure(self, count: Count, wait: float) -> str:
        """Why nothing is switched."""
        if not count.workers:
            return f"no worker of the pool `{self._pool}` answers"
        lines = [
            f"  {worker.id} ({worker.host}): {worker.phase(self._name)}"
            for worker in self._workers
            if worker.phase(self._name) not in (Phase.READY.value, Phase.IN_USE.value)
        ]
        ready = f"{count.ready} of {counted(count.needed, 'worker')}"
        late = "" if count.verdict is Verdict.GIVE_UP else f" within {wait:g} s"
        return "\n".join(
            [
                f"{ready} {are(count.ready)} ready{late}:",
                *lines[:20],
                "nothing was switched",
            ]
        )

    @property
    def _workers(self) -> Sequence[Seen]:
        return [*self._seen.values()]

    async def _look(self) -> None:
        """Asks all workers. A worker that hangs counts; a worker that nobody can ask is gone."""
        from conductor.fleet.gateway import workers_of

        for id_ in self._missed:
            self._missed[id_] += 1
        for one in await workers_of(self._bus, _ANSWERS):
            if one.pool == self._pool and one.state != "draining":
                self._missed[one.id] = 0
                revision = self._record_of(one).revision
                knows = one.bundles is None or revision >= self._revision
                has = one.bundles if knows else {}
                self._seen[one.id] = Seen(one.id, one.host, has, one.refused)
        for id_ in [id_ for id_, missed in self._missed.items() if missed >= _MISSED]:
            if await self._is_gone(id_):
                del self._missed[id_], self._seen[id_]

    def _record_of(self, worker: Status) -> Record:
        """The record that a worker shows; an empty one where none of the keys has signed it."""
        from conductor.fleet import pool_record

        value = worker.record
        if value not in self._shown:
            try:
                signed = pool_record.read(self._pool, value.encode(), self._keys)
            except ConductorError:
                signed = pool_record.Signed()
            self._shown[value] = signed.record if self._keys else Record()
        return self._shown[value]

    async def _is_gone(self, id_: str) -> bool:
        """Whether a worker that does not answer has ended, or drains: NATS knows who listens."""
        from conductor.fleet.bus import Unanswered
        from conductor.fleet.gateway import orders
        from conductor.fleet.messages import Order, Status, read

        try:
            raw = await orders(self._bus, id_, Order(do="alive"), _ANSWERS)
        except Unanswered as unanswered:
            return unanswered.absent
        return read(raw, Status).state == "draining"

    @staticmethod
    def _warn(text: str) -> None:
        if text:
            report.write(text, word="warning")

    def _say(self, text: str) -> None:
        if not self._json:
            report.say(text)

    def _done(self, record: Record) -> int:
        if self._json:
            report.say_json(
                {"pool": self._pool, **msgspec.to_builtins(record), "workers": self._workers}
            )
        return 0
