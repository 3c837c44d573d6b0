"""What a component may do to the conversation: verbs per direction and method, and profiles.

    observe     gets a copy; the original goes on at once
    modify      the message passes through it
    answer      it may answer a request without forwarding it
    originate   it may send such messages unprompted

A message a component holds no verb on passes it by. Verbs say *what* a component may touch; the
guards say what it may never do with it (`conductor.core.guards`).
"""

from __future__ import annotations

from enum import Enum, Flag, auto
from typing import Final

import msgspec


class Direction(Enum):
    """Which way a message goes: `down` towards the agent, `up` towards the client."""

    DOWN = "down"
    UP = "up"

    @property
    def opposite(self) -> Direction:
        """The other way."""
        return Direction.UP if self is Direction.DOWN else Direction.DOWN


class Verb(Flag):
    """What may be done to a kind of message."""

    NONE = 0
    OBSERVE = auto()
    MODIFY = auto()
    ANSWER = auto()
    ORIGINATE = auto()

    @property
    def words(self) -> list[str]:
        """The verbs' names, in a fixed order."""
        return [verb.name.lower() for verb in Verb if verb in self and verb.name]


ALL: Final = Verb.OBSERVE | Verb.MODIFY | Verb.ANSWER | Verb.ORIGINATE
SEES: Final = Verb.MODIFY | Verb.ANSWER
"""With one of these the message itself, not a copy, goes through the component."""


class Rule(msgspec.Struct, frozen=True):
    """Grants verbs on the methods of one direction; a pattern may end in `*`."""

    direction: Direction
    pattern: str
    verbs: Verb

    def covers(self, direction: Direction, method: str) -> bool:
        """Whether the rule speaks of this method."""
        if direction is not self.direction:
            return False
        if self.pattern.endswith("*"):
            return method.startswith(self.pattern[:-1])
        return method == self.pattern


SETUP: Final = ("session/new", "session/load", "session/resume", "session/fork")
"""The requests that set a session up, and carry its MCP servers."""

_DOWN, _UP = Direction.DOWN, Direction.UP

PROFILES: Final[dict[str, tuple[Rule, ...]]] = {
    "observer": (Rule(_DOWN, "*", Verb.OBSERVE), Rule(_UP, "*", Verb.OBSERVE)),
    "context": tuple(Rule(_DOWN, m, Verb.MODIFY) for m in ("session/prompt", *SETUP)),
    "filter": (Rule(_DOWN, "*", Verb.MODIFY), Rule(_UP, "*", Verb.MODIFY)),
    "tools": (
        *(Rule(_DOWN, m, Verb.MODIFY) for m in SETUP),
        *(Rule(_UP, p, Verb.ANSWER | Verb.MODIFY) for p in ("mcp/*", "_mcp/*", "_scp/mcp")),
        *(Rule(_DOWN, p, Verb.MODIFY | Verb.ORIGINATE) for p in ("mcp/*", "_mcp/*", "_scp/mcp")),
    ),
    "full": (Rule(_DOWN, "*", ALL), Rule(_UP, "*", ALL)),
}
"""The named sets of rules. `trusted`, the profile without any enforcement, is no policy at all."""

NO_PROFILE: Final = "none"
TRUSTED: Final = "trusted"
PROFILE_NAMES: Final = (*PROFILES, TRUSTED)


UPDATES: Final = (Direction.UP, "session/update")

ACCOMPANIED: Final = frozenset(
    {
        (Direction.DOWN, "session/prompt"),
        (Direction.DOWN, "session/load"),
        (Direction.DOWN, "session/resume"),
        (Direction.UP, "session/request_permission"),
    }
)
"""Requests whose place among a session's updates means something: the turn or replay that ends with
their answer, the permission for what an update has announced.

Whoever may change updates holds these up too if it holds updates up. So it is *shown* these
requests and their answers without any verb on them: it passes them on, in its own order, and
nothing else. What it does not pass on unchanged goes past it.
"""


class Policy(msgspec.Struct, frozen=True):
    """What one component may do. None in its place means trusted: nothing is enforced.

    `lifted` names guards that were lifted for it. `on_violation`: `pass` lets the conversation go
    on as if the component had passed the message through, `fail` ends the component.
    """

    profile: str = "full"
    extra: tuple[Rule, ...] = ()
    lifted: frozenset[str] = frozenset()
    on_violation: str = "pass"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The profile's rules and those granted besides."""
        return (*PROFILES.get(self.profile, ()), *self.extra)

    def verbs(self, direction: Direction, method: str) -> Verb:
        """The verbs held on one method."""
        held = Verb.NONE
        for rule in self.rules:
            if rule.covers(direction, method):
                held |= rule.verbs
        return held

    def accompanies(self, direction: Direction, method: str) -> bool:
        """Whether a request and its answer keep their place among updates that may be changed."""
        return (direction, method) in ACCOMPANIED and Verb.MODIFY in self.verbs(*UPDATES)


def parse_rule(text: str) -> Rule:
    """A rule from `down:session/prompt:modify+answer`. Raises `ValueError` saying what is wrong."""
    parts = text.split(":")
    if len(parts) != 3 or not parts[1]:
        raise ValueError("write DIRECTION:METHOD:VERB, e.g. down:session/prompt:modify")
    direction, pattern, words = parts
    if direction not in ("down", "up"):
        raise ValueError(f"direction `{direction}` must be down or up")
    if "*" in pattern[:-1]:
        raise ValueError(f"`*` may only end a pattern: `{pattern}`")
    verbs = Verb.NONE
    for word in words.split("+"):
        if word not in {verb.name.lower() for verb in Verb if verb.name}:
            raise ValueError(f"verb `{word}` must be observe, modify, answer or originate")
        verbs |= Verb[word.upper()]
    return Rule(Direction(direction), pattern, verbs)


class PolicyWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy as it is written on a command line, in JSON, or sent to a child process."""

    profile: str = "full"
    allow: tuple[str, ...] = ()
    unguard: tuple[str, ...] = ()
    on_violation: str = "pass"

    def policy(self) -> Policy | None:
        """The policy, or None for `trusted`. Raises `ValueError` saying what is wrong."""
        if self.profile == TRUSTED:
            return None
        if self.profile not in PROFILES:
            raise ValueError(f"profiles are: {', '.join(PROFILE_NAMES)}")
        rules = tuple(parse_rule(text) for text in self.allow)
        return Policy(self.profile, rules, frozenset(self.unguard), self.on_violation)

    @property
    def unlimited(self) -> bool:
        """Whether every verb is held on everything: then nothing ever passes the component by."""
        return self.profile in ("full", TRUSTED)
