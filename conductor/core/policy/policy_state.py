"""One policed component: what it holds on each key, its MCP servers, its rounds and its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from conductor.core.guards.capabilities import PROMISES
from conductor.core.policy.key_table import (
    ANSWER,
    CARRY,
    COPY,
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
_PROMISED: Final = frozenset(method for methods in PROMISES.values() for method in methods)


class PolicyState:
    """What is remembered of one component. Without a policy it is trusted, and only watched: it may
    do anything, and an audit or a trace wants to know what it does."""

    __slots__ = (
        "answerable",
        "asked",
        "enforced",
        "foreign",
        "lost",
        "name",
        "names_of_others",
        "others",
        "paused",
        "policy",
        "prompts",
        "reported",
        "round",
        "rounds",
        "servers",
        "text",
        "turns",
        "watches_only",
        "withheld",
    )

    def __init__(self, policy: Policy | None, name: str = "") -> None:
        self.name = name
        """The component's."""
        self.names_of_others: frozenset[str] = frozenset()
        """Names that its MCP servers may not have: of other components, and of bundled ones."""
        self.enforced = policy is not None
        self.policy = policy or Policy()
        self.paused = False
        """Whether all that is new goes past it; what it has from before it finishes."""
        self.prompts = self.policy.prompts
        self.watches_only = policy is not None and policy.watches_only
        self.servers: set[str] = set()
        """Addresses of MCP servers and connections that are its own …"""
        self.foreign: set[str] = set()
        """… and that are others'."""
        self.text = policy is not None and any(
            policy.rights(Direction.UP, update(kind)) & CARRY for kind in TEXT_KINDS
        )
        """Whether it carries what the agent says."""
        self.answerable = frozenset(
            method for method in _PROMISED if self.rights(Direction.DOWN, method) & ANSWER
        )
        """Methods some agent capability promises an answer to, and it may answer."""
        self.round = 0
        """How often it has been handed what was written to it."""
        self.rounds = False
        """Whether it has rounds: guests in a host of their own have."""
        self.turns: dict[str, bool] = {}
        """The sessions in which a prompt of its own is open; whether its answer has come, which in
        version 2 is not the end of its turn."""
        self.asked: set[str] = set()
        """The sessions of those prompts in which the agent has asked the user since."""
        self.withheld: dict[str, Withheld] = {}
        """What tools do in those prompts, and the client has not seen, by session."""
        self.others: dict[str, tuple[int, int]] = {}
        """The sessions in which prompts run that are not its own: how many wait for their answer,
        and how many in version 2 have it. Kept of those that may prompt by themselves."""
        self.lost = 0
        """Copies that it was too slow for."""
        self.reported: set[tuple[str, str, str]] = set()
        """Violations that were reported: rule, direction, key."""

    def rights(self, direction: Direction, key: str) -> int:
        """What it holds on a key."""
        if not self.enforced:
            return EVERYTHING
        held = self.policy.rights(direction, key)
        return held | COPY | PLACE if self.text and key in _PLACED[direction] else held

    def has_turn(self, session: str | None) -> bool:
        """Whether what runs in a session is a turn of its own, and no other."""
        return session in self.turns and session not in self.others

    def owns(self, addresses: tuple[str, ...]) -> bool:
        """Whether an MCP message is about its own servers and connections alone."""
        return bool(addresses) and all(
            address in self.servers and address not in self.foreign for address in addresses
        )
