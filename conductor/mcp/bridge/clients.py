"""The agent's MCP clients, each with the translation that its first request calls for.

A client does not declare which kind of MCP it speaks, so its messages wait for its first request,
and often for a probe of the component, before anything can be passed on.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from conductor.core.jsonrpc import INTERNAL_ERROR, error_object
from conductor.mcp import limits
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.calls import ClientMessage, Notification, PendingCall, Request
from conductor.mcp.bridge.downgrade import Downgrade, SharedSession
from conductor.mcp.bridge.endpoints import AcpEndpoint, ClientConnection, OnResponse
from conductor.mcp.bridge.generations import Generation
from conductor.mcp.bridge.json import EMPTY
from conductor.mcp.bridge.servers import Server, ServerConnection
from conductor.mcp.bridge.translations import Relay, Translation
from conductor.mcp.bridge.upgrade import Upgrade


class _ClientState(Enum):
    """NEW → PROBING → ESTABLISHED → CLOSED.

    A failed probe leads back to NEW, and so does a client that falls back to `initialize`.
    """

    NEW = auto()
    PROBING = auto()
    """The component must answer `server/discover` before the translation can be chosen."""
    ESTABLISHED = auto()
    CLOSED = auto()


class McpClient:
    """A client of a server. Messages wait, in order, until the translation is chosen."""

    def __init__(
        self,
        clients: Clients,
        server: Server,
        connection: ClientConnection,
        generation: Generation | None,
    ) -> None:
        """`generation`: that of an agent which takes servers of ACP transport; else None."""
        self.server = server
        self._clients = clients
        self._client = connection
        self._generation = generation
        self._state = _ClientState.NEW
        self._translation: Translation | None = None
        self._modern = False
        self._first = ""
        """The method of the first request."""
        self._waiting: list[ClientMessage] = []
        self._connection = ServerConnection(server, self.close)

    # -- from the client -----------------------------------------------------------------------

    def connect(self, generation: Generation, on_open: OnResponse) -> None:
        """The client connects in its generation; see `ServerConnection.open`."""
        self._connection.open(generation, on_open)

    def received(self, message: ClientMessage) -> None:
        """Takes a message of the client."""
        if isinstance(message, Request):
            params = self._client.asked(message.id, message.method, message.params)
            if params is not message.params:
                message = msgspec.structs.replace(message, params=params)
            if message.method == protocol.INITIALIZE and self._modern:
                self._begin_anew()
        if self._state is _ClientState.CLOSED:
            # A native agent may send on before it learns that the component has disconnected.
            if isinstance(message, Request):
                text = f"{self.server.label} closed the connection"
                self._client.respond(message.id, b"error", error_object(INTERNAL_ERROR, text))
        elif self._translation is not None:
            self._translation.client_message(message)
        elif isinstance(message, Notification) and self._state is _ClientState.NEW:
            pass  # it does not show which kind of MCP the client speaks; only requests do
        elif len(self._waiting) < limits.UNANSWERED:
            self._waiting.append(message)
            if isinstance(message, Request) and self._state is _ClientState.NEW:
                self._negotiate(message)
        elif isinstance(message, Request):
            error = self.server.refusal(f"{limits.UNANSWERED} messages wait for it")
            self._client.respond(message.id, b"error", error)

    def _begin_anew(self) -> None:
        """Some clients try the revision without sessions first, and fall back to `initialize`."""
        if self._translation is not None:
            self._translation.client_closed()
            self._translation = None
            self._state = _ClientState.NEW
            self._connection = ServerConnection(self.server, self.close)

    def closed(self) -> None:
        """The client has left."""
        if self._state is not _ClientState.CLOSED:
            self._state = _ClientState.CLOSED
            self._clients.remove(self)
            if self._translation is not None:
                self._translation.client_closed()
            self._connection.close()

    def close(self) -> None:
        """Closes the client's connection; also when the component has closed its own."""
        self._client.close()
        self.closed()

    # -- the choice of the translation -----------------------------------------------------------

    def _negotiate(self, first: Request) -> None:
        """Chooses the translation. First asks the component for its revision, if it is unknown."""
        self._first = first.method
        if self._generation is not None and self._generation.stateless:
            # The generation says it all: the params of such agents need not name a revision.
            self._modern = first.method != protocol.INITIALIZE
        else:
            self._modern = protocol.modern(first.method, first.params)
        generation = self.server.ladder.current
        known = not generation.stateless or self.server.discovered is not None
        if known or self._speaks(generation):
            self._establish()
            return
        self._state = _ClientState.PROBING
        probe = PendingCall(
            protocol.DISCOVER,
            protocol.PROBE,
            lambda member, body: self._probed(first, member, body),
        )
        if first.method == protocol.DISCOVER:  # the client's own request serves as the probe
            probe.params, probe.acp_params = first.params, first.acp_params
            probe.request_id = first.request_id
        self._connection.request(probe)

    def _speaks(self, generation: Generation) -> bool:
        """Whether the client speaks a component's generation: then nothing needs a translation."""
        return self._generation is generation and self._first != protocol.INITIALIZE

    def _probed(self, first: Request, member: bytes, body: bytes) -> None:
        server = self.server
        if not server.ladder.current.stateless:
            self._establish()  # it rejected the probe, which showed its generation
        elif member == b"result":
            server.discovered = body
            if first.method == protocol.DISCOVER:
                self._waiting.remove(first)
                self._client.respond(first.id, member, body)
            self._establish()
        elif server.ladder.confirmed:
            server.discovered = EMPTY  # it has no `server/discover`, but may serve all the same
            self._establish()
        else:
            # The component cannot be reached. The next request tries again.
            self._state = _ClientState.NEW
            self._waiting.remove(first)
            self._client.respond(first.id, b"error", body)
            self._resume()

    def _establish(self) -> None:
        server, client, connection = self.server, self._client, self._connection
        stateless = server.ladder.current.stateless
        if self._speaks(server.ladder.current):
            give_back = None if server.ladder.confirmed else self._given_back
            self._translation = Relay(client, connection, give_back)
        elif stateless == self._modern:
            self._translation = Relay(client, connection)
        elif stateless:
            self._translation = Upgrade(client, connection)
        else:
            connection.close()  # the probe may have opened it; all such clients share one session
            session = self._clients.shared_session(server)
            self._translation = Downgrade(client, connection, session)
        self._state = _ClientState.ESTABLISHED
        self._resume()

    def _given_back(self, request: Request) -> None:
        """The component does not speak the client's generation, so translation is needed."""
        if isinstance(self._translation, Relay):
            self._translation = None
            self._establish()
        self.received(request)

    def _resume(self) -> None:
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            self.received(message)


class Clients:
    """The clients of all servers, and the sessions that they share."""

    def __init__(self, chain: AcpEndpoint) -> None:
        self.chain = chain
        self._clients: dict[str, list[McpClient]] = {}
        """By the server's listener; in the order in which they connected."""
        self._shared: dict[str, SharedSession] = {}
        """By the server's listener."""

    def open(
        self, server: Server, connection: ClientConnection, generation: Generation | None = None
    ) -> McpClient:
        """A client has connected. `generation`: that of an agent which takes ACP transport."""
        client = McpClient(self, server, connection, generation)
        self._clients.setdefault(server.listener, []).append(client)
        return client

    def count(self, server: Server) -> int:
        """How many clients the server has."""
        return len(self._clients.get(server.listener, ()))

    def remove(self, client: McpClient) -> None:
        """A client has left."""
        clients = self._clients[client.server.listener]
        clients.remove(client)
        if not clients:
            del self._clients[client.server.listener]

    def shared_session(self, server: Server) -> SharedSession:
        """The session with the component for clients without sessions."""
        session = self._shared.get(server.listener)
        if session is None:
            session = self._shared[server.listener] = SharedSession(server)
        return session

    def close(self, server: Server) -> None:
        """Closes all connections of clients to a server, and the server's to its component."""
        for client in list(self._clients.get(server.listener, ())):
            client.close()
        # Last, since the clients that leave cancel their requests over the shared session.
        session = self._shared.pop(server.listener, None)
        if session is not None:
            session.close()
