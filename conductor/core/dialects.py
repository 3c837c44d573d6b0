"""The generations of the proxy protocol as one table: wire form <-> (side, message).

A dialect says how a proxy gets its role, and how a message of its successor side is wrapped on its
one connection. Plain messages belong to the predecessor side. The conductor reads envelopes of all
generations from every proxy, and writes them in the proxy's own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.json_text import Decoder, read_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed, Params

INITIALIZE: Final = "initialize"
CANCEL: Final = "$/cancel_request"
LAUNCH: Final = "_scp/proxy"
"""Asks an `scp` proxy to launch its successor; only conductors send it."""


class Dialect(msgspec.Struct, frozen=True):
    """One row of the table."""

    name: str
    role: str = INITIALIZE
    """The request that makes a component a proxy."""
    offer: bool = False
    """The role travels as `_meta.symposium.proxy` in a plain `initialize`; the proxy echoes it."""
    down_request: str | None = None
    """The method of an envelope from a proxy to its conductor; None: there is no envelope."""
    down_notification: str | None = None
    up_request: str | None = None
    """The method of an envelope from the conductor to the proxy; None: there is no envelope."""
    up_notification: str | None = None
    nested: bool = False
    """The message sits in `params.message`, and not flattened in `params`."""
    sideband: bool = False
    """A side byte before the JSON, and no envelope; each side has its own ids (`channel/1`)."""
    launches: bool = False
    """The proxy starts its successor itself, over a second connection (`scp`)."""


def _both(name: str, role: str, successor: str) -> Dialect:
    return Dialect(name, role, False, successor, successor, successor, successor)


PLAIN: Final = Dialect("plain")
"""The dialect of clients and agents."""

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
"""The order in which role requests try a component of unknown dialect. `pacp` shows by its
envelopes, `scp` by an answer to `initialize` before it has forwarded any `initialize`."""

ROLE_METHODS: Final[dict[str, Dialect]] = {ACP.role: ACP, SDK.role: SDK}

ROLES: Final = frozenset({INITIALIZE, LAUNCH, *ROLE_METHODS})
"""The requests by which components are initialized."""

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


class _Wrapped(msgspec.Struct, frozen=True, gc=False):
    method: str | UnsetType = UNSET
    params: Params = UNSET
    peer: str = ""


class Unwrapped(NamedTuple):
    """The content of an envelope."""

    method: str
    params: Params
    nested: bool = False
    """Whether the message was in `params.message`, and not flattened in `params`."""
    peer: str = ""
    """The peer agent that it is for, or comes from; empty: the default successor."""


_wrapped = msgspec.json.Decoder(_Wrapped)
_text = Decoder(str)


def unwrap(params: Params) -> Unwrapped:
    """Opens an envelope's params.

    The envelope's own `_meta` stays behind: it is about this hop.

    Raises:
        Malformed: (-32602) there is no method, or `peer` is no name.
    """
    if isinstance(params, Raw):
        try:
            inner = _wrapped.decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _unwrap_slowly(params)
        if isinstance(inner.method, str):
            return Unwrapped(inner.method, inner.params, False, inner.peer)
    return _unwrap_slowly(params)


def _unwrap_slowly(params: Params) -> Unwrapped:
    """As `unwrap`, for nested messages and for params with lone surrogates."""
    outer = inner = read_members(params) or {}
    nested = "method" not in inner and "message" in inner
    if nested:
        inner = read_members(inner["message"]) or {}
    try:
        method = _text.decode(inner.get("method", b"null"))
    except msgspec.DecodeError:
        raise Malformed(
            INVALID_PARAMS, "a successor envelope must hold an object with a `method`"
        ) from None
    try:
        peer = _text.decode(outer.get("peer", b'""'))
    except msgspec.DecodeError:
        raise Malformed(INVALID_PARAMS, "`peer` of a successor envelope is a name") from None
    return Unwrapped(method, inner.get("params", UNSET), nested, peer)
