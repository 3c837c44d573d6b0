"""Policies: what one component may do, as a profile, rules beside that, and named grants.

The table of keys (`conductor.core.policy.key_table`) bounds what any of these gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core.policy.key_table import (
    CARRY,
    COPIES,
    EDITOR,
    MCP_FAMILIES,
    ORIGINATE,
    PERMISSION,
    PROMPT,
    ROWS,
    SETUP,
    STOP,
    TEXT_KINDS,
    UPDATE,
    Direction,
    Right,
    matches,
    row_of,
    update,
)

_TEXT: Final = tuple(update(kind) for kind in TEXT_KINDS)


class Rule(msgspec.Struct, frozen=True):
    """Rights on the keys of one direction, by `allow=` or a profile; a key may end in `*`."""

    direction: Direction
    key: str
    rights: Right

    def covers(self, direction: Direction, key: str) -> bool:
        """Whether the rule is about this key."""
        of_kind = self.key == UPDATE and key.startswith(f"{UPDATE}[")
        return direction is self.direction and (of_kind or matches(self.key, key))


_CONTEXT: Final = (
    Rule(Direction.DOWN, PROMPT, Right.CARRY),
    *(Rule(Direction.DOWN, method, Right.CARRY) for method in SETUP),
)
_EVERYTHING: Final = ~Right.NONE

PROFILES: Final[dict[str, tuple[Rule, ...]]] = {
    "none": (),
    "observer": (Rule(Direction.DOWN, "*", Right.COPY), Rule(Direction.UP, "*", Right.COPY)),
    "context": _CONTEXT,
    "tools": tuple(Rule(Direction.DOWN, method, Right.CARRY) for method in SETUP),
    "filter": (
        *_CONTEXT,
        Rule(Direction.DOWN, PROMPT, Right.AMEND),
        *(Rule(Direction.UP, key, Right.CARRY | Right.DROP) for key in _TEXT),
        Rule(Direction.UP, UPDATE, Right.COPY),
        Rule(Direction.UP, PERMISSION, Right.COPY),
    ),
    "full": (Rule(Direction.DOWN, "*", _EVERYTHING), Rule(Direction.UP, "*", _EVERYTHING)),
}
"""The named tables; each key's row bounds what they give. `trusted` is no policy at all."""

SAYS: Final[dict[str, str]] = {
    "none": "may do nothing but what is granted by name",
    "observer": "reads every message, and changes nothing",
    "context": "may read and change your prompts, read set-ups of sessions (folders, MCP servers "
    "and their keys), and give the agent tools of its own (MCP servers)",
    "tools": "may read set-ups of sessions (folders, MCP servers and their keys), and give the "
    "agent tools of its own (MCP servers)",
    "filter": "may do as `context`, read all updates and requests for permission, and change and "
    "hide what the agent says",
    "full": "may do everything but what is guarded",
    "trusted": "may do everything; nothing is enforced",
}
"""What each profile is, in a sentence."""

NO_PROFILE: Final = "none"
TRUSTED: Final = "trusted"
PROFILE_NAMES: Final = (*PROFILES, TRUSTED)


class Grants(msgspec.Struct, frozen=True, omit_defaults=True):
    """The named grants. A manifest wants each by name, and the user gives it by name."""

    turns: str = ""
    """Prompts of its own, which the user may not see: `within` a turn of the user's, or
    `unprompted`, also when the user is away."""
    commands: tuple[str, ...] = ()
    """Commands it may list and send, without their slash."""
    permission: str = ""
    """`narrow`: permission requests may lose options, and be rejected."""
    mcp: str = ""
    """`others`: it reads and alters the MCP traffic of others, also calls that the user allowed."""
    sessions: str = ""
    """`own`: it may open sessions that the user does not see, in the user's folders, and prompt the
    agent there; fork the session whose prompt it holds, have one of the user's go on as its own,
    and answer set-ups. Each of its own is in the mode that the agent begins one in."""
    options: bool = False
    """It has options of its own, which you set where you set the agent's."""
    editor: tuple[str, ...] = ()
    """What of the editor's it may reach, such as `panel` (`docs/editor.md`)."""
    methods: tuple[str, ...] = ()
    """Extension methods it may send and carry; a name may end in `*`."""
    texts: bool = False
    """It may change words inside finished tool calls, plans, notices, and what terminals show."""
    capabilities: tuple[str, ...] = ()
    """Pointers of capabilities it may claim (`/fs/readTextFile`), or `*`."""

    def names(self) -> list[str]:
        """The grants that are given, by name."""
        return [name for name in self.__struct_fields__ if getattr(self, name)]

    def words(self) -> list[str]:
        """The grants that are given, as they are written behind a component."""
        values = {name: getattr(self, name) for name in self.names()}
        return [
            name
            if value is True
            else f"{name}={'+'.join(value) if isinstance(value, tuple) else value}"
            for name, value in values.items()
        ]


CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "turns": ("within", "unprompted"),
    "permission": ("narrow",),
    "mcp": ("others",),
    "sessions": ("own",),
    "editor": tuple(EDITOR),
}
"""What may be given where a grant takes one or more of a few words."""

GRANT_NAMES: Final[tuple[str, ...]] = Grants.__struct_fields__


def of_word(word: str, key: str) -> bool:
    """Whether a word of `editor=` is about a key."""
    return any(matches(name, key) for name in EDITOR[word])


class Policy(msgspec.Struct, frozen=True):
    """What one component may do. None in its place means trusted: nothing is enforced."""

    profile: str = "full"
    extra: tuple[Rule, ...] = ()
    """Rights beside those of the profile."""
    grants: Grants = Grants()
    on_violation: str = "pass"
    """`pass`: the conversation goes on as if the component had passed the message on unchanged;
    `fail`: the component is ended."""
    fails: str = "open"
    """`closed`: a request that it held when it failed or broke a rule is answered with an error;
    else that goes on unchanged."""
    ids: str = ""
    """`kept`: the program passes requests on under the ids they came with."""
    hold: float | None = None
    """Seconds that it may hold a prompt; None: no limit."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The profile's rules and those allowed besides."""
        return (*PROFILES.get(self.profile, ()), *self.extra)

    @property
    def turns(self) -> str:
        """Whether it may prompt the agent by itself: `within`, `unprompted`, or empty."""
        return self.grants.turns or ("within" if self.profile == "full" else "")

    @property
    def prompts(self) -> bool:
        """Whether it may prompt the agent by itself, in any session."""
        return bool(self.turns or self.grants.sessions)

    @property
    def serves(self) -> bool:
        """Whether it may be the end of MCP servers it declared."""
        return bool(self.rights(Direction.DOWN, "session/new") & CARRY)

    def rights(self, direction: Direction, key: str) -> int:
        """The rights held on a key, as a number."""
        row = row_of(direction, key)
        held = Right.NONE
        for name, right in row.grants.items():
            if self._granted(name, key):
                held |= right
        most = row.full | held
        for rules, bound in ((PROFILES.get(self.profile, ()), most), (self.extra, most | row.more)):
            for rule in rules:
                if rule.covers(direction, key):
                    held |= rule.rights & bound
        if key == PROMPT and self.turns and direction is Direction.DOWN:
            held |= Right.ORIGINATE
        if held & Right.CARRY:
            held |= Right.COPY
        return held.value

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
        """Whether all it ever gets are copies."""
        return not self.grants.names() and not any(rule.rights & ~COPIES for rule in self.rules)


# -- policies compared ---------------------------------------------------------------------------


def permits(held: Policy | None, wanted: Rule) -> bool:
    """Whether a policy (None: trusted) holds all that a rule gives, as far as its row allows it."""
    return within(Policy(NO_PROFILE, (wanted,)), held)


def within(wanted: Policy, held: Policy | None) -> bool:
    """Whether `held` (None: trusted) has all rights of `wanted`."""
    return held is None or all(
        not wanted.rights(direction, key) & ~held.rights(direction, key)
        for direction, key in _keys(wanted, held)
    )


def _keys(*policies: Policy) -> Iterator[tuple[Direction, str]]:
    """All keys on which policies can differ."""
    for row in ROWS:
        yield from ((row.direction, key) for key in row.keys)
    for policy in policies:
        yield from ((rule.direction, rule.key) for rule in policy.extra)
        for method in policy.grants.methods:
            yield from ((direction, method) for direction in Direction)


def ambiguous_key(policy: Policy) -> str:
    """A key of requests that may be the component's own or passed on, so that only ids tell which;
    empty if there is none."""
    both = CARRY | ORIGINATE
    for direction, key in _keys(policy):
        is_request = not key.startswith((UPDATE, STOP))
        if is_request and policy.rights(direction, key) & both == both:
            return key
    return ""


def lacking(wanted: Grants, held: Grants) -> Grants:
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
    """What both together give."""
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
