"""The network connections of HTTP clients: strangers at first, then a principal's.

A WebSocket, a stream of events and a request each have a connection while they last; between
requests a connection is idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.errors import ConductorError, are, counted
from conductor.http.connection import Connection
from conductor.http.limits import Patience
from conductor.http.request import CLOSE, Refused
from conductor.http.server import HttpServer
from conductor.serve import pulse
from conductor.transports.received import Entry

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from ssl import SSLContext

    from conductor.http.request import Handler, Request
    from conductor.serve.server import Server
    from conductor.serve.settings import Settings


class HttpAddress(HttpServer):
    """One address at which clients of chains speak HTTP."""

    def __init__(
        self,
        server: Server,
        handler: Handler,
        listening: socket.socket,
        complain: Callable[[str], None],
        tls: SSLContext | None,
    ) -> None:
        super().__init__(handler, listening, complain, tls=tls)
        self.server = server
        self.turns = server.turns
        self.set(server.settings)

    def set(self, settings: Settings) -> None:
        """A client without a token so far has the time of a login for everything."""
        self._patience = Patience(head=settings.login, body=settings.login)

    @property
    def patience(self) -> Patience:
        """Seconds that a client has."""
        return self._patience

    def made(self) -> ClientSocket:
        """A new connection."""
        return ClientSocket(self)

    def leave(self, connection: Connection) -> None:
        """A connection has ended."""
        super().leave(connection)
        self.server.ended()


class ClientSocket(Connection):
    """One network connection. Its client must identify itself in time.

    Attributes:
        holds: The bytes that have come on the connection and that nobody has taken yet.
    """

    def __init__(self, home: HttpAddress) -> None:
        super().__init__(home)
        self._address = home
        self._is_held_up = False
        """Whether much of its principal waits to be taken."""
        self._late = self._loop.call_later(home.patience.head, self.turn_away)
        self.holds = Entry("", self)

    def known(self, principal: str) -> None:
        """A request has shown that it is a principal's."""
        self._late.cancel()
        self._address.know(self)
        if self.holds.principal != principal:
            held = self.holds.held
            self.holds.close()
            self.holds = self._address.server.received.entry(principal, self)
            self.holds.set(held)
        self.principal = principal

    def looked(self) -> None:
        """All was looked at, as far as it was the turn of its principal."""
        self.holds.set(self.held)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._late.cancel()
        self._address.server.sockets.gone(self)
        self.holds.close()
        super().connection_lost(exc)

    # -- how its bytes count (`conductor.transports.received.Reader`) -----------------------------

    def wait(self) -> None:
        """Too much of its principal waits to be taken."""
        self._is_held_up = True
        self.flow()

    def go_on(self) -> None:
        """There is room again."""
        self._is_held_up = False
        self.flow()

    def go(self) -> None:
        """The connection has kept others of its principal waiting for too long."""
        if self._request is not None and self.lacks_body:
            why = "too many bytes of this principal are on their way; wait for them"
            self._request.fail(Refused(429, why, CLOSE))
        else:
            self.turn_away()

    def _must_wait(self) -> bool:
        return self._is_held_up or super()._must_wait()

    # -- whether its client is there (`conductor.serve.pulse`) -----------------------------------

    @property
    def pending(self) -> int:
        """Bytes that the client's machine has not confirmed."""
        if self._transport is None:
            return 0
        written = self._transport.get_write_buffer_size()
        raw = self._transport.get_extra_info("socket")
        return written + (pulse.unconfirmed(raw) if raw is not None else 0)

    @property
    def reached(self) -> bool | None:
        """Whether the client's machine confirms the bytes sent to it; None: nobody knows."""
        raw = None if self._transport is None else self._transport.get_extra_info("socket")
        return None if raw is None else pulse.reached(raw)


def taken(request: Request) -> ClientSocket:
    """The network connection of a request."""
    connection = request.connection
    assert isinstance(connection, ClientSocket)
    return connection


class ClientSockets:
    """Which of them each principal has."""

    def __init__(self) -> None:
        self._of: dict[str, dict[ClientSocket, None]] = {}

    def take(self, socket: ClientSocket, principal: str, most: int) -> None:
        """A socket has a request of a principal, who may have `most` sockets. An idle socket makes
        room. Raises `ConductorError`."""
        if socket.principal == principal:
            return
        own = self._of.get(principal, {})
        if len(own) >= most:
            idle = next((one for one in own if one.is_idle), None)
            if idle is None:
                there = f"there {are(len(own))} {counted(len(own), 'network connection')}"
                raise ConductorError(
                    f"{there} of this principal, as many as there may be",
                    "close some of them, or ask for a higher limit (`serve.sockets`, ulimit -n)",
                )
            self.gone(idle)
            idle.finish()
        self.gone(socket)
        self._of.setdefault(principal, {})[socket] = None
        socket.known(principal)

    def gone(self, socket: ClientSocket) -> None:
        """A socket has ended, or is another principal's."""
        own = self._of.get(socket.principal, {})
        own.pop(socket, None)
        if not own:
            self._of.pop(socket.principal, None)

    def count(self, principal: str) -> int:
        """How many a principal has."""
        return len(self._of.get(principal, ()))
