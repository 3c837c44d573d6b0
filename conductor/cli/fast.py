"""Parses `conductor agent …` and `conductor proxy …` without loading typer.

An editor starts these and waits; importing typer alone takes some 90 ms. What this parser does not
understand it leaves to typer (`conductor.cli.app`), which explains what is wrong.
"""

from __future__ import annotations

from typing import Any

from conductor.cli import options, surroundings
from conductor.cli.options import Parsed


def parse(arguments: list[str]) -> Parsed | None:
    """The parsed command line, or None where typer has to explain something."""
    if surroundings.unfit(arguments) is not None:
        return None
    command, *rest = arguments
    rows = {flag: row for row in options.of(command) for flag in row.flags.split()}
    values: dict[str, Any] = {}
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        flag, equals, text = rest[at].partition("=")
        at += 1
        row = rows.get(flag)
        if row is None or (equals and not flag.startswith("--")):
            return None
        if row.kind.read is None:
            if equals:
                return None
            values[row.name] = True
            continue
        if not equals:
            if at == len(rest) or rest[at] == "--":
                return None
            text = rest[at]
            at += 1
        try:
            value = row.kind.read(text)
        except ValueError:
            return None
        values[row.name] = (*values.get(row.name, ()), value) if row.kind.many else value
    end = rest.index("--") if "--" in rest else len(rest)
    # Typer takes options behind components as well.
    if any(component.startswith("-") for component in rest[at:end]) or rest[end:] == ["--"]:
        return None
    if end == len(rest):
        return options.assemble(command, rest[at:], **values)
    return options.assemble(command, rest[at:end], rest[end + 1 :], **values)
