"""Connections of clients: each outlives its link for a grace time.

A link carries the bytes: a WebSocket, a socket with lines, the requests of one HTTP
client. A connection is one client's ACP connection; its hub knows the connection by its id.
"""

from __future__ import annotations

import asyncio
import enum
import secrets
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from conductor.serve.access.proof import Proof


class State(enum.Enum):
    """The state of a connection."""

    LINKED = "linked"
    """A client is there."""
    CUT = "cut"
    """The link is gone: the connection waits for the client to come back."""
    CLOSED = "closed"
    """The connection has ended for good."""


class Event(enum.Enum):
    """The events of a connection."""

    LINK = "link"
    """A link is there, also in place of another link."""
    CUT = "cut"
    """The link is gone."""
    CLOSE = "close"
    """The client has left, or was sent away, or did not come back in time."""


MOVES: Final = {
    (State.LINKED, Event.CUT): State.CUT,
    (State.LINKED, Event.CLOSE): State.CLOSED,
    (State.CUT, Event.LINK): State.LINKED,
    (State.CUT, Event.CLOSE): State.CLOSED,
}
"""Every move there is; any other changes nothing."""


_MUCH: Final = "too much of its principal waits to be taken"


class Outlet(Protocol):
    """Takes the frames of one connection to its client, over any kind of link."""

    drained: Callable[[], None]
    """Called when some of the waiting frames have left; the connection sets it."""

    def send(self, frame: bytes, session: str | None) -> None:
        """Takes a frame that leaves at the next `flush`, or when it can; it never blocks."""

    def flush(self) -> None:
        """Frames that `send` has taken leave now, as far as they can."""

    @property
    def waiting(self) -> int:
        """Bytes that were flushed and have not left yet."""

    def hold(self, held: bool) -> None:
        """`held` says whether the client must stop sending for now."""

    def close(self, why: Farewell) -> None:
        """Ends the link, once the waiting frames have left if the client reads them."""


class Farewell(enum.Enum):
    """Why the server ends a link. The value is the code of a WebSocket's close, and the text."""

    LEAVING = (1001, "the server is shutting down")
    LIMIT = (1008, "a limit is exceeded")
    DENIED = (1008, "the token of this client has expired or counts no more")
    UNREAD = (1008, "this client does not read: too much waits for it")
    FAILED = (1011, "the chain has ended")
    LEFT = (1000, "")


def new_id() -> str:
    """An id that nobody can guess."""
    return str(uuid.UUID(int=secrets.randbits(128), version=4))


class Keeper(Protocol):
    """Holds the connections of one principal: a room, or a lobby."""

    @property
    def patience(self) -> float:
        """Seconds in which a client that sends no more gets its answers."""

    def is_bare(self, connection: Connection) -> bool:
        """Whether a connection has nothing that is worth a wait for its client."""

    def received(self, connection: Connection, frame: bytes) -> None:
        """A client has sent a frame."""

    def drained(self, connection: Connection) -> None:
        """A client has taken some of the frames that waited for it."""

    def cut(self, connection: Connection, is_cut: bool) -> None:
        """A link is gone, or there again."""

    def finish(self, connection: Connection) -> None:
        """A client sends no more."""

    def left(self, connection: Connection, why: Farewell) -> None:
        """A connection has ended for good."""


class Connection:
    """One client's connection.

    Attributes:
        id: The client's name for the connection; nobody can guess it.
        named: The chain of the configuration that the client asked for; empty: that of the command
            line.
        state: The state of the connection.
        outlet: Takes frames for the client.
        closed: Why the connection has ended; None: it has not.
        proof: The client's last proof of its identity; None: its address is the proof.
    """

    def __init__(self, id_: str, room: Keeper, outlet: Outlet, named: str, grace: float) -> None:
        self.id = id_
        self.proof: Proof | None = None
        self.room = room
        self.named = named
        self.state = State.LINKED
        self.closed: Farewell | None = None
        self.outlet = outlet
        outlet.drained = self.drained
        self.chains: set[str] = set()
        """The chains that have sent the client something."""
        self._grace = grace
        self._expiry: asyncio.TimerHandle | None = None
        self._reasons: set[str] = set()
        """The reasons why the client must wait."""
        self._goes_on = asyncio.Event()

    # -- its state -------------------------------------------------------------------------------

    def _moves(self, event: Event) -> bool:
        """Whether an event changes anything."""
        state = MOVES.get((self.state, event))
        if state is None:
            return False
        self.state = state
        return True

    def linked(self) -> None:
        """A link is there."""
        self.stay()
        if self._moves(Event.LINK):
            self.room.cut(self, False)

    def cut(self) -> None:
        """The link is gone; the client has the grace time to come back."""
        self.away()
        self.expect()

    def away(self) -> None:
        """The client is gone; somebody else knows how long it may take to come back."""
        if self._moves(Event.CUT):
            self.room.cut(self, True)

    def lost(self) -> None:
        """The link is gone, and no other can take its place: only its sessions are worth a wait."""
        if self.room.is_bare(self):
            self.close()
        else:
            self.cut()

    def finish(self) -> None:
        """The client sends no more: the connection ends once its requests have answers."""
        self.stay()
        if self.state is not State.CLOSED:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self.room.patience, self.close, Farewell.LEFT)
            self.room.finish(self)

    def expect(self) -> None:
        """The connection ends unless a link is there within the grace time."""
        self.stay()
        if self.state is not State.CLOSED:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._grace, self.close, Farewell.LEFT)

    def close(self, why: Farewell = Farewell.LEFT) -> None:
        """The connection ends for good."""
        self.stay()
        if self._moves(Event.CLOSE):
            self.closed = why
            self.room.left(self, why)
            self.outlet.close(why)
            self._reasons.clear()
            self._goes_on.set()

    def stay(self) -> None:
        """The connection no longer waits for its client, which may be there already."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    # -- frames ----------------------------------------------------------------------------------

    def received(self, frame: bytes) -> None:
        """The client has sent a frame."""
        if self.state is not State.CLOSED:
            self.room.received(self, frame)

    def drained(self) -> None:
        """Some of the waiting frames have left."""
        if self.state is not State.CLOSED:
            self.room.drained(self)

    @property
    def paused(self) -> bool:
        """Whether the client must wait."""
        return bool(self._reasons)

    def pause(self, reason: str) -> None:
        """No more is to be read from the client, for a reason."""
        is_first = not self._reasons
        self._reasons.add(reason)
        if is_first:
            self.outlet.hold(True)

    def resume(self, reason: str) -> None:
        """The reason is gone."""
        if self._reasons == {reason}:
            self._reasons.clear()
            self._goes_on.set()
            self.outlet.hold(False)
        else:
            self._reasons.discard(reason)

    # -- how its frames count (`conductor.transports.received.Reader`) ----------------------------

    def wait(self) -> None:
        """Too much of its principal waits to be taken."""
        self.pause(_MUCH)

    def go_on(self) -> None:
        """There is room again."""
        self.resume(_MUCH)

    def go(self) -> None:
        """The client has kept others of its principal waiting for too long."""
        self.close(Farewell.LIMIT)

    async def may_send(self) -> None:
        """Waits until the client's next frame can be taken."""
        while self._reasons:
            self._goes_on.clear()
            await self._goes_on.wait()
