"""Guards: what no untrusted component may do to a conversation, whatever verbs it holds.

Verbs (`policy`) say which messages a component may touch; guards say what it may never do with
them: widen a permission, add an MCP server that starts a command, hide a tool call, claim what
nobody can do. Each row of `GUARDS` is lifted by its own grant and by nothing else. The router asks
`forwarded`, `originated` or `answered` for each thing a component sends, and keeps, for `Context`,
the addresses that `declared` and `connected` find. See docs/architecture.md.
"""

from __future__ import annotations

from conductor.core.guards.check import answered, forwarded, originated
from conductor.core.guards.servers import connected, declared
from conductor.core.guards.table import GUARDS, Context, Guard, Violation

__all__ = [
    "GUARDS",
    "Context",
    "Guard",
    "Violation",
    "answered",
    "connected",
    "declared",
    "forwarded",
    "originated",
]
