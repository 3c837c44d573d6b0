"""Notifications through one component, compared: what it was given and what it said.

They carry no ids. What goes on byte for byte, or with the same value, is told apart at once; the
rest is put in pairs, in order and by likeness, when it is known that the component has had its say:
when it passes on something it was given later.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import UnsetType

from conductor.core.alike import align
from conductor.core.tokens import Params, equal

MOST_SAID: Final = 64
"""Notifications that are undecided at most, before they are paired as they come."""

MOST_GIVEN: Final = 4096
"""Notifications that a component may be behind with; older ones count as dropped."""

_LOOKED_AT: Final = 8
_COMPARED: Final = 2_048
"""Bytes of a notification that tell which it is a version of."""

_MOST_DROPPED: Final = 64
_decode = msgspec.json.Decoder().decode


class Given(NamedTuple):
    """A notification a component was given: its number, params, and who had said it."""

    number: int
    params: Params
    source: str


class Said(NamedTuple):
    """A notification a component said: its params, and who was told it."""

    params: Params
    target: str


class Match(NamedTuple):
    """What became of a notification. `given` None: it is the component's own; `said` None: it was
    dropped. `change` and `matched` are those of `conductor.core.effects.Changed`."""

    change: str
    matched: str
    given: Given | None
    said: Said | None


class Flow:
    """The notifications of one method and session that leave a component by one of its sides."""

    __slots__ = ("_dropped", "_given", "_said")

    def __init__(self) -> None:
        self._given: deque[Given] = deque()
        self._said: list[Said] = []
        self._dropped: deque[Given] = deque(maxlen=_MOST_DROPPED)

    def give(self, given: Given) -> list[Match]:
        """It was given one more."""
        self._given.append(given)
        return self._drop(1, "order") if len(self._given) > MOST_GIVEN else []

    def say(self, said: Said) -> list[Match]:
        """It said one."""
        for at, given in enumerate(self._given):
            if given.params == said.params:
                del self._given[at]
                return []
        for at, given in enumerate(islice(self._given, _LOOKED_AT)):
            if equal(given.params, said.params):
                del self._given[at]
                return [Match("modified", "value", given, said)]
        for given in self._dropped:
            if given.params == said.params:
                self._dropped.remove(given)
                return [Match("delayed", "value", given, said)]
        self._said.append(said)
        return self._pair(MOST_SAID, "order")[0] if len(self._said) == MOST_SAID else []

    def settle(self, before: int | None = None) -> list[Match]:
        """It has had its say about all it was given before this number; None: about everything, for
        this is the end."""
        why, count = "end", len(self._given)
        if before is not None:
            why, count = "order", sum(given.number < before for given in self._given)
        found, left = self._pair(count, why)
        return found + self._drop(left, why)

    def forget_given(self) -> list[Match]:
        """It is gone, and has not had its say: only what it said counts."""
        found = [match for match in self.settle(None) if match.said is not None]
        self._dropped.clear()
        return found

    def _pair(self, count: int, why: str) -> tuple[list[Match], int]:
        """Pairs what was said with the first so many that were given; and how many of these are
        left behind the last that has a partner."""
        said, self._said = self._said, []
        found: list[Match] = []
        at = 0
        for place, index in enumerate(_partners(list(islice(self._given, count)), said)):
            if index is None:
                found.append(Match("originated", "order", None, said[place]))
                continue
            found += self._drop(index - at, why)
            at = index + 1
            found.append(Match("modified", "order", self._given.popleft(), said[place]))
        return found, count - at

    def _drop(self, count: int, why: str) -> list[Match]:
        found = []
        for _ in range(min(count, len(self._given))):
            given = self._given.popleft()
            self._dropped.append(given)
            found.append(Match("dropped", why, given, None))
        return found


def _partners(given: list[Given], said: list[Said]) -> list[int | None]:
    """For each that was said, the place of the one given that it is a version of, in order."""
    before = [_spelled(one.params) for one in given[: 2 * MOST_SAID]]
    return align(before, [_spelled(one.params) for one in said])


def _spelled(params: Params) -> bytes:
    """A spelling in which like messages look alike."""
    if isinstance(params, UnsetType):
        return b""
    try:
        return msgspec.json.encode(_decode(params), order="sorted")[:_COMPARED]
    except (msgspec.DecodeError, UnicodeError):
        return bytes(params)[:_COMPARED]
