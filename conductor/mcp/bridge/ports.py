"""One MCP client's way to a session that is shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conductor.core.jsonrpc import METHOD_NOT_FOUND, error_object
from conductor.mcp.bridge.adapters import Request, cancelled
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.consumers import Consumer
from conductor.mcp.bridge.line import OnAnswer
from conductor.mcp.bridge.revisions import CANCELLED

if TYPE_CHECKING:
    from conductor.mcp.bridge.downgrade import Downgrade


class Port:
    """One client's way to the session."""

    def __init__(self, hub: Downgrade, consumer: Consumer) -> None:
        self._hub = hub
        self._consumer = consumer
        self.open = True

    def request(self, asked: Request) -> None:
        """The client asks."""
        self._hub.request(self, asked)

    def notification(self, method: str, params: bytes | None) -> None:
        """The client tells: only a cancellation means something to it."""
        key = cancelled(params) if method == CANCELLED else None
        if key is not None and self._hub.cancel(self, key):
            self._consumer.give_up(key)

    def cancel(self, key: bytes) -> None:
        """The client's request of this id is to be cancelled, and answered nevertheless."""
        if self._hub.cancel(self, key):
            self._consumer.give_up(key)

    def closed(self) -> None:
        """The client is gone."""
        if self.open:
            self.open = False
            self._hub.leave(self)

    def answer(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers the client."""
        if self.open:
            self._consumer.answer(id_, member, body)

    def tell(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Notifies the client."""
        self._consumer.tell(method, params, related)

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """The client's own provider is not connected."""
        reply(b"error", error_object(METHOD_NOT_FOUND, f"`{method}`: nobody is there"))

    def withdrawn(self, reply: OnAnswer) -> None:
        """Nothing is ever left open."""

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """The client's own provider is not connected."""
