"""The clients of a server that pages of its tools need: those whose calls show a page, and the
bridge itself, which reads pages and makes their requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Raw

from conductor.core.jsonrpc import INTERNAL_ERROR, METHOD_NOT_FOUND, error_object
from conductor.mcp import limits
from conductor.mcp.bridge import app_tools, protocol
from conductor.mcp.bridge.calls import Request
from conductor.mcp.bridge.clients import Clients
from conductor.mcp.bridge.endpoints import ClientConnection, OnResponse
from conductor.mcp.bridge.json import read, text, write
from conductor.mcp.bridge.servers import Server

_LIST: Final = "tools/list"
_CALL: Final = "tools/call"
_META: Final = {
    protocol.VERSION: protocol.MODERN,
    protocol.CAPABILITIES: {"extensions": app_tools.CLAIM},
}


class Watcher(Protocol):
    """Hears of a client's lists and calls."""

    shown: bool
    """Whether the editor shows pages."""

    def listed(self, server: Server, params: bytes | None, body: bytes) -> bytes:
        """A server has listed tools. Returns the list for the client."""

    def called(self, server: Server, params: bytes | None, body: bytes) -> None:
        """A server has answered a call, and the client has the answer."""


class WatchedClient(ClientConnection):
    """A client of the agent's."""

    def __init__(self, inner: ClientConnection, server: Server, watcher: Watcher) -> None:
        self._inner = inner
        self._server = server
        self._watcher = watcher
        self._heard: dict[bytes, tuple[str, bytes | None]] = {}
        """Method and params of its requests about tools that are not answered, by their ids."""

    def asked(self, id_: bytes, method: str, params: bytes | None) -> bytes | None:
        if method in (_LIST, _CALL) and len(self._heard) < limits.UNANSWERED:
            self._heard[id_] = method, params
        return app_tools.claiming(method, params) if self._watcher.shown else params

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        method, params = self._heard.pop(id_, ("", None))
        is_done = member == b"result"
        if is_done and method == _LIST:
            body = self._watcher.listed(self._server, params, body)
        self._inner.respond(id_, member, body)
        if is_done and method == _CALL and self._server.app_tools:
            self._watcher.called(self._server, params, body)

    def no_response(self, id_: bytes) -> None:
        self._heard.pop(id_, None)
        self._inner.no_response(id_)

    def request(
        self, method: str, params: bytes | None, on_response: OnResponse, related: bytes | None
    ) -> bytes | None:
        return self._inner.request(method, params, on_response, related)

    def notify(self, method: str, params: bytes | None, related: bytes | None) -> None:
        self._inner.notify(method, params, related)

    def cancel(self, id_: bytes, related: bytes | None) -> None:
        self._inner.cancel(id_, related)

    def close(self) -> None:
        self._inner.close()


class PageClient(ClientConnection):
    """The bridge as a client of one server, of the revision without sessions."""

    def __init__(self, server: Server, clients: Clients, ended: Callable[[], None]) -> None:
        """`ended`: the server is closed."""
        self._ended = ended
        self._last = 0
        self._pending: dict[bytes, OnResponse] = {}
        self._client = clients.open(server, self)

    def ask(self, method: str, params: dict[str, Raw], on_response: OnResponse) -> None:
        """Sends the server a request."""
        self._last += 1
        id_ = b"%d" % self._last
        self._pending[id_] = on_response
        self._client.received(Request(id_, method, write({**params, "_meta": _META})))

    def respond(self, id_: bytes, member: bytes, body: bytes) -> None:
        if text(read(body).get("resultType")) == "input_required":
            member, body = b"error", error_object(INTERNAL_ERROR, "the server asks for input")
        on_response = self._pending.pop(id_, None)
        if on_response is not None:
            on_response(member, body)

    def no_response(self, id_: bytes) -> None:
        """Does nothing: a page cancels nothing."""

    def request(
        self, method: str, params: bytes | None, on_response: OnResponse, related: bytes | None
    ) -> bytes | None:
        why = f"`{method}`: a page of a tool answers no requests"
        on_response(b"error", error_object(METHOD_NOT_FOUND, why))
        return None

    def notify(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Does nothing: pages hear only the answers to their requests."""

    def close(self) -> None:
        self._ended()
        pending, self._pending = self._pending, {}
        for on_response in pending.values():
            on_response(
                b"error", error_object(INTERNAL_ERROR, "the server is not offered any more")
            )
