"""What a rule is told of a component, and what it says of one that breaks it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import msgspec

from conductor.core.policy.rules import Grants


class Violation(msgspec.Struct, frozen=True):
    """What a component attempted: the guard it ran into, one sentence, and where in the message.

    `pointer` is a JSON pointer into the params, result or error the component sent; empty where
    the whole of it is meant.
    """

    guard: str
    text: str
    pointer: str = ""


class Context(msgspec.Struct, frozen=True):
    """What is known of the component, and of the session, when it sends something.

    `version` is the chain's ACP version; None where it is not settled. No rule trusts it: the names
    of all versions are guarded at all times. `grants` are the component's. `servers` are the
    addresses (see `declared` and `connected`) of the MCP servers this component declared, `foreign`
    those of everybody else. `answerable` are the methods it may answer.

    Of the message's session: `known` says whether it was set up here, `folders` are its absolute
    folders (`cwd` and `additionalDirectories`), `commands` what the agent lists, as a user types it
    (see `commands.spelled`), `modes` the ids of the modes, models and options that the agent lists,
    `options` its options as canonical text, `added` the ids that this component has added to them.
    Of the chain: `sessions` are the ids in use, `own_sessions` those of them that this component
    opened or answered, with their folders, `names` the names of MCP servers that are not for this
    component: of bundled and manifest names those of others, and those that the session declares.
    """

    version: int | None = None
    grants: Grants = Grants()
    servers: AbstractSet[str] = frozenset()
    foreign: AbstractSet[str] = frozenset()
    answerable: frozenset[str] = frozenset()
    known: bool = False
    folders: tuple[str, ...] = ()
    commands: AbstractSet[str] = frozenset()
    modes: AbstractSet[str] = frozenset()
    options: tuple[str, ...] = ()
    added: AbstractSet[str] = frozenset()
    sessions: AbstractSet[str] = frozenset()
    own_sessions: Mapping[str, tuple[str, ...]] = {}
    names: AbstractSet[str] = frozenset()
