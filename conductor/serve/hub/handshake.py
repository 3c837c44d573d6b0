"""`initialize`: the first message of a connection, which gives it a chain of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text
from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.serve.hub.effects import CloseChain, OpenChain
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import encode, inner, same, text_of
from conductor.serve.hub.state import Call, Chain, Connection, Phase

_ONCE: Final = "this connection is initialized; open another one to initialize again"
_MARK: Final = Raw(b"{}")
_VISITS: Final = (
    "this client only attaches to live sessions",
    "leave out `_meta.conductor.attaches` of `initialize` to open sessions",
)


class Handshake:
    """The part of a hub that opens chains.

    Args:
        floor: the hub's state.
        shares: whether a connection joins a running chain that fits.
        new_chain: names a chain, for a connection.
    """

    def __init__(self, floor: Floor, shares: bool, new_chain: Callable[[str], str]) -> None:
        self._floor = floor
        self._shares = shares
        self._new_chain = new_chain

    def initialize(self, call: Call) -> None:
        """A client begins."""
        connection = call.connection
        assert connection is not None
        if connection.phase is Phase.OPENING or connection.chain is not None or connection.visits:
            return self._floor.refuse(call, INVALID_REQUEST, _ONCE)
        members = read_members(call.params) or {}
        info = read_members(members.get("clientInfo", members.get("info"))) or {}
        given = {name: text_of(info.get(name)) for name in ("name", "version")}
        connection.info = {name: text[:200] for name, text in given.items() if text}
        if bytes(inner(members, "_meta", "conductor").get("attaches", b"")) == b"true":
            return self._visit(call, connection, members)
        names = ("protocolVersion", "clientCapabilities", "capabilities")
        key = b"\n".join(same(members.get(name)) for name in names)
        connection.phase = Phase.OPENING
        chain = self._running(connection.named, key) if self._shares else None
        if chain is None:
            chain = Chain(self._new_chain(connection.name), connection.named, key)
            self._floor.chains[chain.name] = chain
            self._floor.out.append(OpenChain(chain.name, connection.name))
            self._floor.forward(call, chain)
        elif chain.phase is Phase.READY:
            self._ready(connection, chain)
            self._floor.finish(call, b"result", chain.result)
        else:
            chain.waiting.append(call)
        connection.chain = chain
        chain.connections[connection] = None
        return None

    def _visit(self, call: Call, connection: Connection, members: dict[str, Raw]) -> None:
        """A client that only attaches needs no chain: the hub answers it."""
        asked = members.get("protocolVersion", b"1")
        connection.version = 2 if bytes(asked) == b"2" else 1
        connection.phase, connection.visits = Phase.READY, True
        connection.ended = _VISITS
        can: dict[str, object] = {"attach": {}, "list": {}}
        if connection.version >= 2:
            shown: dict[str, object] = {"capabilities": {"session": can}}
        else:
            shown = {"agentCapabilities": {"loadSession": True, "sessionCapabilities": can}}
        result = {"protocolVersion": connection.version, **shown, "authMethods": []}
        self._floor.finish(call, b"result", encode(result))

    def _running(self, named: str, key: bytes) -> Chain | None:
        for chain in self._floor.chains.values():
            if chain.named == named and chain.key == key:
                return chain
        return None

    def answered(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        """A chain has answered `initialize`."""
        calls, chain.waiting = [call, *chain.waiting], []
        if member == b"error":
            failed = list(chain.connections)
            for one in failed:
                one.chain, one.phase = None, Phase.NEW
            chain.connections.clear()
            del self._floor.chains[chain.name]
            for waiting in calls:
                self._floor.finish(waiting, member, body)
            for one in failed:
                self._floor.refuse_held(one, body)
            self._floor.out.append(CloseChain(chain.name))
            return
        self._read(chain, body)
        for connection in chain.connections:
            self._ready(connection, chain)
        for waiting in calls:
            self._floor.finish(waiting, member, chain.result)

    def _ready(self, connection: Connection, chain: Chain) -> None:
        connection.phase, connection.version = Phase.READY, chain.version
        self._floor.opened.append(connection)

    @staticmethod
    def _read(chain: Chain, body: Raw) -> None:
        """Notes what a chain can do, and adds to it what the hub can: `session/attach`."""
        chain.phase, chain.result = Phase.READY, bytes(body)
        members = read_members(body)
        if members is None:
            return
        try:
            chain.version = json_text.decode(members.get("protocolVersion", b"1"), type=int)
        except msgspec.DecodeError:
            chain.version = 1
        outside, within = (
            ("capabilities", "session")
            if chain.version >= 2
            else ("agentCapabilities", "sessionCapabilities")
        )
        all_ = inner(members, outside)
        session = inner(all_, within)
        chain.closes = chain.version >= 2 or session.get("close", b"null") != b"null"
        shown = {**session, "attach": _MARK}
        changed = {**all_, within: write_members(shown)}
        chain.result = bytes(write_members({**members, outside: write_members(changed)}))
