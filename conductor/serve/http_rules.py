"""The meaning of a client's HTTP request: method, headers and body in, a ruling out. Pure.

Lenient, as a server must be (ACP over HTTP as three official SDKs speak it): a session's header
is not asked for where the message names the session, and an answer needs none. The names of headers
are in lower case here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from conductor.core import jsonrpc
from conductor.core.jsonrpc import Message
from conductor.http.headers import ONCE as EVERYWHERE
from conductor.http.headers import Headers
from conductor.serve.access import origins
from conductor.serve.hub import frames
from conductor.transports.remote import wire

CONNECTION: Final = wire.CONNECTION.lower()
SESSION: Final = wire.SESSION.lower()
NUMBER: Final = wire.NUMBER.lower()
LAST_EVENT: Final = "last-event-id"
METHODS: Final = ("GET", "POST", "DELETE")

ONCE: Final = (*EVERYWHERE, CONNECTION, SESSION, NUMBER, LAST_EVENT)
"""Headers that identify the client and name its request's target."""

_SHARED: Final = (wire.CONNECTION, wire.SESSION, wire.NUMBER)
"""Headers of ACP, which pages send and read."""
_SENT: Final = ("Content-Type", "Accept", *_SHARED, "Authorization", "Last-Event-ID")

NEED_SESSION: Final = frozenset(
    f"session/{name}"
    for name in (
        *("prompt", "cancel", "close", "delete", "fork", "load", "resume"),
        *("set_config_option", "set_mode", "set_model"),
    )
)


class Refuse(msgspec.Struct, frozen=True):
    """The request is answered with an error."""

    status: int
    text: str
    json: bytes = b""
    """The body, where that is JSON."""


class Open(msgspec.Struct, frozen=True):
    """`initialize`: a new connection. The agent's answer is the answer of the HTTP request."""

    frame: bytes
    id: bytes


class Forward(msgspec.Struct, frozen=True):
    """A message of a connection goes on; the answer is 202."""

    connection: str
    frame: bytes
    number: int | None
    """The client's count of its messages: a message that was taken already is ignored."""


class Listen(msgspec.Struct, frozen=True):
    """A reader for a stream: of the connection, or of a session."""

    connection: str
    session: str | None
    after: int | None
    """The number of the last event that the client has."""


class End(msgspec.Struct, frozen=True):
    """The client leaves."""

    connection: str


Ruling = Refuse | Open | Forward | Listen | End


def for_page(headers: Mapping[str, str], allowed: Iterable[str]) -> dict[str, str]:
    """The headers that let a page read an answer (CORS); none, unless its origin is allowed."""
    origin = headers.get("origin")
    if origin is None or not origins.may_come_from(origin, allowed):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": ", ".join((*METHODS, "OPTIONS")),
        "Access-Control-Allow-Headers": ", ".join(_SENT),
        "Access-Control-Expose-Headers": ", ".join(_SHARED),
        "Vary": "Origin",
    }


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a browser asks for the rights of a page: such a request has no token."""
    return method == "OPTIONS" and "access-control-request-method" in headers


def post(headers: Mapping[str, str], body: bytes) -> Ruling:
    """The ruling on a POST."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return Refuse(415, "Content-Type must be application/json")
    try:
        message = jsonrpc.parse(body)
    except jsonrpc.Malformed:
        return Refuse(400, "the body is no JSON-RPC message in UTF-8")
    if isinstance(message, list):
        text = "batches are not supported; send each message alone"
        return Refuse(400, "", frames.error(b"null", jsonrpc.INVALID_REQUEST, text))
    connection = headers.get(CONNECTION, "")
    if message.method == "initialize":
        return _open(message, body, connection)
    if not connection:
        return Refuse(400, "Acp-Connection-Id header required")
    if (why := _unfit(message, headers.get(SESSION))) is not None:
        return why
    number = headers.get(NUMBER)
    if number is not None and not _is_number(number):
        return Refuse(400, "Acp-Message-Number is no number")
    return Forward(connection, body, None if number is None else int(number))


def get(headers: Headers) -> Ruling:
    """The ruling on a GET without an upgrade."""
    if not headers.accepts(wire.EVENTS):
        return Refuse(406, f"Accept must have {wire.EVENTS}")
    connection, session = headers.get(CONNECTION, ""), headers.get(SESSION)
    if not connection:
        return Refuse(400, "Acp-Connection-Id header required")
    if session is not None and not 0 < len(session) <= wire.LONGEST_ID:
        return Refuse(400, f"Acp-Session-Id has 1 to {wire.LONGEST_ID} characters")
    after = headers.get(LAST_EVENT)
    if after is not None and not _is_number(after):
        return Refuse(400, "Last-Event-ID is none of this server")
    return Listen(connection, session, None if after is None else int(after))


def delete(headers: Mapping[str, str]) -> Ruling:
    """The ruling on a DELETE."""
    connection = headers.get(CONNECTION, "")
    return End(connection) if connection else Refuse(400, "Acp-Connection-Id header required")


def _open(message: Message, body: bytes, connection: str) -> Ruling:
    if connection:
        return Refuse(400, "initialize opens a connection, and takes no Acp-Connection-Id")
    if not isinstance(message.id, Raw):
        return Refuse(400, "initialize is a request, and needs an id")
    id_ = jsonrpc.canonical_id(message.id)
    if id_ is None or id_ == b"null":
        return Refuse(400, "initialize needs an id that is a number or a text")
    return Open(body, id_)


def _unfit(message: Message, header: str | None) -> Refuse | None:
    """Why a message does not fit the session that its header names."""
    method = message.method
    if not isinstance(method, str) or not wire.is_of_session(method):
        return None
    named = wire.session_in(message.params) if isinstance(message.params, Raw) else None
    if named is None:
        if method in NEED_SESSION and header is None:
            return Refuse(400, "Acp-Session-Id header required")
        return None
    if header is not None and header != named:
        return Refuse(400, "Acp-Session-Id is not the sessionId of the message")
    return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18
