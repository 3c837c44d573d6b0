"""What an HTTP request says, and what is wrong with it: the rules of MCP's Streamable HTTP.

Pure: headers and bodies in, values or a `Refused` out. Two eras share one address. Up to revision
2025-11-25 a client opens a session with `initialize` and names it in `Mcp-Session-Id`; from
2026-07-28 on every POST stands for itself, and carries its revision in `_meta` and in headers.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from conductor.mcp.bridge import revisions

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
_METHOD: Final = "mcp-method"
_NAME: Final = "mcp-name"
_ROUTING: Final = (SESSION, VERSION, _METHOD, _NAME, "authorization", "host", "origin")
"""Headers of which a second one would let two readers disagree."""

_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of `params` that `Mcp-Name` repeats."""

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_FIRST_STATELESS: Final = "2026"
_REMOVED: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
"""Methods that ended with sessions."""

HEADER_MISMATCH: Final = -32020

STATUS: Final = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    revisions.MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""The status that goes with a JSON-RPC error code since 2026-07-28; any other: 200."""


class Refused(Exception):  # noqa: N818 - it is an answer
    """A request that is answered by HTTP alone: its status, and a JSON-RPC error as the body."""

    def __init__(
        self,
        status: int,
        text: str,
        *,
        code: int = INVALID_REQUEST,
        id: bytes = b"null",  # noqa: A002
        headers: tuple[tuple[str, str], ...] = (),
        data: object = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers
        self.body = error(id, code, text, data)


class _Meta(msgspec.Struct):
    token: Raw | UnsetType = msgspec.field(default=UNSET, name="progressToken")
    version: Raw | UnsetType = msgspec.field(default=UNSET, name=revisions.VERSION)
    capabilities: Raw | UnsetType = msgspec.field(default=UNSET, name=revisions.CAPABILITIES)


class _Params(msgspec.Struct):
    meta: _Meta | UnsetType = msgspec.field(default=UNSET, name="_meta")
    name: Raw | UnsetType = UNSET
    uri: Raw | UnsetType = UNSET


class Incoming(msgspec.Struct, frozen=True):
    """A message a client posted, as far as its transport has to know it.

    `id` and `token` (what progress is reported under) are raw JSON, in the one form
    `conductor.core.jsonrpc.canonical_id` gives them.
    """

    frame: bytes
    id: bytes | None
    method: str | None
    token: bytes | None
    version: bytes | None
    capable: bool
    """Whether it says what its sender is capable of."""
    named: bytes | None

    @property
    def is_request(self) -> bool:
        """Whether it wants an answer."""
        return self.id is not None and self.method is not None

    @property
    def stateless(self) -> bool:
        """Whether it says itself which revision it speaks, so that it needs no session."""
        return self.version is not None


_params = msgspec.json.Decoder(_Params)
_text = msgspec.json.Decoder(str)


def read(body: bytes) -> Incoming:
    """The message of a POST. Raises `Refused` for what is none."""
    try:
        found = jsonrpc.parse(body)
    except jsonrpc.Malformed as wrong:
        raise Refused(400, wrong.text, code=wrong.code, id=wrong.id or b"null") from None
    if isinstance(found, list):
        raise Refused(400, "the body is one message: batches are no part of Streamable HTTP")
    number = None if found.id is UNSET else jsonrpc.canonical_id(bytes(found.id))
    if (number is None and found.id is not UNSET) or number == b"null":
        raise Refused(400, "a message's id is a string or a whole number")
    method = None if found.method is UNSET else found.method
    if method is None and number is None:
        raise Refused(400, "the body is neither a request, a notification nor an answer")
    meta, named = _Meta(), None
    if found.params is not UNSET:
        try:
            params = _params.decode(found.params)
            meta = _Meta() if params.meta is UNSET else params.meta
            named = getattr(params, _NAMED.get(method or "", ""), UNSET)
        except msgspec.DecodeError:
            named = None  # the receiver judges params; here nothing can be read off them
    return Incoming(
        # Outside strings a line break is white space like any other; inside there is none.
        frame=body.replace(b"\n", b" ").replace(b"\r", b" ") if _breaks(body) else body,
        id=number,
        method=method,
        token=_raw(meta.token, canonical=True),
        version=_raw(meta.version),
        capable=meta.capabilities is not UNSET,
        named=_raw(named) if isinstance(named, Raw) else None,
    )


def _breaks(body: bytes) -> bool:
    return b"\n" in body or b"\r" in body


def _raw(value: Raw | UnsetType, *, canonical: bool = False) -> bytes | None:
    if value is UNSET:
        return None
    return jsonrpc.canonical_id(bytes(value)) if canonical else bytes(value).strip()


class Headers:
    """The headers of one request, by lower-case name."""

    def __init__(self, lines: Iterable[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, str] = {}
        self.repeated = ""
        """A header that may come once and came more often; empty if there is none."""
        for raw_name, value in lines:
            name = raw_name.decode("latin-1").lower()
            if name in self._values and name in _ROUTING:
                self.repeated = name
            self._values[name] = value.decode("latin-1").strip()

    def get(self, name: str) -> str | None:
        """The value of a header; None without it."""
        return self._values.get(name)

    def accepts(self, kind: str) -> bool:
        """Whether an answer of this media type is welcome; without `Accept` any is."""
        accept = self._values.get("accept")
        if accept is None:
            return True
        kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
        return bool({kind, f"{kind.partition('/')[0]}/*", "*/*"} & kinds)

    @property
    def modern(self) -> bool:
        """Whether the revision named is one without sessions."""
        return (self._values.get(VERSION) or "") >= _FIRST_STATELESS


def check_origin(headers: Headers, port: int) -> None:
    """Refuses who came by another name than ours: a web page, or a name rebound to loopback."""
    if headers.repeated:
        raise Refused(400, f"the header `{headers.repeated}` came twice")
    hosts = {f"{host}:{port}" for host in ("127.0.0.1", "localhost")}
    if headers.get("host") not in hosts:
        raise Refused(421, "this server answers to 127.0.0.1 and localhost only")
    origin = headers.get("origin")
    if origin is not None and origin not in {f"http://{host}" for host in hosts}:
        raise Refused(403, "requests of web pages are refused")


def check_secret(headers: Headers, secret: bytes | None) -> None:
    """Refuses who does not know the secret, in the same time and words whatever is wrong.

    `secret` None: there is no such listener.
    """
    scheme, _, given = (headers.get("authorization") or "").partition(" ")
    wanted = secret if secret is not None else b"\0" * 64
    same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), wanted)
    if scheme.lower() != "bearer" or not same or secret is None:
        raise Refused(
            401,
            "this MCP server belongs to a session of a conductor, and the request lacks its "
            "secret (hint: send the headers of its declaration with every request)",
            headers=(("www-authenticate", "Bearer"),),
        )


def check_post(headers: Headers) -> None:
    """Refuses a POST that cannot be answered."""
    kind = (headers.get("content-type") or "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, "the body of a POST is application/json")
    if not headers.accepts("application/json"):
        raise Refused(406, "a POST accepts application/json and text/event-stream")


def check_session(headers: Headers, incoming: Incoming) -> None:
    """Refuses a POST of a session that names no revision of MCP."""
    version = headers.get(VERSION)
    if version is not None and not _DATE.fullmatch(version):
        text = f"`{VERSION}` is no revision of MCP"
        raise Refused(400, text, id=incoming.id or b"null")


def check_stateless(headers: Headers, incoming: Incoming) -> None:
    """Refuses a POST of 2026-07-28 or later that lacks what every one has to say, whose headers
    say other than its body, or that is of another revision than is served."""
    number = incoming.id or b"null"
    if incoming.version is None or not incoming.capable:
        text = f"params._meta must have `{revisions.VERSION}` and `{revisions.CAPABILITIES}`"
        raise Refused(400, text, code=INVALID_PARAMS, id=number)
    said = _decoded(incoming.version)
    if said is None or headers.get(VERSION) != said:
        raise _mismatch(VERSION, number)
    if headers.get(_METHOD) != incoming.method:
        raise _mismatch(_METHOD, number)
    if incoming.named is not None:
        named = _decoded(incoming.named)
        if named is not None and _header_text(headers.get(_NAME)) != named:
            raise _mismatch(_NAME, number)
    if said != revisions.MODERN:
        data = {"supported": [revisions.MODERN], "requested": said}
        text = "Unsupported protocol version"
        raise Refused(400, text, code=UNSUPPORTED_VERSION, id=number, data=data)
    if incoming.method in _REMOVED:
        text = f"Method not found: MCP {revisions.MODERN} has no `{incoming.method}`"
        raise Refused(404, text, code=METHOD_NOT_FOUND, id=number)


def _mismatch(name: str, number: bytes) -> Refused:
    text = f"the header `{name}` is missing, or does not say what the body says"
    return Refused(400, text, code=HEADER_MISMATCH, id=number)


def _decoded(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    try:
        return _text.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _header_text(value: str | None) -> str | None:
    """A header's text: as it is, or `=?base64?…?=` where it would not fit into a header."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def error(number: bytes, code: int, text: str, data: object = None) -> bytes:
    """A JSON-RPC error as one line; `number`: the raw id it answers."""
    held = msgspec.json.encode(
        {"code": code, "message": text, **({} if data is None else {"data": data})}
    )
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (number, held)
