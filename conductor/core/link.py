"""One connection's JSON-RPC bookkeeping: fresh ids, what waits for whom, batch slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conductor.core import jsonrpc
from conductor.core.dialects import Writer

if TYPE_CHECKING:
    from conductor.core.effects import Effect
    from conductor.core.peer import Peer


class Batch:
    """The answers of one JSON-RPC array, sent as one array once all are there."""

    __slots__ = ("_answers", "_open")

    def __init__(self, entries: int) -> None:
        self._answers: list[bytes] = []
        self._open = entries

    def add(self, answer: bytes | None) -> bytes | None:
        """Notes one entry's answer (None: it needs none); the whole array when it was the last."""
        if answer is not None:
            self._answers.append(answer.rstrip(b"\n"))
        self._open -= 1
        if self._open or not self._answers:
            return None
        return b"[" + b",".join(self._answers) + b"]\n"


class Pending:
    """One request on its way: who asked under which id, and where it went under which."""

    __slots__ = ("batch", "cancelled", "hook", "key", "method", "origin", "raw_id", "target", "target_key", "writer")

    def __init__(
        self,
        origin: Peer | None,
        key: bytes,
        raw_id: bytes,
        writer: Writer,
        method: str,
        batch: Batch | None = None,
    ) -> None:
        self.origin = origin
        """Who asked; None for a request the conductor itself makes, or once the asker is gone."""
        self.key = key
        self.raw_id = raw_id
        self.writer = writer
        self.method = method
        self.batch = batch
        self.target: Peer | None = None
        self.target_key = b""
        self.cancelled = False
        self.hook: Callable[[Pending, bytes, bytes, list[Effect]], None] | None = None


class Link:
    """The two tables of one connection, keyed by raw id (with a side byte where sides have id
    spaces of their own).

    `sent`: requests written to the peer that it has not answered. `received`: requests it made
    that have not been answered.
    """

    __slots__ = ("_last", "received", "sent")

    def __init__(self) -> None:
        self._last = 0
        self.sent: dict[bytes, Pending] = {}
        self.received: dict[bytes, Pending] = {}

    def fresh_id(self) -> bytes:
        """An id this link has not used before, as raw JSON."""
        self._last += 1
        return b"%d" % self._last


def refusal(pending: Pending, code: int, text: str, data: object = None) -> bytes:
    """The frame that answers `pending` with an error of the conductor's own."""
    return pending.writer.answer(pending.raw_id, b"error", jsonrpc.error_object(code, text, data))
