"""What the bridge keeps for clients and components at most; docs/mcp.md lists these limits."""

from __future__ import annotations

from typing import Final

from conductor.core.jsonrpc import INTERNAL_ERROR, error_object

OPEN: Final = 4000
"""Requests to one MCP server that it has not answered, cancelled ones too; more are refused. As
many messages of one client wait for the server to be connected."""

CLIENTS: Final = 1000
"""Connections to one MCP server of an agent that takes ACP transport; more are refused."""

SUBSCRIPTIONS: Final = 1000
"""Subscriptions to one MCP server, and resources in all of them together; more are refused."""

INPUTS: Final = 64
"""Inputs that one result may want; a result that wants more is an error."""

ROUNDS: Final = 32
"""How often one request may want more input; then it fails."""


def refusal(label: str, what: str) -> bytes:
    """The error for one too many; `label`: the server."""
    return error_object(INTERNAL_ERROR, f"{label}: {what} (hint: wait for those that are open)")
