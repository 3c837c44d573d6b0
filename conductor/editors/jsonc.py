"""JSON with comments and trailing commas, edited as text: all bytes of others stay.

`parse` finds the place of each value. `insert`, `replace` and `cut` make a new text. A `Seam`
remembers the text that an insertion put before and behind a value, so that it can be taken out
again whatever has changed elsewhere in the text. Pure: texts in, texts out.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Final

import msgspec

DEEPEST: Final = 200
"""Values within each other."""

_BOM: Final = "\ufeff"
# Python before 3.11.5 matches possessive groups of alternatives wrongly. These are greedy: each
# alternative begins with another character, so nothing is tried twice.
_TRIVIA: Final = re.compile(r"(?:[ \t\r\n]++|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING: Final = re.compile(
    r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*"',
)
_STRING_OR_COMMENT: Final = re.compile(
    rf"{_STRING.pattern}|//[^\r\n]*+|/\*(?:[^*]|\*(?!/))*\*/",
)
_SCALAR: Final = re.compile(
    r"(?:-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null)(?![\w.+-])"
)
_REST_OF_LINE: Final = re.compile(
    r"(?:[ \t]*+(?://[^\r\n]*+|/\*(?:[^*\r\n]|\*(?!/))*\*/))*[ \t]*+(?=\r?\n)"
)
_BLANKS: Final = re.compile(r"[ \t]*")
HALF: Final = re.compile("[\ud800-\udfff]")
"""Half of a character: JSON can escape one by itself, and no encoding has it."""
_CLOSES: Final = {"{": "}", "[": "]"}
_DEFAULT_UNIT: Final = "  "


class SyntaxMistakeError(ValueError):
    """The text is not JSON, even with comments and trailing commas."""

    def __init__(self, text: str, why: str, at: int) -> None:
        self.line, self.column = place(text, at)
        self.why = why
        super().__init__(f"{self.line}:{self.column}: {why}")


class Value(msgspec.Struct):
    """A value, and where it stands in the text."""

    start: int
    end: int
    data: Any
    """The value itself; of members with the same key the last one counts."""
    slots: list[Slot] | None = None
    """The content of an object or a list; None for any other value."""

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return isinstance(self.data, dict)

    def get(self, key: str | int) -> Slot | None:
        """The member that counts of those with this key, or an item of a list."""
        if isinstance(key, int):
            return self.slots[key] if self.slots and key < len(self.slots) else None
        found = [slot for slot in self.slots or () if self.is_object and slot.key == key]
        return found[-1] if found else None

    def at(self, *keys: str | int) -> Value | None:
        """The value that these keys lead to; None if there is none."""
        value: Value | None = self
        for key in keys:
            slot = value.get(key) if value is not None else None
            value = slot.value if slot is not None else None
        return value


class Slot(msgspec.Struct):
    """A member of an object, or an item of a list."""

    start: int
    """The index where its key begins, or the item itself."""
    value: Value
    key: str = ""
    comma: int = 0
    """The index where the comma behind it ends; 0 without a comma."""


class Seam(msgspec.Struct, frozen=True):
    """The text that an insertion has put before and behind a value."""

    before: str
    after: str


def place(text: str, at: int) -> tuple[int, int]:
    """The line and the column of a character, from 1 on."""
    start = text.rfind("\n", 0, at) + 1
    return text.count("\n", 0, start) + 1, at - start + 1


# -- reading ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=8)
def parse(text: str) -> Value | None:
    """The value of a text; None if it has nothing but blanks and comments.

    The same text gives the same value, so nobody may change it. Raises `SyntaxMistakeError`.
    """
    return _Reader(text).document()


def beyond_json(text: str) -> int:
    """The index of the first part of a parseable text that is not plain JSON, a comment or a comma
    before a bracket; -1: there is none."""
    found = [match.start() for match in _STRING_OR_COMMENT.finditer(text) if match[0][0] == "/"]
    root = parse(text)
    found += [comma - 1 for comma in _trailing(root)]
    return min(found, default=-1)


class _Reader:
    """Reads a text from left to right, without recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[Value] = []
        """The objects and lists that have begun and not ended, the outermost first."""

    def document(self) -> Value | None:
        self._at = 1 if self._text.startswith(_BOM) else 0
        self._skip()
        if self._at == len(self._text):
            return None
        root = self._value()
        while self._open:
            self._step()
        self._skip()
        if self._at < len(self._text):
            raise self._mistake("nothing may follow here")
        return root

    def _step(self) -> None:
        """Reads one slot of the innermost container, or its end."""
        inner = self._open[-1]
        assert inner.slots is not None
        closes = _CLOSES[self._text[inner.start]]
        self._skip()
        last = inner.slots[-1] if inner.slots else None
        if last is not None and not last.comma and self._here() == ",":
            self._at += 1
            last.comma = self._at
            self._skip()
        if self._here() == closes:
            self._at += 1
            inner.end = self._at
            self._open.pop()
        elif last is not None and not last.comma:
            raise self._mistake(f"a comma or `{closes}` belongs here")
        else:
            self._slot(inner)

    def _slot(self, inner: Value) -> None:
        assert inner.slots is not None
        start, key = self._at, ""
        if inner.is_object:
            key = self._key()
        value = self._value()
        inner.slots.append(Slot(start, value, key))
        if inner.is_object:
            inner.data[key] = value.data
        else:
            inner.data.append(value.data)

    def _key(self) -> str:
        if self._here() != '"':
            raise self._mistake("a name in double quotes belongs here")
        key = self._string()
        self._skip()
        if self._here() != ":":
            raise self._mistake("a colon belongs here")
        self._at += 1
        self._skip()
        return key

    def _value(self) -> Value:
        start, first = self._at, self._here()
        if first == '"':
            data = self._string()
            return Value(start, self._at, data)
        if first in _CLOSES:
            if len(self._open) == DEEPEST:
                raise self._mistake(f"more than {DEEPEST} values within each other")
            value = Value(start, -1, {} if first == "{" else [], [])
            self._open.append(value)
            self._at += 1
            return value
        scalar = _SCALAR.match(self._text, start)
        if scalar is None:
            raise self._mistake("a value belongs here")
        self._at = scalar.end()
        return Value(start, self._at, _scalar(scalar[0]))

    def _string(self) -> str:
        string = _STRING.match(self._text, self._at)
        if string is None:
            raise self._mistake("this text in quotes does not end, or is no text of JSON")
        self._at = string.end()
        return str(json.loads(string[0]))

    def _skip(self) -> None:
        trivia = _TRIVIA.match(self._text, self._at)
        assert trivia is not None  # it may be empty
        self._at = trivia.end()
        if self._text.startswith("/*", self._at):
            raise self._mistake("this comment does not end")

    def _here(self) -> str:
        return self._text[self._at : self._at + 1]

    def _mistake(self, why: str) -> SyntaxMistakeError:
        ends = " (the text ends)" if self._at >= len(self._text) else ""
        return SyntaxMistakeError(self._text, why + ends, self._at)


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # a number of more digits than Python turns into one
        return text


# -- writing ---------------------------------------------------------------------------------------


def insert(text: str, where: Value | None, key: str | None, data: Any) -> tuple[str, Seam]:
    """A text with one more value, in front of the content of an object or a list.

    In front the value needs no change of its neighbours: no comma behind a last member that may
    have a comment of its own. `where` is None for a text without a value, which gets its first one.
    """
    eol = _eol(text)
    if where is None:
        before = "" if not text.removeprefix(_BOM) or text.endswith("\n") else eol
        seam = Seam(before, eol)
        return text + before + render(data, "", _unit(text), eol) + eol, seam
    assert where.slots is not None
    name = "" if key is None else f"{dumps(key)}: "
    first = where.slots[0].start if where.slots else where.end - 1
    inside = text[where.start + 1 : first]
    if where.slots and "\n" not in inside:
        at = where.start + 1 if inside.strip() else first
        seam = Seam(name, ", ")
        written = dumps(data)
    else:
        rest = _REST_OF_LINE.match(text, where.start + 1)
        at = rest.end() if rest is not None else where.start + 1
        outer = _indent(text, where.start)
        indent = _indent(text, first) if where.slots else outer + _unit(text)
        behind = "," if where.slots else "" if "\n" in text[at:first] else eol + outer
        seam = Seam(f"{eol}{indent}{name}", behind)
        written = render(data, indent, _unit(text), eol)
    return text[:at] + seam.before + written + seam.after + text[at:], seam


def replace(text: str, value: Value, data: Any) -> str:
    """A text with other data in place of a value: on several lines where the value was."""
    old = text[value.start : value.end]
    if "\n" in old:
        new = render(data, _indent(text, value.start), _unit(text), _eol(text))
    else:
        new = dumps(data)
    return text[: value.start] + new + text[value.end :]


def take_out(text: str, where: Value | None, slot: Slot, seam: Seam) -> str:
    """A text without a value that `insert` has put there: as it was before, if the text that the
    insertion put around the value is still there."""
    start, end = slot.value.start - len(seam.before), slot.value.end + len(seam.after)
    around = text[max(start, 0) : slot.value.start], text[slot.value.end : end]
    if start >= 0 and around == (seam.before, seam.after):
        exact = text[:start] + text[end:]
        if where is None or _commas_fit(text, exact):
            return exact
    return text if where is None else cut(text, where, slot)


def cut(text: str, where: Value, slot: Slot) -> str:
    """A text without a slot of an object or a list, its comma, and its lines if they are its
    own."""
    assert where.slots is not None
    at = next(index for index, each in enumerate(where.slots) if each is slot)
    start, end = slot.start, slot.comma or slot.value.end
    rest = _BLANKS.match(text, end)
    assert rest is not None
    line = _line_before(text, start)
    if line is not None and text[rest.end() : rest.end() + 1] in ("\r", "\n"):
        start = line
    elif slot.comma:
        end = rest.end()
    before = where.slots[at - 1].comma if at and not slot.comma else 0
    if before:  # our value was the last one: without it the comma in front would be too many
        return text[: before - 1] + text[before:start] + text[end:]
    return text[:start] + text[end:]


def render(data: Any, indent: str, unit: str, eol: str) -> str:
    """Data as JSON on several lines; `indent` is the indent of its first line."""
    lines = dumps(data, unit).split("\n")
    return (eol + indent).join(lines)


def dumps(data: Any, unit: str | None = None) -> str:
    """Data as JSON that can be written as UTF-8; `unit` indents it."""
    text = json.dumps(data, indent=unit, ensure_ascii=False)
    return HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def _commas_fit(text: str, exact: str) -> bool:
    """Whether taking something out has left no comma behind a last value that was not there."""
    try:
        return len(_trailing(parse(exact))) <= len(_trailing(parse(text)))
    except SyntaxMistakeError:
        return False


def _trailing(value: Value | None) -> list[int]:
    """The indices where the commas behind the last values of objects and lists end."""
    commas, waiting = [], [value] if value is not None else []
    while waiting:
        slots = waiting.pop().slots or []
        if slots and slots[-1].comma:
            commas.append(slots[-1].comma)
        waiting += [slot.value for slot in slots]
    return commas


def _eol(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _unit(text: str) -> str:
    """By how much a text indents: as the first member of all does, if it stands on its own line."""
    try:
        root = parse(text)
    except SyntaxMistakeError:
        root = None
    if root is not None and root.slots:
        unit = _indent(text, root.slots[0].start)
        if unit and _line_before(text, root.slots[0].start) is not None:
            return unit
    return _DEFAULT_UNIT


def _line_before(text: str, at: int) -> int | None:
    """The index where the line before ends, if only blanks precede a character on its line."""
    start = text.rfind("\n", 0, at)
    if start < 0 or text[start + 1 : at].strip(" \t"):
        return None
    return start - 1 if text[start - 1 : start] == "\r" else start


def _indent(text: str, at: int) -> str:
    """The blanks at the beginning of the line in which a character stands."""
    start = text.rfind("\n", 0, at) + 1
    blanks = _BLANKS.match(text, start, at)
    return blanks[0] if blanks is not None else ""
