"""Clients that speak MCP without sessions, and a component that begins with `initialize`.

All such clients of a server share one session with the component, since one client's requests may
come over any number of connections. A request of the component to its client becomes an
`input_required` result of the request it works on; `suspendable` has these requests.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, Final

from msgspec import Raw

from conductor.core.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, canonical_id, error_object
from conductor.mcp import limits
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.calls import PendingCall, Request, ServerHandler, ServerRequest
from conductor.mcp.bridge.endpoints import ClientConnection, ignore
from conductor.mcp.bridge.json import EMPTY, decoded, meta, objects, read, text, with_meta, write
from conductor.mcp.bridge.servers import Server, ServerConnection
from conductor.mcp.bridge.subscriptions import Subscriptions
from conductor.mcp.bridge.suspendable import MAY_WANT_INPUT, SuspendableRequest
from conductor.mcp.bridge.translations import Translation, cancelled_id

_LOG_MESSAGE: Final = "notifications/message"


class _SessionState(Enum):
    """NEW → INITIALIZING → OPEN. An error, or the component's end of the session, leads to NEW."""

    NEW = auto()
    INITIALIZING = auto()
    OPEN = auto()


class SharedSession(ServerHandler):
    """The session with one component, for all clients of its server that have no session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection = self._connect()
        self._state = _SessionState.NEW
        self._waiting: list[tuple[ClientConnection, Request]] = []
        """Requests that came before the session was open."""
        self._requests: dict[str, SuspendableRequest] = {}
        """By token; the latest last."""
        self._suspended: dict[str, SuspendableRequest] = {}
        """Requests that wait for input, the oldest first; they may have their outcome already."""
        self._subscriptions = Subscriptions(self._subscribe, server.refusal)
        self._log_level: bytes | None = None
        self._initialized: dict[str, Raw] = {}
        """The result of `initialize`."""
        self._capabilities: dict[str, dict[str, Any]] = {}
        """The component's."""

    def _connect(self) -> ServerConnection:
        connection = ServerConnection(self._server, self._ended)
        connection.handler = self
        return connection

    def close(self) -> None:
        """Ends the session."""
        self._connection.close()

    # -- from clients ----------------------------------------------------------------------------

    def request(self, client: ClientConnection, request: Request) -> None:
        """A request of a client; the first request begins the session."""
        if self._state is _SessionState.OPEN:
            self._serve(client, request)
            return
        if len(self._waiting) >= limits.UNANSWERED:
            error = self._server.refusal(f"{limits.UNANSWERED} requests wait for its session")
            client.respond(request.id, b"error", error)
            return
        self._waiting.append((client, request))
        if self._state is _SessionState.NEW:
            self._state = _SessionState.INITIALIZING
            about = meta(read(request.params))
            params: dict[str, object] = {
                "protocolVersion": protocol.LATEST_SESSION,
                # The requests that the component may make depend on the client of each request, so
                # `answer` decides. Here the session claims every capability.
                "capabilities": {
                    **{name: {} for name in protocol.NEEDS.values()},
                    **protocol.pages(read(about.get(protocol.CAPABILITIES))),
                },
                "clientInfo": about.get(protocol.CLIENT) or {"name": "conductor", "version": "0"},
            }
            self._connection.request(PendingCall("initialize", write(params), self._on_initialized))

    def _on_initialized(self, member: bytes, body: bytes) -> None:
        opened = member == b"result"
        self._state = _SessionState.OPEN if opened else _SessionState.NEW
        if opened:
            self._initialized = read(body)
            self._capabilities = objects(self._initialized.get("capabilities"))
            self._connection.notify("notifications/initialized", None)
        waiting, self._waiting = self._waiting, []
        for client, request in waiting:
            if opened:
                self._serve(client, request)
            else:
                client.respond(request.id, b"error", body)

    def _serve(self, client: ClientConnection, request: Request) -> None:
        fields = read(request.params)
        if request.method == protocol.DISCOVER:
            client.respond(request.id, b"result", self._discovered())
        elif request.method == protocol.LISTEN:
            wanted = decoded(fields.get("notifications"))
            self._subscriptions.listen(client, request.id, wanted, self._capabilities)
        elif "requestState" in fields:
            self._resume(client, request.id, fields)
        else:
            self._start(client, request, fields)

    def _discovered(self) -> bytes:
        result: dict[str, object] = {
            "supportedVersions": [protocol.MODERN],
            "capabilities": self._capabilities,
            "resultType": "complete",
            "ttlMs": 0,
            "cacheScope": "private",
        }
        if "instructions" in self._initialized:
            result["instructions"] = self._initialized["instructions"]
        if "serverInfo" in self._initialized:
            result["_meta"] = {protocol.SERVER: self._initialized["serverInfo"]}
        return write(result)

    def _start(self, client: ClientConnection, request: Request, fields: dict[str, Raw]) -> None:
        about = meta(fields)
        self._set_log_level(about.get(protocol.LOG_LEVEL))
        token = f"{self._server.listener}-{self._server.next_number()}"
        started = SuspendableRequest(client, request.id, request.method, about, token)
        rest: dict[str, object] = {
            name: raw for name, raw in about.items() if not name.startswith(protocol.NAMESPACE)
        }
        if started.progress_token is not None:
            rest["progressToken"] = token
        fields.pop("_meta", None)
        params = with_meta(fields, rest) if fields or rest else None

        def responded(member: bytes, body: bytes) -> None:
            self._requests.pop(token, None)
            started.outcome = (member, body)
            started.deliver()

        self._requests[token] = started
        started.call = PendingCall(request.method, params, responded, client_id=request.id)
        self._connection.request(started.call)

    def _set_log_level(self, level: Raw | None) -> None:
        """The session has one log level, so the latest request sets it for all clients."""
        if level is None or bytes(level) == self._log_level or "logging" not in self._capabilities:
            return
        self._log_level = bytes(level)
        self._connection.request(PendingCall("logging/setLevel", write({"level": level}), ignore))

    def _resume(self, client: ClientConnection, id_: bytes, fields: dict[str, Raw]) -> None:
        """A client brings input."""
        resumed = self._suspended.pop(text(fields["requestState"]) or "", None)
        if resumed is None:
            error = error_object(INVALID_PARAMS, "no request of this `requestState` is open")
            client.respond(id_, b"error", error)
            return
        resumed.resume(client, id_, fields, meta(fields))
        if resumed.outcome is not None:
            resumed.deliver()
        elif resumed.unsent:
            self._suspend(resumed)

    def cancel(self, client: ClientConnection, key: bytes) -> bool:
        """A client cancels the request with this canonical id; False if there is none."""
        for request in self._requests.values():
            if request.client is client and canonical_id(request.id) == key:
                self._drop(request)
                return True
        return self._subscriptions.cancel(client, key)

    def _drop(self, request: SuspendableRequest) -> None:
        request.client = None
        del self._requests[request.token]
        assert request.call is not None
        params = write({"requestId": Raw(request.id)})
        self._connection.notify_cancelled(request.call, params)
        self._connection.cancel(request.call, forget=True)

    def leave(self, client: ClientConnection) -> None:
        """A client has left: cancels its requests. The client may resume its suspended requests
        over another connection, so they stay."""
        self._waiting = [entry for entry in self._waiting if entry[0] is not client]
        for request in list(self._requests.values()):
            if request.client is client:
                self._drop(request)
        self._subscriptions.leave(client)

    # -- from the component ----------------------------------------------------------------------

    def server_request(self, request: ServerRequest) -> None:
        # The component does not say which call it works on, so the latest is the best guess.
        method, reply = request.method, request.reply
        if method == "ping":
            reply(b"result", EMPTY)
            return
        capability = protocol.NEEDS.get(method)
        candidates = [call for call in self._requests.values() if call.method in MAY_WANT_INPUT]
        able = [call for call in candidates if capability in call.capabilities]
        if not able:
            if capability is not None and len(candidates) == 1:
                # With several requests in flight, nobody knows which request lacks the capability.
                candidates[0].missing[capability] = method
            reason = f"`{method}`: no open request is of an MCP client that offers it"
            reply(b"error", error_object(METHOD_NOT_FOUND, reason))
            return
        latest = able[-1]
        if latest.rounds >= limits.INPUT_ROUNDS or len(latest.unsent) >= limits.INPUTS:
            reason = f"`{method}`: the request exceeded its limit of inputs"
            reply(b"error", error_object(METHOD_NOT_FOUND, reason))
            return
        latest.want(f"input-{self._server.next_number()}", request)
        self._suspend(latest)

    def _suspend(self, request: SuspendableRequest) -> None:
        if request.client is None:
            return  # suspended already: it will ask for more input when it is resumed
        self._suspended[request.token] = request
        if len(self._suspended) > limits.SUSPENDED:
            oldest = self._suspended.pop(next(iter(self._suspended)))
            if oldest.token in self._requests:
                self._drop(oldest)
        request.suspend()

    def server_cancel(self, request: ServerRequest) -> None:
        for suspendable in self._requests.values():
            suspendable.withdraw(request)

    def server_notification(
        self, method: str, params: bytes | None, call: PendingCall | None
    ) -> None:
        if method == protocol.PROGRESS:
            fields = read(params)
            request = self._requests.get(text(fields.get("progressToken")) or "")
            if request is not None and request.client and request.progress_token is not None:
                progress = write({**fields, "progressToken": request.progress_token})
                request.client.notify(method, progress, request.id)
        elif method == _LOG_MESSAGE:
            for request in reversed(self._requests.values()):
                if request.wants_logs and request.client is not None:
                    request.client.notify(method, params, request.id)
                    break
        else:
            self._subscriptions.notify(method, params)

    def _ended(self) -> None:
        """The component has ended the session; the next request begins another."""
        self._subscriptions.end()
        self._log_level = None
        self._connection.close()
        self._connection = self._connect()
        self._state = _SessionState.NEW

    def _subscribe(self, method: str, uri: str) -> None:
        self._connection.request(PendingCall(method, write({"uri": uri}), ignore))


class Downgrade(Translation):
    """One client of a shared session."""

    def __init__(
        self, client: ClientConnection, server: ServerConnection, session: SharedSession
    ) -> None:
        super().__init__(client, server)
        self._session = session
        self._left = False

    def _request(self, request: Request) -> None:
        self._session.request(self._client, request)

    def _notification(self, method: str, params: bytes | None) -> None:
        """The session sends its own notifications."""

    def _cancelled(self, params: bytes | None) -> None:
        self._cancel(cancelled_id(params))

    def _cancel(self, key: bytes | None) -> None:
        if key is not None and self._session.cancel(self._client, key):
            self._client.no_response(key)

    def client_closed(self) -> None:
        """Leaves the session, which goes on for its other clients."""
        if not self._left:
            self._left = True
            self._session.leave(self._client)
