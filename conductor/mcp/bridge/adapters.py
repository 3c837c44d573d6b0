"""What stands between an MCP client and a component: relay, upgrade or downgrade."""

from __future__ import annotations

from typing import Protocol

import msgspec

from conductor.core.jsonrpc import canonical_id
from conductor.mcp.bridge.calls import Call
from conductor.mcp.bridge.json import read
from conductor.mcp.bridge.line import OnAnswer


class Request(msgspec.Struct, frozen=True):
    """What a client asks."""

    id: bytes
    """As the client wrote it."""
    method: str
    params: bytes | None
    request_id: str | None = None
    """As of `Call`, and `raw` too: from a client that speaks MCP over ACP."""
    raw: bytes | None = None


class Adapter(Protocol):
    """What stands between a client and a component."""

    def request(self, asked: Request) -> None:
        """The client asks."""

    def notification(self, method: str, params: bytes | None) -> None:
        """The client tells."""

    def cancel(self, key: bytes) -> None:
        """The client's request of this id is to be cancelled, and answered nevertheless."""

    def closed(self) -> None:
        """The client is gone."""

    def asked(self, method: str, params: bytes | None, reply: OnAnswer, call: Call | None) -> None:
        """As of `Owner`."""

    def withdrawn(self, reply: OnAnswer) -> None:
        """As of `Owner`."""

    def told(self, method: str, params: bytes | None, call: Call | None) -> None:
        """As of `Owner`."""


def cancelled(params: bytes | None) -> bytes | None:
    """The canonical id of the request that `CANCELLED` is about."""
    raw = read(params).get("requestId")
    return canonical_id(raw) if raw is not None else None
