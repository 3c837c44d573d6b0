"""What is wrong with a manifest, in the words of its reader and with the line it stands on.

Loaded only when something is. msgspec says where in the values, not where in the text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from conductor.errors import UsageError

Tables: TypeAlias = Mapping[tuple[str, ...], type[msgspec.Struct]]
"""What may stand in each table of a manifest."""

_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$(.*)`)?$")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`(?: - at `\$(.*)`)?$")
_AT: Final = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_MOST: Final = 1024 * 1024
"""Characters that are read again, in all, to find a line."""

_WORDS: Final = {
    "int": "integer",
    "str": "text",
    "bool": "boolean",
    "object": "table",
    "array": "list",
}
"""What msgspec calls things, and TOML's readers do."""


def misshapen(
    text: str,
    source: str,
    found: Mapping[str, Any],
    path: str,
    tables: Tables,
) -> UsageError:
    """What msgspec found, in the words of a manifest."""
    if match := _UNKNOWN.match(text):
        at = (*_keys(match[2], found, match[1]), match[1])
        table = f"[{'.'.join(at[:-1])}]" if at[:-1] else "a manifest"
        return at_line(
            path, source, at, f"{table} has no key `{match[1]}`", _like(match[1], at, tables)
        )
    if match := _MISSING.match(text):
        return at_line(path, source, (), f"`{match[1]}` is missing", f'add `{match[1]} = "…"`')
    match = _AT.match(text)
    assert match is not None
    at = _keys(match[2], found)
    said = re.sub(r"\w+", lambda word: _WORDS.get(word[0], word[0]), match[1])
    said = said[:1].lower() + said[1:]
    return at_line(path, source, at, f"`{'.'.join(at)}`: {said}" if at else said, "")


def _keys(path: str | None, found: Any, unknown: str = "") -> tuple[str, ...]:
    """The keys of `.wants.services[...]`. Which one of a table's entries is meant is not said: the
    first that has the key `unknown`, or is no text."""
    keys: list[str] = []
    for part in re.findall(r"\.([^.\[]+)|\[(\.\.\.|\d+)\]", path or ""):
        key = part[0]
        if not key:
            held = found.items() if isinstance(found, dict) else ()
            key = next((k for k, v in held if _meant(v, unknown)), "")
            if not key:
                break
        keys.append(key)
        found = found.get(key) if isinstance(found, dict) else None
    return tuple(keys)


def _meant(value: object, unknown: str) -> bool:
    if unknown:
        return isinstance(value, dict) and unknown in value
    return not isinstance(value, str)


def _like(key: str, at: tuple[str, ...], tables: Tables) -> str:
    import difflib

    table = tables.get(at[:-1]) or tables[at[:1]]
    known = sorted(table.__struct_fields__)
    close = difflib.get_close_matches(key, known, 1)
    return f"did you mean `{close[0]}`?" if close else f"keys are: {', '.join(known)}"


def at_line(path: str, source: str, at: tuple[str, ...], text: str, hint: str) -> UsageError:
    """The error of what stands at these keys, with its line."""
    line = line_of(source, at)
    where = f"{path}, line {line}" if line else path
    return UsageError(f"{where}: {text}", hint or "docs/authoring.md says what a manifest holds")


def line_of(source: str, at: tuple[str, ...]) -> int:
    """The line of a key, or of the nearest table around it; 0 if it is nowhere, or hard to find.

    The shortest beginning of the text that holds it ends with its value, and the one before that
    with the line before it. Only for errors: it reads the text again and again.
    """
    lines, most = source.splitlines(keepends=True), _MOST
    while at:
        before, size = 0, 0
        for number, line in enumerate(lines, 1):
            size += len(line)
            most -= size
            if most < 0:
                return 0
            try:
                found: Any = tomllib.loads("".join(lines[:number]))
            except tomllib.TOMLDecodeError:
                continue  # in the middle of a value of several lines
            for key in at:
                found = found.get(key, _NOTHING) if isinstance(found, dict) else _NOTHING
            if found is not _NOTHING:
                return before + 1
            before = number
        at = at[:-1]
    return 0


_NOTHING: Final = object()
