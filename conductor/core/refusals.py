"""Answers to what never became a pending request: junk, wrong versions, ids that are none."""

from __future__ import annotations

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.effects import Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Message
from conductor.core.peer import Lane
from conductor.core.pending import Batch


def refuse_frame(
    exchange: Exchange, lane: Lane, frame: bytes, error: Malformed, out: list[Effect]
) -> None:
    """Junk is answered to whoever could make use of it: upstream, or where an id was read."""
    if not frame or frame.isspace():
        return
    exchange.note(out, "warning", lane.peer, f"{error.text}: {frame[:120]!r}")
    if error.id is None and lane.peer is not exchange.upstream:
        return  # some agents choke on an unexpected error
    body = jsonrpc.error_object(error.code, error.text)
    answer = lane.writer.answer(error.id or b"null", b"error", body)
    out.append(Send(lane.peer.name, answer))


def refuse_message(
    exchange: Exchange,
    lane: Lane,
    message: Message,
    text: str,
    batch: Batch | None,
    out: list[Effect],
) -> None:
    """The same for a message that could be read and is none of JSON-RPC 2.0: `text` says why."""
    raw = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
    error = Malformed(INVALID_REQUEST, text, raw)
    if raw is not None or batch is not None or lane.peer is exchange.upstream:
        refuse(exchange, lane, error, batch, out)
    else:
        exchange.note(out, "warning", lane.peer, error.text)


def refuse(
    exchange: Exchange, lane: Lane, error: Malformed, batch: Batch | None, out: list[Effect]
) -> None:
    """Answers under the id the error carries, or null, within its batch if it came in one."""
    exchange.note(out, "warning", lane.peer, error.text)
    body = jsonrpc.error_object(error.code, error.text)
    frame = lane.writer.answer(error.id or b"null", b"error", body)
    if batch is None:
        out.append(Send(lane.peer.name, frame))
    else:
        exchange.add_to_batch(lane, batch, frame, out)
