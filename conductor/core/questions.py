"""Requests and notifications of the conductor itself to the client, past every proxy."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.effects import Answered, Closure
from conductor.core.json_text import has_object
from conductor.core.parts import Parts
from conductor.core.state import Straight, Visit

_NO_CLIENT: Final = Closure("no client is there to answer")


def _declares_notices(params: Raw) -> bool:
    """Version 1: whether the client's `initialize` says that it shows notices."""
    return has_object(params, "clientCapabilities", "session", "notices")


class Questions:
    """The part of a router that asks the client."""

    def __init__(self, parts: Parts) -> None:
        self._exchange = parts.exchange
        self._open: dict[Visit, int] = {}
        """The requests without an answer, with their tokens."""
        self._deaf = False

    def ask(self, method: str, params: bytes, token: int) -> None:
        """Sends the client a request. The answer is an error in proxy mode, and without a client
        that has sent `initialize`."""
        exchange, client = self._exchange, self._exchange.upstream
        pending = exchange.own_request(method)
        pending.followers = (Straight(client),)
        self._open[pending] = token
        if exchange.topology.mode == "agent" and client.admitted and not self._deaf:
            exchange.send(client.p, method, params, pending)
        else:
            pending.traced = None  # it was never sent
            exchange.fail(pending, _NO_CLIENT)

    def tell(self, method: str, params: bytes) -> None:
        """Sends the client a notification."""
        exchange, client = self._exchange, self._exchange.upstream
        exchange.deliver(client, client.p.writer.notification(method, params))
        if exchange.logs:
            exchange.entries.notified(None, client.p, method, params)

    def shows_notices(self) -> bool:
        """Whether the client takes updates of the kind `notice`."""
        params, version = self._exchange.upstream.initialize, self._exchange.version
        if self._exchange.topology.mode != "agent" or not isinstance(params, Raw):
            return False
        return version == 2 or _declares_notices(params)

    def ended(self, reason: Closure) -> None:
        """Nothing more comes from the client: open questions are answered with an error."""
        self._deaf = True
        for pending in list(self._open):
            self._exchange.fail(pending, reason)

    def answered(self, pending: Visit, member: bytes, body: bytes) -> None:
        """A question is answered."""
        self._exchange.emit(Answered(self._open.pop(pending), member, body))
