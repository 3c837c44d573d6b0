"""Translates a client's messages into messages for a component, and the component's for the client.

A client and a component that speak one kind of MCP need a `Relay`; otherwise `upgrade.Upgrade` or
`downgrade.SharedSession` translates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from msgspec import Raw

from conductor.core.jsonrpc import canonical_id
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.calls import (
    Cancellation,
    ClientMessage,
    Notification,
    PendingCall,
    Request,
    ServerHandler,
    ServerRequest,
)
from conductor.mcp.bridge.endpoints import ClientConnection
from conductor.mcp.bridge.json import meta, read, with_meta
from conductor.mcp.bridge.servers import ServerConnection


class Translation(ServerHandler, ABC):
    """Stands between one client and a component, once both are known."""

    def __init__(self, client: ClientConnection, server: ServerConnection) -> None:
        self._client = client
        self._server = server
        server.handler = self
        self._calls: dict[bytes, PendingCall] = {}
        """Pending calls by the canonical id of the client's request."""

    def client_message(self, message: ClientMessage) -> None:
        """Takes a message of the client."""
        match message:
            case Request():
                self._request(message)
            case Notification(method=method, params=params) if method == protocol.CANCELLED:
                self._cancelled(params)
            case Notification(method, params):
                self._notification(method, params)
            case Cancellation(key):
                self._cancel(key)

    @abstractmethod
    def _request(self, request: Request) -> None:
        """Takes a request of the client."""

    @abstractmethod
    def _notification(self, method: str, params: bytes | None) -> None:
        """Takes a notification of the client, other than a cancellation."""

    def _cancelled(self, params: bytes | None) -> None:
        """MCP wants no response to a cancelled request."""
        call = self._calls.pop(cancelled_id(params) or b"", None)
        if call is not None and call.client_id is not None:
            self._server.notify_cancelled(call, params)
            self._server.cancel(call, forget=True)
            self._client.no_response(call.client_id)

    def _cancel(self, key: bytes) -> None:
        """ACP wants a response to a cancelled request; the component gives it."""
        call = self._calls.get(key)
        if call is not None:
            self._server.cancel(call)

    def client_closed(self) -> None:
        """The client has closed its connection."""
        self._server.close()


class Relay(Translation):
    """Passes messages on as they are; only ids of requests and subscriptions differ."""

    def __init__(
        self,
        client: ClientConnection,
        server: ServerConnection,
        on_other_generation: Callable[[Request], None] | None = None,
    ) -> None:
        """`on_other_generation`: takes requests back if the component turns out to speak another
        generation than the client, which nobody knew when they were sent."""
        super().__init__(client, server)
        self._on_other_generation = on_other_generation
        self._server_requests: dict[ServerRequest, bytes] = {}
        """Pending requests of the component, with their ids for the client."""

    def _request(self, request: Request) -> None:
        id_, key = request.id, canonical_id(request.id) or request.id

        def respond(member: bytes, body: bytes) -> None:
            self._calls.pop(key, None)
            shown = body if request.request_id is not None else _with_subscription(body, id_)
            self._client.respond(id_, member, shown)

        def give_back() -> None:
            assert self._on_other_generation is not None
            self._calls.pop(key, None)
            self._on_other_generation(request)

        call = self._calls[key] = PendingCall(
            request.method,
            request.params,
            respond,
            client_id=id_,
            request_id=request.request_id,
            acp_params=request.acp_params,
            on_other_generation=give_back if self._on_other_generation is not None else None,
        )
        self._server.request(call)

    def _notification(self, method: str, params: bytes | None) -> None:
        self._server.notify(method, params)

    def server_request(self, request: ServerRequest) -> None:
        def respond(member: bytes, body: bytes) -> None:
            self._server_requests.pop(request, None)
            request.reply(member, body)

        related = request.call.client_id if request.call is not None else self._only_request()
        id_ = self._client.request(request.method, request.params, respond, related)
        if id_ is not None:
            self._server_requests[request] = id_

    def server_cancel(self, request: ServerRequest) -> None:
        id_ = self._server_requests.pop(request, None)
        if id_ is not None:
            self._client.cancel(id_, self._only_request())

    def server_notification(
        self, method: str, params: bytes | None, call: PendingCall | None
    ) -> None:
        related = call.client_id if call is not None else self._only_request()
        if call is not None and call.client_id and call.request_id is None and params is not None:
            params = _with_subscription(params, call.client_id)
        self._client.notify(method, params, related)

    def _only_request(self) -> bytes | None:
        """The id of the client's pending request, if there is exactly one.

        A message that names no request most likely belongs to it, so that HTTP can send the message
        on that request's stream.
        """
        return next(iter(self._calls.values())).client_id if len(self._calls) == 1 else None


def cancelled_id(params: bytes | None) -> bytes | None:
    """The canonical id in `notifications/cancelled`."""
    raw = read(params).get("requestId")
    return canonical_id(raw) if raw is not None else None


def _with_subscription(body: bytes, id_: bytes) -> bytes:
    """Params or a result with the client's id of a subscription in place of the component's."""
    if protocol.SUBSCRIPTION.encode() not in body:  # spares large bodies the parsing
        return body
    fields = read(body)
    about = meta(fields)
    if protocol.SUBSCRIPTION not in about:
        return body
    return with_meta(fields, {**about, protocol.SUBSCRIPTION: Raw(id_)})
