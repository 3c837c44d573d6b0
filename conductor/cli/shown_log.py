"""The log on standard error: entries of `conductor` and its components, and the lines that these
write to theirs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from conductor.cli import report
from conductor.errors import CONTINUED

if TYPE_CHECKING:
    from conductor.run.report_lines import HostLog
    from conductor.services.log_lines import LogLines
    from conductor.spec.model import Spec

_RANK: Final = {"debug": 0, "info": 1, "warning": 2, "error": 3}
_MOST_REPEATS: Final = 20
_COLOURED: Final = re.compile(r"\x1b\[[\d;]*m")
"""Sequences that only change colours. Many programs put them into their logs."""


def heard(name: str, line: str) -> None:
    """Writes a line that a component wrote to its standard error; no name: it is no component's."""
    report.write(line, name=name, raw=bool(name))


def logger(level: str) -> Callable[[str, str, str], None]:
    """A log function `(level, component, text)` that writes entries of `level` and above.

    At level `warning` and `error` it shows a bounded number of entries of each component.
    """
    least = _RANK[level]
    counts: dict[tuple[str, str], int] = {}

    def log(rank: str, name: str, text: str) -> None:
        if _RANK.get(rank, 1) < least:
            return
        count = counts[rank, name] = counts.get((rank, name), 0) + 1
        if least > _RANK["info"] and count > _MOST_REPEATS:
            if count == _MOST_REPEATS + 1:
                report.write(
                    "conductor hides further lines (--log info shows all)", word=rank, name=name
                )
            return
        report.write(text, word=rank, name=name)

    return log


def lines(level: str, specs: Iterable[Spec]) -> LogLines:
    """The log lines of components, of `level` and above, each component within its limit."""
    from conductor.services.log_lines import LogLines
    from conductor.spec import limits

    return LogLines(limits.log_lines(specs), logger(level), level)


def relay(
    level: str, lines: LogLines, write: Callable[[str, str], None] = heard
) -> Callable[[str, str], None]:
    """A function `(component, line)` that takes lines of a component's standard error, for `write`,
    which has the same arguments.

    An empty name stands for the process that hosts sandboxed proxies. Its log entries of `level`
    and above look like all others; any other line of it is marked `[host]`.
    """
    log: HostLog | None = None
    notices: set[str] = set()

    def show(name: str, line: str) -> None:
        nonlocal log
        if name:
            if not lines.admits(name, line):
                return
            write(name, _COLOURED.sub("", line))
            return
        if log is None:
            from conductor.run.report_lines import HostLog  # a chain without hosts needs none

            log = HostLog()
        text, is_further = log.read(line)
        if log.entry is None:
            if not _is_notice(line):
                write("host", line)
            elif line not in notices:  # each process of guests sends its own
                notices.add(line)
                write("", line)
        elif not is_further:
            lines.say(*log.entry, text)
        elif _RANK[log.entry[0]] >= _RANK[level]:
            write("", CONTINUED + text)

    return show


def _is_notice(line: str) -> bool:
    """Whether a line of the host outside of its log is a notice of ours; else it is a failure."""
    return announces_compiling(line) or tells_of_cache(line)


def tells_of_cache(line: str) -> bool:
    """Whether a host says by a line that it cannot use the folder of compiled modules."""
    from conductor.run.segment_spec import NOT_KEPT

    return line.startswith(NOT_KEPT)


def announces_compiling(line: str) -> bool:
    """Whether a host says by a line that it compiles the Python guest."""
    from conductor.spec.python_guest.scripts import COMPILING

    return line == COMPILING
