"""MCP servers over ACP: which client of a chain offers one, and which has a connection to it.

A chain that is shared is one client to its components, and they name no session when they use a
server. So an address belongs to one client: another client that offers it or speaks for it is
refused. A message for an address that no client has goes to the only client of a chain, and to
nobody where a chain has several.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.guards import connected, declared
from conductor.core.json_text import read_members, text_of
from conductor.core.jsonrpc import INVALID_PARAMS, Params
from conductor.core.policy.headings import addresses
from conductor.core.policy.key_table import MCP_FAMILIES
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.state import Asked, Chain, Client

_SERVER, _LINK = "server", "connection"
_LINKS: Final = ("connectionId", "connection_id")
_URL: Final = "acp:"
_MOST: Final = 4096
"""The most servers that the clients of one chain offer."""


class Servers:
    """The part of a hub that knows whose an MCP server is."""

    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    # -- offers ----------------------------------------------------------------------------------

    def offer(self, asked: Asked, chain: Chain) -> bool:
        """A client opens a session with servers of its own; False: its request is refused."""
        asker, offered = asked.client, _offered(asked)
        if asker is None or not offered:
            return True
        for address in sorted(offered):
            holder = chain.servers.get(address)
            if holder is not None and holder is not asker and not holder.cut:
                text = f"another client of this chain offers the MCP server `{address[1][:80]}`"
                hint = "give it an id of its own; or serve without `--share`"
                self._floor.refuse(asked, INVALID_PARAMS, text, hint)
                return False
        if len(chain.servers.keys() | offered) > _MOST:
            self._floor.full(asked, f"the clients of a chain offer at most {_MOST} MCP servers")
            return False
        chain.servers |= dict.fromkeys(offered, asker)
        return True

    @staticmethod
    def renewed(asked: Asked, chain: Chain, client: Client) -> None:
        """A client loads a live session: an earlier link offered its servers before."""
        for address in _offered(asked):
            holder = chain.servers.get(address)
            if holder is not None and holder.cut:
                chain.servers[address] = client

    @staticmethod
    def connected(chain: Chain, client: Client, method: str, result: Raw) -> bool:
        """A client has answered a request to connect; False: another has a connection of that
        name."""
        links = connected(method, result)
        return all(chain.servers.setdefault((_LINK, one), client) is client for one in links)

    @staticmethod
    def left(chain: Chain, gone: Client) -> None:
        """A client has none any more."""
        for address in [one for one, holder in chain.servers.items() if holder is gone]:
            del chain.servers[address]

    # -- from the chain --------------------------------------------------------------------------

    @staticmethod
    def of(chain: Chain, method: str, params: Params) -> list[Client]:
        """The client whose server a message is for; none, or one client."""
        address = _address(method, params)
        holder = chain.servers.get(address)
        if method.endswith("/disconnect") and address[0] == _LINK:
            chain.servers.pop(address, None)
        if holder is not None:
            return [holder]
        return [*chain.clients] if len(chain.clients) == 1 else []

    # -- from a client ---------------------------------------------------------------------------

    @staticmethod
    def is_others(sender: Client, chain: Chain, method: str, params: Params) -> bool:
        """Whether a message is about a server that another client has."""
        if not method.startswith(MCP_FAMILIES):
            return False
        return chain.servers.get(_address(method, params), sender) is not sender

    @staticmethod
    def chain_of(sender: Client, method: str, params: Params) -> Chain | None:
        """The chain that a message of a server goes to; None: the sender may not speak for it."""
        address, own = _address(method, params), sender.chain
        chains = [one for one in (own, *(live.chain for live in sender.attached.values())) if one]
        for chain in chains:
            if chain.servers.get(address) is sender:
                return chain
        return own if own and len(own.clients) == 1 and address not in own.servers else None


def _offered(asked: Asked) -> frozenset[tuple[str, str]]:
    """The addresses of the servers over ACP that a set-up declares."""
    found = declared(asked.method, asked.params)
    return frozenset((_SERVER, one.removeprefix(_URL)) for one in found)


def _address(method: str, params: Params) -> tuple[str, str]:
    """The address that an MCP message is for, in one form for servers and messages."""
    members = read_members(params) or {}
    link = next((one for name in _LINKS if (one := text_of(members.get(name)))), None)
    if link is not None:
        return _LINK, link
    named = next((one for one in addresses(method, params) if one), "")
    return _SERVER, named.removeprefix(_URL)
