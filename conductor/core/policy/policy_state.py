"""One policed component: its rights on each key, its MCP servers, its rounds and its turns."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import guards
from conductor.core.policy import words
from conductor.core.policy.key_table import (
    ANSWER,
    CARRY,
    COPY,
    DROP,
    EVERYTHING,
    PERMISSION,
    PLACE,
    PROMPT,
    STATE_KIND,
    TEXT_KINDS,
    Direction,
    update,
)
from conductor.core.policy.rules import Policy

if TYPE_CHECKING:
    from conductor.core.policy.withheld import Withheld

_PLACED: Final = {
    Direction.DOWN: frozenset({PROMPT, "session/load", "session/resume"}),
    Direction.UP: frozenset({PERMISSION, "elicitation/create", update(STATE_KIND)}),
}


class OwnTurn(Enum):
    """The state of the turn of a component's own prompt."""

    NONE = "no prompt of its own is open"
    PROMPTED = "its prompt has no answer"
    RUNS = "its prompt has its answer, which in version 2 is not the end of its turn"


class Part(msgspec.Struct, eq=False):
    """The part in one session of a component that may prompt by itself."""

    own: OwnTurn = OwnTurn.NONE
    asked: bool = False
    """Whether the agent has asked the user something in that turn."""
    withheld: Withheld | None = None
    """The updates of tools in that turn that the client has not seen."""
    waiting: int = 0
    """How many prompts that are not its own wait for their answer."""
    running: int = 0
    """Version 2: how many prompts that are not its own run on after their answer."""

    @property
    def others(self) -> bool:
        """Whether prompts run that are not its own."""
        return self.waiting > 0 or self.running > 0


_NO_PART: Final = Part()
_FULL: Final = words.policy("full") or Policy()
_MOST_KEYS: Final = 256
"""The most keys of which the rights are remembered: a peer may send any method."""


class PolicyState(msgspec.Struct, eq=False):
    """The facts that are remembered of one component. Without a policy it is trusted, and only
    watched: it may do anything, and an audit or a trace wants to know its acts."""

    given: Policy | None
    """The policy that it was given; None: it is trusted."""
    name: str = ""
    """The component's name."""
    denied: Mapping[str, str] = {}
    """The words that are denied it, each with who denies it."""
    judge: Policy | None = None
    """The rights by which all its acts are judged; None: they are not. While the rights are not
    enforced, an act that they forbid is reported, and happens."""
    names_of_others: frozenset[str] = frozenset()
    """Names that its MCP servers may not have: of other components, and of bundled ones."""
    paused: bool = False
    """Whether all new messages go past it; it finishes those that it has."""
    servers: set[str] = set()
    """Addresses of MCP servers and connections that are its own."""
    foreign: set[str] = set()
    """Addresses of MCP servers and connections of others."""
    round: int = 0
    """How many rounds it has begun."""
    rounds: bool = False
    """Whether it has rounds: guests in a host of their own have."""
    parts: dict[str, Part] = {}
    """Its parts in sessions, by its ids of the sessions."""
    own_turns: int = 0
    """In how many sessions it has a turn of its own."""
    lost: int = 0
    """Copies that it was too slow for."""
    reported: set[tuple[str, str, str]] = set()
    """Violations that were reported: rule, direction, key."""
    _held: dict[tuple[Direction, str], int] = {}
    _answerable: frozenset[str] | None = None

    # Made of the policy.
    policy: Policy = _FULL
    enforced: bool = False
    prompts: bool = False
    watches_only: bool = False
    text: bool = False
    """Whether it carries texts of the agent."""

    def __post_init__(self) -> None:
        self.policy, self.enforced = self.given or _FULL, self.given is not None
        self.judge = self.given or self.judge
        self.prompts = self.policy.prompts
        self.watches_only = self.enforced and self.policy.watches_only
        self.text = self.enforced and any(
            self.policy.rights(Direction.UP, update(kind)) & CARRY for kind in TEXT_KINDS
        )

    @property
    def answerable(self) -> frozenset[str]:
        """The methods that a capability of an agent promises to answer, and that it may answer."""
        if self._answerable is None:
            promised = chain.from_iterable(guards.capabilities.PROMISES.values())
            self._answerable = frozenset(
                method for method in promised if self.rights(Direction.DOWN, method) & ANSWER
            )
        return self._answerable

    def rights(self, direction: Direction, key: str) -> int:
        """Its rights on a key."""
        if not self.enforced:
            return EVERYTHING
        held = self.held(direction, key)
        # A message that a watched component does not pass on goes on all the same.
        return held & ~DROP if self.policy.watched else held

    def held(self, direction: Direction, key: str) -> int:
        """The rights on a key by which it is judged."""
        held = self._held.get((direction, key))
        if held is None:
            held = (self.judge or self.policy).rights(direction, key)
            if self.text and key in _PLACED[direction]:
                held |= COPY | PLACE
            if len(self._held) < _MOST_KEYS:
                self._held[direction, key] = held
        return held

    def judged(self, direction: Direction, key: str, rights: int) -> int:
        """The rights by which its act on a message is judged, where it has `rights` on the
        message."""
        return rights if self.enforced else self.held(direction, key)

    def has_turn(self, session: str | None) -> bool:
        """Whether a turn of its own runs in a session, and no other."""
        part = self.part(session)
        return part.own is not OwnTurn.NONE and not part.others

    def part(self, session: str | None) -> Part:
        """Its part in a session, to be read."""
        return _NO_PART if session is None else self.parts.get(session, _NO_PART)

    def at(self, session: str) -> Part:
        """Its part in a session, to be changed."""
        part = self.parts.get(session)
        if part is None:
            part = self.parts[session] = Part()
        return part

    def takes(self, session: str, own: OwnTurn) -> None:
        """Its turn in a session has this state from now on."""
        part = self.at(session)
        self.own_turns += (own is not OwnTurn.NONE) - (part.own is not OwnTurn.NONE)
        part.own = own

    def settle(self, session: str) -> None:
        """A prompt or a turn is over in a session: if it has no part there any more, the record
        goes."""
        part = self.part(session)
        if part.own is OwnTurn.NONE and not part.others and part.withheld is None:
            self.parts.pop(session, None)

    def closes(self, session: str) -> None:
        """The component closes a session: the user is asked nothing there any more, so withheld
        updates of the session are forgotten."""
        self.at(session).withheld = None
        self.settle(session)

    def owns(self, addresses: tuple[str, ...]) -> bool:
        """Whether an MCP message is about its own servers and connections alone."""
        return bool(addresses) and all(
            address in self.servers and address not in self.foreign for address in addresses
        )
