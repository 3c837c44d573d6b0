"""The gateway's end of a connection to a room, wherever that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import ComponentError, ConductorError
from conductor.fleet import messages, names
from conductor.fleet.bus import Unanswered
from conductor.fleet.carried import Carried
from conductor.fleet.placing import Lease, Placing, Step
from conductor.fleet.sealed import Seal
from conductor.link import Limits, LinkError
from conductor.transports.base import Ended, Owner
from conductor.transports.remote.framed import Framed

if TYPE_CHECKING:
    from conductor.fleet.gateway import Gateway

_LOST: Final[dict[str, object]] = {"reason": "worker lost"}
_PAUSE: Final = 0.05
_LONGEST: Final = 1.0
"""Seconds before the next round of a search: twice as long each time, up to this."""
_PLACE: Final = 2.0
"""Seconds in which a worker must take a room."""
_OPEN: Final = 1.0
"""Seconds in which a worker must open a connection."""


class Seat(msgspec.Struct):
    """A connection's place in the fleet: whose it is, and which worker it has lost."""

    principal: str
    chain: str
    lost: int = 0
    """The epoch whose worker does not answer."""
    stays: bool = False
    """Whether the client may come back by another gateway, since this gateway ends."""
    is_cut: bool = False
    """Whether its client is gone, and may come back."""
    transport: RoomTransport | None = None
    """The transport that is open."""
    hold: Callable[[bool], None] = lambda held: None
    """Tells the client to stop sending, or to go on."""


class RoomTransport(Framed):
    """One connection, opened where the room is."""

    def __init__(self, gateway: Gateway, seat: Seat) -> None:
        super().__init__()
        self._gateway, self._seat = gateway, seat
        self._carried: Carried | None = None
        self._lease: Lease | None = None
        self._connection = ""
        self._is_moving = False
        """Whether the room may move. Then the worker must hear when nothing is on its way."""

    # -- the contract of transports ------------------------------------------------------------

    async def open(self, events: Owner) -> None:
        """Finds the room, and opens a connection there. Raises `ComponentError`."""
        self._events = events
        placing = Placing(self._seat.lost)
        error = ConductorError("no worker takes the room", "`conductor fleet status` shows all")
        while not placing.is_over and not self._ended:
            rounds = placing.rounds
            try:
                await self._go(placing)
            except ConductorError as raised:
                error = raised
            if placing.rounds > rounds and not placing.is_over:
                await asyncio.sleep(min(_LONGEST, _PAUSE * 2**rounds))
        if placing.step is Step.FAILED:
            self._drop()
            raise ComponentError(error.text, error.hint)
        if self._ended:
            self._leave()
            self._drop()
            return
        self._seat.lost = 0
        self._gateway.bus.linked.append(self._linked)
        self._seat.transport = self
        if self._seat.is_cut:
            self.tell_cut()
        self._pass_on()

    async def _go(self, placing: Placing) -> None:
        """Takes one step of the search. Raises `ConductorError` with the reason to fail."""
        gateway, seat = self._gateway, self._seat
        if placing.step is Step.LOOK:
            try:
                placing.found(await gateway.lease(seat.principal))
            except ConductorError:
                placing.refused()
                raise
        elif placing.step is Step.PLACE:
            try:
                placing.placed(await gateway.place(seat.principal, placing.lost, _PLACE))
            except ConductorError as error:
                again = isinstance(error, Unanswered) or getattr(error, "gone", False)
                (placing.gone if again else placing.refused)()
                if isinstance(error, Unanswered):
                    raise ConductorError(
                        f"no worker of the pool `{gateway.pool}` takes another room",
                        f"start one: `conductor fleet worker --pool {gateway.pool}`; `conductor "
                        "fleet status` shows those that are there",
                    ) from None
                raise
        elif placing.step is Step.OPEN:
            assert placing.lease is not None
            await self._open(placing, placing.lease)

    async def _open(self, placing: Placing, lease: Lease) -> None:
        gateway, seat = self._gateway, self._seat
        self._connection = connection = names.new_id()
        # Packets may come before the answer.
        gateway.arrivals.begin(connection, seat.principal, self.packet)
        request = messages.Open(
            principal=seat.principal,
            chain=seat.chain,
            connection=connection,
            gateway=gateway.id,
            epoch=lease.epoch,
            key=gateway.identity.public.hex(),
            version=messages.VERSION,
        )
        try:
            opened, seal = await self._asked(request, lease.worker)
        except ConductorError as error:
            self._drop()
            if isinstance(error, Unanswered):
                placing.silent()
            else:
                (placing.gone if getattr(error, "gone", False) else placing.refused)()
            raise
        placing.opened()
        self._carried = Carried(
            gateway.bus,
            f"{connection}.{lease.epoch}",
            names.packets("worker", lease.worker, connection),
            seal,
            Limits(frame=min(gateway.message, opened.message)),
            self,
        )
        if self._ended:  # the client has left meanwhile
            return
        self._lease = lease
        if self._paused:
            self._carried.pause()
        self._carried.begin()
        gateway.workers.watch(lease.worker, self, self._worker_lost)

    async def _asked(self, request: messages.Open, worker: str) -> tuple[messages.Opened, Seal]:
        """A worker opens the connection, and has keys for it. Raises `ConductorError`."""
        gateway = self._gateway
        raw = await gateway.bus.request(names.opening(worker), messages.write(request), _OPEN)
        opened = messages.read(raw, messages.Opened)
        facts = messages.facts(request, worker, opened.number)
        return opened, Seal(*gateway.identity.keys(messages.key(opened.key), worker, facts))

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        if not self._seat.stays:  # messages of the ending chain end no turn
            super().write(data)

    @property
    def buffered(self) -> int:
        """Bytes written that the room does not have, as far as it is known."""
        return self._waiting_bytes + (self._carried.kept if self._carried is not None else 0)

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        if self._carried is not None:
            self._carried.pause()

    def resume(self) -> None:
        """Reads on."""
        if self._go_on() and self._carried is not None:
            self._carried.go_on()

    def finish(self) -> None:
        """Nothing more will be written: the room hears it once it has all."""
        self._finishing = True
        self._finish_if_done()

    async def close(self, grace: float) -> None:
        """Closes the connection, after queued frames had `grace` seconds to arrive."""
        self._ended = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self._carried is not None and self.buffered and loop.time() < deadline:
            await asyncio.sleep(0.005)
        self._leave()
        self._drop()

    # -- packets -------------------------------------------------------------------------------

    def packet(self, data: bytes) -> None:
        """Something has come, which the worker may have sent."""
        if self._carried is None:
            return  # of a connection that is not open, or not any more
        packet = self._carried.opened(data)
        if packet is None:
            return
        if packet.startswith(b"{"):
            self._said(packet)
            return
        before = self.buffered
        self._deliver(self._carried.received(packet))
        if self.buffered < before or self._waiting:
            self._pass_on()
            self._has_drained()
            self._tell_quiet()

    def _pass_on(self) -> None:
        """Gives the link the waiting frames, as far as there is room."""
        carried = self._carried
        if carried is None:
            return
        try:
            self._fill(carried)
        except LinkError as error:
            self.link_failed(error)
            return
        carried.flush()
        self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self._finishing and self._carried is not None and not self.buffered:
            self._leave()

    def _linked(self) -> None:
        """NATS is there again: messages of the room may have been lost meanwhile."""
        self._go_on_sending()
        self.tell_cut()

    def _go_on_sending(self) -> None:
        self._is_moving = False
        self._seat.hold(False)

    def tell_cut(self) -> None:
        """Says to the room whether the client is there."""
        self._say(messages.Client(cut=self._seat.is_cut))

    def _tell_quiet(self) -> None:
        """Says to the room that the client waits, once the room has all that it has sent."""
        if self._is_moving and not self.buffered:
            self._is_moving = False
            self._say(messages.Client(cut=self._seat.is_cut, waits=True))

    def _leave(self) -> None:
        """Tells the worker that the connection is over, or that its client will come back."""
        self._say(messages.Client(cut=True) if self._seat.stays else messages.Client(left=True))

    def _say(self, client: messages.Client) -> None:
        if self._carried is not None:
            self._carried.say(client)

    def _drop(self) -> None:
        """Forgets the connection."""
        self._go_on_sending()
        if self._lease is not None:
            self._gateway.workers.leave(self._lease.worker, self)
        if self._connection:
            self._gateway.arrivals.end(self._connection)
        if self._carried is not None:
            self._carried.close()
        self._carried = self._lease = None
        self._connection = ""
        if self._seat.transport is self:
            self._seat.transport = None
            self._gateway.bus.linked.remove(self._linked)

    # -- the end -------------------------------------------------------------------------------

    def _said(self, packet: bytes) -> None:
        """The worker closes the connection, or is about to."""
        try:
            closed = messages.read(packet, messages.Closed)
        except ConductorError:
            return
        if closed.when != "now":
            self._is_moving = closed.when == "soon"
            self._seat.hold(self._is_moving)
            # Frames that the client sent before may still be on their way through the chain.
            asyncio.get_running_loop().call_soon(self._tell_quiet)
            return
        data = _LOST if closed.lost else {}
        self._report(
            Ended(closed.text or "is closed", clean=closed.clean, hint=closed.hint, data=data)
        )

    def _worker_lost(self) -> None:
        if self._lease is None:
            return
        self._seat.lost = self._lease.epoch
        self._report(
            Ended(
                f"is lost: its worker `{self._lease.worker}` does not answer any more",
                data=_LOST,
            )
        )

    def link_silent(self) -> None:
        """The worker does not answer any more: it has forgotten the connection."""
        self._report(Ended("is cut: its worker has forgotten the connection", data=_LOST))

    def link_failed(self, error: LinkError) -> None:
        """The link cannot go on."""
        self._report(Ended(f"is lost: {error.text}", hint=error.hint))

    def _report(self, how: Ended) -> None:
        self._drop()
        super()._report(how)
