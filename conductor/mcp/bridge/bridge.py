"""The bridge: between the chain and the agent, and beside it the agent's MCP clients.

    bridge = Bridge(support, nonce="…")
    effects = bridge.down(frame)     # one line on its way to the agent
    effects = bridge.up(frame)       # one line of the agent's, if `bridge.listens`
    effects = bridge.received(connection, frame)   # one line of an MCP client's

No await, clock, randomness or I/O. Nothing here raises, whatever the bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from msgspec import Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import (
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge.adapters import Request
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.capabilities import Support
from conductor.mcp.bridge.clients import Client
from conductor.mcp.bridge.consumers import StreamConsumer
from conductor.mcp.bridge.declarations import (
    ENDS,
    SETUPS,
    Declaration,
)
from conductor.mcp.bridge.effects import (
    CloseConnection,
    Effect,
    Note,
    ToAgent,
    ToChain,
    ToConnection,
)
from conductor.mcp.bridge.generations import DISCONNECTS, METHODS, Carried, carried
from conductor.mcp.bridge.json import NULL, bytes_of, read
from conductor.mcp.bridge.line import Line
from conductor.mcp.bridge.native import Native
from conductor.mcp.bridge.providers import Provider
from conductor.mcp.bridge.servers import Server, Setup
from conductor.mcp.bridge.setups import Setups


class Bridge:
    """Serves one agent. `kind`: one of `conductor.mcp.KINDS`; `nonce` makes its ids its own."""

    def __init__(self, support: Support, kind: str = "auto", *, nonce: str) -> None:
        self._out: list[Effect] = []
        prefix = f"conductor-mcp-{nonce}-"
        self._chain = Line(lambda frame: self._out.append(ToChain(frame)), prefix)
        self._agent = Line(lambda frame: self._out.append(ToAgent(frame)), prefix)
        self._native = Native(self._chain, self._agent, self._note)
        self._setups = Setups(support, kind, self._chain, self._native, self._emit, self._forget)
        self._connections: dict[str, tuple[Client, StreamConsumer]] = {}
        self._asked: dict[bytes, Provider] = {}
        self._held: deque[bytes] = deque()

    @property
    def listens(self) -> bool:
        """Whether it has to see what the agent says."""
        return bool(self._setups.watched) or self._setups.native

    @property
    def holds(self) -> bool:
        """Whether everything that goes down must pass it, since it waits for an address."""
        return self._setups.waiting

    @property
    def servers(self) -> Mapping[str, Server]:
        """What the agent is offered now, by the names of listeners."""
        return self._setups.servers

    def _done(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def _note(self, level: str, text: str) -> None:
        self._out.append(Note(level, text))

    # -- from the chain ------------------------------------------------------------------------

    def down(self, frame: bytes) -> list[Effect]:
        """One line on its way to the agent."""
        if self._setups.waiting:
            self._held.append(frame)
        else:
            self._down(frame)
        return self._done()

    def _down(self, frame: bytes) -> None:
        message = _parse(frame)
        if message is None or not self._takes(message):
            self._out.append(ToAgent(frame))

    def _takes(self, message: Message) -> bool:
        """Whether a message of the chain is for the bridge, and not to go on as it is."""
        method = message.method
        if isinstance(method, UnsetType):
            return self._chain.take(message)
        if isinstance(message.id, UnsetType):
            if method == CANCEL:
                return self._cancelled(message.params)
            return method in METHODS and self._told(method, carried(bytes_of(message.params)))
        id_ = bytes(message.id)
        if method in SETUPS:
            return self._setups.begin(id_, method, message)
        if method in ENDS:
            self._setups.watch_end(id_, message.params)
            return False
        return method in METHODS and self._component_asks(id_, method, message.params)

    def _cancelled(self, params: Raw | UnsetType) -> bool:
        key = canonical_id(read(bytes_of(params)).get("requestId", b""))
        provider = self._asked.get(key or b"")
        return provider is not None and provider.incoming_cancel(key or b"")

    def _whom(self, said: Carried) -> tuple[Provider | None, Call | None]:
        """Whom of the connected a component's message is for."""
        if said.server is None and said.connection is None:
            return None, None
        for server in self.servers.values():
            if said.server is not None and said.server != server.declared.id:
                continue
            provider, call = server.provider_for(said)
            if provider is not None:
                return provider, call
        return None, None

    def _component_asks(self, id_: bytes, method: str, params: Raw | UnsetType) -> bool:
        said = carried(bytes_of(params))
        provider, call = self._whom(said)
        if provider is None:
            text = f"`{method}`: no MCP client of the agent is connected there"
            self._chain.answer(id_, b"error", error_object(METHOD_NOT_FOUND, text))
        elif method in DISCONNECTS:
            self._chain.answer(id_, b"result", b"{}")
            provider.disconnected()
        else:
            key = canonical_id(id_) or id_
            self._asked = {k: one for k, one in self._asked.items() if one.waits_for(k)}
            self._asked[key] = provider
            provider.incoming_request(id_, said, call)
        return True

    def _told(self, method: str, said: Carried) -> bool:
        provider, call = self._whom(said)
        if provider is None:
            self._note("debug", f"`{method}` dropped: nobody is connected there")
        elif method in DISCONNECTS:
            provider.disconnected()
        else:
            provider.incoming_notification(said, call)
        return True

    # -- setups --------------------------------------------------------------------------------

    def listening(self, listener: str, declaration: Declaration) -> list[Effect]:
        """The address a `Listen` effect asked for."""
        self._setups.listening(listener, declaration)
        return self._released()

    def refused(self, listener: str, text: str) -> list[Effect]:
        """There can be no such address; `text` says why, and what to do about it."""
        self._setups.refused(listener, text)
        return self._released()

    def _released(self) -> list[Effect]:
        """What came down meanwhile goes on, in order."""
        while self._held and not self._setups.waiting:
            self._down(self._held.popleft())
        return self._done()

    def expired(self, token: int) -> list[Effect]:
        """The time of a `Wait` effect is over: whoever waits for a session's id goes on without."""
        self._setups.expired(token)
        return self._done()

    def _forget(self, setup: Setup) -> None:
        for name, (client, _) in list(self._connections.items()):
            if client.server.setup is setup:
                del self._connections[name]

    # -- from the agent ------------------------------------------------------------------------

    def up(self, frame: bytes) -> list[Effect]:
        """One line of the agent's."""
        message = _parse(frame)
        if message is None or not self._agent_says(message, frame):
            self._out.append(ToChain(frame))
        return self._done()

    def _agent_says(self, message: Message, frame: bytes) -> bool:
        """Whether a message of the agent's is not to go on as it is."""
        method = message.method
        if isinstance(method, UnsetType):
            if self._agent.take(message):
                return True
            watcher = self._setups.watched.pop(
                canonical_id(bytes_of(message.id) or b"") or b"", None
            )
            if watcher is None:
                return False
            # First the answer: components have seen the session when they are connected to.
            self._out.append(ToChain(frame))
            error = bytes_of(message.error)
            if error is not None and error != NULL:
                watcher(b"error", error)
            else:
                watcher(b"result", bytes_of(message.result) or NULL)
            return True
        if not self._setups.native:
            return False
        id_, params = bytes_of(message.id), bytes_of(message.params)
        if method == CANCEL and id_ is None:
            key = canonical_id(read(params).get("requestId", b""))
            return key is not None and self._native.cancel(key)
        if method not in METHODS or message.answers:
            return False
        if id_ is None:
            return self._native.notification(method, params)
        return self._native.request(id_, method, params)

    # -- from the agent's MCP clients -------------------------------------------------------------

    def opened(self, connection: str, listener: str) -> list[Effect]:
        """A client has come in."""
        server = self.servers.get(listener)
        if server is None:
            self._out.append(CloseConnection(connection))
        else:
            consumer = StreamConsumer(connection, self._out_later)
            self._connections[connection] = Client(server, self._chain, consumer), consumer
        return self._done()

    def _out_later(self, effect: Effect) -> None:
        if isinstance(effect, CloseConnection):
            self._connections.pop(effect.connection, None)
        self._out.append(effect)

    def received(self, connection: str, frame: bytes) -> list[Effect]:
        """It has sent one line."""
        found = self._connections.get(connection)
        if found is not None:
            try:
                message = jsonrpc.parse(frame)
            except Malformed as error:
                body = error_object(error.code, error.text)
                answer = jsonrpc.answer(error.id or NULL, b"error", body)
                self._out.append(ToConnection(connection, answer[:-1]))
            else:
                entries = message if isinstance(message, list) else [message]
                for entry in entries:
                    one = entry if isinstance(entry, Message) else _parse(bytes(entry))
                    if one is not None:
                        self._client_says(*found, one)
        return self._done()

    def _client_says(self, client: Client, consumer: StreamConsumer, message: Message) -> None:
        method, id_, params = message.method, bytes_of(message.id), bytes_of(message.params)
        if params == NULL:
            params = None
        if isinstance(method, str):
            if id_ is None:
                client.notification(method, params)
            else:
                client.request(Request(id_, method, params))
        elif id_ is not None:
            error = bytes_of(message.error)
            if error is not None:
                consumer.answered(id_, b"error", error)
            else:
                consumer.answered(id_, b"result", bytes_of(message.result) or NULL)

    def closed(self, connection: str) -> list[Effect]:
        """It is gone."""
        found = self._connections.pop(connection, None)
        if found is not None:
            found[0].closed()
        return self._done()

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> list[Effect]:
        """The agent is gone or the chain ends: every connection is closed, components are told."""
        self._setups.end()
        self._held.clear()
        return self._done()


def _parse(frame: bytes) -> Message | None:
    """The message of a line; None for what the router has to judge."""
    try:
        message = jsonrpc.parse(frame)
    except Malformed:
        return None
    return message if isinstance(message, Message) else None
