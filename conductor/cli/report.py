"""How errors, log lines and what commands print look to a person.

Nothing else in `conductor.cli` writes to standard error, or for people to standard output: what is
quoted of others goes through `conductor.errors` here, so that no command can forget it.
"""

from __future__ import annotations

import os
import re
import select
import stat
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from conductor.errors import CONTINUED, json_text, marked
from conductor.spec.programs import is_reserved

if TYPE_CHECKING:
    from conductor.services.log_lines import LogLines
    from conductor.spec.model import Spec

_PATIENCE_MS: Final = 1000
"""How long a reader of our standard error who was there until now is waited for."""

_ATOMIC: Final = 512
"""Bytes for which POSIX promises room in a pipe that can be written to."""

_RANK: Final = {"debug": 0, "info": 1, "warning": 2, "error": 3}
_MOST_REPEATS: Final = 20
_LOGGED: Final = re.compile(r"(debug|info|warning|error): ([^:\n]+): (.*)")
"""A line that the host of sandboxed proxies has put into the log."""
_LOGGED_FURTHER: Final = "  "
"""What a further line of such an entry begins with."""
_COLOURED: Final = re.compile(r"\x1b\[[\d;]*m")
"""What changes colours and nothing else: many programs do that in their logs."""
_DIM: Final = "\x1b[2m"
_COLOURS: Final = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "hint": "\x1b[1;36m"}


def _coloured(text: str, colour: str) -> str:
    """`text` in a colour, where standard error shows colours."""
    if colour and text and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        return f"{colour}{text}\x1b[0m"
    return text


def write(text: str, *, word: str = "", dim: bool = False) -> None:
    """One entry on stderr, as `conductor.errors.marked` shows it.

    It begins with `word`, in its colour, and is dim where it is to step back. What a reader who is
    gone, or does not read, does not get is lost.
    """
    text = _coloured(marked(text), _DIM if dim else "")
    if word:
        text = f"{_coloured(word, _COLOURS.get(word, ''))}: {text}"
    try:
        sys.stderr.flush()
        if _is_pipe():
            _to_pipe(sys.stderr.fileno(), f"{text}\n".encode("utf-8", "backslashreplace"))
        else:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        return  # nobody reads our standard error: there is nowhere to say so


_lost = 0
"""Lines that nobody has read, since the last one that somebody did."""


def _is_pipe() -> bool:
    try:
        mode = os.fstat(sys.stderr.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _to_pipe(fd: int, line: bytes) -> None:
    """Writes a line as far as there is room in a pipe.

    An editor that never reads our standard error must not be what the whole chain waits for, and
    what fills it is for components to choose.
    """
    global _lost  # noqa: PLW0603 - there is one standard error
    room = select.poll()
    room.register(fd, select.POLLOUT)
    if _lost and room.poll(0):
        line = f"\nwarning: conductor: nobody read {_lost} lines before this one\n".encode() + line
    left = memoryview(line)
    while left:
        if not room.poll(0 if _lost else _PATIENCE_MS):
            _lost += 1
            return
        left = left[os.write(fd, left[:_ATOMIC]) :]  # a pipe that has room has so much of it
    _lost = 0


def error(text: str, hint: str = "") -> None:
    """`error: …`, and after a blank line `hint: …`."""
    write(text, word="error")
    if hint:
        write("")
        write(hint, word="hint")


def say(*lines: str) -> None:
    """Lines on stdout, for people; one that holds a newline goes on in marked ones."""
    sys.stdout.write("".join(f"{marked(line)}\n" for line in lines))
    sys.stdout.flush()


def say_json(value: Any) -> None:
    """A value on stdout, for programs, and safe for a terminal."""
    import msgspec  # `conductor join` needs none

    text = msgspec.json.format(msgspec.json.encode(value)).decode()
    sys.stdout.write(json_text(text) + "\n")
    sys.stdout.flush()


def logger(level: str) -> Callable[[str, str, str], None]:
    """A log function `(level, component, text)` that writes from `level` on.

    Unless more than warnings was asked for, it never floods.
    """
    least = _RANK[level]
    counts: dict[tuple[str, str], int] = {}

    def log(rank: str, name: str, text: str) -> None:
        if _RANK.get(rank, 1) < least:
            return
        count = counts[rank, name] = counts.get((rank, name), 0) + 1
        if least > _RANK["info"] and count > _MOST_REPEATS:
            if count == _MOST_REPEATS + 1:
                write(f"{name}: further lines are not shown (--log info shows all)", word=rank)
            return
        write(f"{name}: {text}", word=rank)

    return log


def lines(level: str, specs: Iterable[Spec]) -> LogLines:
    """The lines that components put into the log from `level` on, each no more than its limit."""
    from conductor.services.log_lines import LogLines
    from conductor.spec.limits import DEFAULT_LIMITS

    limits = {one.name: one.limits.get("log_lines", DEFAULT_LIMITS["log_lines"]) for one in specs}
    return LogLines(limits, logger(level), level)


def relay(level: str, lines: LogLines) -> Callable[[str, str], None]:
    """A function `(component, line)` for lines of a component's standard error.

    Without a component it is the host of sandboxed ones, whose entries in the log are written from
    `level` on as all others are. All else that it says is marked as its own words.
    """
    hidden = False
    open_ = False

    def told(name: str, line: str) -> None:
        nonlocal hidden, open_
        if name:
            if not lines.admits(name, line):
                return
            write(f"[{name}] {_COLOURED.sub('', line)}")
        elif (found := _LOGGED.fullmatch(line)) and not is_reserved(found[2]):
            hidden, open_ = _RANK[found[1]] < _RANK[level], True
            lines.say(found[1], found[2], found[3])
        elif open_ and line.startswith(_LOGGED_FURTHER):
            if not hidden:
                write(CONTINUED + line.removeprefix(_LOGGED_FURTHER))
        else:
            open_ = False
            write(_of_host(line))

    return told


def _of_host(line: str) -> str:
    """What the host says besides its log: one thing we know, or what went wrong with it."""
    from conductor.spec.python_guest.scripts import COMPILING

    return line if line == COMPILING else f"[host] {line}"
