"""The agent's end of a connection: an MCP client that came in by a shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from conductor.core import jsonrpc
from conductor.mcp.bridge.effects import CloseConnection, Effect, NoAnswer, ToConnection
from conductor.mcp.bridge.line import OnAnswer


class Consumer(Protocol):
    """Whoever uses a server: told answers, notifications and requests of MCP."""

    def answer(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the client."""

    def give_up(self, id_: bytes) -> None:
        """A request of the client was cancelled and is not answered."""

    def ask(
        self, method: str, params: bytes | None, on_answer: OnAnswer, related: bytes | None
    ) -> bytes | None:
        """Asks the client something; the raw id used, or None where that cannot be."""

    def tell(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Sends the client a notification."""

    def drop(self) -> None:
        """Closes the connection."""


class StreamConsumer:
    """A client that speaks plain MCP over a shell's connection."""

    def __init__(self, connection: str, emit: Callable[[Effect], None]) -> None:
        self.connection = connection
        self._emit = emit
        self._last = 0
        self._open: dict[bytes, OnAnswer] = {}

    def answer(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the client."""
        self._send(jsonrpc.answer(id_, member, body), None)

    def give_up(self, id_: bytes) -> None:
        """A request of the client was cancelled and is not answered."""
        self._emit(NoAnswer(self.connection, id_))

    def ask(
        self, method: str, params: bytes | None, on_answer: OnAnswer, related: bytes | None
    ) -> bytes | None:
        """Asks the client something; the raw id used."""
        self._last += 1
        id_ = b"%d" % self._last
        self._open[id_] = on_answer
        self._send(jsonrpc.request(id_, method, params or b"{}"), related)
        return id_

    def tell(self, method: str, params: bytes | None, related: bytes | None) -> None:
        """Sends the client a notification."""
        whole = jsonrpc.notification(method, params if params is not None else b"{}")
        self._send(whole, related)

    def drop(self) -> None:
        """Closes the connection."""
        self._emit(CloseConnection(self.connection))

    def answered(self, id_: bytes, member: bytes, body: bytes) -> None:
        """The client answered a request."""
        on_answer = self._open.pop(id_, None)
        if on_answer is not None:
            on_answer(member, body)

    def _send(self, frame: bytes, related: bytes | None) -> None:
        self._emit(ToConnection(self.connection, frame[:-1], related))
