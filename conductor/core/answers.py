"""Answers: each belongs to one request that was written to the peer, and completes it."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc, turns
from conductor.core.effects import Effect
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INTERNAL_ERROR, Message
from conductor.core.peer import Lane


def take(exchange: Exchange, lane: Lane, message: Message, out: list[Effect]) -> bool:
    """Completes the request an answer is for; whether it is an answer at all. A malformed one is an
    error for who asked."""
    peer = lane.peer
    key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
    pending = lane.link.sent.pop(key, None) if key is not None else None
    if pending is None:
        if not message.answers:
            return False
        what = "no request is open under its id" if key is not None else "it has no valid id"
        exchange.note(out, "warning", peer, f"answer dropped: {what}")
        return True
    pending.answer = exchange.number
    result, error = message.result, message.error
    if isinstance(error, Raw) and bytes(error) == b"null":
        error = UNSET
    wrong = _wrong(message, error)
    if wrong is not None:
        text = f"{peer.label} answered `{pending.method}` {wrong}"
        body = jsonrpc.error_object(INTERNAL_ERROR, text, {"component": peer.name})
        exchange.complete(pending, b"error", body, out)
    elif isinstance(error, Raw):
        exchange.complete(pending, b"error", error, out)
    else:
        assert isinstance(result, Raw)
        if peer.turns is not None and pending.session is not None and exchange.version == 2:
            turns.accepted(peer, pending.session)
        exchange.complete(pending, b"result", result, out)
    return True


def _wrong(message: Message, error: Raw | UnsetType) -> str | None:
    """What is wrong with an answer whose error, unless it is null, is `error`."""
    if message.jsonrpc != "2.0":
        return 'without `"jsonrpc":"2.0"`'
    if isinstance(error, UnsetType):
        return "with neither result nor error" if message.result is UNSET else None
    if message.result is not UNSET:
        return "with both result and error"
    return None if memoryview(error)[0] == ord("{") else "with an error that is no object"
