"""The screen of `conductor ps --watch`: drawn by rich, and led by a few keys."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from conductor.cli import ps_table, report
from conductor.control.places import Id
from conductor.control.watching import Watch
from conductor.errors import one_line

_KEYS: Final = {
    b"j": "down", b"\x1b[B": "down", b"\x1bOB": "down", b"k": "up", b"\x1b[A": "up",
    b"\x1bOA": "up", b"p": "switch", b" ": "switch", b"q": "quit", b"\x04": "quit",
    b"\x1a": "stop",
}  # fmt: skip
_HELP: Final = "j k choose · p pause or resume · q quit"
_EVERY: Final = 1.0
"""The most seconds between two looks at chains that have ended."""


class Screen:
    """Shows chains until the person quits."""

    def __init__(self, only: Id | None, wanted: str) -> None:
        self._wake, wakes = os.pipe()
        for end in (self._wake, wakes):
            os.set_blocking(end, False)
        self._wakes = wakes
        self._watch = Watch(only, wanted, self._woken)
        report.write_out()
        # The terminal may become another one while we run; the variables stay as they were.
        known = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        self._console = Console(highlight=False, markup=False, emoji=False, _environ=known)
        self._chosen: tuple[Id, str] | None = None
        self._rows: list[ps_table.Row] = []
        self._first = 0
        """The first row that is shown."""

    def _woken(self) -> None:
        with contextlib.suppress(OSError):  # it is full: somebody will look
            os.write(self._wakes, b".")

    def run(self) -> int:
        """Until the person quits; the exit code."""
        handlers = {
            signal.SIGWINCH: lambda *_: self._woken(),
            signal.SIGTERM: _ends,
            signal.SIGHUP: _ends,
            # Our parent may have had it ignored, as a shell does for commands in the background.
            signal.SIGINT: signal.default_int_handler,
        }
        before = {number: signal.signal(number, does) for number, does in handlers.items()}
        self._watch.start()
        try:
            while self._shown():
                os.kill(os.getpid(), signal.SIGSTOP)  # Ctrl-Z; goes on here
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        finally:
            self._watch.stop()
            for number, former in before.items():
                signal.signal(number, former)
        return 0

    def _shown(self) -> bool:
        """Shows it until the person quits or, True, stops the program for a while."""
        with (
            _keys(sys.stdin.fileno()),
            Live(
                console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop"
            ) as live,
        ):
            while True:
                live.update(self._drawn(), refresh=True)
                ready, _, _ = select.select([sys.stdin.fileno(), self._wake], [], [], _EVERY)
                if self._wake in ready:
                    os.read(self._wake, 4096)
                if sys.stdin.fileno() not in ready:
                    continue
                for does in _typed(sys.stdin.fileno()):
                    if does in ("quit", "stop"):
                        return does == "stop"
                    self._do(does)

    def _do(self, does: str) -> None:
        self._watch.news = ""
        names = [row.of for row in self._rows if row.of is not None]
        if not names:
            return
        at = names.index(self._chosen) if self._chosen in names else -1
        if does in ("down", "up"):
            self._chosen = names[max(at - 1, 0) if does == "up" else min(at + 1, len(names) - 1)]
        elif does == "switch" and at >= 0:
            id_, name = names[at]
            for seen in self._watch.seen():
                for one in seen.state.components if seen.state else ():
                    if (seen.id, one.name) == (id_, name):
                        self._watch.switch(id_, name, paused=not one.paused)
        elif does == "switch":
            self._watch.news = "choose a component first: j and k"

    def _drawn(self) -> Any:
        width, height = self._console.size
        self._rows = [*ps_table.rows(self._watch.seen(), width)]
        room = max(height - 1, 1)
        place = next((at for at, row in enumerate(self._rows) if row.of == self._chosen), 0)
        if self._chosen is not None:
            self._first = min(max(self._first, place - room + 1), place)
        self._first = min(self._first, max(len(self._rows) - room, 0))
        shown = self._rows[self._first : self._first + room]
        lines = [
            Text(
                row.text,
                style=f"{row.style} reverse" if row.of and row.of == self._chosen else row.style,
                no_wrap=True,
                overflow="crop",
            )
            for row in shown
        ]
        lines += [Text("")] * (room - len(lines))
        below = one_line(self._watch.news or _HELP, 400)
        lines.append(Text(below, style="dim", no_wrap=True, overflow="crop"))
        return Group(*lines)


def _typed(terminal: int) -> list[str]:
    """The actions of the typed keys; once the terminal has gone, to quit."""
    typed = os.read(terminal, 1024)
    keys = re.findall(rb"\x1b[\[O].|.", typed, re.DOTALL)
    return [_KEYS[key] for key in keys if key in _KEYS] if typed else ["quit"]


def _ends(number: int, frame: object) -> None:
    """Ends as by the signal, once the terminal is as it was."""
    raise SystemExit(128 + number)


@contextlib.contextmanager
def _keys(terminal: int) -> Iterator[None]:
    """Keys come at once, and are not shown."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        mode = termios.tcgetattr(terminal)
        mode[6][termios.VSUSP] = b"\x00"  # Ctrl-Z is a key: the screen goes first
        termios.tcsetattr(terminal, termios.TCSADRAIN, mode)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
