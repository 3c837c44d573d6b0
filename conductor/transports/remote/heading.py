"""The heading of a frame, as the client's side of HTTP reads it: id, method, session."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text, jsonrpc
from conductor.transports.remote import wire


class Heading(msgspec.Struct, gc=False):
    """The members at the top of a message; missing members are empty."""

    id: Raw = Raw()
    method: str | None = None
    params: Raw = Raw()
    result: Raw = Raw()
    error: Raw = Raw()


_decoder: Final = json_text.Decoder(Heading)
_NOTHING: Final = Heading()


def read_heading(frame: bytes) -> Heading:
    """The heading of a frame; empty if the frame is no message: its receiver says so."""
    try:
        return _decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    # Slower, but takes a mark of bytes' order and half an emoji.
    message = jsonrpc.message_of(frame)
    if message is None:
        return _NOTHING
    raw = [
        member if isinstance(member, Raw) else Raw()
        for member in (message.id, message.params, message.result, message.error)
    ]
    method = message.method if isinstance(message.method, str) else None
    return Heading(raw[0], method, *raw[1:])


def key_of(read: Heading) -> bytes | None:
    """The id of a request or an answer, in the spelling for comparing."""
    return jsonrpc.canonical_id(read.id) if bytes(read.id) not in (b"", b"null") else None


def named_in(body: Raw) -> str | None:
    """The session that params or a result name, if a header can name it too."""
    found = wire.session_in(body)
    return found if found is not None and is_name(found) else None


def is_name(text: str) -> bool:
    """Whether a header can carry a text as an id."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return plain and 0 < len(text) <= wire.LONGEST_ID


def session_of(read: Heading) -> str | None:
    """The session of a request or notification; a method that begins with `$/` has none."""
    return named_in(read.params) if wire.is_of_session(read.method) else None
