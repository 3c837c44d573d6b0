"""Requests of the bridge's own, one way: under ids nobody else uses, and who gets the answers."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL

OnAnswer = Callable[[bytes, bytes], None]
"""Takes an answer: `result` or `error`, and its body."""


class Line:
    """Writes messages one way. `prefix` begins every id; nobody else's ids do."""

    def __init__(self, emit: Callable[[bytes], None], prefix: str) -> None:
        self._emit = emit
        self._prefix = prefix
        self._last = 0
        self._open: dict[bytes, OnAnswer] = {}

    def ask(self, method: str, params: bytes, on_answer: OnAnswer) -> bytes:
        """Sends a request; its raw id."""
        self._last += 1
        id_ = b'"%b%d"' % (self._prefix.encode(), self._last)
        self._open[id_] = on_answer
        self._emit(jsonrpc.request(id_, method, params))
        return id_

    def tell(self, method: str, params: bytes) -> None:
        """Sends a notification."""
        self._emit(jsonrpc.notification(method, params))

    def answer(self, id_: bytes, member: bytes, body: bytes) -> None:
        """Answers a request of the other side."""
        self._emit(jsonrpc.answer(id_, member, body))

    def cancel(self, id_: bytes) -> None:
        """Asks that a request still open be cancelled; it is answered nevertheless."""
        if id_ in self._open:
            self._emit(jsonrpc.notification(CANCEL, b'{"requestId":%b}' % id_))

    def take(self, message: jsonrpc.Message) -> bool:
        """Takes an answer; whether it is one to a request of ours."""
        ident, result, error = message.id, message.result, message.error
        key = jsonrpc.canonical_id(ident) if isinstance(ident, Raw) else None
        on_answer = self._open.pop(key, None) if key is not None else None
        if on_answer is None:
            return False
        if isinstance(error, Raw) and bytes(error) != b"null":
            on_answer(b"error", bytes(error))
        else:
            on_answer(b"result", bytes(result) if isinstance(result, Raw) else b"null")
        return True
