"""The generations of the proxy protocol as one table: wire form <-> (side, message).

A dialect says how a proxy is told its role, and how a message of its successor side is wrapped on
its one connection. Everything said plainly belongs to the predecessor side. Wrapped messages are
understood in every generation's form from every proxy; they are written in the peer's own.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core import jsonrpc
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed

INITIALIZE: Final = "initialize"
CANCEL: Final = "$/cancel_request"


class Dialect(msgspec.Struct, frozen=True):
    """One row of the table.

    `role` is the request that makes a component a proxy. `offer`: the role travels as
    `_meta.symposium.proxy` inside a plain `initialize` and must be echoed. The four method names
    carry successor-side messages: `down_*` from a proxy to its conductor, `up_*` from the conductor
    to the proxy; None where there is no envelope. `nested`: the message sits in `params.message`
    instead of flattened. `sideband`: a side byte before the JSON instead of any envelope, with an
    id space of its own on each side (`channel/1`). `launches`: the proxy starts its successor
    itself, over a second connection (`scp`).
    """

    name: str
    role: str = INITIALIZE
    offer: bool = False
    down_request: str | None = None
    down_notification: str | None = None
    up_request: str | None = None
    up_notification: str | None = None
    nested: bool = False
    sideband: bool = False
    launches: bool = False


def _both(name: str, role: str, successor: str) -> Dialect:
    return Dialect(name, role, False, successor, successor, successor, successor)


PLAIN: Final = Dialect("plain")
"""What clients and agents speak."""

ACP: Final = _both("acp", "proxy/initialize", "proxy/successor")
SDK: Final = _both("sdk", "_proxy/initialize", "_proxy/successor")
SACP: Final = Dialect(
    "sacp",
    INITIALIZE,
    True,
    "_proxy/successor/request",
    "_proxy/successor/notification",
    "_proxy/successor/request",
    "_proxy/successor/notification",
)
PACP: Final = Dialect(
    "pacp",
    INITIALIZE,
    True,
    "_proxy/successor/send/request",
    "_proxy/successor/send/notification",
    "_proxy/successor/receive/request",
    "_proxy/successor/receive/notification",
    nested=True,
)
SCP: Final = Dialect("scp", INITIALIZE, True, launches=True)
CHANNEL: Final = Dialect("channel", INITIALIZE, sideband=True)

DIALECTS: Final[dict[str, Dialect]] = {d.name: d for d in (ACP, SDK, SACP, PACP, SCP, CHANNEL)}
"""Every dialect a component can be configured with (`dialect=NAME`)."""

DETECTION: Final = (ACP, SDK, SACP)
"""The order in which a component of unknown dialect is asked; `pacp` shows by its envelopes and
`scp` by answering `initialize` before it has forwarded one."""

ROLE_METHODS: Final[dict[str, Dialect]] = {ACP.role: ACP, SDK.role: SDK}

ENVELOPES: Final[dict[str, Dialect]] = {
    method: dialect
    for dialect in (PACP, SACP, SDK, ACP)
    for method in (
        dialect.down_request,
        dialect.down_notification,
        dialect.up_request,
        dialect.up_notification,
    )
    if method is not None
}


class _Flat(msgspec.Struct, frozen=True, gc=False):
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    message: Raw | UnsetType = UNSET


_flat = msgspec.json.Decoder(_Flat)


class Unwrapped(msgspec.Struct, frozen=True, gc=False):
    """What an envelope held, and whether it was nested in `message`."""

    method: str
    params: Raw | UnsetType
    nested: bool


def unwrap(params: Raw | UnsetType) -> Unwrapped:
    """Opens an envelope's params, flat or nested; the envelope's own `_meta` stays behind.

    Raises `Malformed` (-32602) when there is no method or the inner params are neither object nor
    array; inner `null` params mean none.
    """
    if params is UNSET:
        raise Malformed(INVALID_PARAMS, "a successor envelope needs params")
    assert isinstance(params, Raw)
    try:
        inner = _flat.decode(params)
        nested = inner.method is UNSET and inner.message is not UNSET
        if nested:
            assert isinstance(inner.message, Raw)
            inner = _flat.decode(inner.message)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Malformed(
            INVALID_PARAMS, "a successor envelope must hold an object with a string `method`"
        ) from None
    if isinstance(inner.method, UnsetType):
        raise Malformed(INVALID_PARAMS, "a successor envelope must hold a `method`")
    held = inner.params
    if isinstance(held, Raw):
        first = bytes(held)[:1] if len(memoryview(held)) < 64 else bytes(memoryview(held)[:1])
        if first == b"n":
            held = UNSET
        elif first not in (b"{", b"["):
            raise Malformed(INVALID_PARAMS, "JSON-RPC params must be an object or array")
    return Unwrapped(inner.method, held, nested)


class Writer(msgspec.Struct, frozen=True, gc=False):
    """Writes messages to one side of one peer in its dialect.

    `wrap_request`/`wrap_notification` are the envelope's methods, None for plain messages; `tag`
    stands before the JSON (a side byte, or nothing).
    """

    tag: bytes = b""
    wrap_request: str | None = None
    wrap_notification: str | None = None
    nested: bool = False

    def request(self, id: bytes, method: str, params: Raw | bytes | UnsetType) -> bytes:  # noqa: A002
        """A request frame, newline included."""
        if self.wrap_request is not None:
            method, params = self.wrap_request, self._wrap(method, params)
        frame = jsonrpc.request(id, method, params)
        return self.tag + frame if self.tag else frame

    def notification(self, method: str, params: Raw | bytes | UnsetType) -> bytes:
        """A notification frame, newline included."""
        if self.wrap_notification is not None:
            method, params = self.wrap_notification, self._wrap(method, params)
        frame = jsonrpc.notification(method, params)
        return self.tag + frame if self.tag else frame

    def cancel(self, id: bytes) -> bytes:  # noqa: A002
        """`$/cancel_request` for a request sent with this id: never wrapped, on its own side."""
        return self.tag + jsonrpc.notification(CANCEL, b'{"requestId":%b}' % id)

    def answer(self, id: bytes, member: bytes, body: Raw | bytes) -> bytes:  # noqa: A002
        """A response frame, newline included; responses never wear an envelope."""
        frame = jsonrpc.answer(id, member, body)
        return self.tag + frame if self.tag else frame

    def _wrap(self, method: str, params: Raw | bytes | UnsetType) -> bytes:
        name = jsonrpc.encode_method(method)
        body = (
            b'{"method":%b}' % name
            if params is UNSET
            else b'{"method":%b,"params":%b}' % (name, params)
        )
        return b'{"message":%b}' % body if self.nested else body


def writers(dialect: Dialect, *, to_conductor: bool = False) -> tuple[Writer, Writer]:
    """The writers of a peer's predecessor and successor side.

    `to_conductor`: the peer is the outer conductor and we are the proxy, so envelopes go the other
    way round.
    """
    if dialect.sideband:
        return Writer(b"p"), Writer(b"s")
    if to_conductor:
        request, notification = dialect.down_request, dialect.down_notification
    else:
        request, notification = dialect.up_request, dialect.up_notification
    return Writer(), Writer(b"", request, notification, dialect.nested)
