"""The bounds of one principal's cost to a server."""

from __future__ import annotations

import msgspec


class HubLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of one hub."""

    connections: int = 64
    """Connections at once."""
    sessions: int = 1_000
    """Live sessions at once."""
    attached: int = 32
    """Connections that are attached to one session."""
    open_requests: int = 1_000
    """Requests without an answer, of one connection and of one chain."""
    history_bytes: int = 16 * 1024 * 1024
    """Bytes of updates that are kept of one session."""
    all_history_bytes: int = 256 * 1024 * 1024
    """Bytes of updates that are kept of all sessions of the hub."""
    prompt_seconds: float | None = None
    """How long a turn may take; then it is cancelled. None: any time."""
    cancel_seconds: float = 30.0
    """How long a cancelled turn may take to end; then its prompt is answered with an error."""
