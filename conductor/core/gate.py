"""What is known of one policed component: its verbs as numbers, its MCP servers, its rounds."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from conductor.core.guards.capabilities import PROMISES
from conductor.core.link import Link, Pending
from conductor.core.policy import ACCOMPANIED, Direction, Policy, Verb
from conductor.core.tokens import Told

if TYPE_CHECKING:
    from conductor.core.peer import Lane

OBSERVE: Final = Verb.OBSERVE.value
MODIFY: Final = Verb.MODIFY.value
ANSWER: Final = Verb.ANSWER.value
ORIGINATE: Final = Verb.ORIGINATE.value
RELAY: Final = 2 * ORIGINATE
"""Held where `Policy.accompanies` and neither `modify` nor `answer` is."""

THROUGH: Final = MODIFY | ANSWER | RELAY
"""With one of these a request itself, not a copy, goes through the component."""

_PROMISED: Final = frozenset(method for methods in PROMISES.values() for method in methods)
_MOST_LOOSE: Final = 1024
_MOST_METHODS: Final = 256
_LONG: Final = 256
"""Characters from which on a method's name is not kept."""


class Gate:
    """One policed component."""

    __slots__ = (
        "_down",
        "_loose",
        "_ordered_down",
        "_ordered_up",
        "_up",
        "answerable",
        "foreign",
        "holds",
        "late",
        "lost",
        "number",
        "owing",
        "policy",
        "quick",
        "relays",
        "round",
        "servers",
        "simple",
        "told",
    )

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._down: dict[str, int] = {}
        self._up: dict[str, int] = {}
        self._ordered_down = self._ordered(Direction.DOWN)
        self._ordered_up = self._ordered(Direction.UP)
        self.servers: set[str] = set()
        """Addresses of MCP servers and connections that are its own …"""
        self.foreign: set[str] = set()
        """… and that are others'."""
        self.answerable = frozenset(
            method for method in _PROMISED if self.verbs(Direction.DOWN, method) & ANSWER
        )
        """Methods some agent capability promises an answer to, and it may answer."""
        self.number = 0
        """Of the last request it was given, or message held up for it."""
        self.round = 0
        """How often it has been handed what was written to it; counts for guests only."""
        self.late = False
        """Whether it was told something in its round, which it will hear in the next."""
        self.relays = bool(self._ordered_down or self._ordered_up)
        """Whether it is given requests, or answers, for their place in the order only."""
        self.holds = frozenset(
            rule.direction
            for rule in policy.rules
            if rule.verbs & (Verb.MODIFY | Verb.ANSWER) or self.relays
        )
        """Directions in which it may have what others must not overtake."""
        self.simple = not self.relays and not any(
            Verb.OBSERVE in rule.verbs and Verb.MODIFY not in rule.verbs for rule in policy.rules
        )
        """Whether all it ever has to be forgotten for it is what it was told."""
        self.quick = self.simple
        """Whether that is all there is to do once it has had its say this time."""
        self.owing = False
        """Whether it was given answers that it may change, which have their place until then."""
        self.told: list[Told] = []
        """That, of both its lanes."""
        self.lost = 0
        """Copies that it was too slow for."""
        self._loose: deque[tuple[Link, bytes, Pending]] = deque()

    def verbs(self, direction: Direction, method: str) -> int:
        """The verbs held on a method as a number, for flag arithmetic is slow."""
        known = self._down if direction is Direction.DOWN else self._up
        held = known.get(method)
        if held is None:
            held = self._read(direction, method)
            if len(known) < _MOST_METHODS and len(method) < _LONG:
                known[method] = held
        return held

    def _read(self, direction: Direction, method: str) -> int:
        held: int = self.policy.verbs(direction, method).value
        if not held & (MODIFY | ANSWER) and self.policy.accompanies(direction, method):
            held |= RELAY
        return held

    def orders(self, direction: Direction, method: str) -> bool:
        """Whether answers of requests of this method go through it for their place in the order
        only."""
        return method in (self._ordered_down if direction is Direction.DOWN else self._ordered_up)

    def _ordered(self, direction: Direction) -> frozenset[str]:
        """The methods of one direction that `orders`."""
        return frozenset(
            method
            for way, method in ACCOMPANIED
            if way is direction
            and self.policy.accompanies(way, method)
            and not self._read(way.opposite, method) & MODIFY
        )

    def sees(self, direction: Direction, method: str) -> bool:
        """Whether a request of this method itself, not a copy, goes through the component."""
        return bool(self.verbs(direction, method) & THROUGH)

    def loosen(self, link: Link, id_: bytes, pending: Pending) -> None:
        """Stops waiting for an answer that concerns nobody, once there are too many of them."""
        self._loose.append((link, id_, pending))
        if len(self._loose) > _MOST_LOOSE:
            link, id_, pending = self._loose.popleft()
            if link.sent.get(id_) is pending:
                del link.sent[id_]

    def next(self) -> int:
        """A number above all before."""
        self.number += 1
        return self.number

    def told_of(self, by_method: dict[str, Told], method: str) -> Told:
        """The notifications of a method, in a table of so many methods at most."""
        known = by_method.get(method)
        if known is not None:
            return known
        if len(by_method) >= _MOST_METHODS:
            for name in [name for name, given in by_method.items() if not given]:
                self._forget(by_method.pop(name))
            while len(by_method) >= _MOST_METHODS:
                self._forget(by_method.pop(next(iter(by_method))))
        found = by_method[method] = Told()
        self.told.append(found)
        return found

    def _forget(self, told: Told) -> None:
        self.told = [one for one in self.told if one is not told]


def verbs_on(lane: Lane, method: str) -> int:
    """The verbs a policed peer holds on what comes in on a lane."""
    found = lane.verbs.get(method)
    return look_up(lane, method) if found is None else found


def look_up(lane: Lane, method: str) -> int:
    """The same, not asked of that lane before."""
    gate = lane.peer.gate
    assert gate is not None
    held = gate.verbs(lane.other.direction, method)
    if len(lane.verbs) < 1024:
        lane.verbs[method] = held
    return held
