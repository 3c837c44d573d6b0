"""The bridge: between the chain and the agent, and beside it the agent's MCP clients.

    bridge = Bridge(support, nonce="…")
    effects = bridge.down(frame)     # one line on its way to the agent
    effects = bridge.up(frame)       # one line of the agent's, if `bridge.listens`
    effects = bridge.received(connection, frame)   # one line of an MCP client's

No await, clock, randomness or I/O. Nothing here raises, whatever the bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Malformed,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp import declarations
from conductor.mcp.capabilities import Support
from conductor.mcp.clients import Client
from conductor.mcp.consumers import StreamConsumer
from conductor.mcp.declarations import (
    ENDS,
    SETUPS,
    Declaration,
    Entry,
    Place,
    StdioDeclaration,
)
from conductor.mcp.effects import (
    CloseConnection,
    CloseListener,
    Effect,
    Listen,
    Note,
    ToAgent,
    ToChain,
    ToConnection,
    Wait,
)
from conductor.mcp.generations import DISCONNECTS, METHODS, Carried, carried
from conductor.mcp.json import NULL, read
from conductor.mcp.line import Line
from conductor.mcp.native import Native
from conductor.mcp.providers import Call, Provider
from conductor.mcp.servers import Server, Setup

_PATIENCE: Final = 10.0
"""Seconds a connection waits for the session's id where its generation wants that."""


_KNOWN: Final = frozenset({"session/load", "session/resume"})
"""Setups of a session whose id is known beforehand."""


class _Preparing:
    """A setup whose servers get their addresses."""

    def __init__(self, setup: Setup, message: Message) -> None:
        self.setup = setup
        self.message = message
        self.missing: set[str] = set()
        self.entries: dict[Place, Entry] = {}


class Bridge:
    """Serves one agent. `kind`: one of `conductor.mcp.KINDS`; `nonce` makes its ids its own."""

    def __init__(self, support: Support, kind: str = "auto", *, nonce: str) -> None:
        self._support = support
        self._kind = kind
        self._out: list[Effect] = []
        prefix = f"conductor-mcp-{nonce}-"
        self._chain = Line(lambda frame: self._out.append(ToChain(frame)), prefix)
        self._agent = Line(lambda frame: self._out.append(ToAgent(frame)), prefix)
        self._native = Native(self._chain, self._agent, self._note)
        self._setups: dict[int, Setup] = {}
        self._sessions: dict[bytes, Setup] = {}
        self._servers: dict[str, Server] = {}
        self._connections: dict[str, tuple[Client, StreamConsumer]] = {}
        self._watched: dict[bytes, Callable[[bytes, bytes], None]] = {}
        self._asked: dict[bytes, Provider] = {}
        self._preparing: _Preparing | None = None
        self._held: deque[bytes] = deque()
        self._last = 0
        self._takes_native = False

    @property
    def listens(self) -> bool:
        """Whether it has to see what the agent says."""
        return bool(self._watched) or self._takes_native

    @property
    def holds(self) -> bool:
        """Whether everything that goes down must pass it, since it waits for an address."""
        return self._preparing is not None

    def _done(self) -> list[Effect]:
        out, self._out = self._out, []
        return out

    def _note(self, level: str, text: str) -> None:
        self._out.append(Note(level, text))

    # -- from the chain ------------------------------------------------------------------------

    def down(self, frame: bytes) -> list[Effect]:
        """One line on its way to the agent."""
        if self._preparing is not None:
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
            return method in METHODS and self._told(method, carried(_raw(message.params)))
        id_ = bytes(message.id)
        if method in SETUPS:
            return self._set_up(id_, method, message)
        if method in ENDS:
            self._watch_end(id_, message.params)
            return False
        return method in METHODS and self._component_asks(id_, method, message.params)

    def _cancelled(self, params: Raw | UnsetType) -> bool:
        key = canonical_id(read(_raw(params)).get("requestId", b""))
        provider = self._asked.get(key or b"")
        return provider is not None and provider.incoming_cancel(key or b"")

    def _whom(self, said: Carried) -> tuple[Provider | None, Call | None]:
        """Whom of the connected a component's message is for."""
        if said.server is None and said.connection is None:
            return None, None
        for server in self._servers.values():
            if said.server is not None and said.server != server.declared.id:
                continue
            provider, call = server.provider_for(said)
            if provider is not None:
                return provider, call
        return None, None

    def _component_asks(self, id_: bytes, method: str, params: Raw | UnsetType) -> bool:
        said = carried(_raw(params))
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

    def _set_up(self, id_: bytes, method: str, message: Message) -> bool:
        params = _raw(message.params)
        found, names = declarations.declared(params or b"null")
        known = (
            read(params).get("sessionId") if method in ("session/load", "session/resume") else None
        )
        session = bytes(known) if known is not None else None
        if not found and (session is None or session not in self._sessions):
            return False
        ids = [one.id for one in found]
        twice = next((one for one in ids if ids.count(one) > 1), None)
        if twice is not None:
            text = f"two MCP servers of one session have the id `{twice}`; ids must be unique"
            self._chain.answer(id_, b"error", error_object(INVALID_PARAMS, text))
            return True
        self._last += 1
        setup = self._setups[self._last] = Setup(self._last, session, self._waits)
        preparing = _Preparing(setup, message)
        kind = self._support.kind(self._kind)
        for at, one in enumerate(found):
            name = names.give(one.name)
            if name != one.name:
                self._note("warning", f"MCP server `{one.name}` is called `{name}`: name is taken")
            server = Server(setup, one, f"{self._last}-{at}", name)
            setup.servers.append(server)
            self._servers[server.listener] = server
            if kind == "acp":
                old = self._support.old and not self._support.acp
                preparing.entries[one.place] = Entry(name, declarations.native(one, old=old))
                self._native.serve(server)
                self._takes_native = True
            else:
                preparing.missing.add(server.listener)
                self._out.append(Listen(server.listener, kind))
            self._note("info", f"MCP server `{name}` is offered to the agent by {kind}")
        if preparing.missing:
            self._preparing = preparing
        else:
            self._prepared(preparing)
        return True

    def listening(self, listener: str, declaration: Declaration) -> list[Effect]:
        """The address a `Listen` effect asked for."""
        preparing, server = self._preparing, self._servers.get(listener)
        if preparing is not None and server is not None and listener in preparing.missing:
            preparing.missing.discard(listener)
            if isinstance(declaration, StdioDeclaration):
                fields = declarations.stdio(declaration, self._support.version)
            else:
                fields = declarations.http(declaration)
            preparing.entries[server.declared.place] = Entry(server.name, fields)
            if not preparing.missing:
                self._preparing = None
                self._prepared(preparing)
                self._release()
        return self._done()

    def refused(self, listener: str, text: str) -> list[Effect]:
        """There can be no such address; `text` says why, and what to do about it."""
        preparing, server = self._preparing, self._servers.get(listener)
        if preparing is not None and server is not None and listener in preparing.missing:
            self._preparing = None
            what = f"{server.label} cannot be offered to the agent: {text}"
            id_ = _raw(preparing.message.id) or NULL
            self._chain.answer(id_, b"error", error_object(INTERNAL_ERROR, what))
            self._close(preparing.setup)
            self._release()
        return self._done()

    def _release(self) -> None:
        """What came down meanwhile goes on, in order."""
        while self._held and self._preparing is None:
            self._down(self._held.popleft())

    def _prepared(self, preparing: _Preparing) -> None:
        message, setup = preparing.message, preparing.setup
        id_, params = _raw(message.id) or NULL, _raw(message.params) or NULL
        whole = declarations.rewritten(params, preparing.entries)
        assert isinstance(message.method, str)
        self._out.append(ToAgent(jsonrpc.request(id_, message.method, whole)))
        self._watched[canonical_id(id_) or id_] = lambda member, body: self._answered(
            setup, member, body
        )

    def _answered(self, setup: Setup, member: bytes, body: bytes) -> None:
        """The agent has set up the session, or not."""
        if member == b"error":
            self._close(setup)
            return
        known = read(body).get("sessionId")
        session = bytes(known) if known is not None else setup.session
        if session is not None:
            before = self._sessions.get(session)
            if before is not None:
                self._close(before)  # the agent has its servers anew
            self._sessions[session] = setup
        setup.settle(session)

    def _watch_end(self, id_: bytes, params: Raw | UnsetType) -> None:
        session = bytes(read(_raw(params)).get("sessionId", b""))
        setup = self._sessions.get(session)
        if setup is not None:
            self._watched[canonical_id(id_) or id_] = lambda member, body: (
                self._close(setup) if member == b"result" else None
            )

    def _close(self, setup: Setup) -> None:
        """Nobody uses the servers of a setup any more."""
        self._setups.pop(setup.number, None)
        if setup.session is not None and self._sessions.get(setup.session) is setup:
            del self._sessions[setup.session]
        for server in setup.servers:
            self._servers.pop(server.listener, None)
            server.close()
            self._native.forget(server)
            if self._support.kind(self._kind) != "acp":
                self._out.append(CloseListener(server.listener))
        for name, (client, _) in list(self._connections.items()):
            if client.server.setup is setup:
                del self._connections[name]

    def _waits(self, setup: Setup) -> None:
        self._out.append(Wait(setup.number, _PATIENCE))

    def expired(self, token: int) -> list[Effect]:
        """The time of a `Wait` effect is over: whoever waits for a session's id goes on without."""
        setup = self._setups.get(token)
        if setup is not None and not setup.settled:
            self._note("info", "an MCP connection is opened before the session's id is known")
            setup.settle(None)
        return self._done()

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
            watcher = self._watched.pop(canonical_id(_raw(message.id) or b"") or b"", None)
            if watcher is None:
                return False
            # First the answer: components have seen the session when they are connected to.
            self._out.append(ToChain(frame))
            error = _raw(message.error)
            if error is not None and error != NULL:
                watcher(b"error", error)
            else:
                watcher(b"result", _raw(message.result) or NULL)
            return True
        if not self._takes_native:
            return False
        if method == CANCEL:
            key = canonical_id(read(_raw(message.params)).get("requestId", b""))
            return key is not None and self._native.cancel(key)
        if method not in METHODS:
            return False
        id_, params = _raw(message.id), _raw(message.params)
        if id_ is None:
            return self._native.notification(method, params)
        return self._native.request(id_, method, params)

    # -- from the agent's MCP clients -------------------------------------------------------------

    def opened(self, connection: str, listener: str) -> list[Effect]:
        """A client has come in."""
        server = self._servers.get(listener)
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
        method, id_, params = message.method, _raw(message.id), _raw(message.params)
        if params == NULL:
            params = None
        if isinstance(method, str):
            if id_ is None:
                client.notification(method, params)
            else:
                client.request(id_, method, params)
        elif id_ is not None:
            error = _raw(message.error)
            if error is not None:
                consumer.answered(id_, b"error", error)
            else:
                consumer.answered(id_, b"result", _raw(message.result) or NULL)

    def closed(self, connection: str) -> list[Effect]:
        """It is gone."""
        found = self._connections.pop(connection, None)
        if found is not None:
            found[0].closed()
        return self._done()

    # -- the end ---------------------------------------------------------------------------------

    def end(self) -> list[Effect]:
        """The agent is gone or the chain ends: every connection is closed, components are told."""
        for setup in list(self._setups.values()):
            self._close(setup)
        self._held.clear()
        self._preparing = None
        return self._done()


def _parse(frame: bytes) -> Message | None:
    """The message of a line; None for what the router has to judge."""
    try:
        message = jsonrpc.parse(frame)
    except Malformed:
        return None
    return message if isinstance(message, Message) else None


def _raw(raw: Raw | UnsetType) -> bytes | None:
    return None if raw is UNSET or isinstance(raw, UnsetType) else bytes(raw)
