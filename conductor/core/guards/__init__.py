"""Guards: what no untrusted component may do to a conversation, whatever rights it holds.

Rights (`conductor.core.policy`) say which messages a component may carry, answer and send; guards
say what it may never do with them: widen a permission, add an MCP server that starts a command,
turn a prompt into a command, claim what nobody can do. Each row of `GUARDS` says which grant widens
it. The engine asks `forwarded`, `originated` or `answered` for each thing a component sends, and
keeps, for `Context`, the addresses that `declared` and `connected` find. See docs/architecture.md.

    check           the three routes; which rules a method has
    context         what is known when something is sent; violations
    table           the guards, for people
    rules           what rules look like, and those that fit many methods
    reading         JSON read so that no two parsers disagree
    methods, names  names of methods, of members and of MCP servers, and what looks like them
    common          `_meta` and the session of every message
    prompts, commands, links, paths, blobs
                    prompts, and what is a command or leads outside in them
    setup, servers  the set-up of sessions, and MCP
    modes, lists, permissions, updates, words, capabilities, extensions
                    one kind of message each
"""

from __future__ import annotations

from conductor.core.guards.check import answered, forwarded, originated
from conductor.core.guards.context import Context, Violation
from conductor.core.guards.servers import connected, declared
from conductor.core.guards.table import GUARDS, Guard

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
