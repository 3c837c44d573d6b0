"""Policies: the rights of one component on keys, and its named grants.

The table of keys (`conductor.core.policy.key_table`) bounds all of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core.policy.key_table import (
    CARRY,
    COPIES,
    COPY,
    EDITOR,
    MCP_FAMILIES,
    ORIGINATE,
    ROWS,
    STOP,
    UPDATE,
    Direction,
    matches,
    row_of,
)


class Rule(msgspec.Struct, frozen=True):
    """Rights on the keys of one direction; a key may end in `*`."""

    direction: Direction
    key: str
    rights: int

    def covers(self, direction: Direction, key: str) -> bool:
        """Whether the rule is about this key."""
        return direction is self.direction and matches(self.key, key)


class Grants(msgspec.Struct, frozen=True, omit_defaults=True):
    """The grants beside rights on keys; `conductor.core.policy.words` has the words."""

    turns: str = ""
    """Prompts of its own, which the user may not see: `within` a turn of the user's, or
    `unprompted`, also when the user is away."""
    commands: tuple[str, ...] = ()
    """The commands that the component may list and send, without their slash."""
    permission: str = ""
    """`narrow`: permission requests may lose options, and be rejected."""
    mcp: str = ""
    """`others`: the component reads and alters the MCP traffic of others, also calls that the user
    allowed."""
    sessions: str = ""
    """`own`: the component may open sessions that the user does not see, in the user's folders, and
    prompt the agent there; fork the session whose prompt it holds, have a session of the user's go
    on as its own, and answer set-ups. Each of its own sessions is in the mode of a new session."""
    options: bool = False
    """Whether the component has options of its own, which the user sets beside the agent's."""
    editor: tuple[str, ...] = ()
    """The parts of the editor that the component may reach, such as `panel`
    (`docs/editors.md#the-editors-side`)."""
    methods: tuple[str, ...] = ()
    """The extension methods that the component may send and carry; a name may end in `*`."""
    texts: bool = False
    """Whether the component may change words inside finished tool calls, plans, notices, and the
    output of terminals."""
    capabilities: tuple[str, ...] = ()
    """The pointers of the capabilities that the component may claim (`/fs/readTextFile`), or
    `*`."""

    def names(self) -> list[str]:
        """The grants that are given, by name."""
        return [name for name in self.__struct_fields__ if getattr(self, name)]


GRANT_NAMES: Final[tuple[str, ...]] = Grants.__struct_fields__


def of_word(word: str, key: str) -> bool:
    """Whether a word of the grant `editor` is about a key."""
    return any(matches(name, key) for name in EDITOR[word])


class Policy(msgspec.Struct, frozen=True):
    """The policy of one component. None in its place means trusted: nothing is enforced."""

    rules: tuple[Rule, ...] = ()
    """The rights on keys, as far as the rows allow them."""
    grants: Grants = Grants()
    on_violation: str = "pass"
    """`pass`: the conversation goes on as if the component had passed the message on unchanged;
    `fail`: the component is ended."""
    fails: str = "open"
    """`closed`: a request that the component held when it failed or broke a rule is answered with
    an error; `open`: the request goes on unchanged."""
    ids: str = ""
    """`kept`: the program passes requests on under the ids they came with."""
    hold: float | None = None
    """The seconds that the component may hold a prompt; None: no limit."""
    watched: bool = False
    """Whether the component's acts on the conversation are reported, and none of them happens."""

    @property
    def prompts(self) -> bool:
        """Whether the component may prompt the agent by itself, in any session."""
        return bool(self.grants.turns or self.grants.sessions)

    @property
    def serves(self) -> bool:
        """Whether the component may be the end of MCP servers that it declared."""
        return bool(self.rights(Direction.DOWN, "session/new") & CARRY)

    def rights(self, direction: Direction, key: str) -> int:
        """The rights held on a key, as a number."""
        row = row_of(direction, key)
        held = 0
        for name, right in row.grants.items():
            if self._granted(name, key):
                held |= right
        most = row.full | row.more | held
        for rule in self.rules:
            if rule.covers(direction, key):
                held |= rule.rights & most
        if held & CARRY:
            held |= COPY
        return held

    def _granted(self, name: str, key: str) -> bool:
        """Whether a named grant holds for a key."""
        value = getattr(self.grants, name)
        if name == "methods":
            return any(matches(one, key) for one in value)
        if name == "editor":
            return any(of_word(word, key) for word in value)
        return bool(value)

    @property
    def hears(self) -> bool:
        """Whether it receives anything that the agent sends the client, except MCP, opens turns of
        its own, or asks the user in its own name."""
        return (
            self.prompts
            or "ask" in self.grants.editor
            or any(
                self.rights(Direction.UP, key)
                for row in ROWS
                if row.direction is Direction.UP
                for key in row.keys
                if not key.startswith(MCP_FAMILIES)
            )
        )

    @property
    def watches_only(self) -> bool:
        """Whether it gets nothing but copies."""
        return not self.grants.names() and not any(rule.rights & ~COPIES for rule in self.rules)


def _keys(policy: Policy) -> Iterator[tuple[Direction, str]]:
    """All keys on which a policy can hold rights."""
    for row in ROWS:
        yield from ((row.direction, key) for key in row.keys)
    yield from ((rule.direction, rule.key) for rule in policy.rules)
    for method in policy.grants.methods:
        yield from ((direction, method) for direction in Direction)


def ambiguous_key(policy: Policy) -> str:
    """A key of requests that may be the component's own or passed on, so that only ids tell these
    apart; empty: there is none."""
    both = CARRY | ORIGINATE
    for direction, key in _keys(policy):
        is_request = not key.startswith((UPDATE, STOP))
        if is_request and policy.rights(direction, key) & both == both:
            return key
    return ""


def lacking_grants(wanted: Grants, held: Grants) -> Grants:
    """The grants of `wanted` that `held` does not give."""
    values: dict[str, Any] = {}
    for name in GRANT_NAMES:
        value, given = getattr(wanted, name), getattr(held, name)
        if isinstance(value, tuple):
            values[name] = tuple(
                word for word in value if not any(matches(one, word) for one in given)
            )
        elif name == "turns":
            values[name] = value if given not in (value, "unprompted") else ""
        else:
            values[name] = value if value != given else type(value)()
    return Grants(**values)


def merged(first: Grants, second: Grants) -> Grants:
    """The grants that both give together."""
    values: dict[str, Any] = {}
    for name in GRANT_NAMES:
        left, right = getattr(first, name), getattr(second, name)
        if isinstance(left, tuple):
            values[name] = tuple(dict.fromkeys((*left, *right)))
        elif name == "turns":
            values[name] = max(left, right, key=("", "within", "unprompted").index)
        else:
            values[name] = left or right
    return Grants(**values)
