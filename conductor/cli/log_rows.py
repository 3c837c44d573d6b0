"""The rows that `conductor log` shows: a change or an event looks the same in every kind of file.

Lines for people are `(style, text)`; styles are those of `report`, used where there are colours.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from typing import Final

from conductor.errors import one_line
from conductor.record.turns.model import Change, Edit, Item, Op

Line = tuple[str, str]
"""A style of the terminal, or "", and a text."""

PLAIN: Final = ""
HEAD: Final = "\x1b[1m"
DIM: Final = "\x1b[2m"
ADDED: Final = "\x1b[32m"
REMOVED: Final = "\x1b[31m"
WRONG: Final = "\x1b[1;31m"

DID: Final = {
    Change.CHANGED: "changed {}", Change.ANSWERED: "itself answered {}",
    Change.ORIGINATED: "itself sent {}", Change.DROPPED: "did not pass on {}",
}  # fmt: skip
"""The changes of a message by a component, in words."""
INDENT: Final = "  "
"""Begins a row."""

_WIDEST: Final = 120
_MOST_LINES: Final = 4
"""Lines of an error or a verdict."""
_SIGNS: Final = {Op.ADDED: "+", Op.REMOVED: "-", Op.CHANGED: "~"}
_KINDS: Final = {
    "text": "says", "thought": "thinks", "tool": "tool", "plan": "plan", "question": "asks",
    "answer": "answered", "refusal": "refused", "mode": "mode", "mcp": "MCP", "verdict": "refused",
    "would": "watched",
    "error": "error", "notice": "note",
}  # fmt: skip
_WRONG: Final = {"verdict", "refusal", "error"}
_TIMED: Final = {"tool", "question", "mcp", "answer", "refusal"}


class Rows:
    """Writes rows that fit the terminal, or with `whole` uncut."""

    def __init__(self, *, whole: bool) -> None:
        self.width = min(shutil.get_terminal_size((80, 24)).columns, _WIDEST)
        self.whole = whole

    def fit(self, text: str, end: str = "") -> str:
        """A line that fits the width; `end` stays behind a cut."""
        return text if self.whole else cut(text, self.width, end)

    def change(self, text: str, begin: str = INDENT) -> Line:
        """The row of a change without edits: who did what."""
        return PLAIN, self.fit(f"{begin}* {text}")

    def edit(
        self, component: str, edit: Edit, what: str, place: str = "", begin: str = INDENT
    ) -> Iterator[Line]:
        """The rows of an edit that a component made in `what`; `place` is the place in `what`."""
        head = f"{_SIGNS[edit.op]} {component} {edit.op} {one_line(edit.what)} in {what}"
        yield PLAIN, self.fit(f"{begin}{head}  {place}".rstrip())
        yield from self.values(edit)

    def values(self, edit: Edit) -> Iterator[Line]:
        """The text that an edit removed, and the text that it added."""
        if edit.before:
            yield REMOVED, self.fit(f"      - {_words(edit.before)}")
        if edit.after:
            yield ADDED, self.fit(f"      + {_words(edit.after)}")

    def item(self, item: Item, begin: str = INDENT) -> Iterator[Line]:
        """The row of an item; an item about something wrong gets several lines."""
        text = f"{begin}{_item(item)}"
        if item.kind not in _WRONG:
            yield DIM, self.fit(text)
            return
        indent = " " * (len(begin) + 9)
        lines = textwrap.wrap(
            text,
            self.width,
            subsequent_indent=indent,
            max_lines=None if self.whole else _MOST_LINES,
            placeholder=" …",
        )
        yield from ((WRONG, line) for line in lines)


def _words(text: str) -> str:
    """Words that were added or removed, in one line."""
    return one_line(text, 2_000) if text.strip() else "(line breaks or spaces)"


def _item(item: Item) -> str:
    word = _KINDS.get(item.kind, item.kind)
    text, who = one_line(item.text, 2_000), one_line(item.component, 60)
    if item.kind == "verdict":
        named = "" if f"`{who}`" in text else f"{who}: "
        return f"{word:<8} by conductor (rule {one_line(item.status, 60)}): {named}{text}"
    if item.kind == "would":
        return f"{word:<8} (rule {one_line(item.status, 60)}): {text}"
    if item.kind in ("answer", "refusal"):
        who = f"by {who}"
    if who:
        text = f"{who}: {text}"
    if item.status:
        text += f"  → {one_line(item.status, 60)}"
    if item.ms and (item.kind in _TIMED or (item.kind == "notice" and item.status)):
        text += f"  {duration(item.ms)}"
    if item.nested:
        return f"┆ {word:<6} {one_line(item.nested, 60)}: {text}"
    return f"{word:<8} {text}"


def duration(ms: float) -> str:
    """A time as a person reads it, from milliseconds."""
    if ms < 1:
        return f"{ms:.2f} ms"
    if ms < 100:
        return f"{ms:.1f} ms"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms // 60_000:.0f} min {ms % 60_000 / 1000:.0f} s"


def cut(text: str, width: int, end: str = "") -> str:
    """A line that fits a width; `end` stays behind a cut."""
    return text if len(text) <= width else f"{text[: max(width - 1 - len(end), 0)]}…{end}"
