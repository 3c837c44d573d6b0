"""How many lines components put into the log: so many a second each, and a burst of them at once.

What is over is left out. Once the component is calm again, one line says how much that was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from conductor.core.accounts import BURST

Log = Callable[[str, str, str], None]
"""Called with level, component name and text."""

_LINE: Final = 1024
"""Characters that count as a line: a text counts as all that it takes."""

_RANK: Final = {"debug": 0, "info": 1, "warning": 2, "error": 3}


class _Account:
    __slots__ = ("at", "left", "left_out")

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        """Lines that may be written now."""
        self.at = at
        self.left_out = 0


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
        self._accounts: dict[str, _Account] = {}
        self._over: set[str] = set()
        """Of whom something is left out that no line has told of."""

    def say(self, level: str, name: str, text: str) -> None:
        """Puts a line of a component into the log, or leaves it out."""
        if _RANK.get(level, 1) >= self._least and self.admits(name, text):
            self._log(level, name, text)

    def admits(self, name: str, text: str) -> bool:
        """Whether a component may write a text now; the text counts as written then."""
        now = self._clock()
        for one in tuple(self._over):
            self._tell(one, now)
        limit = self._limits.get(name)
        if limit is None:
            return True
        account = self._account(name, limit, now)
        if account.left_out or account.left < 1:
            account.left_out += 1
            self._over.add(name)
            return False
        account.left -= 1 + text.count("\n") + len(text) // _LINE
        return True

    def close(self) -> None:
        """Tells what no line has told yet: nothing more comes."""
        for name in tuple(self._over):
            self._tell(name, None)

    def _account(self, name: str, limit: int, now: float) -> _Account:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = _Account(BURST * limit, now)
        account.left = min(BURST * limit, account.left + (now - account.at) * limit)
        account.at = now
        return account

    def _tell(self, name: str, now: float | None) -> None:
        """Says what was left out of a component, once a second's worth may be written again."""
        limit = self._limits[name]
        account = self._accounts[name] if now is None else self._account(name, limit, now)
        if now is None or account.left >= limit:
            self._over.discard(name)
            count, account.left_out = account.left_out, 0
            text = f"{count} of its lines are left out, over {limit} a second (limit `log_lines`)"
            self._log("warning", name, text)
