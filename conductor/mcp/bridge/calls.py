"""Messages between a client and a component, from when the bridge has them until they are done."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec import Raw

from conductor.core.jsonrpc import METHOD_NOT_FOUND, error_object
from conductor.mcp.bridge.endpoints import OnResponse


class Request(msgspec.Struct, frozen=True):
    """A request of a client."""

    id: bytes
    """As the client wrote it."""
    method: str
    params: bytes | None
    request_id: str | None = None
    """The `requestId` of a client that speaks stateless MCP over ACP."""
    acp_params: bytes | None = None
    """The client's params of ACP."""


class Notification(msgspec.Struct, frozen=True):
    """A notification of a client."""

    method: str
    params: bytes | None


class Cancellation(msgspec.Struct, frozen=True):
    """`$/cancel_request` of an ACP client: the request with this canonical id gets a response."""

    key: bytes


ClientMessage = Request | Notification | Cancellation


class PendingCall(msgspec.Struct, eq=False):
    """One request to a component, from its creation to its response."""

    method: str
    params: bytes | None
    on_response: OnResponse
    client_id: bytes | None = None
    """Raw id of the client's request that it serves."""
    request_id: str | None = None
    """The `requestId` to use, if the client has given one."""
    acp_params: bytes | None = None
    """Params of ACP to pass on unchanged, if the client speaks the component's generation."""
    id: bytes | None = None
    """Raw id of the request on the wire; None before it is sent and after its response."""
    inner_id: int | None = None
    """The id of the message inside, in generations that nest it."""
    key: str = ""
    """The call's key in `Server.calls`."""
    token: Raw | None = None
    """The client's progress token, if the component got another token."""
    first_error: bytes | None = None
    """The error in the first generation that was tried."""
    cancelled: bool = False
    reading: object = None
    """The part of a list that has been read (`pins.Reading`)."""
    on_other_generation: Callable[[], None] | None = None
    """Takes the call back, unanswered, if the component is not of the generation it was passed on
    in. Without it, the connection translates the call to the next generation itself."""


class ServerRequest(msgspec.Struct, eq=False):
    """A request of a component to its client."""

    method: str
    params: bytes | None
    reply: OnResponse
    call: PendingCall | None = None
    """The call it belongs to, if the component names it."""


class ServerHandler:
    """Takes the messages that a component sends of its own accord. This class alone serves a client
    that has sent nothing."""

    def server_request(self, request: ServerRequest) -> None:
        """Takes a request; `reply` must be called once."""
        reason = f"`{request.method}`: the MCP client has not sent anything yet"
        request.reply(b"error", error_object(METHOD_NOT_FOUND, reason))

    def server_cancel(self, request: ServerRequest) -> None:
        """The component cancels its request."""

    def server_notification(
        self, method: str, params: bytes | None, call: PendingCall | None
    ) -> None:
        """Takes a notification. `call`: the call it belongs to, if the component names it."""
