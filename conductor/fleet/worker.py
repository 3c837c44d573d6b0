"""A worker: runs rooms, with gateways in the place of clients.

A worker has the lease of each room that it runs. Where another worker has taken a lease over,
because this worker seemed to be lost, it ends the room at once: later frames of the room reach
nobody, since every packet has the epoch of its lease.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from conductor.errors import ConductorError
from conductor.fleet import messages, names
from conductor.fleet.arrivals import Arrivals
from conductor.fleet.beats import Beats
from conductor.fleet.bucket import Bucket, Unkept
from conductor.fleet.bus import Bus, End, Unanswered
from conductor.fleet.held import Event, Held, State
from conductor.fleet.owners import KeptOwners
from conductor.fleet.room_outlet import RoomOutlet
from conductor.fleet.sealed import Identity, Seal, fresh

if TYPE_CHECKING:
    from conductor.fleet.bundle_follower import Follower
    from conductor.serve.server import Server
    from conductor.serve.settings import Settings

_ALIVE: Final = 0.4
"""Seconds in which a worker must show that it lives, before another takes its room over."""
_IDLE: Final = 10.0
"""Seconds that a room without connections and chains keeps its lease."""
_LOOK: Final = 0.25
_BORN: Final = 2.0
"""Seconds between two looks whether NATS has lost all leases: it may lose them and run on."""
_SHORT: Final = 0.01
_LAST: Final = 1.0
"""Seconds that gateways have to take the last answers of a room that moves, and NATS its lease."""
_OTHERS: Final = 2.0
"""Seconds in which workers must take their rooms again, after NATS has lost all leases."""
_END: Final = 20.0
"""Seconds in which rooms and their leases must end, when their worker does."""
_TRIES: Final = 3

_OTHER: Final = messages.Refused(
    gone=True,  # others may speak it: a fleet is upgraded part by part
    text="this worker speaks another version of the fleet's protocol",
    hint="upgrade gateways and workers to the same version; `conductor fleet status` shows them",
)
_GONE: Final = messages.Refused(
    text="this worker does not have the room", hint="another one takes it", gone=True
)
_FULL: Final = messages.Refused(
    text="this worker takes no more rooms", hint="another one is asked", gone=True
)

_LATER: Final = messages.Refused(
    text="this worker takes no room yet: NATS has just lost who has which",
    hint="it does in a moment",
    gone=True,
)


class Program(Protocol):
    """The program that a worker is a part of.

    Attributes:
        follower: Follows the rollouts of its pool; None: nothing does.
    """

    follower: Follower | None

    @property
    def chains(self) -> Collection[str]:
        """The names of the chains that run here."""

    @property
    def bundle(self) -> str:
        """The place of the bundle that new chains start from, by its digest; empty: none."""

    def stop(self) -> None:
        """An order says that this worker is to end."""

    async def settle(self) -> None:
        """A room has ended, and its lease is about to."""


class Worker:
    """The worker's state beside its server.

    Attributes:
        id: Its name on the bus.
        bus: The bus.
        owners: Knows the owners of sessions.
    """

    owners: KeptOwners
    _rooms: Bucket
    """`owners` and `_rooms` are there once `prepare` has returned."""
    _server: Server
    _arrivals: Arrivals
    """`_server` and `_arrivals` are there once `begin` has been called."""

    def __init__(
        self,
        bus: Bus,
        pool: str,
        most: int,
        program: Program,
        log: Callable[[str], None],
    ) -> None:
        """`most`: rooms at once."""
        self._program = program
        self._identity = Identity()
        self.id = self._identity.id
        self.bus, self.pool, self._most, self._log = bus, pool, most, log
        self._gateways = Beats(bus, "worker", "gateway", self.id)
        self._gateways.lag = self._verify_soon
        self._held: dict[str, Held] = {}
        """By principal."""
        self._taking: dict[str, asyncio.Future[messages.Placed | messages.Refused]] = {}
        """By principal, the rooms that are being taken."""
        self._tasks: set[asyncio.Task[None]] = set()
        """The tasks that end rooms."""
        self._queueing = asyncio.Lock()
        self._ends: list[End] = []
        self._leave_queue: End | None = None
        self._looking: list[asyncio.Task[None] | None] = []
        self._verifying: asyncio.Task[None] | None = None
        self._is_unsure = False
        """Whether the leases must be looked after."""
        self._born = 0
        """When the bucket of leases was made in which rooms are taken."""
        self._draining = False

    @property
    def settings(self) -> Settings:
        """How its server is set."""
        return self._server.settings

    async def prepare(self) -> None:
        """Opens the buckets. Raises `ConductorError`."""
        self._rooms = await self.bus.bucket(names.ROOMS)
        self._born = await self._rooms.born()
        owned = await self.bus.bucket(names.OWNED)
        self.owners = KeptOwners(self.bus, self.pool, owned, self._rooms, self._log)

    async def begin(self, server: Server) -> None:
        """Takes rooms from now on. Raises `ConductorError`."""
        self._server = server
        bus = self.bus
        self._arrivals = Arrivals(server.turns, self._log)
        self._ends += [
            await bus.listen(names.packets("worker", self.id, "*"), self._arrivals.packet),
            await bus.answer(names.opening(self.id), self._open),
            await bus.answer(names.control(self.id), self._order),
            await bus.answer(names.STATUS, self._shown),
        ]
        bus.linked.append(self._verify_soon)
        await self.queue_up()
        await bus.settled()  # who hears that this worker serves may ask at once
        self._gateways.start()
        self._looking = [bus.start(self._look()), bus.start(self._look_at_leases())]

    async def end(self) -> None:
        """Leaves the bus; the rooms have ended."""
        for task in (*self._looking, self._verifying):
            if task is not None:
                task.cancel()
        await self._give_all_up()
        self._gateways.close()
        await self._step_back()
        for end in self._ends:
            await end()
        self.owners.close()
        await self.bus.close()

    # -- rooms -----------------------------------------------------------------------------------

    def epoch(self, principal: str) -> int:
        """The epoch of a room that this worker has; 0: it has none."""
        held = self._held.get(principal)
        return held.epoch if held is not None else 0

    async def queue_up(self) -> None:
        """Takes rooms, if there are chains to run and there is place. Raises `ConductorError`."""
        async with self._queueing:
            full = self._draining or len(self._held) >= self._most
            if self._leave_queue is None and not full and self._program.chains:
                subject = names.place(self.pool)
                self._leave_queue = await self.bus.answer(subject, self._place, names.WORKERS)

    async def _step_back(self) -> None:
        async with self._queueing:
            leave, self._leave_queue = self._leave_queue, None
            if leave is not None:
                await leave()

    async def _place(self, data: bytes) -> bytes:
        """Takes a room, if nobody has it. A request for a room that is being taken waits."""
        try:
            request = messages.read(data, messages.Place)
            if request.version != messages.VERSION:
                return messages.write(_OTHER)
            taking = self._taking.get(request.principal)
            if taking is None:
                taking = asyncio.get_running_loop().create_future()
                self._taking[request.principal] = taking
                self.bus.start(self._taken(request, taking))
            await asyncio.wait((taking,))
            return messages.write(taking.result())
        except ConductorError as error:
            return messages.write(messages.Refused(text=error.text, hint=error.hint))

    async def _taken(
        self,
        request: messages.Place,
        taking: asyncio.Future[messages.Placed | messages.Refused],
    ) -> None:
        """Takes a room for all who ask for it meanwhile."""
        try:
            taking.set_result(await self._take(request))
        except ConductorError as error:
            later = isinstance(error, Unkept)  # who asks again in a moment may get it
            taking.set_result(messages.Refused(text=error.text, hint=error.hint, gone=later))
        finally:
            del self._taking[request.principal]
            taking.cancel()  # unless there is a result

    async def _take(self, request: messages.Place) -> messages.Placed | messages.Refused:
        """Takes a room, unless a worker that lives has it."""
        principal = request.principal
        held = self._held.get(principal)
        if held is not None and held.state is State.HELD:
            return messages.Placed(worker=self.id, epoch=held.epoch)
        if held is not None or self._draining or self._is_full:
            return _FULL
        leased = await self._leased(principal, request.lost)
        if not isinstance(leased, Held):
            return leased
        await self.owners.load(principal)  # with the last changes of its former worker
        self._held[principal] = leased
        if len(self._held) >= self._most:
            await self._step_back()
        return messages.Placed(worker=self.id, epoch=leased.epoch)

    async def _leased(self, principal: str, lost: int) -> Held | messages.Placed | messages.Refused:
        """Takes the lease of a room; or says who has it."""
        key, born = names.room(self.pool, principal), await self._rooms.born()
        if born != self._born:  # NATS has lost all leases: who has a room takes it again first
            self._verify_soon()
            return _LATER
        mine = names.lease(self.id, born)
        now = asyncio.get_running_loop().time()
        for _ in range(_TRIES):
            if not lost and (revision := await self._rooms.create(key, mine)):
                return Held(principal, mine, revision, now)
            kept = await self._rooms.get(key)
            if kept is None:
                lost = 0
                continue
            holder, epoch = names.holder(kept.value), names.epoch(kept.value, kept.revision)
            if holder != self.id and (  # an own lease without a room here is left over
                epoch != lost or await self._stands(holder, principal, lost)
            ):
                return messages.Placed(worker=holder, epoch=epoch)
            if revision := await self._rooms.update(key, mine, kept.revision):
                order = messages.Order(do="check", principal=principal)
                self.bus.publish(names.control(holder), messages.write(order))
                return Held(principal, mine, revision, now)
        return _FULL

    @property
    def _is_full(self) -> bool:
        """Whether this worker may have no room beyond those it has, and the room that it takes."""
        others = self._taking.keys() - self._held.keys()
        return len(self._held) + max(0, len(others) - 1) >= self._most

    async def _stands(self, worker: str, principal: str, epoch: int) -> bool:
        """Whether a worker answers, and has a room in an epoch that was called lost."""
        order = messages.Order(do="holds", principal=principal, epoch=epoch)
        try:
            raw = await self.bus.request(names.control(worker), messages.write(order), _ALIVE)
            messages.read(raw, messages.Status)
        except Unanswered:
            return False
        except messages.RefusedError as refused:
            return not refused.gone
        return True

    def _give_up(self, held: Held) -> None:
        """The room is to run elsewhere, or is empty."""
        if held.moves(Event.MOVE):
            self._do(self._release(held))

    async def _ask(self, held: Held) -> None:
        """Has the clients of a room wait, and gives it up if nothing runs in it then: so no
        message of theirs comes while it moves."""
        outlets, loop = [*held.outlets.values()], asyncio.get_running_loop()
        for outlet in outlets:
            outlet.ask()
        until = loop.time() + _LAST
        while not all(outlet.is_quiet for outlet in outlets) and loop.time() < until:
            await asyncio.sleep(_SHORT)
        if not self._is_busy(held):
            self._give_up(held)
        elif held.moves(Event.STAY):
            for outlet in outlets:
                outlet.say(messages.Closed(when="later"))

    def _is_busy(self, held: Held) -> bool:
        """Whether a turn runs in a room, or a request has no answer."""
        room = self._server.found(held.principal)
        return room is not None and room.is_busy

    async def _release(self, held: Held) -> None:
        """Ends a room that moves, then its lease, and says so to its gateways."""
        outlets = [*held.outlets.values()]
        await self._server.end_room(held.principal)
        await self._program.settle()
        loop = asyncio.get_running_loop()
        until = loop.time() + _LAST
        while any(outlet.waiting for outlet in outlets) and loop.time() < until:
            await asyncio.sleep(_SHORT)
        if held.moves(Event.ENDED):
            try:
                async with asyncio.timeout(_LAST):
                    await self.owners.flush()
                    await self._rooms.delete(names.room(self.pool, held.principal), held.revision)
            except (ConductorError, TimeoutError):
                pass  # who asks for the room next finds that this worker does not have it
        self._forget(held)
        for outlet in outlets:
            outlet.say(messages.Closed(text="moves to another worker"))
            outlet.drop()
        await self._queue_again()

    def _forget(self, held: Held) -> None:
        """A room has ended here."""
        if self._held.get(held.principal) is held:
            del self._held[held.principal]
            self.owners.drop(held.principal)

    async def _queue_again(self) -> None:
        with contextlib.suppress(ConductorError):  # NATS is away: it is done when NATS is back
            await self.queue_up()

    def _do(self, work: Coroutine[None, None, None]) -> None:
        """Does something beside all else."""
        task = self.bus.start(work)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        """Gives up empty rooms; and, while this worker drains, rooms in which nothing runs."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK)
            now = loop.time()
            for held in [*self._held.values()]:
                room = self._server.found(held.principal)
                if room is not None and not room.is_empty:
                    held.used = now
                idle = now - held.used > _IDLE and not held.outlets
                leaves = idle or (self._draining and not self._is_busy(held))
                if leaves and held.moves(Event.ASK):
                    self._do(self._ask(held))

    async def _look_at_leases(self) -> None:
        """Takes the rooms again that it has, where NATS has lost all leases."""
        while True:
            await asyncio.sleep(_BORN)
            with contextlib.suppress(ConductorError):  # lost buckets are made again
                if self._held and await self._rooms.born() != self._born:
                    self._verify_soon()

    async def leave(self) -> None:
        """Takes no more rooms, and gives up each of its rooms as soon as no turn runs there."""
        self._draining = True
        await self._step_back()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._server.settings.wind_down):
                while self._held:
                    await asyncio.sleep(_LOOK)
        await self._give_all_up()

    async def _give_all_up(self) -> None:
        for held in [*self._held.values()]:
            self._give_up(held)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END)

    # -- fencing ---------------------------------------------------------------------------------

    def _verify_soon(self) -> None:
        """This worker may have been called lost."""
        self._is_unsure = True
        if self._verifying is None or self._verifying.done():
            self._verifying = self.bus.start(self._verify_all())

    async def _verify_all(self) -> None:
        """Looks after all leases, until each look has succeeded while NATS was there."""
        while self._is_unsure and self.bus.is_linked:
            self._is_unsure = False
            try:
                born = await self._rooms.born()
                for held in [*self._held.values()]:
                    await self._verify(held, born)
                asyncio.get_running_loop().call_later(_OTHERS, self._takes_in, born)
            except ConductorError:
                self._is_unsure = True
                await asyncio.sleep(_LOOK)
        await self._queue_again()

    def _takes_in(self, born: int) -> None:
        self._born = born

    async def _verify(self, held: Held, born: int) -> None:
        """Ends a room whose lease another worker has. Where NATS has lost all leases, the room gets
        a new lease, and goes on. Raises `ConductorError`."""
        key, mine = names.room(self.pool, held.principal), names.lease(self.id, born)
        if held.lease != mine and (revision := await self._rooms.create(key, mine)):
            held.lease, held.revision = mine, revision
            self.owners.keep(held.principal)
            return
        kept = await self._rooms.get(key)
        is_ours = kept is not None and (kept.value, kept.revision) == (held.lease, held.revision)
        if not is_ours and held.moves(Event.LOST):
            self._log(f"another worker has the room of `{held.principal}`: it ends here")
            for outlet in [*held.outlets.values()]:
                outlet.say(
                    messages.Closed(text="is lost: another worker has its room now", lost=True)
                )
                outlet.drop()
            self._do(self._end(held))

    async def _end(self, held: Held) -> None:
        await self._server.end_room(held.principal, now=True)
        self._forget(held)
        await self._queue_again()

    # -- connections -----------------------------------------------------------------------------

    async def _open(self, data: bytes) -> bytes:
        """Opens a connection in a room."""
        try:
            request = messages.read(data, messages.Open)
            if request.version != messages.VERSION:
                return messages.write(_OTHER)
            if (taking := self._taking.get(request.principal)) is not None:
                await asyncio.wait((taking,))  # another gateway has just asked for the room
            return messages.write(self._opened(request))
        except ConductorError as error:
            return messages.write(messages.Refused(text=error.text, hint=error.hint))

    def _opened(self, request: messages.Open) -> messages.Opened | messages.Refused:
        self._check_ids(request)
        held = self._held.get(request.principal)
        if held is None or held.epoch != request.epoch or held.state is not State.HELD:
            return messages.Refused(
                text=f"this worker does not have the room in the epoch {request.epoch}",
                hint="the gateway looks for the worker that has it",
                gone=True,
            )
        server = self._server
        if request.chain not in self._program.chains:
            what = f"the chain `{request.chain}`" if request.chain else "a chain without a name"
            raise ConductorError(
                f"this worker does not serve {what}",
                "`conductor fleet worker COMPONENT…` serves one at /acp, `--chain NAME` others at "
                "/acp/NAME",
            )
        number = fresh()
        facts = messages.facts(request, self.id, number)
        takes, sends = self._identity.keys(messages.key(request.key), request.gateway, facts)
        outlet = RoomOutlet(self, held, request, Seal(sends, takes))
        try:
            outlet.connection = server.admit(
                request.principal, outlet, request.chain, request.connection
            )
        except ConductorError:
            outlet.carried.close()
            raise
        outlet.holds = server.received.entry(request.principal, outlet.connection)
        held.outlets[request.connection] = outlet
        self._arrivals.begin(request.connection, request.principal, outlet.packet, outlet.arriving)
        self._gateways.watch(request.gateway, outlet, outlet.gateway_lost)
        outlet.carried.expect()
        return messages.Opened(
            message=server.settings.message, key=self._identity.public.hex(), number=number
        )

    def _check_ids(self, request: messages.Open) -> None:
        """Raises `ConductorError` for ids that no gateway has made for a new connection."""
        for id_ in (request.connection, request.gateway):
            if not names.is_id(id_) or id_ in self._arrivals:
                raise ConductorError(
                    f"`{id_:.80}` is no id of a gateway, or of a new connection",
                    "gateways make ids themselves, and each connection has another",
                )

    def forget(self, connection: str, outlet: RoomOutlet) -> None:
        """A connection is over."""
        self._arrivals.end(connection)
        self._gateways.leave(outlet.gateway, outlet)

    # -- orders and the status -------------------------------------------------------------------

    async def _order(self, data: bytes) -> bytes:
        try:
            order = messages.read(data, messages.Order)
        except ConductorError as error:
            return messages.write(messages.Refused(text=error.text, hint=error.hint))
        if order.do == "check":
            self._verify_soon()
        elif order.do == "holds":
            held = self._held.get(order.principal)
            has = held is not None and held.epoch == order.epoch
            if not has and order.principal not in self._taking:
                return messages.write(_GONE)
        elif order.do == "disown":
            self.owners.disown(order.principal, order.session)
        elif order.do == "drain":
            self._program.stop()
        elif order.do != "alive":
            return messages.write(
                messages.Refused(text=f"a worker does not know the order `{order.do:.40}`")
            )
        return await self._shown(b"")

    async def _shown(self, _: bytes) -> bytes:
        state = "full" if self._leave_queue is None else "ready"
        if not self._program.chains:
            state = "waiting"
        counts = self._server.counts() | {"rooms": len(self._held)}
        state = "draining" if self._draining else state
        status = messages.here("worker", self.id, self.pool, state, counts)
        status = msgspec.structs.replace(status, config=self._program.bundle)
        if (follower := self._program.follower) is not None:
            status = msgspec.structs.replace(
                status,
                record=follower.record,
                refused=follower.refused,
                bundles=follower.report(),
            )
        return messages.write(status)
