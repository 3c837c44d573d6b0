"""The wire of ACP at an address, for both ends: headers, subprotocols, events, sessions by name."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import json_text

CONNECTION: Final = "Acp-Connection-Id"
SESSION: Final = "Acp-Session-Id"
NUMBER: Final = "Acp-Message-Number"

PLAIN: Final = "acp"
"""The subprotocol of one JSON text in each WebSocket message."""
RESUMED: Final = "conductor.link.1"
"""The subprotocol of `conductor.link`."""

EVENTS: Final = "text/event-stream"
"""The media type of a stream of events."""
LONGEST_ID: Final = 1024
"""Characters of the id of a session, of a connection or of an event."""


class _Named(msgspec.Struct, gc=False):
    sessionId: str | None = None  # noqa: N815 - as on the wire


_named: Final = json_text.Decoder(_Named)


def session_in(body: Raw) -> str | None:
    """The session that params or a result name."""
    try:
        return _named.decode(body).sessionId if bytes(body) else None
    except msgspec.DecodeError:
        return None


def is_of_session(method: str | None) -> bool:
    """Whether a message may belong to a session: no answer does, nor a `$/` method."""
    return method is not None and not method.startswith("$/")


def event(number: int, frame: bytes) -> bytes:
    """A frame as an event of a stream (`sse` reads it)."""
    return b"id: %d\ndata: %b\n\n" % (number, frame)
