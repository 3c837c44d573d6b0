"""`initialize`: the first message of a client, which gives it a chain of its own."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core.json_text import decode, encode, read_members, text_of, write_members
from conductor.core.jsonrpc import INVALID_REQUEST
from conductor.core.roles.initialize_params import version_of
from conductor.serve.hub.effects import CloseChain, OpenChain
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import inner
from conductor.serve.hub.state import Asked, Chain, Client

_ONCE: Final = "this connection is initialized; open another one to initialize again"
_MARK: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
_VISITS: Final = (
    "this client only attaches to live sessions",
    "leave out `_meta.conductor.attaches` of `initialize` to open sessions",
)


class Handshake:
    """The part of a hub that opens chains.

    Args:
        floor: the hub's state.
        shares: whether a client joins a running chain that fits.
    """

    def __init__(self, floor: Floor, shares: bool) -> None:
        self._floor = floor
        self._shares = shares
        self._opened = 0

    def initialize(self, asked: Asked, client: Client) -> None:
        """A client begins."""
        if client.chain is not None or client.visits:
            return self._floor.refuse(asked, INVALID_REQUEST, _ONCE)
        members = inner(asked.params)
        client.info = {}
        client.introduced(members.get("clientInfo", members.get("info")))
        attaches = inner(asked.params, "_meta", "conductor").get("attaches", Raw(b"false"))
        if bytes(attaches) not in (b"false", b"null"):
            return self._visit(asked, client, version_of(members), text_of(attaches))
        names = ("protocolVersion", "clientCapabilities", "capabilities")
        key = b"\n".join(_same(members.get(name, _MARK)) for name in names)
        client.ready = False
        chain = self._running(client.named, key) if self._shares else None
        if chain is None:
            self._opened += 1
            chain = Chain(f"chain-{self._opened}", named=client.named, key=key)
            self._floor.chains[chain.name] = chain
            self._floor.out.append(OpenChain(chain.name, client.name))
            self._floor.forward(asked, chain)
        elif chain.ready:
            self._ready(client, chain)
            self._floor.finish(asked, b"result", chain.result)
        else:
            chain.waiting.append(asked)
        client.chain = chain
        chain.clients[client] = None
        return None

    def _visit(self, asked: Asked, client: Client, version: int | None, id_: str) -> None:
        """A client that only attaches needs no chain: the hub answers it. The client may name a
        session: then it speaks that session's version, and so do all before it."""
        session = self._floor.find(client, id_) if id_ else None
        most = 2 if session is None else session.chain.version
        client.version = min(2 if version == 2 else 1, most)
        client.ready = client.visits = True
        client.ended = _VISITS
        can: dict[str, object] = {"attach": {}, "list": {}}
        if client.version == 2:
            shown: dict[str, object] = {"capabilities": {"session": can}}
        else:
            shown = {"agentCapabilities": {"loadSession": True, "sessionCapabilities": can}}
        result = {"protocolVersion": client.version, **shown, "authMethods": []}
        self._floor.finish(asked, b"result", encode(result))

    def _running(self, named: str, key: bytes) -> Chain | None:
        for chain in self._floor.chains.values():
            if chain.named == named and chain.key == key:
                return chain
        return None

    def answered(self, asked: Asked, chain: Chain, member: bytes, body: Raw) -> None:
        """A chain has answered `initialize`."""
        waiting, chain.waiting = [asked, *chain.waiting], []
        if member == b"error":
            failed, chain.clients = [*chain.clients], {}
            del self._floor.chains[chain.name]
            for one in waiting:
                self._floor.finish(one, member, body)
            for client in failed:
                client.chain = None
                self._floor.refuse_held(client, body)
            self._floor.out.append(CloseChain(chain.name))
            return
        self._read(chain, body)
        for client in chain.clients:
            self._ready(client, chain)
        for one in waiting:
            self._floor.finish(one, member, chain.result)

    def _ready(self, client: Client, chain: Chain) -> None:
        client.ready, client.version = True, chain.version
        self._floor.opened.append(client)

    @staticmethod
    def _read(chain: Chain, body: Raw) -> None:
        """Notes the capabilities of a chain, and adds the hub's: `session/attach`."""
        chain.ready, chain.result = True, bytes(body)
        members = read_members(body)
        if members is None:
            return
        chain.version = version_of(members) or 1
        outside, within = (
            ("capabilities", "session")
            if chain.version >= 2
            else ("agentCapabilities", "sessionCapabilities")
        )
        session = inner(body, outside, within)
        chain.closes = chain.version >= 2 or session.get("close", _NULL) != _NULL
        changed = {**inner(body, outside), within: write_members({**session, "attach": _MARK})}
        chain.result = bytes(write_members({**members, outside: write_members(changed)}))


def _same(raw: Raw) -> bytes:
    """A JSON text in one spelling, for a comparison."""
    try:
        return encode(decode(raw), order="sorted")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(raw)
