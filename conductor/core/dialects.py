"""The generations of the proxy protocol as one table: wire form <-> (side, message).

A dialect says how a proxy is told its role, and how a message of its successor side is wrapped on
its one connection. Everything said plainly belongs to the predecessor side. Wrapped messages are
understood in every generation's form from every proxy; they are written in the peer's own.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INVALID_PARAMS, Malformed

INITIALIZE: Final = "initialize"
CANCEL: Final = "$/cancel_request"
LAUNCH: Final = "_scp/proxy"
"""Tells an `scp` proxy which successors to launch; sent by conductors only."""


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


class _Wrapped(msgspec.Struct, frozen=True, gc=False):
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET


_wrapped = msgspec.json.Decoder(_Wrapped)
_text = msgspec.json.Decoder(str)


def unwrap(params: Raw | UnsetType) -> tuple[str, Raw | UnsetType, bool]:
    """Opens an envelope's params: the method and params it holds, and whether they were nested.

    The envelope's own `_meta` stays behind. Raises `Malformed` (-32602) when there is no method.
    """
    if isinstance(params, Raw):
        try:
            inner = _wrapped.decode(params)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _unwrap_slowly(params)
        if isinstance(inner.method, str):
            return inner.method, inner.params, False
    return _unwrap_slowly(params)


def _unwrap_slowly(params: Raw | UnsetType) -> tuple[str, Raw | UnsetType, bool]:
    """The same for nested messages and for what holds lone surrogates."""
    held = read_members(params) or {}
    nested = "method" not in held and "message" in held
    if nested:
        held = read_members(held["message"]) or {}
    try:
        return _text.decode(held.get("method", b"null")), held.get("params", UNSET), nested
    except msgspec.DecodeError:
        raise Malformed(
            INVALID_PARAMS, "a successor envelope must hold an object with a `method`"
        ) from None
