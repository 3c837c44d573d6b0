"""Frames as a hub writes them: like frames of `conductor.core.jsonrpc`, without a newline at the
end.

A link carries a line, a text of a WebSocket or an event: the shell writes the end of a frame.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.dialects import CANCEL
from conductor.core.json_text import encode
from conductor.core.jsonrpc import encode_method, error_object
from conductor.core.policy.key_table import UPDATE

_BEFORE_SESSION: Final = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":'
_BEFORE_BLOCK: Final = b',"update":{"sessionUpdate":"user_message_chunk","content":'


def request(id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
    """A request with a raw id."""
    return _named(b'{"jsonrpc":"2.0","id":%b,"method":' % id, method, params)


def notification(method: str, params: Raw | bytes | UnsetType) -> bytes:
    """A notification."""
    return _named(b'{"jsonrpc":"2.0","method":', method, params)


def _named(head: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:
    name = encode_method(method)
    if isinstance(params, UnsetType):
        return b"".join((head, name, b"}"))
    return b"".join((head, name, b',"params":', params, b"}"))


def answer(id: bytes, member: bytes, body: Raw | bytes) -> bytes:  # noqa: A002
    """A response; `member` is `b"result"` or `b"error"`."""
    return b"".join((b'{"jsonrpc":"2.0","id":', id, b',"', member, b'":', body, b"}"))


def error_body(code: int, text: str, hint: str = "", **data: object) -> bytes:
    """An error object; the hint stands in its `data`."""
    details = {**data, "hint": hint} if hint else data
    return error_object(code, text, details or None)


def error(id: bytes, code: int, text: str, hint: str = "", **data: object) -> bytes:  # noqa: A002
    """A response with an error."""
    return answer(id, b"error", error_body(code, text, hint, **data))


def cancel(id: bytes) -> bytes:  # noqa: A002
    """`$/cancel_request` for a request with a raw id."""
    return notification(CANCEL, b'{"requestId":%b}' % id)


def chunk(session: str, block: Raw) -> bytes:
    """A `user_message_chunk` of the hub's own, with a block of a prompt."""
    return b"".join((_BEFORE_SESSION, encode(session), _BEFORE_BLOCK, block, b"}}}"))


def update(session: str, kind: str, **members: object) -> bytes:
    """A `session/update` of the hub's own; members that are None are left out."""
    held = {name: value for name, value in members.items() if value is not None}
    body = {"sessionId": session, "update": {"sessionUpdate": kind, **held}}
    return notification(UPDATE, encode(body))
