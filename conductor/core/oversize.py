"""Frames that a transport would not take, from a peer or to one: whoever waits is told."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.core.effects import Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Malformed, Message
from conductor.core.peer import Lane, Peer

# The members before a payload, in any order; then the name of the next one.
_HEAD: Final = re.compile(
    rb"""\s*\{\s*((?:"(?:jsonrpc|method|id)"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?\d+|null)\s*,\s*)*)"(\w+)"\s*:""",
    re.DOTALL,
)
_LOOKED_AT: Final = 65_536
"""Bytes of a skipped line in which its id is looked for."""

_ID: Final = re.compile(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+|null)', re.DOTALL)


def skipped(exchange: Exchange, peer: Peer, head: bytes, why: str, out: list[Effect]) -> None:
    """A line of `peer` was too long, or too costly, to be taken; `head`: its first bytes, or all.

    Where an id can be read off them, whoever waits is told: the sender of a request, or the one
    whose request this was the answer to.
    """
    peer.mark = 0
    lane, head = _lane(peer, head[:_LOOKED_AT])
    found = _HEAD.match(head)
    if found is None:
        return
    before, following = found.groups()
    with_id = _ID.search(before)
    raw = jsonrpc.canonical_id(with_id.group(1)) if with_id is not None else None
    if raw is None:
        return
    if following not in (b"result", b"error"):
        body = jsonrpc.error_object(INVALID_REQUEST, why)
        out.append(Send(peer.name, lane.writer.answer(raw, b"error", body)))
        return
    pending = lane.link.sent.pop(raw, None)
    if pending is not None:
        text = f"the answer of {peer.label} to `{pending.method}` was lost: {why}"
        body = jsonrpc.error_object(INTERNAL_ERROR, text, {"component": peer.name})
        exchange.complete(pending, b"error", body, out)


def undeliverable(
    exchange: Exchange, peer: Peer, frame: bytes, why: str, out: list[Effect]
) -> None:
    """A frame sent to `peer` was refused by its transport.

    A request in it is answered in the peer's stead; a result in it is replaced by an error, which
    is short.
    """
    exchange.note(out, "warning", peer, f"not delivered: {why}")
    lane, frame = _lane(peer, frame)
    try:
        found = jsonrpc.parse(frame)
        entries = (
            [found] if isinstance(found, Message) else [jsonrpc.parse(bytes(e)) for e in found]
        )
    except Malformed as error:
        exchange.note(out, "error", peer, f"what was not delivered: {error.text}")
        return
    lost = []
    for entry in entries:
        if not isinstance(entry, Message) or not isinstance(entry.id, Raw):
            continue
        if entry.method is UNSET:
            lost.append(entry)
        else:
            _not_given(exchange, lane, bytes(entry.id), why, out)
    if any(entry.result is not UNSET for entry in lost):
        body = jsonrpc.error_object(INTERNAL_ERROR, f"the answer could not be delivered: {why}")
        answers = [jsonrpc.answer(bytes(e.id), b"error", body) for e in lost]  # type: ignore[arg-type]
        whole = answers[0]
        if not isinstance(found, Message):
            whole = b"[" + b",".join(answer.rstrip(b"\n") for answer in answers) + b"]\n"
        out.append(Send(peer.name, lane.writer.tag + whole))


def _not_given(exchange: Exchange, lane: Lane, raw: bytes, why: str, out: list[Effect]) -> None:
    pending = lane.link.sent.pop(raw, None)
    if pending is None:
        return
    peer, carried = lane.peer, pending.given
    text = f"{peer.label} was not given `{pending.method}`: {why}"
    body = jsonrpc.error_object(INVALID_REQUEST, text, {"component": peer.name})
    if carried is None or not exchange.enforcer.requests.lost(carried, out):
        pending.hook = None if carried is not None else pending.hook
        exchange.complete(pending, b"error", body, out)


def _lane(peer: Peer, frame: bytes) -> tuple[Lane, bytes]:
    """The lane a frame of, or for, this peer belongs to, and the frame without its side byte."""
    if not peer.sideband:
        return peer.p, frame
    return peer.sides.get(frame[:1], peer.c), frame[1:]
