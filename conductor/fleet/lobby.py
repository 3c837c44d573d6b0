"""The connections of one principal at a gateway, each with a chain whose only component is the
room. The room knows which client is attached to which session: frames pass here as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.core.policy.headings import session_of
from conductor.errors import ConductorError, are, counted
from conductor.serve.chains import Chain, HubTransport
from conductor.serve.connections import Connection, Farewell, Outlet, new_id
from conductor.serve.hub import frames
from conductor.serve.room import SHOW
from conductor.serve.served import Served
from conductor.serve.streams import Streams

if TYPE_CHECKING:
    from conductor.fleet.gateway import Gateway, Hosted
    from conductor.serve.hub import SessionInfo
    from conductor.serve.server import Server
    from conductor.transports.base import Transport

_FULL: Final = "its room takes no more"
_MOVES: Final = "its room moves"
_ASKED: Final = 4096
"""Open requests whose sessions are remembered, of a client over HTTP."""


class _Seated:
    """A connection, and its chain once it has sent something."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.chain: Chain | None = None
        self.hosted: Hosted | None = None
        self.asked: dict[bytes, str] = {}
        """Over HTTP: the sessions of open requests, whose answers go to the streams of these."""

    @property
    def waits(self) -> bool:
        """Whether the client has sent a message that is not answered, or not taken yet."""
        if self.chain is None:
            return False
        return self.hosted is None or bool(self.chain.transport.held or self.hosted.pending)

    def unanswered(self) -> Iterator[bytes]:
        """The ids of requests without an answer."""
        if self.hosted is not None:
            yield from self.hosted.unanswered()
        for frame in self.chain.transport.held if self.chain is not None else ():
            message = jsonrpc.message_of(frame)
            if message is not None and message.method is not UNSET and isinstance(message.id, Raw):
                yield bytes(message.id)


class Lobby(Served):
    """The connections of one principal."""

    def __init__(self, principal: str, gateway: Gateway, server: Server) -> None:
        self.server = server
        self.draining = False
        self.connections: dict[str, Connection] = {}
        self._principal, self._gateway = principal, gateway
        self._seats: dict[str, _Seated] = {}
        self._ending: set[Chain] = set()
        self._finishing = {}

    @property
    def is_empty(self) -> bool:
        """Whether the principal has nothing here."""
        return not (self.connections or self._ending)

    @property
    def running(self) -> list[Chain]:
        """All chains that have not ended."""
        return [*(seat.chain for seat in self._seats.values() if seat.chain), *self._ending]

    @property
    def descriptors(self) -> int:
        """None: workers have the chains."""
        return 0

    @property
    def sessions(self) -> Collection[SessionInfo]:
        """None: the room has them."""
        return ()

    @property
    def open_turns(self) -> int:
        """Clients that have no answer yet to a request."""
        return sum(seat.waits for seat in self._seats.values())

    # -- connections -----------------------------------------------------------------------------

    def join(self, outlet: Outlet, named: str, id_: str = "") -> Connection:
        """A client connects. Raises `ConductorError` if there are too many."""
        if len(self.connections) >= self.server.settings.connections:
            count = len(self.connections)
            raise ConductorError(
                f"there {are(count)} {counted(count, 'connection')} of this principal, and no more "
                "may be",
                "close one of them",
            )
        connection = Connection(id_ or new_id(), self, outlet, named, self.server.settings.linger)
        self.connections[connection.id] = connection
        self._seats[connection.id] = _Seated(connection)
        return connection

    def is_bare(self, connection: Connection) -> bool:
        """Whether a connection has sent nothing yet."""
        seat = self._seats.get(connection.id)
        return seat is None or seat.chain is None

    def take(self, connection: Connection, frame: bytes) -> None:
        """A client has sent a frame, which may pass."""
        seat = self._seats[connection.id]
        if isinstance(connection.outlet, Streams):
            self._note(seat, frame)
        if seat.chain is None:
            self._open(seat)
        assert seat.chain is not None
        seat.chain.transport.feed(frame)

    def _note(self, seat: _Seated, frame: bytes) -> None:
        """Notes which session a request is about."""
        message = jsonrpc.message_of(frame)
        if message is None or message.method is UNSET or not isinstance(message.id, Raw):
            return
        session = session_of(message.params)
        if session is not None and len(seat.asked) < _ASKED:
            seat.asked[bytes(message.id)] = session

    def cut(self, connection: Connection, is_cut: bool) -> None:
        """A link is gone, or there again."""
        hosted = self._seats[connection.id].hosted
        if hosted is not None:
            hosted.cut(is_cut)

    def go_on(self, connection: Connection) -> None:
        """The connection's chain may send it more."""
        chain = self._seats[connection.id].chain
        if chain is not None:
            chain.transport.drained()

    def waits(self, connection: Connection) -> bool:
        """Whether a client has sent a message that is not answered, or not taken yet."""
        return self._seats[connection.id].waits

    def left(self, connection: Connection, why: Farewell) -> None:
        """A connection has ended for good."""
        self._finishing.pop(connection, None)
        if self.connections.pop(connection.id, None) is None:
            return
        seat = self._seats.pop(connection.id)
        if why is Farewell.DENIED:
            self._deny(seat)
        if why is Farewell.LEAVING and seat.hosted is not None:
            seat.hosted.stay()
        if seat.chain is not None:
            self._ending.add(seat.chain)
            seat.chain.leave()
        self.server.changed()

    def _deny(self, seat: _Seated) -> None:
        """Answers the open requests of a client that is sent away, and still reads."""
        outlet = seat.connection.outlet
        for id_ in seat.unanswered():
            session = seat.asked.pop(id_, None)
            text = Farewell.DENIED.value[1]
            outlet.send(frames.error(id_, jsonrpc.INTERNAL_ERROR, text, SHOW), session)
        outlet.flush()

    # -- chains ----------------------------------------------------------------------------------

    def _open(self, seat: _Seated) -> None:
        connection = seat.connection

        def hold(held: bool) -> None:
            (connection.pause if held else connection.resume)(_MOVES)

        def hosted(named: str, principal: str, upstream: Transport) -> Hosted:
            seat.hosted = self._gateway.hosted(principal, named, upstream, hold)
            return seat.hosted

        def full(is_full: bool) -> None:
            (connection.pause if is_full else connection.resume)(_FULL)

        transport = HubTransport(
            *(lambda sent: self._send(seat, sent), lambda: connection.outlet.waiting, full),
            *(self.server.received, self._principal, lambda: connection.close(Farewell.LIMIT)),
        )
        seat.chain = chain = Chain(
            connection.named,
            self._principal,
            hosted,
            transport,
            lambda text, hint: self._chain_ended(seat, chain),
            self.server.start,
        )

    def _send(self, seat: _Seated, sent: list[bytes]) -> None:
        """The room has sent frames."""
        connection, unread = seat.connection, self.server.settings.unread
        outlet = connection.outlet
        if connection.id not in self.connections:
            return
        if self.leaves_much(connection, unread, unread):
            connection.close(Farewell.UNREAD)
            return
        for frame in sent:
            outlet.send(frame, self._session(seat, frame) if isinstance(outlet, Streams) else None)
        self.flush_to(connection)
        if self._finishing:
            self._finish()
        if self.draining:
            self.server.changed()

    def _session(self, seat: _Seated, frame: bytes) -> str | None:
        """The session whose stream a frame goes to; None: that of the connection."""
        message = jsonrpc.message_of(frame)
        if message is None:
            return None
        if message.method is not UNSET:
            return session_of(message.params)
        return seat.asked.pop(bytes(message.id), None) if isinstance(message.id, Raw) else None

    def _chain_ended(self, seat: _Seated, chain: Chain) -> None:
        self._ending.discard(chain)
        if seat.connection.id in self.connections:
            seat.chain = seat.hosted = None
            seat.connection.close(Farewell.FAILED)
        self.server.changed()

    def overdue(self) -> None:
        """Does nothing: the room has the time of turns."""

    def set(self) -> None:
        """Does nothing: the server's settings are read at each use."""

    def reload(self) -> None:
        """Does nothing: workers have the configuration of chains."""
