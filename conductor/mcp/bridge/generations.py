"""The generations of MCP over ACP, as a table: how a component is connected to and written to.

Which generation a component speaks cannot always be told from how it declares its server. So each
form of declaration has a ladder: the next one is tried when a component does not know the one
before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.mcp.bridge.json import NULL, read, text, write

Fields = tuple[tuple[str, str], ...]
"""Members of params, each with what its value is: `id`, `url`, `name` of the server, the `session`,
or the `connection`."""

_CONNECTION: Final = (("connectionId", "connection"),)
_OLD_CONNECTION: Final = (("connection_id", "connection"),)
_OLD_CONNECT: Final = (("acp_id", "id"), ("acp_url", "url"), ("session_id", "session"))


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One way to carry MCP in ACP."""

    name: str
    connect: str | None = None
    """The request that opens a connection; None where there are none."""
    connect_with: Fields = ()
    disconnect: str | None = None
    disconnect_with: Fields = ()
    disconnect_asks: bool = False
    """Whether that is a request."""
    request: str
    notification: str | None = None
    """The methods that carry a message to the component …"""
    back_request: str | None = None
    back_notification: str
    """… and from it."""
    address: Fields
    nested: bool = False
    """Whether the message stands in a member `message`, with an id of its own."""
    numbered: bool = False
    """Whether each request has a `requestId`, and its outcome is a member of the result."""

    @property
    def stateless(self) -> bool:
        """Whether it carries MCP as of 2026-07-28, which has no sessions."""
        return self.numbered

    @property
    def waits(self) -> bool:
        """Whether a connection is opened for an ACP session, whose id has to be known."""
        return any(source == "session" for _, source in self.connect_with)


STATELESS: Final = Generation(
    name="stateless",
    request="mcp/message",
    back_notification="mcp/message",
    address=(("serverId", "id"),),
    numbered=True,
)
SDK_2: Final = Generation(
    name="sdk-2",
    connect="mcp/connect",
    connect_with=(("serverId", "id"),),
    disconnect="mcp/disconnect",
    disconnect_with=_CONNECTION,
    disconnect_asks=True,
    request="mcp/message",
    notification="mcp/message",
    back_request="mcp/message",
    back_notification="mcp/message",
    address=_CONNECTION,
)
RFD: Final = msgspec.structs.replace(SDK_2, name="rfd", connect_with=(("acpId", "id"),))
SDK_0: Final = Generation(
    name="sdk-0.12",  # and sacp 3 to 11: they differ in what they read in connect, and get both
    connect="_mcp/connect",
    connect_with=_OLD_CONNECT,
    disconnect="_mcp/disconnect",
    disconnect_with=_OLD_CONNECTION,
    request="_mcp/message",
    notification="_mcp/message",
    back_request="_mcp/message",
    back_notification="_mcp/message",
    address=_CONNECTION,
)
SACP: Final = msgspec.structs.replace(
    SDK_0,
    name="sacp",
    request="_mcp/request",
    notification="_mcp/notification",
    back_request="_mcp/request",
    back_notification="_mcp/notification",
    address=_OLD_CONNECTION,
)
PACP: Final = Generation(
    name="pacp",
    request="_mcp/client_to_server/request",
    notification="_mcp/client_to_server/notification",
    back_request="_mcp/server_to_client/request",
    back_notification="_mcp/server_to_client/notification",
    address=(("url", "url"),),
    nested=True,
)
SCP: Final = Generation(
    name="scp",
    request="_scp/mcp",
    notification="_scp/mcp",
    back_request="_scp/mcp",
    back_notification="_scp/mcp",
    address=(("name", "name"),),
    nested=True,
)

GENERATIONS: Final = (STATELESS, RFD, SDK_2, SDK_0, SACP, PACP, SCP)

LADDERS: Final[Mapping[str, tuple[Generation, ...]]] = {
    "serverId": (STATELESS, SDK_2),
    "id": (RFD,),
    "url": (SDK_0, SACP, PACP),
    "scp": (SCP,),
}
"""For each form of declaration the generations it may be of, the likeliest first."""

CONNECTS: Final = {"mcp/connect": SDK_2, "_mcp/connect": SDK_0}
DISCONNECTS: Final = frozenset({"mcp/disconnect", "_mcp/disconnect"})
CARRIERS: Final = frozenset(
    {
        "mcp/message",
        "_mcp/message",
        "_mcp/request",
        "_mcp/notification",
        "_mcp/client_to_server/request",
        "_mcp/client_to_server/notification",
        "_mcp/server_to_client/request",
        "_mcp/server_to_client/notification",
        "_scp/mcp",
    }
)
"""Methods of ACP whose params hold a message of MCP."""

METHODS: Final = CARRIERS | DISCONNECTS | set(CONNECTS)


class Carried(msgspec.Struct, frozen=True):
    """A message of MCP, and what the params that carried it say of where it belongs."""

    method: str | None
    params: bytes | None
    connection: bytes | None = None
    """Raw JSON of the connection's id."""
    server: str | None = None
    """The server's id, without `acp:`, or the name of an `scp` server."""
    request_id: str | None = None
    inner_id: bytes | None = None
    nested: bool = False


def carried(params: Raw | bytes | None) -> Carried:
    """Opens the params of a carrier, of connect or of disconnect, whatever the generation."""
    held = read(params)
    connection = held.get("connectionId", held.get("connection_id"))
    addresses = (text(held.get(name)) for name in ("serverId", "acpId", "acp_id", "acp_url", "url"))
    server = next((one.removeprefix("acp:") for one in addresses if one is not None), None)
    place, inner_id = held, None
    if "message" in held:
        server = text(held.get("name")) if server is None else server
        place = read(held["message"])
        inner_id = place.get("id")
    inner = place.get("params")
    return Carried(
        text(place.get("method")),
        bytes(inner) if inner is not None and bytes(inner) != NULL else None,
        bytes(connection) if connection is not None else None,
        server,
        text(held.get("requestId")),
        bytes(inner_id) if inner_id is not None else None,
        "message" in held,
    )


def fill(fields: Fields, values: Mapping[str, object]) -> dict[str, object]:
    """The members `fields` names that have a value."""
    return {member: values[source] for member, source in fields if values.get(source) is not None}


def message(
    generation: Generation,
    values: Mapping[str, object],
    method: str,
    params: bytes | None,
    inner_id: str | int | None = None,
) -> bytes:
    """The params that carry a request (with `inner_id`, where it has one) or a notification."""
    fields = fill(generation.address, values)
    inner: dict[str, object] = {"method": method}
    if params is not None:
        inner["params"] = Raw(params)
    if generation.nested:
        head: dict[str, object] = {"jsonrpc": "2.0"}
        if inner_id is not None:
            head["id"] = inner_id
        return write({**fields, "message": {**head, **inner}})
    if generation.numbered and inner_id is not None:
        fields["requestId"] = inner_id
    return write({**fields, **inner})


def outcome(generation: Generation, member: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The outcome of MCP in an answer of ACP: `result` or `error`, and its body."""
    if member == b"error" or not (generation.nested or generation.numbered):
        return member, body
    held = read(body)
    if generation.nested and "message" in held:
        held = read(held["message"])
    if "result" in held:
        return b"result", bytes(held["result"])
    if "error" in held:
        return b"error", bytes(held["error"])
    return b"result", body  # an answer that is not wrapped: taken as what it is


def enclose(
    generation: Generation, inner_id: bytes | None, member: bytes, body: bytes
) -> tuple[bytes, bytes]:
    """The reverse of `outcome`: the answer of ACP that holds an outcome of MCP."""
    name = member.decode()
    if generation.numbered:
        return b"result", write({name: Raw(body)})
    if generation.nested:
        inner = {"jsonrpc": "2.0", "id": Raw(inner_id or NULL), name: Raw(body)}
        return b"result", write({"message": inner})
    return member, body
