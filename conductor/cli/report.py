"""Prints errors, log lines and results for people.

Nothing else in `conductor.cli` writes to standard error, or for people to standard output. Here all
text goes through `conductor.errors`, so that no command can forget to make others' text harmless.

Text for people leaves in the encoding of its stream; `encoded` writes out characters that the
encoding lacks. JSON and protocol are UTF-8 in any locale.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import select
import stat
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

from conductor.errors import ConductorError, counted, json_text, marked, one_line

_PATIENCE_MS: Final = 1000
"""How long to wait for a reader of standard error who has read everything so far."""

_ATOMIC: Final = 512
"""Bytes that a pipe takes without blocking once `poll` says that it has room (POSIX PIPE_BUF)."""

_DIM: Final = "\x1b[2m"
_COLOURS: Final = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "hint": "\x1b[1;36m"}


YES: Final = ("y", "yes")
"""The words by which a user agrees."""
_FORCES: Final = ("FORCE_COLOR", "CLICOLOR_FORCE")
_BOLD: Final = "\x1b[1m"
_CLEAR: Final = b"\x1b[K"
_ALIKE: Final = {"…": "...", "—": "-", "·": "-", "•": "*", "✓": "ok", "→": "->"}
"""Our own signs, in ASCII."""


def _written_out(error: UnicodeError) -> tuple[str, int]:
    """An error handler of codecs: writes out characters that an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_ALIKE.get(each, f"\\u{{{ord(each):x}}}") for each in lost), error.end


_WRITTEN_OUT: Final = "conductor.written_out"
codecs.register_error(_WRITTEN_OUT, _written_out)


def encoded(text: str, stream: TextIO | None) -> bytes:
    """Text for people, in the encoding of the stream."""
    return text.encode(getattr(stream, "encoding", None) or "utf-8", _WRITTEN_OUT)


def shows_colours(stream: TextIO | None) -> bool:
    """Whether a stream gets colours: a terminal, unless the environment wants it otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "0") not in ("", "0") for name in _FORCES):
        return True
    if os.environ.get("TERM") == "dumb" or os.environ.get("CLICOLOR") == "0":
        return False
    return stream is not None and stream.isatty()


def _coloured(text: str, colour: str) -> str:
    """`text` in a colour, where standard error shows colours."""
    return f"{colour}{text}\x1b[0m" if colour and text and shows_colours(sys.stderr) else text


def heading(text: str) -> str:
    """A heading of a page, for standard output."""
    return f"{_BOLD}{text}\x1b[0m" if shows_colours(sys.stdout) else text


_entry: Callable[[str, str, str, dict[str, Any]], bytes] | None = None
"""Makes entries of the log JSON; None: they are for people."""


def log_as_json() -> None:
    """From now on standard error gets JSON, one entry a line: no colours, no status line."""
    global _entry  # noqa: PLW0603 - there is one standard error
    if _entry is None:
        from conductor.cli import json_log

        json_log.divert(write)
        _entry = json_log.entry


def is_json() -> bool:
    """Whether programs read standard error, and so nobody is there who could be asked."""
    return _entry is not None


def write(
    text: str,
    *,
    word: str = "",
    name: str = "",
    dim: bool = False,
    hint: str = "",
    raw: bool = False,
) -> None:
    """Writes one entry to standard error, as `conductor.errors.marked` shows it.

    Args:
        text: The entry; may quote anybody.
        word: The level or kind before the text, in its colour.
        name: The component that it is about.
        dim: Whether the entry is less important than its surroundings.
        hint: A hint, for programs that read the entry.
        raw: Whether a component wrote the text to its standard error.

    Drops the entry if nobody reads standard error.
    """
    if _entry is not None:
        further = {"hint": hint} if hint else {}
        if raw:
            further["stream"] = "stderr"
        if text:
            _out(_entry(text, word or "info", name, further))
        return
    uncover()
    if name:
        text = f"[{name}] {text}" if raw else f"{name}: {text}"
    text = _coloured(marked(text), _DIM if dim else "")
    if word:
        text = f"{_coloured(word, _COLOURS.get(word, ''))}: {text}"
    _out(encoded(f"{text}\n", sys.stderr))


_said: float | None = 0.0
"""When something was last written, by the machine's monotonic clock; None: a question waits."""


def said() -> float | None:
    """When something was last written; None: it is a question, and its answer is waited for."""
    return _said


def _out(line: bytes) -> None:
    global _said  # noqa: PLW0603 - there is one terminal
    _said = time.monotonic()
    try:
        sys.stderr.flush()
        if _is_pipe():
            _to_pipe(sys.stderr.fileno(), line)
        elif _entry is not None:
            os.write(sys.stderr.fileno(), line)
        else:
            sys.stderr.buffer.write(line)
            sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # nobody reads standard error: there is nowhere to report it


_covered = False
"""Whether the terminal's last line is a status line."""


def can_cover() -> bool:
    """Whether a status line can be drawn: standard error is a terminal that can go back."""
    return sys.stderr is not None and _entry is None and _can_go_back() and _is_terminal(2)


def can_draw() -> bool:
    """Whether a screen can be drawn on standard output: it is a terminal that can go back."""
    return _can_go_back() and sys.stdout is not None and sys.stdout.isatty()


def _can_go_back() -> bool:
    """Whether the terminal, if there is one, can draw over its text."""
    return os.environ.get("TERM", "dumb") not in ("", "dumb")


def write_out() -> None:
    """From now on standard output takes any text: it writes out what its encoding lacks."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=_WRITTEN_OUT)


def cover(text: str, *, typed: bool = False) -> None:
    """Draws a status line over the one before; `text` may quote anybody.

    The line stays on one row of the terminal. Any other text takes it away first. `typed`: its
    user types behind it.
    """
    global _covered  # noqa: PLW0603 - there is one standard error
    room = select.poll()
    room.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):
        if room.poll(0):  # else its user has stopped it (Ctrl-S): the chain must not wait
            line = _coloured(_fitting(one_line(text, 1000), os.get_terminal_size(2).columns), _DIM)
            os.write(2, b"\r" + _CLEAR + encoded(line, sys.stderr) + b" " * typed)
            _covered = True


def uncover() -> None:
    """Takes the status line away, if there is one."""
    global _covered  # noqa: PLW0603 - there is one standard error
    if _covered:
        _covered = False
        with contextlib.suppress(OSError):
            os.write(2, b"\r" + _CLEAR)


def _fitting(text: str, columns: int) -> str:
    """The beginning of a text that leaves the last column free, where a terminal may wrap."""
    left = (columns or 80) - 4  # for an ellipsis, in ASCII if need be
    for at, character in enumerate(text):
        left -= 1 if character.isascii() else 2  # at most: some take two columns
        if left < 0:
            return f"{text[:at]}…"
    return text


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


_lost = 0
"""Lines dropped since the last line that was read."""


def _is_pipe() -> bool:
    try:
        mode = os.fstat(sys.stderr.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _to_pipe(fd: int, line: bytes) -> None:
    """Writes a line if the pipe has room for it.

    The chain must not wait for an editor that never reads standard error: any component could fill
    the pipe and so stop the chain.
    """
    global _lost  # noqa: PLW0603 - there is one standard error
    room = select.poll()
    room.register(fd, select.POLLOUT)
    if _lost and room.poll(0):
        line = b"\n" + _losses(f"nobody read {counted(_lost, 'line')} before this one") + line
    left = memoryview(line)
    while left:
        if not room.poll(0 if _lost else _PATIENCE_MS):
            _lost += 1
            return
        left = left[os.write(fd, left[:_ATOMIC]) :]
    _lost = 0


def _losses(text: str) -> bytes:
    if _entry is not None:
        return _entry(text, "warning", "conductor", {})
    return f"warning: conductor: {text}\n".encode()


def error(text: str, hint: str = "") -> None:
    """`error: …`, and after a blank line `hint: …`."""
    write(text, word="error", hint=hint)
    if hint and _entry is None:
        write("")
        write(hint, word="hint")


def say(*lines: str) -> None:
    """Writes texts for people to standard output, with further lines marked."""
    page("\n".join(map(marked, lines)))


def say_styled(*lines: tuple[str, str]) -> None:
    """Writes texts for people to standard output, each with its style: an escape sequence or ""."""
    colours = shows_colours(sys.stdout)
    page(
        "\n".join(
            f"{style}{marked(text)}\x1b[0m" if colours and style else marked(text)
            for style, text in lines
        )
    )


def page(text: str) -> None:
    """Writes a text of ours, which quotes nobody, to standard output."""
    send(encoded(f"{text}\n", sys.stdout))


def ask(question: str) -> None:
    """Shows a question of ours before the user's answer, on a terminal."""
    global _said  # noqa: PLW0603 - there is one terminal
    _said = None
    uncover()
    sys.stderr.write(question)
    sys.stderr.flush()


def answer(question: str) -> str:
    """The user's answer to a question of ours, in lower case; empty at the input's end."""
    ask(question)
    typed = sys.stdin.readline()
    if not typed.endswith("\n"):
        write("")
    return typed.strip().lower()


def agrees(question: str) -> bool:
    """Whether the user, who is asked, says yes."""
    return answer(f"{question}? [y/N] ") in YES


def say_json(value: Any) -> None:
    """Writes a value to standard output as JSON, safe for a terminal."""
    from conductor.core.json_text import encode, formatted  # `conductor join` must start without

    data = encode(value)
    send(json_text(formatted(data).decode()).encode() + b"\n")


def say_line(line: bytes) -> None:
    """Writes a line of JSON to standard output as it is; on a terminal so that it is safe there."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    send(json_text(line.decode()).encode() if terminal else line)


def send(data: bytes) -> None:
    """Writes bytes to standard output. Raises `ConductorError`, `BrokenPipeError`."""
    global _said  # noqa: PLW0603 - there is one terminal
    if sys.stdout is None:
        raise unwritable("it is closed")
    _said = time.monotonic()
    uncover()
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as failure:
        forget_output()
        raise unwritable(str(failure.strerror)) from None


def unwritable(why: str) -> ConductorError:
    """The error for a standard output that takes nothing."""
    hint = "the result goes there: send the result to a file or a pipe that takes all of it"
    return ConductorError(f"cannot write standard output: {why}", hint)


def divert_prints() -> None:
    """Sends prints of code in this process to standard error: protocol is on standard output."""
    sys.stdout = sys.stderr


def forget_output() -> None:
    """Drops output that is still to be written: Python would fail again when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
