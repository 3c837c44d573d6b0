"""The line of everything in a TOML file, from one pass over its text.

`conductor.spec.toml_files.line_of` finds the line of one mistake, and reads the text several times
for it. A configuration needs the lines of all its entries, while an editor waits.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from conductor.spec.toml_files import Key

_TOKEN: Final = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<text>\"{3}(?:[^\\]|\\.)*?\"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<mark>[\[\]{},=])
    | (?P<word>[^\s\[\]{},="'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    line: int


def lines(source: str) -> dict[tuple[Key, ...], int]:
    """The lines of tables, keys and members of lists, from 1, by the keys that lead to them.

    Args:
        source: A text that tomllib has read without an error.
    """
    found: dict[tuple[Key, ...], int] = {}
    counts: dict[tuple[Key, ...], int] = {}
    table: tuple[Key, ...] = ()
    tokens = _tokens(source)
    for token in tokens:
        if token.text == "[" and token.kind == "mark":
            table = _header(source, token, tokens, counts)
            found.setdefault(table, token.line)
        elif token.kind in ("word", "text"):
            end = next(mark.start for mark in tokens if mark.text == "=")
            key = _key(source[token.start : end])
            for depth in range(1, len(key) + 1):
                found.setdefault((*table, *key[:depth]), token.line)
            _value(tokens, (*table, *key), found)
    return found


def _tokens(source: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind != "blank":
            yield _Token(kind, match[0], match.start(), line)
        line += match[0].count("\n")


def _header(
    source: str, first: _Token, tokens: Iterator[_Token], counts: dict[tuple[Key, ...], int]
) -> tuple[Key, ...]:
    """The table that a header names; `counts` holds how many each list of tables has so far."""
    end = next((token.start for token in tokens if token.kind == "newline"), len(source))
    text = source[first.start : end].rstrip()
    keys = _leading(tomllib.loads(text))
    path: tuple[Key, ...] = ()
    for depth, key in enumerate(keys, 1):
        path = (*path, key)
        if depth == len(keys) and text.startswith("[["):
            counts[path] = counts.get(path, 0) + 1
        if path in counts:
            path = (*path, counts[path] - 1)
    return path


def _key(text: str) -> tuple[Key, ...]:
    """The parts of a key with dots."""
    return tuple(_leading(tomllib.loads(f"{text} = {{}}")))


def _leading(node: Any) -> list[str]:
    """The keys of nested tables that have one key each."""
    keys: list[str] = []
    while isinstance(node, dict) and node:
        key, node = next(iter(node.items()))
        node = node[0] if isinstance(node, list) else node
        keys.append(key)
    return keys


def _value(
    tokens: Iterator[_Token], path: tuple[Key, ...], found: dict[tuple[Key, ...], int]
) -> None:
    """Reads a value to the end of its line; records the members of lists in it."""
    inside: list[int | None] = []  # the index in each list around; None for a table
    for token in tokens:
        if token.kind == "newline":
            if not inside:
                return
            continue
        closes = token.kind == "mark" and token.text in "]}"
        if not closes and token.text != "," and inside and None not in inside:
            found.setdefault((*path, *(at for at in inside if at is not None)), token.line)
        if closes:
            inside.pop()
        elif token.text == "," and inside[-1] is not None:
            inside[-1] += 1
        elif token.kind == "mark" and token.text in "[{":
            inside.append(0 if token.text == "[" else None)
