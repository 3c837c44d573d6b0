"""MCP in which each request stands for itself: its version, its requests and results."""

from __future__ import annotations

from typing import Any, Final

from .errors import INVALID_PARAMS, METHOD_NOT_FOUND, ProxyError
from .links import VERSION
from .serving import LISTS

VERSIONS: Final = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions of MCP that are served; the first one has no handshake."""

_UNSUPPORTED_VERSION: Final = -32022


def complete(method: str, found: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, complete."""
    cached = {"ttlMs": 0, "cacheScope": "private"} if method in LISTS else {}
    return {"resultType": "complete", **cached, **found}


def inner(params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The method and the params of the request within `mcp/message`."""
    held = params.get("params")
    return str(params.get("method", "")), held if isinstance(held, dict) else {}


def check_version(method: str, params: dict[str, Any]) -> None:
    """Stateless MCP says its version with every request, and has no handshake."""
    if method == "initialize":
        raise ProxyError("Method not found: initialize", METHOD_NOT_FOUND)
    meta = params.get("_meta")
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    if version is None:
        raise ProxyError(f"`_meta` must hold `{VERSION}`", INVALID_PARAMS)
    if version != VERSIONS[0]:
        data = {"requested": version, "supported": [VERSIONS[0]]}
        raise ProxyError(f"MCP {version} is not supported", _UNSUPPORTED_VERSION, data)
