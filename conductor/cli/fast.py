"""Parses `conductor agent …` and `conductor proxy …` without loading typer.

An editor starts these and waits, so nothing heavy may be imported before the components run. What
this parser does not understand it leaves to typer, which knows the same options and explains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from conductor.launch import ISOLATIONS, Options

LEVELS: Final = ("debug", "info", "warning", "error")


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A chain to run, as the command line gave it."""

    mode: str
    components: list[str]
    dialect: str | None = None
    log: str = "warning"
    options: Options


def size(text: str) -> int:
    """Bytes from `64M`, `512k` or a plain number. Raises `ValueError`."""
    units = {"k": 1024, "m": 1024**2, "g": 1024**3}
    unit = units.get(text[-1:].lower(), 1)
    number = int(text[:-1] if unit > 1 else text)
    if number <= 0:
        raise ValueError("must be positive")
    return number * unit


def seconds(text: str) -> float:
    """A time in seconds, not negative. Raises `ValueError`."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError("must not be negative")
    return number


def _one_of(*values: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in values:
            raise ValueError(f"must be one of {', '.join(values)}")
        return text

    return check


VALUES: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "--isolation": ("isolation", _one_of(*ISOLATIONS)),
    "--clock": ("clock", str),
    "--cache": ("cache", str),
    "--line-limit": ("line_limit", size),
    "--stall": ("stall", seconds),
    "--grace": ("grace", seconds),
    "--drain": ("drain", seconds),
}
"""Options with a value: the field of `Options` they set, and how the value is read."""


def parse(arguments: list[str]) -> Parsed | None:
    """The parsed command line, or None where typer has to explain something."""
    command, *rest = arguments
    mode = "auto" if command == "agent" else "proxy"
    dialect, log = None, "warning"
    given: dict[str, Any] = {}
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        option, equals, value = rest[at].partition("=")
        at += 1
        if option == "--proxy" and not equals and command == "agent":
            mode = "proxy"
            continue
        if option in ("-v", "--verbose") and not equals:
            log = "debug"
            continue
        if not equals:
            if at == len(rest):
                return None
            value = rest[at]
            at += 1
        if option == "--log" and value in LEVELS:
            log = value
        elif option == "--dialect" and command == "proxy":
            dialect = value
        elif option in VALUES:
            field, read = VALUES[option]
            try:
                given[field] = read(value)
            except ValueError:
                return None
        else:
            return None
    if at < len(rest) and rest[at] == "--":
        at += 1
    components = rest[at:]
    if not components or any(c.startswith("-") for c in components):
        return None
    options = Options(**given, verbose=log in ("debug", "info"))
    return Parsed(mode=mode, components=components, dialect=dialect, log=log, options=options)
