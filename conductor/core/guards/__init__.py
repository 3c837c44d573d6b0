"""Guards: the acts on a conversation that no untrusted component may do, whatever its rights.

Rights (`conductor.core.policy`) say which messages a component may carry, answer and send; guards
say what it may never do with them: widen a permission, add an MCP server that starts a command,
turn a prompt into a command, claim a capability that nobody has. Each guard is a row of `GUARDS`,
with its rules and the grant that widens it. The engine calls `forwarded`, `originated` or
`answered` for each message of a component, and keeps, for `Context`, the addresses that `declared`
and `connected` return. See docs/architecture.md.

    table           the guards
    check           the three acts of a component, checked against the table
    rules           the context, the acts and the breaches of rules; the rules that fit many methods
    reading         JSON read so that no two parsers disagree
    names           names of methods, of members and of MCP servers, and their look-alikes
    every_message   how a message reads, its method, its session and its `_meta`
    metas           members of `_meta` that a component may add or change
    plain_text      prompts of plain texts alone, of which no rule needs to be asked
    prompts, commands, links, paths
                    prompts, and the commands and the ways outside in them
    sessions, servers
                    set-ups and lists of sessions; MCP
    mcp_words       messages of a component's own MCP servers
    modes, command_lists, permissions, updates, capabilities, extensions, conversations
                    one kind of message each
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from conductor.core.guards.rules import Context, Violation

if TYPE_CHECKING:
    from conductor.core.guards import capabilities, every_message, modes, servers
    from conductor.core.guards.check import answered, changed_plainly, forwarded, originated
    from conductor.core.guards.servers import connected, declared
    from conductor.core.guards.table import GUARDS, Guard

__all__ = [
    "GUARDS",
    "Context",
    "Guard",
    "Violation",
    "answered",
    "capabilities",
    "changed_plainly",
    "connected",
    "declared",
    "every_message",
    "forwarded",
    "modes",
    "originated",
    "servers",
]

_HOLDS: Final = {
    **dict.fromkeys(("GUARDS", "Guard"), "table"),
    **dict.fromkeys(("connected", "declared"), "servers"),
    **{name: name for name in ("capabilities", "every_message", "modes", "servers")},
}
"""The module that holds a name, where `check` does not."""


def __getattr__(name: str) -> Any:
    """The guards, and the other modules that no first message needs. No chain needs the guards
    before a component changes a message or sends its own."""
    if name not in __all__:
        raise AttributeError(f"module `{__name__}` has no attribute `{name}`")
    module = _HOLDS.get(name, "check")
    found = import_module(f"{__name__}.{module}")
    # From now on the name is there: each change of a prompt asks for one.
    value = globals()[name] = found if module == name else getattr(found, name)
    return value
