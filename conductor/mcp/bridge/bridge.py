"""The bridge: between the chain and the agent, and beside it the agent's MCP clients.

    bridge = Bridge(support, nonce="…")
    effects = bridge.to_agent(frame)                    # a line for the agent
    effects = bridge.from_agent(frame)                  # a line of the agent, if `watches_agent`
    effects = bridge.from_client(connection, frame)     # a line of an MCP client

No await, clock, randomness or I/O. Nothing here raises, whatever the bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import UnsetType

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import (
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge.apps import EVENT, Apps
from conductor.mcp.bridge.calls import Notification, PendingCall, Request
from conductor.mcp.bridge.capabilities import Support
from conductor.mcp.bridge.clients import Clients, McpClient
from conductor.mcp.bridge.declarations import ENDS, SETUPS, Declaration
from conductor.mcp.bridge.effects import CloseClient, Effect, Log, ToAgent, ToChain, ToClient
from conductor.mcp.bridge.endpoints import AcpEndpoint, DoorConnection, outcome_of
from conductor.mcp.bridge.generations import DISCONNECTS, METHODS, McpMessage, unwrap
from conductor.mcp.bridge.json import EMPTY, NULL, bytes_of, read
from conductor.mcp.bridge.native import NativeClients
from conductor.mcp.bridge.outside import Outside
from conductor.mcp.bridge.protocol import TOOLS_CHANGED
from conductor.mcp.bridge.servers import Server, ServerConnection
from conductor.mcp.bridge.setups import Setups

if TYPE_CHECKING:
    from conductor.mcp.bridge.offers import Offer
    from conductor.mcp.bridge.pins import Pins


class Bridge:
    """Serves one agent."""

    def __init__(
        self,
        support: Support,
        *,
        nonce: str,
        panels: bool = False,
        pins: Pins | None = None,
        reaches: bool = False,
    ) -> None:
        """`nonce`: makes the bridge's ids differ from all others in the chain. `panels`: whether
        the client shows panels. `pins`: the former offers of servers; None: nothing is compared.
        `reaches`: the client's servers are reached in the agent's place."""
        self._pins = pins
        if pins is not None:
            pins.emit = self._emit
        self._out: list[Effect] = []
        prefix = f"conductor-mcp-{nonce}-"
        self._chain = AcpEndpoint(lambda frame: self._emit(ToChain(frame)), prefix)
        self._agent = AcpEndpoint(lambda frame: self._emit(ToAgent(frame)), prefix)
        self._clients = Clients(self._chain)
        log = lambda level, text: self._emit(Log(level, text))  # noqa: E731
        self._apps = Apps(self._clients, log, shown=panels)
        self._native = NativeClients(self._clients, self._apps, self._agent)
        self._setups = Setups(
            support, self._clients, self._native, self._emit, pins, reaches=reaches
        )
        self._connections: dict[str, tuple[McpClient, DoorConnection]] = {}
        """Clients that came in through a door."""
        self._held: deque[bytes] = deque()

    @property
    def watches_agent(self) -> bool:
        """Whether `from_agent` needs the agent's lines."""
        return self._setups.any_pending or self._setups.any_native

    @property
    def holds(self) -> bool:
        """Whether `to_agent` needs every line, since a setup waits for an address."""
        return self._setups.waits

    @property
    def servers(self) -> Mapping[str, Server]:
        """The servers that the agent may use, by listener."""
        return self._setups.servers

    def _emit(self, effect: Effect) -> None:
        if isinstance(effect, CloseClient):
            self._connections.pop(effect.connection, None)
        self._out.append(effect)

    def _effects(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    # -- from the chain ------------------------------------------------------------------------

    def to_agent(self, frame: bytes) -> list[Effect]:
        """Takes a line for the agent."""
        if self._setups.waits:
            self._held.append(frame)
        else:
            self._pass_down(frame)
        return self._effects()

    def _pass_down(self, frame: bytes) -> None:
        message = jsonrpc.message_of(frame)
        if message is None or not self._takes_from_chain(message):
            self._emit(ToAgent(frame))

    def _takes_from_chain(self, message: Message) -> bool:
        """Handles a message for the agent; False if the agent gets it unchanged."""
        method, params = message.method, bytes_of(message.params)
        if isinstance(method, UnsetType):
            return self._chain.received_response(message)
        if isinstance(message.id, UnsetType):
            if method == CANCEL:
                return self._server_cancels(params)
            return method in METHODS and self._server_notifies(method, unwrap(params))
        id_ = bytes(message.id)
        if method in SETUPS:
            return self._setups.begin(id_, method, message)
        if method == EVENT:
            return self._apps.event(id_, params)
        if method in ENDS:
            self._setups.end_session(id_, params)
            return False
        return method in METHODS and self._server_requests(id_, method, unwrap(params))

    def _addressee(self, message: McpMessage) -> tuple[ServerConnection | None, PendingCall | None]:
        """The connection that a component's message is for, and the call it belongs to."""
        if message.server is not None or message.connection is not None:
            for server in self.servers.values():
                if message.server is None or message.server == server.declared.id:
                    connection, call = server.addressee(message)
                    if connection is not None:
                        return connection, call
        return None, None

    def _server_requests(self, id_: bytes, method: str, message: McpMessage) -> bool:
        connection, call = self._addressee(message)
        if connection is None:
            reason = f"`{method}`: no MCP client of the agent is connected there"
            self._chain.respond(id_, b"error", error_object(METHOD_NOT_FOUND, reason))
        elif method in DISCONNECTS:
            self._chain.respond(id_, b"result", EMPTY)
            connection.received_disconnect()
        else:
            connection.received_request(id_, message, call)
        return True

    def _server_notifies(self, method: str, message: McpMessage) -> bool:
        connection, call = self._addressee(message)
        if connection is None:
            self._emit(Log("debug", f"`{method}` dropped: nobody is connected there"))
        elif method in DISCONNECTS:
            connection.received_disconnect()
        else:
            connection.received_notification(message, call)
        return True

    def _server_cancels(self, params: bytes | None) -> bool:
        key = canonical_id(read(params).get("requestId", b"")) or b""
        return any(
            connection.received_cancel(key)
            for server in self.servers.values()
            for connection in server.connections
        )

    # -- addresses -----------------------------------------------------------------------------

    def listening(self, listener: str, declaration: Declaration) -> list[Effect]:
        """The address of a `Listen` effect."""
        self._setups.listening(listener, declaration)
        return self._release()

    def listen_failed(self, listener: str, reason: str) -> list[Effect]:
        """There is no address for a `Listen` effect. `reason` goes into the setup's error."""
        self._setups.listen_failed(listener, reason)
        return self._release()

    def _release(self) -> list[Effect]:
        """Passes on the waiting lines, in order; a line may be a setup that waits again."""
        while self._held and not self._setups.waits:
            self._pass_down(self._held.popleft())
        return self._effects()

    def expired(self, token: int) -> list[Effect]:
        """The time of a `Wait` effect is over."""
        self._setups.expired(token)
        return self._effects()

    def agreed(self, kept: Mapping[str, Mapping[str, Offer]]) -> list[Effect]:
        """Takes the kept offers that hold from now on. A client hears that its tools have changed
        if fewer changes of their server are left out than before."""
        assert self._pins is not None
        freed = self._pins.agreed(kept)
        for server in self.servers.values():
            if server.pins in freed:
                for connection in server.connections:
                    connection.handler.server_notification(TOOLS_CHANGED, EMPTY, None)
        return self._effects()

    # -- from the agent ------------------------------------------------------------------------

    def from_agent(self, frame: bytes) -> list[Effect]:
        """Takes a line of the agent."""
        message = jsonrpc.message_of(frame)
        if message is None or not self._takes_from_agent(message, frame):
            self._emit(ToChain(frame))
        return self._effects()

    def _takes_from_agent(self, message: Message, frame: bytes) -> bool:
        """Handles a message of the agent; False if the chain gets it unchanged."""
        method, id_, params = message.method, bytes_of(message.id), bytes_of(message.params)
        if isinstance(method, UnsetType):
            return self._agent.received_response(message) or self._ends_setup(message, frame)
        if not self._setups.any_native:
            return False
        if method == CANCEL and id_ is None:
            key = canonical_id(read(params).get("requestId", b""))
            return key is not None and self._native.cancel(key)
        if method not in METHODS or message.answers:
            return False
        if id_ is None:
            return self._native.notification(method, params)
        return self._native.request(id_, method, params)

    def _ends_setup(self, message: Message, frame: bytes) -> bool:
        key = canonical_id(bytes_of(message.id) or b"") or b""
        if not self._setups.is_pending(key):
            return False
        # The response goes first: components must know the session before clients connect to them.
        self._emit(ToChain(frame))
        self._setups.received_response(key, *outcome_of(message))
        return True

    # -- from MCP servers of the client ----------------------------------------------------------

    def link_received(self, link: str, frame: bytes) -> list[Effect]:
        """One line of a server."""
        server = self.servers.get(link.partition("/")[0])
        if server is not None and isinstance(server.chain, Outside):
            server.chain.received(server, link, frame)
        return self._effects()

    def link_ended(self, link: str, why: str) -> list[Effect]:
        """A link is over; `why` follows the server's name."""
        server = self.servers.get(link.partition("/")[0])
        if server is not None and isinstance(server.chain, Outside):
            self._emit(Log("warning", f"{server.label} {why}"))
            server.chain.ended(server, link, why)
        return self._effects()

    # -- from MCP clients that came in through a door --------------------------------------------

    def client_opened(self, connection: str, listener: str) -> list[Effect]:
        """A client has connected."""
        server = self.servers.get(listener)
        if server is None:
            self._emit(CloseClient(connection))
        else:
            door = DoorConnection(connection, self._emit)
            self._connections[connection] = self._apps.open(server, door), door
        return self._effects()

    def from_client(self, connection: str, frame: bytes) -> list[Effect]:
        """One line of a client."""
        if connection in self._connections:
            client, door = self._connections[connection]
            try:
                message = jsonrpc.parse(frame)
            except Malformed as error:
                body = error_object(error.code, error.text)
                response = jsonrpc.answer(error.id or NULL, b"error", body)
                self._emit(ToClient(connection, response[:-1]))
            else:
                # Revisions before 2025-06-18 have batches.
                batch = message if isinstance(message, list) else [message]
                for entry in batch:
                    part = entry if isinstance(entry, Message) else jsonrpc.message_of(bytes(entry))
                    if part is not None:
                        _received(client, door, part)
        return self._effects()

    def client_closed(self, connection: str) -> list[Effect]:
        """A client has left."""
        closed = self._connections.pop(connection, None)
        if closed is not None:
            client, _ = closed
            client.closed()
        return self._effects()

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> list[Effect]:
        """The agent has ended, or the chain ends: closes every connection."""
        self._setups.end()
        self._held.clear()
        return self._effects()


def _received(client: McpClient, door: DoorConnection, message: Message) -> None:
    method, id_, params = message.method, bytes_of(message.id), bytes_of(message.params)
    if params == NULL:
        params = None
    if isinstance(method, str):
        client.received(
            Notification(method, params) if id_ is None else Request(id_, method, params)
        )
    elif id_ is not None:
        door.received_response(id_, message)
