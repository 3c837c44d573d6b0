"""Frames and messages that never become a visit: they are answered with an error at once."""

from __future__ import annotations

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Message
from conductor.core.parts import Part
from conductor.core.state import Batch, Lane


class Rejections(Part):
    """The part of a router that refuses frames it cannot read, and messages it may not take."""

    def reject_frame(self, lane: Lane, frame: bytes, error: Malformed) -> None:
        """Answers junk where somebody could use the answer: upstream, or where an id was read."""
        if not frame.removeprefix(jsonrpc.BOM).strip():
            return
        self._exchange.log("warning", lane.peer, f"{error.text}: {frame[:120]!r}")
        if error.id is None and lane.peer is not self._exchange.upstream:
            return  # some agents choke on an unexpected error
        body = jsonrpc.error_object(error.code, error.text, error.data)
        self._exchange.deliver(lane.peer, lane.writer.answer(error.id or b"null", b"error", body))

    def reject_message(self, lane: Lane, message: Message, text: str, batch: Batch | None) -> None:
        """Answers a message that could be read but is not JSON-RPC 2.0. `text`: the reason."""
        answers = batch is None or lane.peer is self._exchange.upstream
        raw = jsonrpc.canonical_id(message.id) if answers and isinstance(message.id, Raw) else None
        error = Malformed(INVALID_REQUEST, text, raw)
        if raw is not None or batch is not None or lane.peer is self._exchange.upstream:
            self.reject(lane, error, batch)
        else:
            self._exchange.log("warning", lane.peer, error.text)

    def reject(self, lane: Lane, error: Malformed, batch: Batch | None) -> None:
        """Answers under the id the error carries, or null, within its batch if it has one.

        Upstream alone gets null within a batch: with any other peer it may have been no batch.
        """
        self._exchange.log("warning", lane.peer, error.text)
        if batch is not None and error.id is None and lane.peer is not self._exchange.upstream:
            self._exchange.add_to_batch(lane, batch, None)
            return
        body = jsonrpc.error_object(error.code, error.text)
        frame = lane.writer.answer(error.id or b"null", b"error", body)
        if batch is None:
            self._exchange.deliver(lane.peer, frame)
        else:
            self._exchange.add_to_batch(lane, batch, frame)
