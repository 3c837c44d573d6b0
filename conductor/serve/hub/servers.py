"""MCP servers over ACP: which client of a chain offers one, and which has a connection to it.

A chain that is shared is one client to its components, and they name no session when they use a
server. So an address belongs to one client: who else offers it, or speaks for it, is refused. What
comes for an address that no client has goes to the only client of a chain, and to nobody where a
chain has several.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INVALID_PARAMS, Params
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import list_of, text_of
from conductor.serve.hub.state import Call, Chain, Connection

CONNECT: Final = ("mcp/connect", "_mcp/connect")
_SCP: Final = "_scp/mcp"
_FAMILIES: Final = ("mcp/", "_mcp/", _SCP)
_LINKS: Final = ("connectionId", "connection_id")
_SERVERS: Final = ("serverId", "acpId", "acp_id", "acp_url", "url")
_URL: Final = "acp:"
_MOST: Final = 4096
"""Servers that the clients of one chain offer."""


class Servers:
    """The part of a hub that knows whose an MCP server is."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    @staticmethod
    def concerned(method: str) -> bool:
        """Whether a message is one to or from an MCP server over ACP."""
        return method.startswith(_FAMILIES)

    # -- who offers one --------------------------------------------------------------------------

    def offer(self, call: Call, chain: Chain) -> bool:
        """A client opens a session with servers of its own; False: its request is refused."""
        asker, offered = call.connection, _offered(call.params)
        if asker is None or not offered:
            return True
        for server in offered:
            holder = chain.servers.get(server)
            if holder is not None and holder is not asker and not holder.cut:
                name = server.removeprefix(_SCP).strip()
                text = f"another client of this chain offers the MCP server `{name[:80]}`"
                hint = "give it an id of its own; or serve without `--share`"
                self._floor.refuse(call, INVALID_PARAMS, text, hint)
                return False
        if len(chain.servers.keys() | {*offered}) > _MOST:
            self._floor.full(call, f"the clients of a chain offer at most {_MOST} MCP servers")
            return False
        chain.servers |= dict.fromkeys(offered, asker)
        return True

    def renewed(self, params: Params, chain: Chain, connection: Connection) -> None:
        """A client loads a live session: what it offers there was offered before, by a link of
        before."""
        for server in _offered(params):
            holder = chain.servers.get(server)
            if holder is not None and holder.cut:
                chain.servers[server] = connection

    @staticmethod
    def connected(chain: Chain, connection: Connection, result: Raw) -> bool:
        """A client has answered a request to connect; False: another has a connection of that
        name."""
        link = _address(read_members(result) or {}, _LINKS)
        if link is None:
            return True
        return chain.links.setdefault(link, connection) is connection

    @staticmethod
    def left(chain: Chain, gone: Connection) -> None:
        """A client has none any more."""
        for table in (chain.servers, chain.links):
            for address in [one for one, holder in table.items() if holder is gone]:
                del table[address]

    # -- from the chain --------------------------------------------------------------------------

    def of(self, chain: Chain, method: str, params: Params) -> list[Connection]:
        """The client whose server a message is for; none, or one."""
        members = read_members(params) or {}
        known, holder = self._holder(chain, method, members)
        if known and method.endswith("/disconnect"):
            chain.links.pop(_address(members, _LINKS) or "", None)
        if holder is not None:
            return [holder]
        return [*chain.connections] if len(chain.connections) == 1 else []

    # -- from a client ---------------------------------------------------------------------------

    def chain_of(self, sender: Connection, method: str, params: Params) -> Chain | None:
        """The chain that a message of a server goes to; None: the sender may not speak for it."""
        members, own = read_members(params) or {}, sender.chain
        chains = [*([own] if own is not None else [])]
        chains += [one.chain for one in sender.attached.values() if one.chain is not own]
        for chain in chains:
            if self._holder(chain, method, members)[1] is sender:
                return chain
        if own is None or len(own.connections) > 1 or self._holder(own, method, members)[0]:
            return None
        return own

    @staticmethod
    def _holder(
        chain: Chain, method: str, members: dict[str, Raw]
    ) -> tuple[bool, Connection | None]:
        """Whether a message names something that a client has, and the client."""
        link = _address(members, _LINKS)
        if link is not None:
            return link in chain.links, chain.links.get(link)
        if method == _SCP:
            server = _named(text_of(members.get("name")))
        else:
            server = _address(members, _SERVERS)
        return server in chain.servers, chain.servers.get(server or "")


def _offered(params: Params) -> list[str]:
    """The addresses of the servers over ACP that the params of a session's set-up declare."""
    if isinstance(params, UnsetType) or b"mcpServers" not in bytes(params):
        return []
    entries = list_of((read_members(params) or {}).get("mcpServers")) or []
    found = (_declared(read_members(entry) or {}) for entry in entries)
    return [address for address in found if address]


def _declared(entry: dict[str, Raw]) -> str | None:
    kind, url = text_of(entry.get("type")), text_of(entry.get("url"))
    if kind == "scp":
        return _named(text_of(entry.get("name")))
    if kind == "acp" or "serverId" in entry:
        return _address(entry, ("serverId", "id"))
    return url.removeprefix(_URL) if url is not None and url.startswith(_URL) else None


def _named(name: str | None) -> str | None:
    return f"{_SCP} {name}" if name is not None else None


def _address(members: dict[str, Raw], names: tuple[str, ...]) -> str | None:
    """The first address that is there, as servers and messages have it alike."""
    for name in names:
        text = text_of(members.get(name))
        if text is not None:
            return text.removeprefix(_URL)
    return None
