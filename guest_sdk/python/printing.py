"""Takes the prints and `logging` lines of a sandboxed proxy to the conductor's log."""

from __future__ import annotations

import io
import logging
import sys
import types
from typing import Any, Final

from .failures import story
from .tasks import current

_LEVELS: Final = {"WARNING": "warn", "ERROR": "error", "CRITICAL": "error", "DEBUG": "debug"}


class Handler(logging.Handler):
    """Takes records of `logging` there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one record."""
        text = f"{record.name}: {record.getMessage()}"
        failure = record.exc_info[1] if record.exc_info else None
        if failure is not None:
            text = f"{text}\n{story(failure)}"
        _log(_LEVELS.get(record.levelname, "info"), text)


class Printed(io.TextIOBase):
    """Standard output or error: each line is a line of the log, of this level."""

    def __init__(self, level: str = "info") -> None:
        super().__init__()
        self._level = level
        self._held = ""

    def flush(self) -> None:
        """The begun line goes on as it is."""
        held, self._held = self._held, ""
        if held:
            _log(self._level, held)

    def writable(self) -> bool:
        """True: it takes text."""
        return True

    def write(self, text: str) -> int:
        """Takes text; whole lines go on."""
        *lines, self._held = (self._held + text).split("\n")
        for line in lines:
            _log(self._level, line)
        return len(text)


def _log(level: str, text: str) -> None:
    task = current()
    if task is not None:
        task.owner.log(level, text)
    else:  # while the proxy is being loaded; it is shown if that fails
        print(text, file=sys.__stderr__)


def install() -> None:
    """Once, when the guest is built. Records have no time: the conductor knows that."""
    stopped: Any = types.SimpleNamespace(time=lambda: 0.0, time_ns=lambda: 0)
    logging.time = stopped  # type: ignore[attr-defined]
    logging.basicConfig(handlers=[Handler()], level=logging.INFO)
    sys.stdout = Printed()
    sys.stderr = Printed("warn")
