"""The kind of a file that `conductor log` is given: its first line tells."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

from conductor.cli.typer_options import argument
from conductor.errors import UsageError
from conductor.spec import untrusted_files

HELP: Final = (
    "Show the records of a chain: the files of --trace and --audit, and the ring of a failure. The "
    "first line of a file names its kind. `blame` shows who made the lines of a file of the "
    "project."
)
"""Of the group of commands."""

_LOOKED_AT: Final = 64 * 1024
"""Bytes of a first line that are looked at."""


def _file(what: str) -> Any:
    return argument("FILE", what)


LogPath = Annotated[str, _file("A file of --trace or --audit, or the ring of a failure.")]
TracePath = Annotated[str, _file("A file of --trace, or the ring of a failure.")]
AuditPath = Annotated[str, _file("A file of --audit.")]
Wanted = Annotated[
    str,
    argument("[FILTER]", "The events to show (`conductor help filters`)."),
]


class Kind(NamedTuple):
    """A kind of file."""

    noun: str
    begins: str
    """A pattern that the first line of such a file fits, and of no kind above it."""
    cannot: Mapping[str, str] = {}
    """Why a command of `conductor log` does not take it, by the command's name; \"\": any other."""
    hint: str = ""
    """A hint for such a command."""


_ONLY_CHANGES: Final = "the file holds the changes of components, and not all messages"
_TRACE_SAYS_MORE: Final = "`--trace FILE` records all messages; `conductor log show` shows an audit"

TRACE: Final = Kind(
    "a trace",
    r'\s*\{\s*"type"\s*:\s*"(request|response|notification|_conductor)"',
    {"verify": "the file is not sealed"},
    "`--audit FILE` writes files that can be verified",
)
"""The file of a ring is a trace too, and so is the file of the reference conductor."""
AUDIT: Final = Kind(
    "an audit",
    # Of a line that somebody has changed one of both is left.
    r'\{"seq":[0-9]+,|.*"prev":"[0-9a-f]{64}"',
    {
        "stats": "the file holds the changes of components, and no times",
        **dict.fromkeys(("view", "export", "replay"), _ONLY_CHANGES),
    },
    _TRACE_SAYS_MORE,
)
EMPTY: Final = Kind(
    "an empty file",
    r"\Z",
    dict.fromkeys(("stats", "view", "export", "replay"), "the file is empty"),
    "name a file that --trace wrote",
)
UNKNOWN: Final = Kind("a file of another kind", "")
"""A trace whose first line is damaged, maybe: readers report lines that they do not understand."""
KINDS: Final = (
    TRACE,
    AUDIT,
    EMPTY,
    Kind(
        "a log file",
        r'[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z |\{"ts":"[^"]*","level":',
        {"": "it is text"},
        "read it with an editor or a pager, such as `less`",
    ),
    Kind("packed", r"\x1f\x8b", {"": "it is packed"}, "unpack it first, with `gunzip`"),
    UNKNOWN,
)
"""In the order in which they are tried."""


def kind_for(path: str, command: str) -> Kind:
    """The kind of a file. Raises `UsageError` for a file that cannot be read, or that this command
    of `conductor log` does not take."""
    kind = _kind(path)
    why = kind.cannot.get(command, kind.cannot.get("", ""))
    if why:
        raise UsageError(
            f"`conductor log {command}` does not take `{path}`, {kind.noun}: {why}", kind.hint
        )
    return kind


def is_begun(path: str) -> bool:
    """Whether a file that is followed has its first line: the file need not be there yet, and its
    line may be cut. Raises `UsageError` for a file that cannot be read."""
    line = _first_line(path) if os.path.exists(path) else b""
    return line.endswith(b"\n") or len(line) == _LOOKED_AT


def _first_line(path: str) -> bytes:
    try:
        with untrusted_files.ordinary(path) as file:
            return file.readline(_LOOKED_AT)
    except OSError as error:
        raise unreadable(path, error) from None


def _kind(path: str) -> Kind:
    line = _first_line(path).decode("latin-1")
    return next(kind for kind in KINDS if re.match(kind.begins, line, re.DOTALL))


def unreadable(path: str, error: Exception) -> UsageError:
    """The error for a file that cannot be read."""
    from conductor.spec.private_files import reason

    return UsageError(
        f"cannot read the trace or audit `{path}`: {reason(error)}",
        "name a file that --trace or --audit wrote",
    )
