"""How many lines components put into the log: so many a second each, and a burst of them at once.

Lines over that are left out. Once the component is calm again, a line says how many they were.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from conductor.core.accounts import Bucket
from conductor.errors import are

Log = Callable[[str, str, str], None]
"""Called with level, component name and text."""

_LINE: Final = 1024
"""Characters that count as a line, so that long lines are not a loophole."""

_RANK: Final = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class LogLines:
    """The lines of the components of one chain: from `log`, from their standard error, and the
    conductor's lines about them."""

    def __init__(
        self,
        limits: Mapping[str, int],
        log: Log,
        least: str = "debug",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            limits: Lines a second, by component; other names are the conductor's own.
            log: Writes a line: level, component name, text.
            least: The lowest level that is written at all.
            clock: Seconds, of a clock that never goes back.
        """
        self._limits: dict[str, int] = {}
        self._log = log
        self._least = _RANK[least]
        self._clock = clock
        self._buckets: dict[str, Bucket] = {}
        self.limit(limits)
        self._left_out: Counter[str] = Counter()
        """Lines of each component that were left out since a line last reported that."""

    def limit(self, limits: Mapping[str, int]) -> None:
        """Gives components their limits; one whose limit is unchanged keeps its account."""
        for name, limit in limits.items():
            if self._limits.get(name) != limit:
                self._limits[name], self._buckets[name] = limit, Bucket(limit)

    def say(self, level: str, name: str, text: str) -> None:
        """Puts a line of a component into the log, or leaves it out."""
        if _RANK.get(level, 1) >= self._least and self.admits(name, text):
            self._log(level, name, text)

    def admits(self, name: str, text: str) -> bool:
        """Whether a component may write a text now; the text counts as written then."""
        now = self._clock()
        for quiet in tuple(self._left_out):
            if self._buckets[quiet].level(now) >= self._limits[quiet]:
                self._report(quiet)
        bucket = self._buckets.get(name)
        if bucket is None:
            return True
        if self._left_out[name] or bucket.level(now) < 1:
            self._left_out[name] += 1
            return False
        del self._left_out[name]
        bucket.spend(1 + text.count("\n") + len(text) // _LINE, now)
        return True

    def close(self) -> None:
        """Logs how many lines were left out: nothing more comes."""
        for name in tuple(self._left_out):
            self._report(name)

    def _report(self, name: str) -> None:
        """Logs how many lines of a component were left out."""
        count, limit = self._left_out.pop(name), self._limits[name]
        text = (
            f"{count} of its lines {are(count)} left out, over {limit} a second (limit `log_lines`)"
        )
        self._log("warning", name, text)
