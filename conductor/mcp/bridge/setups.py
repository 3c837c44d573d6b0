"""Sessions whose setups declare servers: each server gets its address before the agent sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from conductor.core import jsonrpc
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp import limits
from conductor.mcp.bridge import declarations
from conductor.mcp.bridge.capabilities import Support
from conductor.mcp.bridge.clients import Clients
from conductor.mcp.bridge.declarations import Declaration, Declared, Entry, Place
from conductor.mcp.bridge.effects import CloseListener, Effect, Listen, Log, ToAgent, Wait
from conductor.mcp.bridge.endpoints import Endpoint
from conductor.mcp.bridge.json import NULL, bytes_of, read
from conductor.mcp.bridge.native import NativeClients
from conductor.mcp.bridge.offers import Server as Pinnable
from conductor.mcp.bridge.offers import client_server
from conductor.mcp.bridge.outside import Outside
from conductor.mcp.bridge.servers import Server, SessionId

if TYPE_CHECKING:
    from conductor.mcp.bridge.pins import Pinned, Pins

_KNOWN: Final = frozenset({"session/load", "session/resume"})
"""Setups that name their session."""


class _Setup:
    """One `session/new`, `load`, `resume` or `fork`, and the servers declared in it."""

    def __init__(self, number: int, message: Message, session: SessionId) -> None:
        self.number = number
        self.message = message
        self.session = session
        self.servers: list[Server] = []
        self.missing: set[str] = set()
        """Listeners that have no address yet."""
        self.entries: dict[Place, Entry] = {}
        """The entries that the agent finds in place of the declarations."""


class Setups:
    """The setups of one agent's sessions, and their servers."""

    def __init__(
        self,
        support: Support,
        clients: Clients,
        native: NativeClients,
        emit: Callable[[Effect], None],
        pins: Pins | None,
        *,
        reaches: bool,
    ) -> None:
        """`pins`, `reaches`: see `Bridge`."""
        self._reaches = reaches
        self._form = support.form
        self._version = support.version
        self._kind = support.kind
        self._chain = clients.chain
        self._pins = pins
        self._clients = clients
        self._native = native
        self._emit = emit
        self.servers: dict[str, Server] = {}
        """By their listeners."""
        self._requests: dict[bytes, _Setup] = {}
        """Setups that the agent has not answered, by the canonical id of the request."""
        self._endings: dict[bytes, _Setup] = {}
        """Setups whose sessions are being closed, likewise."""
        self.any_native = False
        """Whether the agent was ever given a server of ACP transport."""
        self._numbered: dict[int, _Setup] = {}
        self._sessions: dict[bytes, _Setup] = {}
        """By raw JSON of the session's id."""
        self._preparing: _Setup | None = None
        """The setup that waits for addresses. Nothing may overtake it, so there is only one."""
        self._last = 0

    @property
    def waits(self) -> bool:
        """Whether a setup waits for addresses."""
        return self._preparing is not None

    @property
    def any_pending(self) -> bool:
        """Whether a response of the agent matters."""
        return bool(self._requests or self._endings)

    def begin(self, id_: bytes, method: str, message: Message) -> bool:
        """A session is set up; False if the bridge serves none of its servers."""
        params = bytes_of(message.params) or NULL
        prefix = f"conductor-reached-{self._last + 1}-" if self._reaches else ""
        declared, names = declarations.declared(params, prefix)
        self._tell_not_pinned(sorted(names.taken) if self._reaches else ())
        known = read(params).get("sessionId") if method in _KNOWN else None
        session = bytes(known) if known is not None else None
        # A setup of a known session without servers removes the servers of the setup before.
        if not declared and (session is None or session not in self._sessions):
            return False
        ids = Counter(server.id for server in declared)
        twice = next((id_ for id_, count in ids.items() if count > 1), None)
        if twice is not None:
            reason = f"two MCP servers of one session have the id `{twice}`; ids must be unique"
            self._refuse(id_, error_object(INVALID_PARAMS, reason))
            return True
        self._last += 1
        wait = Wait(self._last, limits.SESSION_ID_SECONDS)
        setup = _Setup(self._last, message, SessionId(session, lambda: self._emit(wait)))
        self._numbered[setup.number] = setup
        for number, entry in enumerate(declared):
            name = names.give(entry.name)
            if name != entry.name:
                self._log("warning", f"MCP server `{entry.name}` is called `{name}`: name is taken")
            listener, pins = f"{setup.number}-{number}", self._pinned(entry)
            chain: Endpoint = self._chain
            if entry.reach is not None:
                chain = Outside(listener, entry.reach, self._emit)
            server = Server(entry, setup.session, listener, name, chain, pins)
            setup.servers.append(server)
            self.servers[server.listener] = server
            self._offer(setup, server)
        if self._pins is not None:
            self._pins.begin(one.pins.server for one in setup.servers if one.pins is not None)
        if setup.missing:
            self._preparing = setup
        else:
            self._prepared(setup)
        return True

    def _tell_not_pinned(self, names: Iterable[str]) -> None:
        for name in names:
            why = "conductor reaches servers of stdio and Streamable HTTP only"
            self._log("warning", f"MCP server `{name}` of the editor is not pinned: {why}")

    def _pinned(self, declared: Declared) -> Pinned | None:
        """The former offer of a server; None: the server is not pinned."""
        if self._pins is None:
            return None
        name = declared.name.encode(errors="backslashreplace").decode()  # it is written down
        if declared.reach is not None:
            server: Pinnable | None = client_server(name, declared.reach)
        else:
            server = self._pins.server_of(declared.id, name)
        return self._pins.pinned(server) if server is not None else None

    def _offer(self, setup: _Setup, server: Server) -> None:
        if self._kind == "acp":
            fields = declarations.native(server.declared, self._form)
            setup.entries[server.declared.place] = Entry(server.name, fields)
            named = self._form == "scp"
            self._native.serve(server, server.name if named else server.declared.id)
            self.any_native = True
        else:
            setup.missing.add(server.listener)
            self._emit(Listen(server.listener, self._kind))
        self._log("info", f"{server.label} is offered to the agent by {self._kind}")

    def listening(self, listener: str, declaration: Declaration) -> None:
        """The address of a listener is there."""
        setup = self._waiting_for(listener)
        if setup is not None:
            setup.missing.discard(listener)
            server = self.servers[listener]
            fields = declarations.reached_by(declaration, self._version)
            setup.entries[server.declared.place] = Entry(server.name, fields)
            if not setup.missing:
                self._preparing = None
                self._prepared(setup)

    def listen_failed(self, listener: str, reason: str) -> None:
        """A listener cannot have an address, so the setup fails."""
        setup = self._waiting_for(listener)
        if setup is not None:
            self._preparing = None
            what = f"{self.servers[listener].label} cannot be offered to the agent: {reason}"
            self._refuse(bytes_of(setup.message.id) or NULL, error_object(INTERNAL_ERROR, what))
            self._close(setup)

    def _waiting_for(self, listener: str) -> _Setup | None:
        """The setup that misses an address; None if it has failed or ended meanwhile."""
        setup = self._preparing
        return setup if setup is not None and listener in setup.missing else None

    def _refuse(self, id_: bytes, error: bytes) -> None:
        self._chain.respond(id_, b"error", error)

    def _prepared(self, setup: _Setup) -> None:
        message = setup.message
        id_, params = bytes_of(message.id) or NULL, bytes_of(message.params) or NULL
        assert isinstance(message.method, str)
        rewritten = declarations.rewritten(params, setup.entries)
        self._emit(ToAgent(jsonrpc.request(id_, message.method, rewritten)))
        self._requests[canonical_id(id_) or id_] = setup

    def end_session(self, id_: bytes, params: bytes | None) -> None:
        """A session is to be closed or deleted: once the agent has done so, its servers end."""
        session = bytes(read(params).get("sessionId", b""))
        setup = self._sessions.get(session)
        if setup is not None:
            self._endings[canonical_id(id_) or id_] = setup

    def is_pending(self, key: bytes) -> bool:
        """Whether the agent's response to the request with this canonical id matters."""
        return key in self._requests or key in self._endings

    def received_response(self, key: bytes, member: bytes, body: bytes) -> None:
        """The agent's response to a pending request."""
        ending = self._endings.pop(key, None)
        if ending is not None:
            if member == b"result":
                self._close(ending)
            return
        setup = self._requests.pop(key)
        if member == b"error":
            self._close(setup)
            return
        known = read(body).get("sessionId")
        session = bytes(known) if known is not None else setup.session.value
        if session is not None:
            before = self._sessions.get(session)
            if before is not None:
                self._close(before)  # the agent has got the session's servers anew
            self._sessions[session] = setup
        setup.session.settle(session)

    def expired(self, token: int) -> None:
        """The time of a `Wait` effect is over: connections open without the session's id."""
        setup = self._numbered.get(token)
        if setup is not None and not setup.session.settled:
            self._log("info", "an MCP connection is opened before the session's id is known")
            setup.session.settle(None)

    def end(self) -> None:
        """Closes everything."""
        for setup in list(self._numbered.values()):
            self._close(setup)
        self._preparing = None

    def _close(self, setup: _Setup) -> None:
        self._numbered.pop(setup.number, None)
        session = setup.session.value
        if session is not None and self._sessions.get(session) is setup:
            del self._sessions[session]
        for server in setup.servers:
            self.servers.pop(server.listener, None)
            self._clients.close(server)
            if isinstance(server.chain, Outside):
                server.chain.close()
            self._native.forget(server)
            if self._kind != "acp":
                self._emit(CloseListener(server.listener))

    def _log(self, level: str, text: str) -> None:
        self._emit(Log(level, text))
