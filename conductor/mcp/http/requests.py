"""The rules of MCP's Streamable HTTP for requests.

Pure: headers and bodies in, values or a `Refused` out. Both kinds of MCP share one URL. Up to
revision 2025-11-25 a client opens a session with `initialize` and names it in `Mcp-Session-Id`;
from 2026-07-28 on there are no sessions, and each POST has its revision in `_meta` and in headers.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw

from conductor.core import jsonrpc
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from conductor.http.headers import Headers, misdirected, shows
from conductor.mcp.bridge import json, protocol

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_ONCE: Final = (SESSION, VERSION, _METHOD, _NAME)
"""Headers that may come only once, beside such headers of every server."""
_NAMES: Final = ("127.0.0.1", "localhost")

_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of `params` that `Mcp-Name` repeats."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIRST_STATELESS: Final = "2026"
_REMOVED: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Methods of sessions, which 2026-07-28 does not have."""

HEADER_MISMATCH: Final = -32020

STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    protocol.MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status for a JSON-RPC error code since 2026-07-28; for all others 200."""


class Refused(Exception):  # noqa: N818 - it is an answer
    """Refuses a request: with a status, and a JSON-RPC error as the body."""

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        code: int = INVALID_REQUEST,
        id: bytes = b"null",  # noqa: A002
        headers: tuple[tuple[str, str], ...] = (),
        data: object = None,
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.headers = headers
        self.body = error(id, code, reason, data)


class Incoming(msgspec.Struct, frozen=True):
    """A message that a client posted, as far as HTTP must know it.

    `id` and `token` (of progress) are canonical raw JSON.
    """

    frame: bytes
    id: bytes | None
    method: str | None
    token: bytes | None
    version: Raw | None
    capable: bool
    """Whether it has the client's capabilities."""
    named: Raw | None
    """The member of `params` that `Mcp-Name` must repeat."""

    @property
    def is_request(self) -> bool:
        """Whether it wants a response."""
        return self.id is not None and self.method is not None

    @property
    def stateless(self) -> bool:
        """Whether it names its revision, so that it needs no session."""
        return self.version is not None


def read(body: bytes) -> Incoming:
    """The message of a POST. Raises `Refused` if it is none."""
    try:
        message = jsonrpc.parse(body)
    except jsonrpc.Malformed as wrong:
        raise Refused(400, wrong.text, code=wrong.code, id=wrong.id or b"null") from None
    if isinstance(message, list):
        raise Refused(400, "the body is one message: batches are no part of Streamable HTTP")
    id_ = None if message.id is UNSET else jsonrpc.canonical_id(bytes(message.id))
    if (id_ is None and message.id is not UNSET) or id_ == b"null":
        raise Refused(400, "a message's id is a string or a whole number")
    method = None if message.method is UNSET else message.method
    if method is None and id_ is None:
        raise Refused(400, "the body is neither a request, a notification nor an answer")
    # Params of any other form are left to the bridge; here nothing can be read from them.
    params = json.read(None if message.params is UNSET else message.params)
    meta = json.meta(params)
    token = meta.get("progressToken")
    return Incoming(
        frame=body,
        id=id_,
        method=method,
        token=jsonrpc.canonical_id(token) if token is not None else None,
        version=meta.get(protocol.VERSION),
        capable=protocol.CAPABILITIES in meta,
        named=params.get(_NAMED.get(method or "", "")),
    )


def is_modern(headers: Headers) -> bool:
    """Whether the headers name a revision without sessions."""
    return (headers.get(VERSION) or "") >= _FIRST_STATELESS


def check_origin(headers: Headers, port: int) -> None:
    """Refuses requests of web pages, also of pages whose host name was rebound to loopback."""
    if refusal := misdirected(headers, _NAMES, port, _ONCE):
        raise Refused(*refusal)


def check_secret(headers: Headers, secret: bytes | None) -> None:
    """Refuses requests without the secret, with one text.

    `secret`: None if there is no such listener.
    """
    if not shows(headers, secret):
        raise Refused(
            401,
            "this MCP server belongs to a session of a conductor, and the request lacks its "
            "secret (hint: send the headers of its declaration with every request)",
            headers=(("www-authenticate", "Bearer"),),
        )


def check_post(headers: Headers) -> None:
    """Refuses a POST of other media types than JSON."""
    kind = (headers.get("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the body of a POST is application/json")
    if not headers.accepts("application/json"):
        raise Refused(406, "a POST accepts application/json and text/event-stream")


def check_session(headers: Headers, incoming: Incoming) -> None:
    """Refuses a POST of a session whose header names no revision of MCP."""
    version = headers.get(VERSION)
    if version is not None and not _DATE.fullmatch(version):
        reason = f"`{VERSION}` is no revision of MCP"
        raise Refused(400, reason, id=incoming.id or b"null")


def check_stateless(headers: Headers, incoming: Incoming) -> None:
    """Refuses a POST of 2026-07-28 or later that lacks a member, or has headers that differ from
    its body, or another revision than ours."""
    id_ = incoming.id or b"null"
    if incoming.version is None or not incoming.capable:
        reason = f"params._meta must have `{protocol.VERSION}` and `{protocol.CAPABILITIES}`"
        raise Refused(400, reason, code=INVALID_PARAMS, id=id_)
    version = json.text(incoming.version)
    if version is None or headers.get(VERSION) != version:
        raise _mismatch(VERSION, id_)
    if headers.get(_METHOD) != incoming.method:
        raise _mismatch(_METHOD, id_)
    named = json.text(incoming.named)
    if named is not None and _header_text(headers.get(_NAME)) != named:
        raise _mismatch(_NAME, id_)
    if version != protocol.MODERN:
        data = {"supported": [protocol.MODERN], "requested": version}
        reason = "Unsupported protocol version"
        raise Refused(400, reason, code=UNSUPPORTED_VERSION, id=id_, data=data)
    if incoming.method in _REMOVED:
        reason = f"Method not found: MCP {protocol.MODERN} has no `{incoming.method}`"
        raise Refused(404, reason, code=METHOD_NOT_FOUND, id=id_)


def _mismatch(name: str, id_: bytes) -> Refused:
    reason = f"the header `{name}` is missing, or differs from the body"
    return Refused(400, reason, code=HEADER_MISMATCH, id=id_)


def _header_text(value: str | None) -> str | None:
    """A header's text, which is in `=?base64?…?=` if a header cannot have it."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def error(id_: bytes, code: int, reason: str, data: object = None) -> bytes:
    """A JSON-RPC error as one line."""
    return jsonrpc.answer(id_, b"error", jsonrpc.error_object(code, reason, data))[:-1]
