"""Failures of a server's chains, as its log has them: one line each."""

from __future__ import annotations

import time
from typing import Final

from conductor.cli import report
from conductor.errors import one_line
from conductor.transports.remote.address import ENDPOINT

_QUIET: Final = 10.0
"""Seconds before the same failure is reported again."""
_MOST: Final = 256
"""The most failures that are remembered so."""
_LONGEST: Final = 1000
"""Characters of a line."""


class Failures:
    """Reports on standard error why chains fail.

    A client may make its chain fail again and again: the same failure is reported once in a while.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], float] = {}

    def heard(self, named: str, text: str, hint: str) -> None:
        """A chain of this name has failed; the empty name means the chain of the command line."""
        now = time.monotonic()
        before = self._last.pop((named, text), -_QUIET)
        is_news = now - before >= _QUIET
        self._last[named, text] = now if is_news else before
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]
        if not is_news:
            return
        line = f"the chain at {_path(named)} has failed: {text}"
        if hint and not report.is_json():
            line += f"; hint: {hint}"
        report.write(one_line(line, _LONGEST), word="error", hint=hint)


def _path(named: str) -> str:
    """The path where clients find a chain."""
    return f"{ENDPOINT}/{named}" if named else ENDPOINT
