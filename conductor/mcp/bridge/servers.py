"""MCP servers that components declared, and the connections to them.

A `Server` is one declaration in one session. Each client, or all clients that share a session, has
a `ServerConnection`: it finds the component's generation of MCP over ACP, opens the connection in
that generation, and carries `PendingCall`s and notifications.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    REQUEST_CANCELLED,
    canonical_id,
    error_object,
)
from conductor.mcp import limits
from conductor.mcp.bridge import generations, protocol
from conductor.mcp.bridge.app_tools import AppTool
from conductor.mcp.bridge.calls import Notification, PendingCall, ServerHandler, ServerRequest
from conductor.mcp.bridge.declarations import Declared
from conductor.mcp.bridge.endpoints import Endpoint, OnResponse, ignore
from conductor.mcp.bridge.generations import Generation, Ladder, McpMessage
from conductor.mcp.bridge.json import NULL, error_code, meta, read, text, with_meta, write

if TYPE_CHECKING:
    from conductor.mcp.bridge.pins import Pinned

_UNKNOWN_GENERATION: Final = frozenset({METHOD_NOT_FOUND, INVALID_PARAMS, INVALID_REQUEST})
"""The error codes with which components reject a generation they do not know."""


class SessionId:
    """The id of an ACP session, which the agent assigns in its response to the setup."""

    def __init__(self, known: bytes | None, on_wait: Callable[[], None]) -> None:
        """`known`: raw JSON, if the setup names the session. `on_wait` starts the timer that ends
        the wait."""
        self.value = known
        self.settled = known is not None
        self._on_wait = on_wait
        self._waiting: list[Callable[[], None]] = []

    def settle(self, value: bytes | None) -> None:
        """The id is known, or nobody waits for it any longer (None)."""
        self.value = value if value is not None else self.value
        self.settled = True
        waiting, self._waiting = self._waiting, []
        for resume in waiting:
            resume()

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, when the id is settled."""
        if not self._waiting:
            self._on_wait()
        self._waiting.append(resume)


class Server:
    """One declared server: its component's generation, its connections and its pending calls."""

    def __init__(
        self,
        declared: Declared,
        session: SessionId,
        listener: str,
        name: str,
        chain: Endpoint,
        pins: Pinned | None,
    ) -> None:
        """`name`: the agent's name for the server. `chain`: takes its messages. `pins`: its former
        offer, if its offer is pinned."""
        self.chain = chain
        self.pins = pins
        self.declared = declared
        self.session = session
        self.listener = listener
        self.name = name
        self.ladder = Ladder(declared.form)
        self.discovered: bytes | None = None
        """The result of `server/discover`, if the component speaks stateless MCP."""
        self.app_tools: dict[str, AppTool] = {}
        """The tools with a page or for pages, from the server's last list."""
        self.connections: list[ServerConnection] = []
        self.calls: dict[str, PendingCall] = {}
        """Pending calls by `requestId`, or by progress token in generations without connections."""
        self.unanswered = 0
        """Requests to the component without a response, also requests whose client has left."""
        self._last_number = 0

    @property
    def label(self) -> str:
        """The server's name in errors."""
        return f"MCP server `{self.name}`"

    def refusal(self, what: str) -> bytes:
        """The error for a client that exceeds a limit."""
        hint = "(hint: wait for those that are open)"
        return error_object(INTERNAL_ERROR, f"{self.label}: {what} {hint}")

    def next_number(self) -> int:
        """A number that this server has not used before."""
        self._last_number += 1
        return self._last_number

    def connection_of(self, call: PendingCall) -> ServerConnection | None:
        """The connection that waits for a call's response; None if the client has cancelled it."""
        return next((connection for connection in self.connections if connection.has(call)), None)

    def addressee(self, message: McpMessage) -> tuple[ServerConnection | None, PendingCall | None]:
        """The connection that a component's message is for, and the call it belongs to."""
        if message.request_id is not None:
            call = self.calls.get(message.request_id)
            return (self.connection_of(call) if call is not None else None), call
        if message.connection is not None:
            named = (other for other in self.connections if other.id == message.connection)
            return next(named, None), None
        # Generations without connections name only the server. Most likely the message belongs to
        # the connection that sent the last request.
        latest = max(self.connections, key=lambda other: (other.latest, other.number), default=None)
        return latest, None


class _ConnectionState(Enum):
    """NEW → CONNECTING → OPEN → CLOSED.

    A failed attempt leads back to NEW, so that the next message tries again; a change of generation
    from OPEN to CONNECTING. Any state leads to CLOSED.
    """

    NEW = auto()
    CONNECTING = auto()
    OPEN = auto()
    CLOSED = auto()


class ServerConnection:
    """One connection to a component; the bridge makes it up in generations without connections."""

    def __init__(self, server: Server, on_closed: Callable[[], None]) -> None:
        """`on_closed`: the component has closed the connection."""
        self.server = server
        self.handler = ServerHandler()
        """The client's translation replaces the handler, once there is a translation."""
        self.generation = server.ladder.current
        self.id: bytes | None = None
        """Raw JSON; None in generations without connections."""
        self.number = server.next_number()
        self.latest = 0
        """The number of its last request."""
        self._chain = server.chain
        self._on_closed = on_closed
        self._state = _ConnectionState.NEW
        self._client_generation: Generation | None = None
        """The generation to connect in first, if not the server's likeliest."""
        self._on_open: OnResponse | None = None
        self._queue: list[PendingCall | Notification] = []
        """Waits, in order, until the connection is open."""
        self._calls: dict[PendingCall, None] = {}
        self._server_requests: dict[bytes, ServerRequest] = {}
        """Pending requests of the component, by canonical id."""
        server.connections.append(self)

    # -- opening -----------------------------------------------------------------------------

    def open(self, generation: Generation, on_open: OnResponse) -> None:
        """Connects now, first in the client's `generation`.

        `on_open` takes the connection's id (null if the component has no connections) or an error.
        """
        self._client_generation, self._on_open = generation, on_open
        self._begin()

    def _begin(self) -> None:
        self._state = _ConnectionState.CONNECTING
        self.generation = self._client_generation or self.server.ladder.current
        self._connect()

    def _connect(self) -> None:
        if self._state is _ConnectionState.CLOSED:
            return
        generation, server = self.generation, self.server
        if generation.connect is None:
            self._opened()
        elif generation.needs_session_id and not server.session.settled:
            server.session.wait(self._connect)
        elif server.unanswered >= limits.UNANSWERED:
            self._failed(self._full())
        else:
            fields = generations.fill(generation.connect_fields, self._address())
            server.unanswered += 1
            self._chain.request(generation.connect, write(fields), self._connected)

    def _connected(self, member: bytes, body: bytes) -> None:
        self.server.unanswered -= 1
        if member == b"error":
            self._not_connected(body)
            return
        self.id = generations.unwrap(body).connection
        if self._state is _ConnectionState.CLOSED:  # closed while the component was connecting
            self._disconnect()
        elif self.id is None:
            self._failed(_error(f"{self.server.label} was connected without an id"))
        else:
            if not self.generation.connect_is_shared:
                self.server.ladder.confirm(self.generation)
            self._opened()

    def _not_connected(self, error: bytes) -> None:
        # Any other error is the component's own refusal, which the client must see.
        unknown = error_code(error) in _UNKNOWN_GENERATION
        other = self._next_connect() if unknown else None
        self._client_generation = None
        if self._state is _ConnectionState.CLOSED:
            return
        if other is None:
            self._failed(error)
        else:
            self.generation = other
            self._connect()

    def _next_connect(self) -> Generation | None:
        """The next generation that connects in another form."""
        if self._client_generation is not None:
            return None if self.server.ladder.confirmed else self.server.ladder.current
        other = self.server.ladder.after(self.generation)
        while other is not None and other.connect == self.generation.connect:
            other = self.server.ladder.after(other)
        return other

    def _opened(self) -> None:
        self._state = _ConnectionState.OPEN
        self._report_open(b"result", self.id or NULL)
        queue, self._queue = self._queue, []
        for message in queue:
            self._write(message)

    def _failed(self, error: bytes) -> None:
        """The connection cannot be opened: fails all calls; a later call tries again."""
        self._state = _ConnectionState.NEW
        self._queue.clear()
        self._report_open(b"error", error)
        for call in list(self._calls):
            self._finish(call, b"error", call.first_error or error)

    def _report_open(self, member: bytes, body: bytes) -> None:
        on_open, self._on_open = self._on_open, None
        if on_open is not None:
            on_open(member, body)

    def _full(self) -> bytes:
        return self.server.refusal(f"{limits.UNANSWERED} requests are not answered")

    def _address(self) -> dict[str, object]:
        declared, session = self.server.declared, self.server.session.value
        return {
            "id": declared.id,
            "url": declared.url,
            "name": declared.name,
            "session": Raw(session) if session is not None else None,
            "connection": Raw(self.id) if self.id is not None else None,
        }

    # -- to the component ----------------------------------------------------------------------

    def request(self, call: PendingCall) -> None:
        """Sends a call, now or once the connection is open."""
        if len(self._queue) >= limits.UNANSWERED:
            call.on_response(b"error", self._full())
            return
        pins = self.server.pins
        if pins is not None:
            refused = pins.refuses(call.method, call.params)
            if refused is not None:
                call.on_response(b"error", refused)
                return
            pins.begin(call)
        self._calls[call] = None
        self.latest = self.server.next_number()
        self._enqueue(call)

    def has(self, call: PendingCall) -> bool:
        """Whether the call waits for its response here."""
        return call in self._calls

    def notify(self, method: str, params: bytes | None) -> None:
        """Sends a notification, in order. Dropped if the generation has none for components, or if
        too many messages wait for the connection."""
        if len(self._queue) < limits.UNANSWERED:
            self._enqueue(Notification(method, params))

    def _enqueue(self, message: PendingCall | Notification) -> None:
        if self._state is _ConnectionState.OPEN:
            self._write(message)
            return
        self._queue.append(message)
        if self._state is _ConnectionState.NEW:
            self._begin()

    def _write(self, message: PendingCall | Notification) -> None:
        if isinstance(message, PendingCall):
            self._send(message)
        elif (
            self.generation.notification is not None and self._state is not _ConnectionState.CLOSED
        ):
            params = self._wrap(message.method, message.params)
            self._chain.notify(self.generation.notification, params)

    def _wrap(self, method: str, params: bytes | None, id_: str | int | None = None) -> bytes:
        return generations.wrap(self.generation, self._address(), method, params, id_)

    def _send(self, call: PendingCall) -> None:
        # A call may have been cancelled or returned while it waited in the queue.
        if call not in self._calls or self._return_calls(call):
            return
        generation, server = self.generation, self.server
        if server.unanswered >= limits.UNANSWERED:
            self._finish(call, b"error", self._full())
            return
        server.unanswered += 1
        id_: str | int | None = None
        params = call.params
        if generation.stateless:
            id_ = call.key = call.request_id or f"{server.listener}-{server.next_number()}"
            server.calls[call.key] = call
        elif generation.nested:
            id_ = call.inner_id = server.next_number()
            params = self._with_own_token(call, id_)
        if generation.stateless and call.acp_params is not None:
            whole = call.acp_params
        else:
            whole = self._wrap(call.method, params, id_)
        call.id = self._chain.request(
            generation.request, whole, lambda member, body: self._responded(call, member, body)
        )

    def _return_calls(self, call: PendingCall) -> bool:
        """Returns `call`, and all calls like it, if the component is of another generation than the
        client passed them on in."""
        if call.on_other_generation is None or self.server.ladder.current.stateless:
            return False
        callbacks = {
            returned: returned.on_other_generation
            for returned in self._calls
            if returned.on_other_generation is not None
        }
        # All leave this connection first, since the first callback may close it.
        for returned in callbacks:
            del self._calls[returned]
        for give_back in callbacks.values():
            give_back()
        return True

    def _with_own_token(self, call: PendingCall, number: int) -> bytes | None:
        """The params with a progress token of this server. Progress names no connection in such
        generations, and two clients may use the same token."""
        fields = read(call.params)
        about = meta(fields)
        token = about.get("progressToken")
        if token is None:
            return call.params
        call.token, call.key = token, f"{self.server.listener}-{number}"
        self.server.calls[call.key] = call
        return with_meta(fields, {**about, "progressToken": call.key})

    def _responded(self, call: PendingCall, member: bytes, body: bytes) -> None:
        call.id = None
        server = self.server
        # Counted here, not when a client leaves: the component has worked on the call until now.
        server.unanswered -= 1
        server.calls.pop(call.key, None)
        if call not in self._calls:
            return  # its client has cancelled it, or left
        if member == b"error" and self._return_calls(call):
            return
        if server.ladder.confirmed:
            pass
        elif member == b"result":
            server.ladder.confirm(self.generation)
        elif error_code(body) in _UNKNOWN_GENERATION:
            other = server.ladder.after(self.generation)
            if other is not None and not call.cancelled and self._may_be(other, body):
                call.first_error = call.first_error or body
                self._retry(call, other)
                return
            if call.first_error is not None:
                # No generation knows the method. So the first error was about the method, not
                # about the generation.
                self.generation = server.ladder.rungs[0]
                self._finish(call, b"error", call.first_error)
                return
        self._finish(call, *generations.unwrap_response(self.generation, member, body))

    def _may_be(self, other: Generation, error: bytes) -> bool:
        """Whether an error may mean that the component speaks the generation `other`."""
        if self.id is None:
            return True
        return other.connect == self.generation.connect and error_code(error) == METHOD_NOT_FOUND

    def _retry(self, call: PendingCall, other: Generation) -> None:
        """Sends a call again, in another generation."""
        reconnect = other.connect != self.generation.connect
        self.generation = other
        if reconnect:
            self._state = _ConnectionState.CONNECTING
            self._queue.append(call)
            self._connect()
        else:
            self._send(call)

    def _finish(self, call: PendingCall, member: bytes, body: bytes) -> None:
        if self.server.pins is not None and member == b"result":
            outcome = self.server.pins.answered(call, body)
            if outcome is None and not call.cancelled:
                call.request_id = call.acp_params = call.on_other_generation = None
                self._send(call)
                return
            member, body = outcome or (b"error", _error("the request was cancelled"))
        self._calls.pop(call, None)
        call.on_response(member, body)

    def notify_cancelled(self, call: PendingCall, params: bytes | None) -> None:
        """Passes on a client's `notifications/cancelled`, with the id that the component knows."""
        if self.generation.nested:
            params = write({**read(params), "requestId": call.inner_id})
        if call.id is not None:
            self.notify(protocol.CANCELLED, params)

    def cancel(self, call: PendingCall, *, forget: bool = False) -> None:
        """Cancels a call. `forget`: its client wants no response."""
        call.cancelled = True
        if call.id is not None:
            self._chain.cancel(call.id)
        if forget:
            self._calls.pop(call, None)

    # -- from the component --------------------------------------------------------------------

    def received_request(self, id_: bytes, message: McpMessage, call: PendingCall | None) -> None:
        """A request of the component to its client."""
        key = canonical_id(id_) or id_
        # The response takes the form of the request: the component may send it before it has
        # shown its generation.
        generation = generations.PACP if message.nested else self.generation

        def reply(member: bytes, body: bytes) -> None:
            if self._server_requests.pop(key, None) is not None:
                wrapped = generations.wrap_response(generation, message.inner_id, member, body)
                self._chain.respond(id_, *wrapped)

        request = ServerRequest(message.method or "", message.params, reply, call)
        self._server_requests[key] = request
        if len(self._server_requests) > limits.UNANSWERED:
            request.reply(b"error", self._full())
        else:
            self.handler.server_request(request)

    def received_cancel(self, key: bytes) -> bool:
        """The component cancels a request; False if it was not over this connection."""
        request = self._server_requests.get(key)
        if request is not None:
            self.handler.server_cancel(request)
            # A client owes no answer any more, but ACP wants one.
            error = error_object(REQUEST_CANCELLED, "the request was cancelled")
            request.reply(b"error", error)
        return request is not None

    def received_notification(self, message: McpMessage, call: PendingCall | None) -> None:
        """A notification of the component to its client."""
        handler, method, params = self.handler, message.method or "", message.params
        if method == protocol.PROGRESS and self.generation.nested:
            fields = read(params)
            known = self.server.calls.get(text(fields.get("progressToken")) or "")
            connection = self.server.connection_of(known) if known is not None else None
            if connection is not None and known is not None and known.token is not None:
                call, handler = known, connection.handler
                params = write({**fields, "progressToken": known.token})
        handler.server_notification(method, params, call)

    def received_disconnect(self) -> None:
        """The component closes the connection."""
        self.id = None
        self._state = _ConnectionState.CLOSED
        for call in list(self._calls):
            self._finish(call, b"error", _error(f"{self.server.label} closed the connection"))
        self._on_closed()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Cancels all calls, answers the component's requests with errors, and disconnects."""
        if self in self.server.connections:
            self.server.connections.remove(self)
        for call in list(self._calls):
            self.cancel(call, forget=True)
        for request in list(self._server_requests.values()):
            request.reply(b"error", _error(f"the agent has disconnected from {self.server.label}"))
        was_open, self._state = self._state is _ConnectionState.OPEN, _ConnectionState.CLOSED
        self._queue.clear()
        self._report_open(b"error", _error(f"{self.server.label} is not offered any more"))
        if was_open:
            self._disconnect()

    def _disconnect(self) -> None:
        generation = self.generation
        if generation.disconnect is None or self.id is None:
            return
        params = write(generations.fill(generation.disconnect_fields, self._address()))
        if generation.disconnect_is_request:
            self._chain.request(generation.disconnect, params, ignore)
        else:
            self._chain.notify(generation.disconnect, params)


def _error(what: str) -> bytes:
    return error_object(INTERNAL_ERROR, what)
