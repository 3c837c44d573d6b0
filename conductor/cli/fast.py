"""Parses `conductor agent …` and `conductor proxy …` without loading typer.

An editor starts these and waits, so nothing heavy may be imported before the components run. What
this parser does not understand it leaves to typer (`conductor.cli.app`), which reads values by the
same table and explains.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from conductor.core.dialects import DIALECTS
from conductor.mcp import KINDS as MCP_KINDS
from conductor.run.plan import ISOLATIONS, TRACE_CONTENTS, Options

LEVELS: Final = ("debug", "info", "warning", "error")

_UNITS: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A chain to run, as the command line gave it."""

    mode: str
    components: list[str]
    dialect: str | None = None
    log: str = "warning"
    options: Options


def size(text: str) -> int:
    """Bytes from `64M`, `64MiB`, `512k` or a plain number. Raises `ValueError`."""
    found = re.fullmatch(r"([0-9]{1,12})([kmg]?)(?:i?b)?", text.lower())
    if found is None or int(found[1]) == 0:
        raise ValueError("a size is a number of bytes above 0, such as 65536, 512k or 64M")
    return int(found[1]) * _UNITS[found[2]]


def seconds(text: str) -> float:
    """A time in seconds, not negative. Raises `ValueError`."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise ValueError("a time is a number of seconds, such as 30 or 0.5")
    return number


def one_of(*values: str) -> Callable[[str], str]:
    """A reader that accepts these values only."""

    def read(text: str) -> str:
        if text not in values:
            raise ValueError(f"possible values: {', '.join(values)}")
        return text

    return read


def moment(text: str) -> str:
    """A point in time in ISO 8601, as it was written. Raises `ValueError`."""
    import datetime

    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time is written like 2026-03-01T12:00:00+01:00") from None
    return text


VALUES: Final[dict[str, tuple[str, Callable[[str], Any]]]] = {
    "--isolation": ("isolation", one_of(*ISOLATIONS)),
    "--clock": ("clock", moment),
    "--cache": ("cache", str),
    "--line-limit": ("line_limit", size),
    "--stall": ("stall", seconds),
    "--grace": ("grace", seconds),
    "--drain": ("drain", seconds),
    "--drain-total": ("drain_total", seconds),
    "--trace": ("trace", str),
    "--trace-content": ("trace_content", one_of(*TRACE_CONTENTS)),
    "--mcp-bridge": ("mcp_bridge", one_of(*MCP_KINDS)),
    "--audit": ("audit", str),
    "--metrics": ("metrics", str),
    "--lock-file": ("lock_file", str),
}
"""Options with a value: the field of `Options` they set, and how the value is read."""

FLAGS: Final[dict[str, str]] = {
    "--watch": "watch",
    "--require-sandbox": "require_sandbox",
    "--require-hardening": "require_hardening",
    "--locked": "locked",
}
"""Options without a value: the field of `Options` each sets to true."""

OTHERS: Final[dict[str, Callable[[str], str]]] = {
    "--log": one_of(*LEVELS),
    "--dialect": one_of(*DIALECTS),
}
"""Options with a value that are no field of `Options`; `--dialect` belongs to `proxy`."""

VERBOSE: Final = ("-v", "--verbose")


def parse(arguments: list[str]) -> Parsed | None:
    """The parsed command line, or None where typer has to explain something."""
    command, *rest = arguments
    mode = "auto" if command == "agent" else "proxy"
    verbose = False
    others: dict[str, str] = {}
    given: dict[str, Any] = {}
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "--":
        option, equals, value = rest[at].partition("=")
        at += 1
        if option == "--proxy" and not equals and command == "agent":
            mode = "proxy"
            continue
        if option in VERBOSE and not equals:
            verbose = True
            continue
        if option in FLAGS and not equals:
            given[FLAGS[option]] = True
            continue
        if not equals:
            if at == len(rest):
                return None
            value = rest[at]
            at += 1
        try:
            if option in VALUES:
                field, read = VALUES[option]
                given[field] = read(value)
            elif option in OTHERS and (option != "--dialect" or command == "proxy"):
                others[option] = OTHERS[option](value)
            else:
                return None
        except ValueError:
            return None
    if at < len(rest) and rest[at] == "--":
        at += 1
    components = rest[at:]
    if not components or any(c.startswith("-") for c in components):
        return None
    log = level(others.get("--log"), verbose)
    return assemble(mode, components, others.get("--dialect"), log, given)


def level(log: str | None, verbose: bool) -> str:
    """The log level to use: the one named, else `debug` when `verbose`, else `warning`."""
    return log or ("debug" if verbose else "warning")


def assemble(
    mode: str, components: list[str], dialect: str | None, log: str, given: dict[str, Any]
) -> Parsed:
    """What a command line comes to; `given` are fields of `Options`."""
    options = Options(**given, verbose=log in ("debug", "info"))
    if mode == "auto" and (options.require_sandbox or options.lock is not None):
        mode = "agent"  # as a proxy of another conductor its last component would be one as well
    return Parsed(mode=mode, components=components, dialect=dialect, log=log, options=options)
