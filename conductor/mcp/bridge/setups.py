"""Sessions that declare servers: each gets its address, before the agent hears of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge import declarations
from conductor.mcp.bridge.capabilities import Support
from conductor.mcp.bridge.declarations import Declaration, Entry, Place, StdioDeclaration
from conductor.mcp.bridge.effects import CloseListener, Effect, Listen, Note, ToAgent, Wait
from conductor.mcp.bridge.json import NULL, bytes_of, read
from conductor.mcp.bridge.line import Line
from conductor.mcp.bridge.native import Native
from conductor.mcp.bridge.servers import Server, Setup

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


class Setups:
    """The setups of one agent's sessions, and their servers."""

    def __init__(
        self,
        support: Support,
        kind: str,
        chain: Line,
        native: Native,
        emit: Callable[[Effect], None],
        closed: Callable[[Setup], None],
    ) -> None:
        """`kind`: of `conductor.mcp.KINDS`; `closed` is told of a setup that is over."""
        self._support = support
        self._kind = kind
        self._chain = chain
        self._native = native
        self._emit = emit
        self._closed = closed
        self.servers: dict[str, Server] = {}
        """By the names of their listeners."""
        self.watched: dict[bytes, Callable[[bytes, bytes], None]] = {}
        """Who wants the agent's answer, by the canonical id of the request."""
        self.native = False
        """Whether the agent was ever given a server of ACP transport."""
        self._numbered: dict[int, Setup] = {}
        self._sessions: dict[bytes, Setup] = {}
        self._preparing: _Preparing | None = None
        self._last = 0

    @property
    def waiting(self) -> bool:
        """Whether one waits for an address."""
        return self._preparing is not None

    def begin(self, id_: bytes, method: str, message: Message) -> bool:
        """A session is set up; False if no server of it is for the bridge."""
        params = bytes_of(message.params)
        found, names = declarations.declared(params or b"null")
        known = read(params).get("sessionId") if method in _KNOWN else None
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
        setup = self._numbered[self._last] = Setup(self._last, session, self._waits)
        preparing = _Preparing(setup, message)
        kind = self._support.kind(self._kind)
        for at, one in enumerate(found):
            name = names.give(one.name)
            if name != one.name:
                self._note("warning", f"MCP server `{one.name}` is called `{name}`: name is taken")
            server = Server(setup, one, f"{self._last}-{at}", name)
            setup.servers.append(server)
            self.servers[server.listener] = server
            if kind == "acp":
                old = self._support.old and not self._support.acp
                preparing.entries[one.place] = Entry(name, declarations.native(one, old=old))
                self._native.serve(server)
                self.native = True
            else:
                preparing.missing.add(server.listener)
                self._emit(Listen(server.listener, kind))
            self._note("info", f"MCP server `{name}` is offered to the agent by {kind}")
        if preparing.missing:
            self._preparing = preparing
        else:
            self._prepared(preparing)
        return True

    def listening(self, listener: str, declaration: Declaration) -> None:
        """The address a `Listen` effect asked for."""
        preparing, server = self._preparing, self.servers.get(listener)
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

    def refused(self, listener: str, text: str) -> None:
        """There can be no such address; `text` says why, and what to do about it."""
        preparing, server = self._preparing, self.servers.get(listener)
        if preparing is not None and server is not None and listener in preparing.missing:
            self._preparing = None
            what = f"{server.label} cannot be offered to the agent: {text}"
            id_ = bytes_of(preparing.message.id) or NULL
            self._chain.answer(id_, b"error", error_object(INTERNAL_ERROR, what))
            self._close(preparing.setup)

    def _prepared(self, preparing: _Preparing) -> None:
        message, setup = preparing.message, preparing.setup
        id_, params = bytes_of(message.id) or NULL, bytes_of(message.params) or NULL
        whole = declarations.rewritten(params, preparing.entries)
        assert isinstance(message.method, str)
        self._emit(ToAgent(jsonrpc.request(id_, message.method, whole)))
        self.watched[canonical_id(id_) or id_] = lambda member, body: self._answered(
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

    def watch_end(self, id_: bytes, params: Raw | UnsetType) -> None:
        """A session is to be ended: when that is done, so are its servers."""
        session = bytes(read(bytes_of(params)).get("sessionId", b""))
        setup = self._sessions.get(session)
        if setup is not None:
            self.watched[canonical_id(id_) or id_] = lambda member, body: (
                self._close(setup) if member == b"result" else None
            )

    def _close(self, setup: Setup) -> None:
        """Nobody uses the servers of a setup any more."""
        self._numbered.pop(setup.number, None)
        if setup.session is not None and self._sessions.get(setup.session) is setup:
            del self._sessions[setup.session]
        for server in setup.servers:
            self.servers.pop(server.listener, None)
            server.close()
            self._native.forget(server)
            if self._support.kind(self._kind) != "acp":
                self._emit(CloseListener(server.listener))
        self._closed(setup)

    def _waits(self, setup: Setup) -> None:
        self._emit(Wait(setup.number, _PATIENCE))

    def expired(self, token: int) -> None:
        """The time of a `Wait` effect is over: whoever waits for a session's id goes on without."""
        setup = self._numbered.get(token)
        if setup is not None and not setup.settled:
            self._note("info", "an MCP connection is opened before the session's id is known")
            setup.settle(None)

    def end(self) -> None:
        """All are over."""
        for setup in list(self._numbered.values()):
            self._close(setup)
        self._preparing = None

    def _note(self, level: str, text: str) -> None:
        self._emit(Note(level, text))
