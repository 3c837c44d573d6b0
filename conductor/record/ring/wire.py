"""Reads the lines of a ring: what a peer sent or got, as messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from conductor.core import json_text, jsonrpc
from conductor.core.dialects import ENVELOPES, INITIALIZE, ROLE_METHODS
from conductor.core.json_text import read_members
from conductor.core.jsonrpc import Malformed
from conductor.core.message import Message
from conductor.record import sides
from conductor.run.ring import Chunk

_MEMBER: Final = re.compile(rb'[\s,{]*"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+|null)?')
_SESSION: Final = re.compile(rb'"sessionId"\s*:\s*("(?:[^"\\]|\\.)*")')
_LAST_ID: Final = re.compile(rb',\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)\s*\}\s*$')
_BODIES: Final = {b"params": "params", b"message": "params", b"result": "result", b"error": "error"}
_LEVELS: Final = 3
"""Of a line that was cut: the message, an envelope's params, the message in them."""

_text: Final = json_text.Decoder(str)


class Wire(msgspec.Struct, gc=False):
    """A message on one connection."""

    at: float
    peer: str
    sent: bool
    """Whether the peer sent it, or got it."""
    kind: str
    """`request`, `notification` or `response`."""
    tag: str
    """The side byte; empty on a connection without any, where all ids are in one space."""
    side: str
    """The side of the peer it is on (`p`, `s` or `c`); of a response on a connection without side
    bytes, empty."""
    id: str
    """Raw JSON."""
    method: str
    body: bytes | None
    """Params, result or error."""
    size: int
    """Bytes of that."""
    is_error: bool
    line: bytes
    """The line it stands in."""
    cut: bool = False
    """Whether `body` is not what it was, but names its session and size."""

    @property
    def call(self) -> str:
        """Its method; of all requests that give a component its role, the same."""
        return INITIALIZE if self.method in ROLE_METHODS else self.method

    @property
    def says(self) -> bytes | None:
        """What two lines of one message have in common: their bodies, if both are whole."""
        return b"cut " + self.session if self.cut else self.body

    @property
    def session(self) -> bytes:
        """The session that its body names, as raw JSON; empty: none."""
        if self.body is None or b'"sessionId"' not in self.body:
            return b""
        return bytes((read_members(self.body) or {}).get("sessionId", b""))


def read(chunk: Chunk) -> Iterator[Wire]:
    """The messages of a chunk; what is no message is left out."""
    lines = chunk.data.split(b"\n")
    if chunk.cut:
        tag, text = sides.split(lines[0])
        found = _of_ends(text, lines[1], chunk.cut)
        if found is not None:
            yield _wire(chunk, tag.decode(), found, lines[0], chunk.cut)
        return
    for line in lines:
        if not line:
            continue
        tag, text = sides.split(line)
        for message in _messages(text):
            yield _wire(chunk, tag.decode(), message, line)


def _messages(text: bytes) -> Iterator[Message]:
    """The message, or messages, of a line."""
    try:
        read = jsonrpc.parse(text)
    except Malformed:
        return
    if isinstance(read, Message):
        yield read
        return
    for entry in read:
        try:
            single = jsonrpc.parse(bytes(entry))
        except Malformed:
            continue
        if isinstance(single, Message):
            yield single


def _wire(chunk: Chunk, tag: str, message: Message, line: bytes, cut: int = 0) -> Wire:
    raw = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
    if isinstance(message.method, str):
        kind = "notification" if raw is None else "request"
        side, method, params = tag, message.method, message.params
        if not tag:
            side, method, params = sides.opened(message.method, message.params)
        body, is_error = None if params is UNSET else bytes(params), False
    else:
        kind, side, method, is_error = "response", tag, "", message.result is UNSET
        outcome = message.error if is_error else message.result
        body = None if outcome is UNSET else bytes(outcome)
    id_ = (raw or b"").decode(errors="replace")
    size = cut or len(body or b"")
    at, peer, sent = chunk.at, chunk.peer, chunk.sent
    return Wire(
        at, peer, sent, kind, tag, side, id_, method, body, size, is_error, line, cut=bool(cut)
    )


def _of_ends(text: bytes, tail: bytes, whole: int) -> Message | None:
    """What the first and last bytes of a line tell of its message; None: not enough."""
    held: dict[str, Raw] = {}
    inner: dict[str, Raw] = {}
    at, into, levels = 0, held, 0
    while (member := _MEMBER.match(text, at)) is not None:
        name, value = member.groups()
        if value is not None:
            into[name.decode()] = Raw(value)
        elif name in _BODIES:
            held.setdefault(_BODIES[name], Raw(b""))
            levels += 1
            method = _read(held.get("method"))
            if method not in ENVELOPES or levels == _LEVELS:
                break
            into = inner
        else:
            break
        at = member.end()
    last = _LAST_ID.search(tail)
    if last is not None:
        held.setdefault("id", Raw(last[1]))
    session = _SESSION.search(text)
    named = b'"sessionId":%b,' % session[1] if session is not None else b""
    body = Raw(b'{%b"_meta":{"conductor":{"cut":%d}}}' % (named, whole))
    if "method" in inner:
        body = Raw(b'{"method":%b,"params":%b}' % (bytes(inner["method"]), bytes(body)))
    outcome = {name: body for name in ("params", "result", "error") if name in held}
    method = _read(held.get("method"))
    if not outcome or (method is None and "params" in outcome):
        return None
    return Message("2.0", held.get("id", UNSET), UNSET if method is None else method, **outcome)


def _read(raw: Raw | None) -> str | None:
    try:
        return None if raw is None else _text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
