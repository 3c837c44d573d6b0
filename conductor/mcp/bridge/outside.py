"""MCP servers of the client that conductor reaches in the agent's place.

Each connection of the agent's client is a link of its own: a process, or a session over HTTP. For
the bridge such a server is like a component's server of the generation of the Rust SDK 2.x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Malformed,
    Message,
    canonical_id,
    error_object,
)
from conductor.mcp.bridge import protocol
from conductor.mcp.bridge.declarations import Declaration
from conductor.mcp.bridge.effects import CloseLink, Effect, OpenLink, ToLink
from conductor.mcp.bridge.endpoints import Endpoint, OnResponse, outcome_of
from conductor.mcp.bridge.generations import CONNECTS, DISCONNECTS, McpMessage, unwrap
from conductor.mcp.bridge.json import EMPTY, bytes_of, read, text, write

if TYPE_CHECKING:
    from conductor.mcp.bridge.servers import Server, ServerConnection


class Outside(Endpoint):
    """The way to one server of the client."""

    def __init__(self, listener: str, reach: Declaration, emit: Callable[[Effect], None]) -> None:
        """`reach`: how to reach the server."""
        self._listener = listener
        self._reach = reach
        self._emit = emit
        self._last = 0
        self._links: set[str] = set()
        self._pending: dict[bytes, tuple[str, OnResponse]] = {}
        """Requests to the server, with their links."""

    # -- to the server -------------------------------------------------------------------------

    def request(self, method: str, params: bytes, on_response: OnResponse) -> bytes:
        self._last += 1
        if method in CONNECTS:
            link = f"{self._listener}/{self._last}"
            self._links.add(link)
            self._emit(OpenLink(link, self._reach))
            on_response(b"result", write({"connectionId": link}))
            return b"null"
        message = unwrap(params)
        link = text(message.connection) or ""
        if method in DISCONNECTS:
            self._close(link)
            on_response(b"result", EMPTY)
        elif link not in self._links:
            on_response(b"error", error_object(INTERNAL_ERROR, "the MCP server has ended"))
        else:
            id_ = b"%d" % self._last
            self._pending[id_] = link, on_response
            asked = jsonrpc.request(id_, message.method or "", message.params or EMPTY)
            self._emit(ToLink(link, asked))
            return id_
        return b"null"

    def notify(self, method: str, params: bytes) -> None:
        message = unwrap(params)
        link = text(message.connection) or ""
        # Which request is cancelled, only `cancel` knows.
        if link in self._links and message.method != protocol.CANCELLED:
            said = jsonrpc.notification(message.method or "", message.params or EMPTY)
            self._emit(ToLink(link, said))

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        link, _, asked = (text(id_) or "").partition(" ")
        if link in self._links:
            self._emit(ToLink(link, jsonrpc.answer(asked.encode(), member, body)))

    def cancel(self, id_: bytes) -> None:
        link, on_response = self._pending.pop(id_, ("", None))
        if on_response is not None:
            params = b'{"requestId":%b}' % id_
            self._emit(ToLink(link, jsonrpc.notification(protocol.CANCELLED, params)))
            on_response(b"error", error_object(REQUEST_CANCELLED, "the request was cancelled"))

    def _close(self, link: str) -> None:
        if link in self._links:
            self._links.discard(link)
            self._emit(CloseLink(link))
            self._fail(link, "the connection to the MCP server was closed")

    def _fail(self, link: str, why: str) -> None:
        for id_ in [id_ for id_, (at, _) in self._pending.items() if at == link]:
            _, on_response = self._pending.pop(id_)
            on_response(b"error", error_object(INTERNAL_ERROR, why))

    def close(self) -> None:
        """Closes all links."""
        for link in list(self._links):
            self._close(link)

    # -- from the server -----------------------------------------------------------------------

    def received(self, server: Server, link: str, frame: bytes) -> None:
        """One line of a link."""
        try:
            parsed = jsonrpc.parse(frame)
        except Malformed as error:
            # Text between messages is ignored. But somebody may wait for a message that is none.
            if error.code == INVALID_REQUEST and frame.lstrip().startswith(b"{"):
                self._emit(CloseLink(link))
                self.ended(server, link, f"sent a message that cannot be read: {error.text}")
            return
        for each in parsed if isinstance(parsed, list) else [parsed]:
            message = each if isinstance(each, Message) else jsonrpc.message_of(bytes(each))
            if message is not None and link in self._links:
                self._take(server, link, message)

    def _take(self, server: Server, link: str, message: Message) -> None:
        method, id_ = message.method, bytes_of(message.id)
        if isinstance(method, UnsetType):
            key = canonical_id(id_) if id_ is not None else None
            at, on_response = self._pending.get(key or b"", ("", None))
            if on_response is not None and at == link:
                del self._pending[key or b""]
                on_response(*outcome_of(message))
            return
        connection = _connection(server, link)
        if connection is None:
            return
        said = McpMessage(method, bytes_of(message.params))
        if id_ is not None:
            connection.received_request(_asked(link, id_), said, None)
        elif method == protocol.CANCELLED:
            wanted = read(said.params).get("requestId", Raw(b"null"))
            connection.received_cancel(_asked(link, bytes(wanted)))
        else:
            connection.received_notification(said, None)

    def ended(self, server: Server, link: str, why: str) -> None:
        """A link has ended."""
        if link not in self._links:
            return
        self._links.discard(link)
        self._fail(link, f"{server.label} {why}")
        connection = _connection(server, link)
        if connection is not None:
            connection.received_disconnect()


def _asked(link: str, id_: bytes) -> bytes:
    """The id of a server's request, with its link: requests of two links may have the same id."""
    return write(f"{link} {(canonical_id(id_) or id_).decode()}")


def _connection(server: Server, link: str) -> ServerConnection | None:
    named = write(link)
    return next((each for each in server.connections if each.id == named), None)
