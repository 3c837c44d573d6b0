"""Frames that a transport did not take, from a peer or for it: requests that wait for them get an
answer."""

from __future__ import annotations

import re
from typing import Final

from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Malformed, Message
from conductor.core.parts import Part
from conductor.core.policy.states import State
from conductor.core.state import Lane, Peer
from conductor.patterns import lazy_pattern

# The members before a payload, in any order; then the name of the next one.
_HEAD: Final = lazy_pattern(
    rb"""(?:\xef\xbb\xbf)?\s*\{\s*((?:"(?:jsonrpc|method|id)"\s*:\s*(?:"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null)\s*,\s*)*)"(\w+)"\s*:""",
    re.DOTALL,
)
_ID: Final = lazy_pattern(rb'"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null)', re.DOTALL)
_LAST_ID: Final = lazy_pattern(
    rb'[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null)\s*\}\s*\Z', re.DOTALL
)
_LOOKED_AT: Final = 65_536
"""Bytes at the start of a skipped line in which its id is looked for."""
_LAST_LOOKED_AT: Final = 2048
"""Bytes at the end of the line in which its id is looked for."""
_ANSWERS: Final = (b"result", b"error")
_LOST: Final = "the answer could not be delivered"


class Oversize(Part):
    """The part of a router that answers for frames nobody took."""

    def skipped(self, peer: Peer, head: bytes, why: str, *, whole: bool = False) -> bool:
        """A line of `peer` was too long, too deep or too costly to be taken.

        Where an id can be read off it, somebody gets an error: the sender of a request, or the
        asker of the request that this was the answer to.

        Args:
            head: its first bytes.
            whole: these are all its bytes.

        Returns:
            Whether an id can be read.
        """
        peer.next_number = 0  # it was announced for this line
        lane, raw, following = _read(peer, head, whole=whole)
        if raw is None:
            lane.requests.lost = True
            return False
        if following not in _ANSWERS:
            body = jsonrpc.error_object(INVALID_REQUEST, why)
            self._exchange.deliver(peer, lane.writer.answer(raw, b"error", body))
        elif (pending := lane.requests.lose(raw)) is not None:
            text = f"the answer of {peer.label} to `{pending.method}` was lost: {why}"
            body = jsonrpc.error_object(INTERNAL_ERROR, text, {"component": peer.name})
            self._parts.answers.complete(pending, b"error", body)
        return True

    def undeliverable(self, peer: Peer, frame: bytes, why: str) -> None:
        """A frame sent to `peer` was refused by its transport.

        A request in it is answered in the peer's stead; an answer in it is replaced by a short
        error. If that error is refused too, an error without the reason is the last try.
        """
        self._exchange.log("warning", peer, f"not delivered: {why}")
        lane, frame = _lane(peer, frame)
        try:
            message = jsonrpc.parse(frame)
            single = isinstance(message, Message)
            entries = (
                [message]
                if isinstance(message, Message)
                else [jsonrpc.parse(bytes(entry)) for entry in message]
            )
        except Malformed as error:
            self._exchange.log("error", peer, f"not delivered: {error.text}")
            return
        answers: list[Message] = []
        for entry in entries:
            if not isinstance(entry, Message) or not isinstance(entry.id, Raw):
                continue
            if entry.method is UNSET:
                answers.append(entry)
                self._parts.policed.answer_lost(lane, bytes(entry.id))
            else:
                self._request_lost(lane, bytes(entry.id), why)
        if answers:
            frames = [_short(entry, why) for entry in answers]
            whole = frames[0] if single else b"[" + b",".join(frames) + b"]"
            if whole != frame.rstrip(b"\n"):
                self._exchange.deliver(peer, lane.writer.tag + whole + b"\n")

    def _request_lost(self, lane: Lane, raw: bytes, why: str) -> None:
        pending = lane.requests.lose(raw)
        if pending is None:
            return
        peer = lane.peer
        if pending.state is not State.CLOSED and self._parts.policed.lost(pending):
            return
        text = f"{peer.label} was not given `{pending.method}`: {why}"
        body = jsonrpc.error_object(INVALID_REQUEST, text, {"component": peer.name})
        if pending.state is State.CLOSED:
            self._parts.answers.complete(pending, b"error", body)
        else:
            self._exchange.reply(pending, b"error", body)


def _short(answer: Message, why: str) -> bytes:
    """The error that a peer gets in the place of an answer that it cannot get."""
    text = _LOST if answer.result is UNSET else f"{_LOST}: {why}"
    body = jsonrpc.error_object(INTERNAL_ERROR, text)
    return jsonrpc.answer(bytes(answer.id), b"error", body).rstrip(b"\n")  # type: ignore[arg-type]


def request_id(head: bytes) -> bytes | None:
    """The id of a request, by the start of its line; None: no id can be read, or it is no
    request."""
    raw, following = _members(head[:_LOOKED_AT])
    return raw if following not in _ANSWERS else None


def _read(peer: Peer, line: bytes, *, whole: bool) -> tuple[Lane, bytes | None, bytes]:
    """Of a line, or of its start: its lane, its id (None: none can be read), and the name of its
    first member with a payload."""
    lane, head = _lane(peer, line[:_LOOKED_AT])
    raw, following = _members(head, line[-_LAST_LOOKED_AT:] if whole else b"")
    return lane, raw, following


def _members(head: bytes, tail: bytes = b"") -> tuple[bytes | None, bytes]:
    """The id that stands before a payload, or at the end of the line, and the payload's name."""
    members = _HEAD.match(head)
    if members is None:
        return None, b""
    before, following = members.groups()
    with_id = _ID.search(before) or _LAST_ID.search(tail)
    return jsonrpc.canonical_id(with_id.group(1)) if with_id is not None else None, following


def _lane(peer: Peer, frame: bytes) -> tuple[Lane, bytes]:
    """The lane a frame of, or for, this peer belongs to, and the frame without its side byte."""
    if not peer.sideband:
        return peer.p, frame
    return peer.sides.get(frame[:1], peer.c), frame[1:]
