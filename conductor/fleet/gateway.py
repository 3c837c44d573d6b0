"""A gateway: takes clients as `conductor serve` does, and has their chains on workers.

Each connection is a chain whose one component is the room, as the agent of the chain. When a worker
is lost, the chain treats the room like any agent that has died: it starts the room again
(another worker takes the room), takes the sessions up again, and answers each open request once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from conductor import tasks
from conductor.core import UPSTREAM
from conductor.core.component import Component
from conductor.errors import ConductorError
from conductor.fleet import messages, names
from conductor.fleet.arrivals import Arrivals
from conductor.fleet.beats import Beats
from conductor.fleet.bucket import Bucket
from conductor.fleet.bus import Bus, End
from conductor.fleet.placing import Lease
from conductor.fleet.sealed import Identity
from conductor.fleet.transport import RoomTransport, Seat
from conductor.run.planned import AGENT_PATIENCE, Planned
from conductor.run.records import Records
from conductor.run.runtime import Runtime
from conductor.spec.options import Options

if TYPE_CHECKING:
    from conductor.serve.server import Server
    from conductor.transports.base import Transport

Log = Callable[[str, str, str], None]

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Gateway:
    """The gateway's state beside its server.

    Attributes:
        identity: Its key.
        id: Its name on the bus.
        bus: The bus.
        pool: The pool whose workers take its rooms.
        message: Bytes of the longest message.
        patience: Seconds that a client may take nothing, for instance because it is cut.
        workers: Watches the workers that it uses.
        arrivals: The packets that have come from the workers.
    """

    def __init__(self, bus: Bus, pool: str, message: int, patience: float, log: Log) -> None:
        self.identity = Identity()
        self.id = self.identity.id
        self.bus, self.pool, self.message, self.patience = bus, pool, message, patience
        self.workers = Beats(bus, "gateway", "worker", self.id)
        self.arrivals: Arrivals
        self._log = log
        self._server: Server | None = None
        self._rooms: Bucket | None = None
        self._ends: list[End] = []

    async def begin(self, server: Server) -> None:
        """Listens on the bus. Raises `ConductorError`."""
        self._server = server
        self.arrivals = Arrivals(server.turns, self.bus.log)
        self._rooms = await self.bus.bucket(names.ROOMS)
        subject = names.packets("gateway", self.id, "*")
        self._ends.append(await self.bus.listen(subject, self.arrivals.packet))
        self._ends.append(await self.bus.answer(names.GATEWAYS, self._shown))
        await self.bus.settled()
        self.workers.start()

    async def end(self) -> None:
        """Leaves the bus."""
        self.workers.close()
        for end in self._ends:
            await end()
        await self.bus.close()

    # -- chains ----------------------------------------------------------------------------------

    def hosted(
        self, principal: str, named: str, upstream: Transport, hold: Callable[[bool], None]
    ) -> Hosted:
        """A chain for a principal's connection. `hold` tells its client to wait, or to go on."""
        return Hosted(self, Seat(principal, named, hold=hold), upstream, self._log)

    async def lease(self, principal: str) -> Lease | None:
        """The lease of a room; None: no worker has it. Raises `ConductorError`."""
        assert self._rooms is not None
        kept = await self._rooms.get(names.room(self.pool, principal))
        if kept is None:
            return None
        return Lease(names.holder(kept.value), names.epoch(kept.value, kept.revision))

    async def place(self, principal: str, lost: int, seconds: float) -> Lease:
        """Has a worker take a room. Raises `ConductorError`."""
        request = messages.Place(principal=principal, lost=lost, version=messages.VERSION)
        subject = names.place(self.pool)
        raw = await self.bus.request(subject, messages.write(request), seconds)
        placed = messages.read(raw, messages.Placed)
        return Lease(names.holder(placed.worker.encode(errors="replace")), placed.epoch)

    # -- the status ------------------------------------------------------------------------------

    async def _shown(self, _: bytes) -> bytes:
        assert self._server is not None
        state = "draining" if self._server.draining else "ready"
        counts = self._server.counts()
        return messages.write(messages.here("gateway", self.id, self.pool, state, counts))


class AnyName:
    """The names of chains, which only workers know: any text that can be such a name."""

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (not name or _NAME.fullmatch(name) is not None)


class Hosted:
    """A chain with one component: the room (`conductor.serve.chains.Hosted`)."""

    def __init__(self, gateway: Gateway, seat: Seat, upstream: Transport, log: Log) -> None:
        self._seat = seat
        name = seat.chain or "chain"
        renew = partial(RoomTransport, gateway, seat)
        planned = Planned(
            Component(
                name,
                f"the chain `{name}`",
                revived=True,
                logins=False,
                patience=AGENT_PATIENCE,
                program=True,
            ),
            renew(),
            renew,
            on_failure="restart",
        )
        options = Options(
            control="off",
            ring=0,
            log_file="none",
            keeping="nowhere",  # the conductor of the worker keeps the additions of its components
            line_limit=gateway.message,
            stall=gateway.patience,
            drain=0.0,  # once a client has left for good nobody reads the answers
        )
        self._runtime = Runtime([planned], "agent", upstream, options, Records(log))

    async def run(self) -> tuple[str, str]:
        """Runs it to its end: why it failed, and a hint; two empty texts: it did not."""
        await self._runtime.run()
        failure = self._runtime.failure
        return (failure.text, failure.hint) if failure is not None else ("", "")

    def unanswered(self) -> list[bytes]:
        """The ids of requests of the client that have no answer yet."""
        spaces = self._runtime.router.peers[UPSTREAM].id_spaces
        return [pending.raw_id for requests in spaces for pending in requests.received.values()]

    def stay(self) -> None:
        """The client may come back by another gateway: its work in the room goes on."""
        self._seat.stays = True

    @property
    def pending(self) -> int:
        """Requests of the client that have no answer yet."""
        return self._runtime.router.pending()

    def cut(self, is_cut: bool) -> None:
        """The client is gone, and may come back; or is there again."""
        self._seat.is_cut = is_cut
        if self._seat.transport is not None:
            self._seat.transport.tell_cut()

    def stop(self) -> None:
        """Ends it now."""
        self._runtime.stop()

    def reload(self) -> None:
        """Does nothing: workers have the configuration."""


async def orders(bus: Bus, worker: str, order: messages.Order, seconds: float) -> bytes:
    """Gives a worker an order; its answer. Raises `ConductorError`."""
    return await bus.request(names.control(worker), messages.write(order), seconds)


async def statuses(bus: Bus, seconds: float) -> list[messages.Status]:
    """All gateways and workers that answer until so many seconds after the first answer."""
    found: list[messages.Status] = []

    async def ask(subject: str, kind: str) -> None:
        found.extend(await _answers(bus, subject, kind, seconds))

    async with tasks.group() as asking:
        asking.start_soon(ask, names.STATUS, "worker")
        asking.start_soon(ask, names.GATEWAYS, "gateway")
    return sorted(found, key=lambda one: (one.kind, one.pool, one.id))


async def workers_of(bus: Bus, seconds: float) -> list[messages.Status]:
    """All workers that answer; nobody else may answer there."""
    return await _answers(bus, names.STATUS, "worker", seconds)


async def _answers(bus: Bus, subject: str, kind: str, seconds: float) -> list[messages.Status]:
    found = []
    for raw in await bus.gather(subject, b"", seconds):
        try:
            one = messages.read(raw, messages.Status)
        except ConductorError:
            continue  # of a version that says other things
        if one.kind == kind and names.is_id(one.id):
            found.append(one)
    return found
