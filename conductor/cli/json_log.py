"""`-c log-format=json`: standard error gets one JSON object a line, from every writer.

Loaded only with that option. Texts that code in this process prints become entries, too.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from conductor.core.json_text import encode
from conductor.errors import json_text
from conductor.run.report_checks import ViolationText

_MOST: Final = 64 * 1024
"""The most characters of a text; a longer text is cut."""


def entry(text: str, level: str, component: str, further: dict[str, Any]) -> bytes:
    """One line: `ts`, `level`, `component` (or `conductor`), `text`, and `further` fields."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
    fields: dict[str, Any] = {
        "ts": f"{stamp}.{int(now * 1000) % 1000:03d}Z",
        "level": level,
        "component": component or "conductor",
        "text": text if len(text) <= _MOST else f"{text[:_MOST]}…",
        **further,
    }
    if isinstance(text, ViolationText):
        broken = text.violation
        fields["violation"] = {
            "rule": broken.rule,
            "direction": broken.direction,
            "method": broken.method,
            "pointer": broken.pointer,
            "text": broken.text,
        }
    whole = {key: _proper(value) for key, value in fields.items()}
    return json_text(encode(whole).decode()).encode() + b"\n"


def _proper(value: Any) -> Any:
    """A value without halves of characters, which no JSON text can carry."""
    if isinstance(value, dict):
        return {key: _proper(each) for key, each in value.items()}
    if isinstance(value, str):
        return str(value).encode("utf-8", "backslashreplace").decode()
    return value


class Prints(io.TextIOBase):
    """A stream in the place of standard error: each line that code prints becomes an entry."""

    def __init__(self, under: io.TextIOBase | Any, say: Callable[[str], None]) -> None:
        """`under` is the stream whose descriptor others ask for."""
        super().__init__()
        self._under = under
        self._say = say
        self._line = ""

    def write(self, text: str) -> int:
        """Takes a part of a line."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            if line.strip():
                self._say(line)
        if len(self._line) > _MOST:
            self._say(self._line)
            self._line = ""
        return len(text)

    def writable(self) -> bool:
        """See `io.TextIOBase`."""
        return True

    def fileno(self) -> int:
        """See `io.TextIOBase`."""
        return int(self._under.fileno())

    def isatty(self) -> bool:
        """The stream is not for people."""
        return False


def divert(say: Callable[[str], None]) -> None:
    """Turns texts that code in this process writes to `sys.stderr` into entries."""
    if sys.stderr is not None:
        sys.stderr = Prints(sys.stderr, say)
