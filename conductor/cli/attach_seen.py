"""Which updates of a session have been shown: what is replayed after a cut is not shown again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from conductor.core import json_text


class Seen:
    """Counts updates. Two that are the same are two: of what comes again, so many are old."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._old: Counter[int] = Counter()
        """Of a replay, those that are still to come, and were shown before."""

    def replays(self) -> None:
        """From now on what has been comes again, and what has passed meanwhile."""
        self._old = self._counts.copy()

    def goes_on(self) -> None:
        """The replay is over."""
        self._old.clear()

    def is_new(self, update: dict[str, Any]) -> bool:
        """Whether an update has not been shown; from now on it has. How a turn stands is always
        new."""
        if update.get("sessionUpdate") == "state_update":
            return True
        key = hash(json_text.encode_sorted(update))
        if self._old[key] > 0:
            self._old[key] -= 1
            return False
        self._counts[key] += 1
        return True
