"""The revisions of MCP: with sessions up to 2025-11-25, without from 2026-07-28 on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Raw

from conductor.mcp.bridge.json import meta, read, write

SESSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions that begin with `initialize`."""
LATEST_SESSION: Final = SESSIONS[-1]
MODERN: Final = "2026-07-28"
"""The revision without sessions."""

NAMESPACE: Final = "io.modelcontextprotocol/"
VERSION: Final = NAMESPACE + "protocolVersion"
CAPABILITIES: Final = NAMESPACE + "clientCapabilities"
CLIENT: Final = NAMESPACE + "clientInfo"
SERVER: Final = NAMESPACE + "serverInfo"
LOG_LEVEL: Final = NAMESPACE + "logLevel"
"""Keys of `_meta`."""
APPS: Final = NAMESPACE + "ui"
"""The extension by which tools have pages."""

INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

SUBSCRIPTION: Final = NAMESPACE + "subscriptionId"
"""In `_meta`: the id of the `subscriptions/listen` that a notification or result belongs to."""

CANCELLED: Final = "notifications/cancelled"
PROGRESS: Final = "notifications/progress"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"

NEEDS: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Requests a server may send to its client, each with the capability it needs."""

MISSING_CAPABILITY: Final = -32021
"""The error code, since 2026-07-28, of a request that needs a capability its client lacks."""


def pages(capabilities: Mapping[str, Raw]) -> dict[str, object]:
    """The word among a client's capabilities that it shows pages of tools; else empty."""
    claim = read(capabilities.get("extensions")).get(APPS)
    return {} if claim is None else {"extensions": {APPS: claim}}


PROBE: Final = write({"_meta": {VERSION: MODERN, CAPABILITIES: {}}})
"""Params of the bridge's own `server/discover`."""


def modern(method: str, params: bytes | None) -> bool:
    """Whether a client that begins with this message speaks the revision without sessions."""
    if method in (DISCOVER, LISTEN, INITIALIZE):
        return method != INITIALIZE
    return (
        params is not None
        and VERSION.encode() in params  # spares large params the parsing
        and VERSION in meta(read(params))
    )
