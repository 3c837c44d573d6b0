"""The generations of MCP over ACP, as a table: how to connect to a component and write to it.

A declaration does not always say which generation its component speaks. So each form of declaration
has a ladder of generations: when a component does not know a generation, the bridge tries the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.mcp.bridge.json import NULL, read, text, write

Fields = tuple[tuple[str, str], ...]
"""Members of params, each with the name of its value: `id`, `url` or `name` of the server, the
`session`, or the `connection`."""

_CONNECTION: Final = (("connectionId", "connection"),)
_OLD_CONNECTION: Final = (("connection_id", "connection"),)
_OLD_CONNECT: Final = (("acp_id", "id"), ("acp_url", "url"), ("session_id", "session"))


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One form of MCP over ACP."""

    name: str
    connect: str | None = None
    """The request that opens a connection; None if the generation has no connections."""
    connect_fields: Fields = ()
    connect_is_shared: bool = False
    """Whether other generations connect in the same form, so a connection proves nothing."""
    disconnect: str | None = None
    disconnect_fields: Fields = ()
    disconnect_is_request: bool = False
    request: str
    notification: str | None = None
    """The methods of requests and notifications to the component; None: there is none."""
    back_request: str | None = None
    back_notification: str
    """The methods of requests and notifications from the component; None: there is none."""
    address: Fields
    nested: bool = False
    """Whether the message stands in a member `message`, with an id of its own."""
    stateless: bool = False
    """Whether it carries MCP as of 2026-07-28, which has no sessions. Then each request has a
    `requestId`, and its outcome is a member of the result."""

    @property
    def needs_session_id(self) -> bool:
        """Whether the request that connects names the ACP session."""
        return any(source == "session" for _, source in self.connect_fields)


STATELESS: Final = Generation(
    name="stateless",
    request="mcp/message",
    back_notification="mcp/message",
    address=(("serverId", "id"),),
    stateless=True,
)
SDK_2: Final = Generation(
    name="sdk-2",
    connect="mcp/connect",
    connect_fields=(("serverId", "id"),),
    disconnect="mcp/disconnect",
    disconnect_fields=_CONNECTION,
    disconnect_is_request=True,
    request="mcp/message",
    notification="mcp/message",
    back_request="mcp/message",
    back_notification="mcp/message",
    address=_CONNECTION,
)
RFD: Final = msgspec.structs.replace(SDK_2, name="rfd", connect_fields=(("acpId", "id"),))
SDK_0: Final = Generation(
    name="sdk-0.12",  # also sacp 3 to 11: each reads its own fields of connect, which has both
    connect="_mcp/connect",
    connect_fields=_OLD_CONNECT,
    connect_is_shared=True,
    disconnect="_mcp/disconnect",
    disconnect_fields=_OLD_CONNECTION,
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
    "outside": (SDK_2,),
}
"""The generations a component may speak, by the form of its declaration; the likeliest first."""


class Ladder:
    """The generations that one component may speak, in the order to try them."""

    def __init__(self, form: str) -> None:
        self.rungs = LADDERS[form]
        self.current = self.rungs[0]
        self.confirmed = len(self.rungs) == 1
        """Whether the component has shown that it speaks `current`."""

    def after(self, generation: Generation) -> Generation | None:
        """The generation to try when the component does not know `generation`."""
        at = self.rungs.index(generation) + 1
        return self.rungs[at] if not self.confirmed and at < len(self.rungs) else None

    def prefer(self, generation: Generation) -> None:
        """Tries `generation`, which the agent speaks, first, if the declaration allows it.

        A ladder that begins with the stateless generation stays as it is: components of the
        stateless generation reject messages of other generations, but not the reverse.
        """
        if generation in self.rungs and not self.confirmed and not self.rungs[0].stateless:
            others = (other for other in self.rungs if other is not generation)
            self.current, self.rungs = generation, (generation, *others)

    def confirm(self, generation: Generation) -> None:
        """The component has shown that it speaks `generation`."""
        self.current, self.confirmed = generation, True


CONNECTS: Final = {"mcp/connect": SDK_2, "_mcp/connect": SDK_0}
DISCONNECTS: Final = frozenset({"mcp/disconnect", "_mcp/disconnect"})
METHODS: Final = {*CONNECTS, *DISCONNECTS} | {
    method
    for generation in GENERATIONS
    for method in (
        generation.request,
        generation.notification,
        generation.back_request,
        generation.back_notification,
    )
    if method is not None
}
"""Methods of ACP that carry MCP, or open or close a connection that does."""


class McpMessage(msgspec.Struct, frozen=True):
    """A message of MCP, with the address that the params around it give."""

    method: str | None
    params: bytes | None
    connection: bytes | None = None
    """Raw JSON of the connection's id."""
    server: str | None = None
    """The server's id, without `acp:`, or the name of an `scp` server."""
    request_id: str | None = None
    inner_id: bytes | None = None
    nested: bool = False


def unwrap(params: Raw | bytes | None) -> McpMessage:
    """Reads the params of a carrier, of connect or of disconnect, in any generation."""
    outer = read(params)
    connection = outer.get("connectionId", outer.get("connection_id"))
    ids = (text(outer.get(name)) for name in ("serverId", "acpId", "acp_id", "acp_url", "url"))
    server = next((id_.removeprefix("acp:") for id_ in ids if id_ is not None), None)
    nested = "message" in outer
    if nested and server is None:
        server = text(outer.get("name"))
    inner = read(outer["message"]) if nested else outer
    inner_id = inner.get("id") if nested else None
    inner_params = inner.get("params")
    return McpMessage(
        text(inner.get("method")),
        bytes(inner_params) if inner_params is not None and bytes(inner_params) != NULL else None,
        bytes(connection) if connection is not None else None,
        server,
        text(outer.get("requestId")),
        bytes(inner_id) if inner_id is not None else None,
        nested,
    )


def fill(fields: Fields, values: Mapping[str, object]) -> dict[str, object]:
    """The members that `fields` names and `values` has."""
    return {member: values[source] for member, source in fields if values.get(source) is not None}


def wrap(
    generation: Generation,
    values: Mapping[str, object],
    method: str,
    params: bytes | None,
    id_: str | int | None = None,
) -> bytes:
    """The params that carry a notification, or a request (its id is `id_`, where there is one)."""
    fields = fill(generation.address, values)
    inner: dict[str, object] = {"method": method}
    if params is not None:
        inner["params"] = Raw(params)
    if generation.nested:
        head: dict[str, object] = {"jsonrpc": "2.0"}
        if id_ is not None:
            head["id"] = id_
        return write({**fields, "message": {**head, **inner}})
    if generation.stateless and id_ is not None:
        fields["requestId"] = id_
    return write({**fields, **inner})


def unwrap_response(generation: Generation, member: bytes, body: bytes) -> tuple[bytes, bytes]:
    """The outcome of MCP in a response of ACP: `result` or `error`, and its body."""
    if member == b"error" or not (generation.nested or generation.stateless):
        return member, body
    fields = read(body)
    if generation.nested and "message" in fields:
        fields = read(fields["message"])
    for name in ("result", "error"):
        if name in fields:
            return name.encode(), bytes(fields[name])
    return member, body  # some components do not wrap their results: the body is the result


def wrap_response(
    generation: Generation, inner_id: bytes | None, member: bytes, body: bytes
) -> tuple[bytes, bytes]:
    """The reverse of `unwrap_response`: the response of ACP that holds an outcome of MCP."""
    outcome = {member.decode(): Raw(body)}
    if generation.stateless:
        return b"result", write(outcome)
    if generation.nested:
        return b"result", write(
            {"message": {"jsonrpc": "2.0", "id": Raw(inner_id or NULL), **outcome}}
        )
    return member, body
