"""Agents that take servers of ACP transport: their messages of MCP, in any generation."""

from __future__ import annotations

from typing import Final, NamedTuple

from msgspec import Raw

from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    canonical_id,
    error_object,
)
from conductor.mcp import limits
from conductor.mcp.bridge import generations, protocol
from conductor.mcp.bridge.apps import Apps
from conductor.mcp.bridge.calls import Cancellation, Notification, Request
from conductor.mcp.bridge.clients import Clients, McpClient
from conductor.mcp.bridge.endpoints import AcpEndpoint, ClientConnection, OnResponse, ignore
from conductor.mcp.bridge.generations import (
    CONNECTS,
    DISCONNECTS,
    PACP,
    SACP,
    SCP,
    SDK_0,
    SDK_2,
    STATELESS,
    Generation,
    McpMessage,
    unwrap,
)
from conductor.mcp.bridge.json import EMPTY, NULL, read, text, write
from conductor.mcp.bridge.servers import Server

_CONNECTED: Final = {
    "mcp/message": SDK_2,
    "_mcp/message": SDK_0,
    "_mcp/request": SACP,
    "_mcp/notification": SACP,
}
"""The generation of an agent that names a connection, by the method it uses."""

_CONNECTIONLESS: Final = {
    "_mcp/client_to_server/request": PACP,
    "_mcp/client_to_server/notification": PACP,
    "_scp/mcp": SCP,
}
"""The same for an agent that names a server; STATELESS for all other methods."""


class NativeConnection(ClientConnection):
    """One connection of such an agent; the bridge makes it up in generations without
    connections."""

    def __init__(self, agent: AcpEndpoint, generation: Generation, server: Server) -> None:
        self._agent = agent
        self.generation = generation
        self._label = server.label
        declared = server.declared
        self._address: dict[str, object] = {
            "id": declared.id,
            "url": declared.url,
            "name": server.name,
        }
        self._pending: dict[bytes, McpMessage] = {}
        """The agent's requests, by their ids of ACP."""

    def opened(self, id_: str) -> None:
        """The connection has its id."""
        self._address["connection"] = id_

    def received(self, id_: bytes, message: McpMessage) -> None:
        """A request of the agent."""
        self._pending[id_] = message

    def is_pending(self, key: bytes) -> bool:
        """Whether a request with this canonical id is pending."""
        return any(canonical_id(id_) == key for id_ in self._pending)

    def acp_id(self, inner_id: Raw | None) -> bytes | None:
        """The id of ACP of the pending request that has this id inside."""
        wanted = bytes(inner_id) if inner_id is not None else b""
        matching = (id_ for id_, request in self._pending.items() if request.inner_id == wanted)
        return next(matching, None)

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        pending = self._pending.pop(id_, None)
        if pending is not None:
            generation, inner_id = self.generation, pending.inner_id
            wrapped = generations.wrap_response(generation, inner_id, member, body)
            self._agent.respond(id_, *wrapped)

    def no_response(self, id_: bytes) -> None:
        # MCP wants no response to a cancelled request, but ACP does.
        if self._pending.pop(id_, None) is not None:
            error = error_object(REQUEST_CANCELLED, "the request was cancelled")
            self._agent.respond(id_, b"error", error)

    def ended(self) -> None:
        """The connection is over. MCP wants no response then, but ACP does."""
        for id_ in list(self._pending):
            error = error_object(INTERNAL_ERROR, f"the connection to {self._label} is closed")
            self.respond(id_, b"error", error)

    def request(
        self, method: str, params: bytes | None, on_response: OnResponse, related: bytes | None
    ) -> bytes | None:
        generation = self.generation
        if generation.back_request is None:
            reason = f"`{method}`: the agent's generation of MCP over ACP takes no requests"
            on_response(b"error", error_object(METHOD_NOT_FOUND, reason))
            return None
        inner_id = 1 if generation.nested else None
        whole = generations.wrap(generation, self._address, method, params, inner_id)
        return self._agent.request(
            generation.back_request,
            whole,
            lambda member, body: on_response(
                *generations.unwrap_response(generation, member, body)
            ),
        )

    def notify(self, method: str, params: bytes | None, related: bytes | None) -> None:
        whole = generations.wrap(self.generation, self._address, method, params)
        if self.generation.stateless:
            # Here each notification belongs to a request, so no other notification can be sent.
            pending = self._pending.get(related) if related is not None else None
            if pending is None:
                return
            if pending.request_id is not None:
                whole = write({**read(whole), "requestId": pending.request_id})
        self._agent.notify(self.generation.back_notification, whole)

    def close(self) -> None:
        self.ended()
        generation = self.generation
        if generation.disconnect is None or "connection" not in self._address:
            return
        params = write(generations.fill(generation.disconnect_fields, self._address))
        if generation.disconnect_is_request:
            self._agent.request(generation.disconnect, params, ignore)
        else:
            self._agent.notify(generation.disconnect, params)


class _Native(NamedTuple):
    client: McpClient
    connection: NativeConnection


class NativeClients:
    """Takes the agent's messages to servers that it was given with ACP transport."""

    def __init__(self, clients: Clients, apps: Apps, agent: AcpEndpoint) -> None:
        self._all = clients
        self._apps = apps
        self._agent = agent
        self._servers: dict[str, list[Server]] = {}
        """By the agent's name of the server. The servers of several sessions stand in order, the
        latest last: messages that name no connection are for the latest."""
        self._clients: dict[str | tuple[str, str], _Native] = {}
        """By the id of the connection. Where there is none, by generation and listener: a component
        may choose any text as an id."""
        self._count = 0

    def serve(self, server: Server, id_: str) -> None:
        """The agent may use this server from now on, which it calls `id_`."""
        self._servers.setdefault(id_, []).append(server)

    def forget(self, server: Server) -> None:
        """The agent's session with this server is over."""
        for id_, servers in list(self._servers.items()):
            if server in servers:
                servers.remove(server)
                if not servers:
                    del self._servers[id_]
        kept = {key: one for key, one in self._clients.items() if one.client.server is not server}
        self._clients = kept

    def request(self, id_: bytes, method: str, params: bytes | None) -> bool:
        """A request of the agent; False if it is not about a server of ours."""
        message = unwrap(params)
        if method in CONNECTS:
            return self._connect(id_, method, message)
        native = self._addressee(method, message)
        if native is None:
            return False
        client, connection = native
        if method in DISCONNECTS:
            self._disconnected(native)
            self._agent.respond(id_, b"result", EMPTY)
        elif message.method is None:
            error = error_object(INVALID_PARAMS, f"`{method}` holds no message of MCP")
            self._agent.respond(id_, b"error", error)
        else:
            generation = connection.generation
            client.server.ladder.prefer(generation)
            connection.received(id_, message)
            acp_params = params if generation.stateless else None
            client.received(
                Request(id_, message.method, message.params, message.request_id, acp_params)
            )
        return True

    def notification(self, method: str, params: bytes | None) -> bool:
        """A notification of the agent; False if it is not about a server of ours."""
        message = unwrap(params)
        native = self._addressee(method, message)
        if native is None:
            return False
        client, connection = native
        if method in DISCONNECTS:
            self._disconnected(native)
        elif message.method == protocol.CANCELLED and connection.generation.nested:
            # The notification names the request by the id inside; ACP wants a response
            # nevertheless.
            acp_id = connection.acp_id(read(message.params).get("requestId"))
            if acp_id is not None:
                client.received(Cancellation(acp_id))
        elif message.method is not None:
            client.received(Notification(message.method, message.params))
        return True

    def cancel(self, key: bytes) -> bool:
        """`$/cancel_request` of the agent; False if the request is not for a server of ours."""
        for client, connection in self._clients.values():
            if connection.is_pending(key):
                client.received(Cancellation(key))
                return True
        return False

    def _disconnected(self, native: _Native) -> None:
        self._clients = {key: one for key, one in self._clients.items() if one is not native}
        native.client.closed()
        native.connection.ended()

    def _connect(self, id_: bytes, method: str, message: McpMessage) -> bool:
        server = self._server(message)
        if server is None:
            return False
        if self._all.count(server) >= limits.NATIVE_CLIENTS:
            error = server.refusal(f"{limits.NATIVE_CLIENTS} connections are open")
            self._agent.respond(id_, b"error", error)
            return True
        same = next((rung for rung in server.ladder.rungs if rung.connect == method), None)
        connection = NativeConnection(self._agent, CONNECTS[method], server)
        client = self._apps.open(server, connection, same)

        def opened(member: bytes, body: bytes) -> None:
            self._opened(id_, _Native(client, connection), member, body)

        if same is None or same.needs_session_id:
            opened(b"result", NULL)
        else:
            # The component may speak the agent's generation. Then it must get the agent's own
            # messages, `connect` included.
            client.connect(same, opened)
        return True

    def _opened(self, id_: bytes, native: _Native, member: bytes, body: bytes) -> None:
        client, connection = native
        if member == b"error":
            client.closed()
            self._agent.respond(id_, member, body)
            return
        self._count += 1
        # The component's id, as if the agent had connected to it directly; unless another
        # component has chosen the same.
        name = text(body)
        if not name or name in self._clients:
            name = f"conductor-{client.server.listener}-{self._count}"
        connection.opened(name)
        self._clients[name] = native
        field = connection.generation.disconnect_fields[0][0]
        self._agent.respond(id_, member, write({field: name}))

    def _server(self, message: McpMessage) -> Server | None:
        servers = self._servers.get(message.server or "")
        return servers[-1] if servers else None

    def _addressee(self, method: str, message: McpMessage) -> _Native | None:
        if message.connection is not None:
            native = self._clients.get(text(message.connection) or "")
            if native is not None and method in _CONNECTED:
                native.connection.generation = _CONNECTED[method]
            return native
        server = self._server(message)
        if server is None:
            return None
        generation = _CONNECTIONLESS.get(method, STATELESS)
        key = generation.name, server.listener
        if key not in self._clients:
            connection = NativeConnection(self._agent, generation, server)
            client = self._apps.open(server, connection, generation)
            self._clients[key] = _Native(client, connection)
        return self._clients[key]
