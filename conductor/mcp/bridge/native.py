"""Agents that take servers of ACP transport: their messages of MCP, in whatever generation."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import Raw

from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge import generations, limits
from conductor.mcp.bridge.adapters import Request
from conductor.mcp.bridge.clients import Client
from conductor.mcp.bridge.generations import (
    CONNECTS,
    PACP,
    SACP,
    SDK_0,
    SDK_2,
    STATELESS,
    Carried,
    Generation,
    carried,
    enclose,
    message,
    outcome,
)
from conductor.mcp.bridge.json import EMPTY, NULL, read, text, write
from conductor.mcp.bridge.line import Line, OnAnswer
from conductor.mcp.bridge.revisions import CANCELLED
from conductor.mcp.bridge.servers import Server

_SPOKEN: Final = {
    "mcp/message": SDK_2,
    "_mcp/message": SDK_0,
    "_mcp/request": SACP,
    "_mcp/notification": SACP,
}
"""The generation of an agent with connections, by what it sends."""

_CONNECTIONLESS: Final = {
    "_mcp/client_to_server/request": PACP,
    "_mcp/client_to_server/notification": PACP,
}


class NativeConsumer:
    """One connection of such an agent, or all it says to a server where it has none."""

    def __init__(self, line: Line, generation: Generation, server: Server, connection: str) -> None:
        self._line = line
        self.generation = generation
        declared = server.declared
        self._values: dict[str, object] = {
            "id": declared.id,
            "url": declared.url,
            "name": declared.name,
        }
        self.join(connection)
        self._open: dict[bytes, Carried] = {}
        """What the agent has asked: by the id of ACP."""

    def join(self, connection: str) -> None:
        """The connection is called this; nothing, before it is open."""
        self.connection = self._values["connection"] = connection

    def note(self, id_: bytes, asked: Carried) -> None:
        """The agent asks something."""
        self._open[id_] = asked

    def has(self, key: bytes) -> bytes | None:
        """The id of a request that is open, as the agent wrote it, by its canonical spelling."""
        return next((id_ for id_ in self._open if canonical_id(id_) == key), None)

    def outer(self, inner: Raw | None) -> bytes | None:
        """The id of ACP of the request that has this id inside."""
        wanted = bytes(inner) if inner is not None else b""
        return next((id_ for id_, one in self._open.items() if one.inner_id == wanted), None)

    def answer(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the agent."""
        asked = self._open.pop(id_, None)
        inner_id = asked.inner_id if asked is not None else None
        self._line.answer(id_, *enclose(self.generation, inner_id, member, body))

    def give_up(self, id_: bytes) -> None:
        """ACP wants an answer even to what was cancelled."""
        self._open.pop(id_, None)
        self._line.answer(id_, b"error", error_object(-32800, "the request was cancelled"))

    def ask(
        self, method: str, params: bytes | None, on_answer: OnAnswer, related: bytes | None
    ) -> bytes | None:
        """Asks the agent something, if its generation has a way to."""
        generation = self.generation
        if generation.back_request is None:
            what = f"`{method}`: the agent's generation of MCP over ACP takes no requests"
            on_answer(b"error", error_object(METHOD_NOT_FOUND, what))
            return None
        whole = message(generation, self._values, method, params, 1 if generation.nested else None)
        return self._line.ask(
            generation.back_request,
            whole,
            lambda member, body: on_answer(*outcome(generation, member, body)),
        )

    def tell(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Sends the agent a notification; of stateless MCP each belongs to a request."""
        request_id = None
        if self.generation.numbered:
            asked = self._open.get(related) if related is not None else None
            if asked is None:
                return
            request_id = asked.request_id
        whole = message(self.generation, self._values, method, params)
        if request_id is not None:
            whole = write({**read(whole), "requestId": request_id})
        self._line.tell(self.generation.back_notification, whole)

    def drop(self) -> None:
        """Tells the agent that the connection is closed."""
        if self.generation.disconnect is None or not self.connection:
            return
        params = write(generations.fill(self.generation.disconnect_with, self._values))
        if self.generation.disconnect_asks:
            self._line.ask(self.generation.disconnect, params, lambda member, body: None)
        else:
            self._line.tell(self.generation.disconnect, params)


class Native:
    """Takes what an agent says of the servers it was given."""

    def __init__(self, up: Line, down: Line, emit: Callable[[str, str], None]) -> None:
        """`up` leads to the components, `down` to the agent; `emit` notes something."""
        self._up = up
        self._down = down
        self._note = emit
        self._servers: dict[str, Server] = {}
        self._clients: dict[str, tuple[Client, NativeConsumer]] = {}
        self._count = 0

    def serve(self, server: Server) -> None:
        """From now on the agent may use this server."""
        self._servers[server.declared.id] = server

    def forget(self, server: Server) -> None:
        """The agent's session with this server is over."""
        if self._servers.get(server.declared.id) is server:
            del self._servers[server.declared.id]
        for key, (client, _) in list(self._clients.items()):
            if client.server is server:
                del self._clients[key]

    def request(self, id_: bytes, method: str, params: bytes | None) -> bool:
        """A request of the agent; whether it was one about a server of ours."""
        asked = carried(params)
        if method in CONNECTS:
            return self._connect(id_, method, asked)
        found = self._find(method, asked)
        if found is None:
            return False
        client, consumer = found
        if method in generations.DISCONNECTS:
            self._clients.pop(consumer.connection, None)
            client.closed()
            self._down.answer(id_, b"result", EMPTY)
            return True
        if asked.method is None:
            error = error_object(INVALID_PARAMS, f"`{method}` holds no message of MCP")
            self._down.answer(id_, b"error", error)
            return True
        client.server.prefer(consumer.generation)
        consumer.note(id_, asked)
        same = consumer.generation.numbered
        raw = params if same else None
        client.request(Request(id_, asked.method, asked.params, asked.request_id, raw))
        return True

    def notification(self, method: str, params: bytes | None) -> bool:
        """A notification of the agent; whether it was one about a server of ours."""
        told = carried(params)
        found = self._find(method, told)
        if found is None:
            return False
        client, consumer = found
        if method in generations.DISCONNECTS:
            self._clients.pop(consumer.connection, None)
            client.closed()
        elif told.method == CANCELLED and consumer.generation.nested:
            outer = consumer.outer(read(told.params).get("requestId"))
            if outer is not None:
                client.cancel(outer)
        elif told.method is not None:
            client.notification(told.method, told.params)
        return True

    def cancel(self, key: bytes) -> bool:
        """`$/cancel_request` of the agent; whether it is for a request that was taken here."""
        for client, consumer in self._clients.values():
            if consumer.has(key) is not None:
                client.cancel(key)
                return True
        return False

    def _connect(self, id_: bytes, method: str, asked: Carried) -> bool:
        server = self._servers.get(asked.server or "")
        if server is None:
            return False
        if len(server.clients) >= limits.CLIENTS:
            error = limits.refusal(server.label, f"{limits.CLIENTS} connections are open")
            self._down.answer(id_, b"error", error)
            return True
        consumer = NativeConsumer(self._down, CONNECTS[method], server, "")
        same = next((one for one in server.ladder if one.connect == method), None)
        client = Client(server, self._up, consumer, same)
        opened = partial(self._opened, id_, client, consumer)
        if same is None or same.waits:
            opened(b"result", NULL)
        else:  # the component may speak as the agent does: so it is asked what the agent asks
            client.open(same, opened)
        return True

    def _opened(
        self, id_: bytes, client: Client, consumer: NativeConsumer, member: bytes, body: bytes
    ) -> None:
        """The agent is connected, under the component's id where that tells it from others."""
        if member == b"error":
            client.closed()
            self._down.answer(id_, member, body)
            return
        self._count += 1
        connection = text(Raw(body))
        if not connection or connection in self._clients:
            connection = f"conductor-{client.server.listener}-{self._count}"
        consumer.join(connection)
        self._clients[connection] = client, consumer
        name = consumer.generation.disconnect_with[0][0]
        self._down.answer(id_, member, write({name: connection}))

    def _find(self, method: str, said: Carried) -> tuple[Client, NativeConsumer] | None:
        if said.connection is not None:
            found = self._clients.get(text(said.connection) or "")
            if found is not None and method in _SPOKEN:
                found[1].generation = _SPOKEN[method]
            return found
        server = self._servers.get(said.server or "")
        if server is None:
            return None
        generation = _CONNECTIONLESS.get(method, STATELESS)
        key = f"{generation.name} {server.listener}"
        if key not in self._clients:
            consumer = NativeConsumer(self._down, generation, server, key)
            self._clients[key] = Client(server, self._up, consumer, generation), consumer
        return self._clients[key]
