"""The action after a failure of a component: `fail`, `restart` within a budget, or `bypass`.

Without a clock: the shell that hosts the component gives the time.
"""

from __future__ import annotations

from collections import deque
from heapq import heappush
from typing import Final, Generic, TypeVar

import msgspec

T = TypeVar("T", int, str)

CHOICES: Final = ("fail", "restart", "bypass", "restart+bypass")
"""`restart` fails the chain when its budget is used up; `restart+bypass` bypasses then."""

_BUDGET: Final = 3
_WINDOW: Final = 60.0
_DELAYS: Final = (0.0, 0.2, 1.0)


class Restart(msgspec.Struct, frozen=True):
    """Start the component again after `delay` seconds, the `number`th time of `most`."""

    delay: float
    number: int
    most: int = _BUDGET


class Bypass(msgspec.Struct, frozen=True):
    """Go on without the component."""


class GiveUp(msgspec.Struct, frozen=True):
    """End the chain."""


Action = Restart | Bypass | GiveUp


class Recovery:
    """The failures of one component: three restarts a minute, each a little later."""

    def __init__(self, choice: str) -> None:
        """`choice` is one of `CHOICES`."""
        self._choice = choice
        self._failures: deque[float] = deque()

    def silent(self) -> None:
        """The component was started again, and has not taken its role: a restart does not help."""
        self._choice = {"restart": "fail", "restart+bypass": "bypass"}.get(
            self._choice, self._choice
        )

    def failed(self, now: float) -> Action:
        """The action after a failure at `now` (seconds of a clock that never goes back)."""
        if self._choice == "bypass":
            return Bypass()
        if self._choice == "fail":
            return GiveUp()
        while self._failures and now - self._failures[0] > _WINDOW:
            self._failures.popleft()
        if len(self._failures) < _BUDGET:
            delay = _DELAYS[len(self._failures)]
            self._failures.append(now)
            return Restart(delay, len(self._failures))
        return Bypass() if self._choice == "restart+bypass" else GiveUp()


class Due(Generic[T]):
    """Things to do later, such as components to start again, with their times."""

    def __init__(self) -> None:
        self._waiting: list[tuple[float, T]] = []
        """A heap: the first is due first."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def add(self, name: T, when: float) -> None:
        """Adds a thing; `when` is of the same clock as all times here."""
        heappush(self._waiting, (when, name))

    def seconds(self, now: float) -> float | None:
        """Seconds until the first is due; None if nothing waits. A host asks after each round,
        and each request that a guest holds waits here."""
        return max(0.0, self._waiting[0][0] - now) if self._waiting else None

    def take(self, now: float) -> list[T]:
        """Takes out the things that are due, and all others of the same name."""
        if not self._waiting or self._waiting[0][0] > now:
            return []
        due: dict[T, None] = dict.fromkeys(
            name for when, name in sorted(self._waiting) if when <= now
        )
        # A part of a sorted list is a heap.
        self._waiting = sorted(each for each in self._waiting if each[1] not in due)
        return list(due)
