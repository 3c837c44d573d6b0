"""The worker's end of a connection: the other end is at a gateway."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.json_text import member_at
from conductor.errors import ConductorError
from conductor.fleet import messages, names
from conductor.fleet.carried import Carried
from conductor.fleet.held import Held, State
from conductor.fleet.sealed import Seal
from conductor.link import Limits
from conductor.serve.connections import Farewell
from conductor.serve.hub import frames

if TYPE_CHECKING:
    from conductor.fleet.worker import Worker
    from conductor.serve.connections import Connection
    from conductor.transports.received import Entry

_UNKEPT: Final = "the new session is not recorded, so no worker but this one would find it"


class RoomOutlet:
    """Takes the frames of one connection to its gateway (`conductor.serve.connections.Outlet`)."""

    def __init__(self, worker: Worker, held: Held, request: messages.Open, seal: Seal) -> None:
        settings = worker.settings
        message, unread = settings.message, settings.unread
        self.drained: Callable[[], None] = lambda: None
        self.connection: Connection | None = None
        self.gateway = request.gateway
        self._worker, self._held, self._id = worker, held, request.connection
        self.carried = Carried(
            worker.bus,
            f"{request.connection}.{held.epoch}",
            names.packets("gateway", request.gateway, request.connection),
            seal,
            Limits(frame=message, queue=max(unread, message)),
            self,
        )
        self.holds: Entry | None = None
        """The bytes of incomplete frames, and of packets that wait for their turn."""
        self._arriving = 0
        self._unsaid = 0
        """Bytes that wait for the record of an owner."""
        self._over = False
        self._is_quiet = False

    @property
    def is_quiet(self) -> bool:
        """Whether nothing comes of the client any more until it hears `later`."""
        return self._is_quiet or self._over

    def ask(self) -> None:
        """Has the client wait, for the room may move."""
        self._is_quiet = False
        self.say(messages.Closed(when="soon"))

    @property
    def waiting(self) -> int:
        """Bytes that the gateway does not have yet, as far as it is known."""
        return 0 if self._over else self.carried.kept + self._unsaid

    def send(self, frame: bytes, session: str | None) -> None:
        """Keeps a frame until the gateway has it. A frame that may name a session waits until NATS
        knows the session's owner."""
        if self._over:
            return
        principal, then = self._held.principal, partial(self._recorded, frame)
        if self._worker.owners.waits(principal, session, then):
            self._unsaid += len(frame)
        else:
            self._say(frame)

    def _recorded(self, frame: bytes, error: ConductorError | None) -> None:
        """A waiting frame goes, or an error if its session could not be recorded."""
        self._unsaid -= len(frame)
        if not self._over:
            self._say(frame if error is None else _refused(frame, error))
            self.flush()

    def _say(self, frame: bytes) -> None:
        try:
            self.carried.send(frame)
        except ConductorError as error:
            self.link_failed(error)

    def flush(self) -> None:
        """Sends the frames that may go."""
        self.carried.flush()

    def hold(self, held: bool) -> None:
        """`held` says whether the gateway must stop sending for now."""
        if held:
            self.carried.pause()
        else:
            self.carried.go_on()

    def packet(self, data: bytes) -> None:
        """Something has come, which the gateway may have sent."""
        packet = self.carried.opened(data)
        if packet is None:
            return
        if packet.startswith(b"{"):
            self._client(packet)
            return
        before = self.carried.kept
        for frame in self.carried.received(packet):
            if self.connection is not None:
                self.connection.received(frame)
        self._count()
        if self.carried.kept < before:
            self.drained()

    def arriving(self, size: int) -> None:
        """So many bytes of packets that have come wait for their turn."""
        self._arriving = size
        self._count()

    def _count(self) -> None:
        if self.holds is not None:
            self.holds.set(self.carried.held + self._arriving)

    def _client(self, packet: bytes) -> None:
        """The gateway tells the state of the client."""
        try:
            client = messages.read(packet, messages.Client)
        except ConductorError:
            return
        connection, self._is_quiet = self.connection, client.waits
        if client.left:
            self.drop()
        if connection is None:
            return
        if client.left:
            connection.close()
        elif client.cut:
            connection.away()
        else:
            connection.linked()

    def gateway_lost(self) -> None:
        """Nobody takes the room's frames; the client may come back by another gateway. A gateway
        that only stood still hears of this, and opens another connection."""
        if not self._over:
            self.say(messages.Closed(text="is cut: its worker misses the gateway", lost=True))
        self.drop()
        if self.connection is not None:
            self.connection.lost()

    def close(self, why: Farewell) -> None:
        """The room closes the connection. While a room moves the gateway hears it at the end: then
        another worker may take it."""
        self.flush()
        if not self._over and self._held.state is not State.MOVING:
            code, text = why.value
            self.say(messages.Closed(text=text or f"is closed ({code})", clean=not text))
            self.drop()

    def say(self, closed: messages.Closed) -> None:
        """Says to the gateway that the connection is closed."""
        self.carried.say(closed)

    def drop(self) -> None:
        """The connection is nobody's any more."""
        if not self._over:
            self._over = True
            if self.holds is not None:
                self.holds.close()
            self.carried.close()
            self._held.outlets.pop(self._id, None)
            self._worker.forget(self._id, self)

    def link_silent(self) -> None:
        """The gateway does not answer any more."""
        self.gateway_lost()

    def link_failed(self, error: ConductorError) -> None:
        """The link cannot go on."""
        if not self._over:
            self.say(messages.Closed(text=f"is lost: {error.text}", hint=error.hint))
            self.drop()
        if self.connection is not None:
            self.connection.close(Farewell.LIMIT)


def _refused(frame: bytes, error: ConductorError) -> bytes:
    """The client's answer in place of an answer that names a session."""
    message = jsonrpc.message_of(frame)
    if message is None or not isinstance(message.id, Raw):
        return frame
    if not isinstance(message.result, Raw) or member_at(message.result, "sessionId") is None:
        return frame
    text = f"{_UNKEPT}: {error.text}"
    return frames.error(bytes(message.id), jsonrpc.INTERNAL_ERROR, text, error.hint)
