"""How many lines components put into the log: so many a second each, and a burst of them at once.

What is over is left out. Once the component is calm again, one line says how much that was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from conductor.core.accounts import Bucket

Log = Callable[[str, str, str], None]
"""Called with level, component name and text."""

_LINE: Final = 1024
"""Characters that count as a line: a text counts as all that it takes."""

_RANK: Final = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class LogLines:
    """The lines of the components of one chain: what they say by `log`, what their standard error
    holds, and what is noted of what they do."""

    def __init__(
        self,
        limits: Mapping[str, int],
        log: Log,
        least: str = "debug",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`limits`: lines a second, by component; who is not in there is the conductor's own.
        `least`: the lowest level that is written at all."""
        self._limits = limits
        self._log = log
        self._least = _RANK[least]
        self._clock = clock
        self._buckets = {name: Bucket(limit) for name, limit in limits.items()}
        self._left_out: Counter[str] = Counter()
        """Lines of each component that were left out, and no line has told of."""

    def say(self, level: str, name: str, text: str) -> None:
        """Puts a line of a component into the log, or leaves it out."""
        if _RANK.get(level, 1) >= self._least and self.admits(name, text):
            self._log(level, name, text)

    def admits(self, name: str, text: str) -> bool:
        """Whether a component may write a text now; the text counts as written then."""
        now = self._clock()
        for one in tuple(self._left_out):
            if self._buckets[one].level(now) >= self._limits[one]:
                self._tell(one)
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
        """Tells what no line has told yet: nothing more comes."""
        for name in tuple(self._left_out):
            self._tell(name)

    def _tell(self, name: str) -> None:
        """Says how many lines of a component were left out."""
        count, limit = self._left_out.pop(name), self._limits[name]
        text = f"{count} of its lines are left out, over {limit} a second (limit `log_lines`)"
        self._log("warning", name, text)
