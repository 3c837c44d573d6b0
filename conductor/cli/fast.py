"""Parses `conductor agent`, `proxy` and `exec` without loading typer.

An editor starts the first two and waits, and a person waits for the third; importing typer takes
100 to 200 ms. What this parser does not understand it leaves to typer (`conductor.cli.app`), which
explains what is wrong.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from conductor.cli import options, surroundings
from conductor.cli.options import Parsed


class Words(NamedTuple):
    """A command line behind the command."""

    typed: list[str]
    """The words before `--` that belong to no option."""
    rest: list[str] | None
    """What follows `--`; None: there is no `--`."""
    values: dict[str, Any]
    """The options that are set, by name."""


def parse(arguments: list[str]) -> Parsed | None:
    """The chain that a command line describes, or None where typer has to explain something."""
    found = words(arguments)
    if found is None:
        return None
    return options.assemble(arguments[0], found.typed, found.rest, **found.values)


def words(arguments: list[str]) -> Words | None:
    """A command line taken apart, or None where typer has to explain something."""
    if surroundings.unfit(arguments) is not None:
        return None
    command, *left = arguments
    rows = {flag: row for row in options.of(command) for flag in row.flags.split()}
    found = Words([], None, {})
    while left and left[0] != "--":
        flag, equals, text = left[0].partition("=")
        word = left.pop(0)
        if not word.startswith("-") or word == "-":
            found.typed.append(word)
            continue
        row = rows.get(flag)
        if row is None or (equals and (row.kind.read is None or not flag.startswith("--"))):
            return None
        if row.kind.read is None:
            found.values[row.name] = True
            continue
        if not equals:
            if not left or left[0] == "--":
                return None
            text = left.pop(0)
        try:
            value = row.kind.read(text)
        except ValueError:
            return None
        many = row.kind.many
        found.values[row.name] = (*found.values.get(row.name, ()), value) if many else value
    return None if left == ["--"] else found._replace(rest=left[1:] if left else None)
