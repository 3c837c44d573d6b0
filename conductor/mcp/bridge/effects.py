"""The effects of the bridge, which `conductor.mcp.transport` performs. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from conductor.mcp.bridge.declarations import Declaration
    from conductor.mcp.bridge.offers import Change, Server


class ToAgent(msgspec.Struct, frozen=True, gc=False):
    """Write `frame`, newline included, to the agent."""

    frame: bytes


class ToChain(msgspec.Struct, frozen=True, gc=False):
    """Hand `frame` to the router, as if the agent had sent it."""

    frame: bytes


class Listen(msgspec.Struct, frozen=True, gc=False):
    """Create an address of a kind (`stdio` or `http`) for the clients of `listener`.

    `Bridge.listening` or `Bridge.listen_failed` takes the outcome. Until then the bridge holds
    everything for the agent.
    """

    listener: str
    kind: str


class CloseListener(msgspec.Struct, frozen=True, gc=False):
    """Remove the address, and close the connections of its clients."""

    listener: str


class ToClient(msgspec.Struct, frozen=True, gc=False):
    """Send `frame` (no newline) to an MCP client.

    `related`: raw id of the client's request it belongs to, where that is known.
    """

    connection: str
    frame: bytes
    related: bytes | None = None


class NoResponse(msgspec.Struct, frozen=True, gc=False):
    """The client cancelled its request with this raw id, so no response will come."""

    connection: str
    id: bytes


class CloseClient(msgspec.Struct, frozen=True, gc=False):
    """Close the connection of an MCP client."""

    connection: str


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Call `Bridge.expired` with `token` in so many seconds."""

    token: int
    seconds: float


class Log(msgspec.Struct, frozen=True, gc=False):
    """A line for the log."""

    level: str
    text: str


class OpenLink(msgspec.Struct, frozen=True):
    """Reach an MCP server of the client. `Bridge.link_received` takes its messages, and
    `Bridge.link_ended` hears of its end."""

    link: str
    reach: Declaration


class ToLink(msgspec.Struct, frozen=True, gc=False):
    """Send `frame`, newline included, to the server."""

    link: str
    frame: bytes


class CloseLink(msgspec.Struct, frozen=True, gc=False):
    """End the connection to the server, and its process."""

    link: str


class Differs(msgspec.Struct, frozen=True):
    """A server's offer differs from its former offer. Until `Bridge.agreed`, changes are left
    out."""

    server: Server
    changes: tuple[Change, ...]
    last: bool
    """Whether the server has changed so often that the user hears no more of it."""


ClientEffect = ToClient | NoResponse | CloseClient | CloseListener
"""The effects that the doors perform."""

LinkEffect = OpenLink | ToLink | CloseLink
"""The effects that the links perform."""

Effect = ToAgent | ToChain | Listen | Wait | Log | Differs | LinkEffect | ClientEffect
