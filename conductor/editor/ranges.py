"""Where a comment stands: its file, and the exact range in its text that its places mean."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from conductor.editor.messages import Position

_FILE: Final = re.compile(r"file:(?://([^/?#]*))?([^?#]*)", re.IGNORECASE)
_LINE_END: Final = re.compile(r"\r\n|\n|\r")

Range = tuple[int, int, int, int]
"""The line and column where it begins, and those behind its last character."""


def path_of(url: str) -> str | None:
    """The path that the URL of a file names; None: it is none, or of another machine."""
    found = _FILE.match(url)
    if found is None or (found[1] or "localhost").lower() != "localhost":
        return None
    return unquote(found[2])


def resolve(text: str, start: Position, end: Position | None) -> Range:
    """The exact range in a text. What lies behind the end of a line, or of the text, is moved
    there: the text may have become shorter since. An end before its start is moved to the start."""
    lines = _LINE_END.split(text)
    first = _place(lines, start.line, start.column or 1)
    last = _place(lines, start.line if end is None else end.line, end.column if end else None)
    return *first, *max(first, last)


def _place(lines: list[str], line: int, column: int | None) -> tuple[int, int]:
    """A place in a text; without a column it is the end of the line."""
    if line > len(lines):
        return len(lines), len(lines[-1]) + 1
    behind = len(lines[line - 1]) + 1
    return line, behind if column is None else min(column, behind)
