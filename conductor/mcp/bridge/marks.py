"""Marks the parts of a tool's definition that a person should see: text for the model, not for
users.

A mark is no verdict: many harmless tools have one, and a clever text has none. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

_COMMANDS: Final = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:previous|prior|above|earlier|other|all|"
    r"instructions?)\b"
    r"|\b(?:do not|don't|never)\b.{0,20}\b(?:tell|mention|inform|reveal|show)\b.{0,40}\buser\b"
    r"|\bsystem prompt\b"
    r"|\b(?:before|instead of)\b.{0,20}\b(?:using|calling|any other)\b.{0,20}\btools?\b"
    r"|<\s{0,4}/?\s{0,4}(?:important|system|instructions?|secret|assistant)\s*>"
    r"|\[/?(?:inst|system)\]|<\|",
    re.IGNORECASE | re.DOTALL,
)
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NAME: Final = re.compile(r".*[_.-].*|[a-z]+(?:[A-Z][a-z0-9]+)+")
"""Names of tools that are no words of a language: `read_file`, `readFile`."""
_UNUSUAL: Final = re.compile(r"[^\n\t\r -~]")
_JOINER: Final = "\u200d"
_ROUGH: Final = 0x2190
"""From here on signs are pictures, which a joiner may join."""

HIDDEN: Final = "it has characters that nobody sees"
SPEAKS: Final = "it speaks to the model: `{}`"
NAMES: Final = "it names a tool of another server: `{}`"
LONG: Final = "it is too long to be looked at"
ODD: Final = "its name has other characters than `a-z`, `0-9`, `_`, `-`, `.` and `/`"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")
_SHOWN: Final = 60


def of(tool: dict[str, Any], others: AbstractSet[str]) -> tuple[str, ...]:
    """The marks of a definition. `others`: names of other servers' tools."""
    found: dict[str, None] = {}
    name = tool.get("name")
    if isinstance(name, str) and not _PLAIN.fullmatch(name):
        found[ODD] = None
    for text in _texts(tool):
        seen = text
        if _UNUSUAL.search(text):
            if _hides(text):
                found[HIDDEN] = None
            # An author who hides signs within words hides them from this look too.
            seen = "".join(sign for sign in text if not _is_hidden(sign))
            seen = unicodedata.normalize("NFKC", seen)
        command = _COMMANDS.search(seen)
        if command is not None and not any(each.startswith(SPEAKS[:12]) for each in found):
            found[SPEAKS.format(_quoted(command[0]))] = None
        words = (word.strip("_.-") for word in _WORD.findall(seen)) if others else ()
        named = next((one for one in words if one in others and _NAME.fullmatch(one)), None)
        if named is not None and not any(each.startswith(NAMES[:12]) for each in found):
            found[NAMES.format(_quoted(named))] = None
    return tuple(found)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a value, names of members too."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            left += reversed(each)
        elif isinstance(each, dict):
            left += [part for pair in reversed(each.items()) for part in reversed(pair)]


def _hides(text: str) -> bool:
    return any(
        _is_hidden(sign) and not (sign == _JOINER and at and ord(text[at - 1]) >= _ROUGH)
        for at, sign in enumerate(text)
    )


def _is_hidden(sign: str) -> bool:
    """Whether a character shows nothing: controls, formats (bidirectional, zero width, tags),
    surrogates, and the selectors that no picture takes."""
    if sign in "\n\t\r" or "!" <= sign <= "~":
        return False
    return unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co") or (
        "\U000e0100" <= sign <= "\U000e01ef" or sign in "\u034f\u115f\u1160\u3164\uffa0"
    )


def _quoted(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
