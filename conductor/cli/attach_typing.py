"""Lines that a person types while a session is shown: prompts, and answers to questions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from conductor.cli import report

_NO: Final = ("", "n", "no")
MARKER: Final = ">"


class Typing:
    """The lines that are typed on the terminal of standard input."""

    def __init__(self, take: Callable[[str], None], done: Callable[[], None]) -> None:
        """`take` gets each line that answers no question. `done` is called at Ctrl-D."""
        self._take = take
        self._done = done
        self._fd = -1
        self._rest = b""
        self._question = ""
        self._line: asyncio.Future[str] | None = None
        """Waits for an answer."""
        self._late = False
        """Whether a question went away, so that an answer to it may still come."""

    def begin(self) -> None:
        """Reads from now on."""
        # Opened anew: the loop makes the descriptor non-blocking, which the shell must not inherit.
        flags = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK
        self._fd = os.open(os.ttyname(0), flags)
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    @classmethod
    async def once(cls, question: str) -> str:
        """Asks, and reads one line; empty at the end of the input."""
        typing = cls(lambda line: None, lambda: typing._typed(""))
        typing.begin()
        try:
            return await typing.ask(question)
        finally:
            typing.end()

    def end(self) -> None:
        """Reads no more."""
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            report.uncover()

    async def ask(self, question: str) -> str:
        """Asks; the line that is typed. The question goes away when the waiting is cancelled."""
        self._line = asyncio.get_running_loop().create_future()
        self._question = question
        report.cover(question, typed=True) if report.can_cover() else report.ask(question)
        try:
            return await self._line
        except asyncio.CancelledError:
            self._late = True
            report.uncover()
            raise
        finally:
            self._line, self._question = None, ""

    async def agrees(self, question: str) -> str:
        """Asks for `y` or `n`. Any other line is no answer: somebody was writing a prompt."""
        while (line := await self.ask(question)).strip().lower() not in (*report.YES, *_NO):
            self._take(line)
        return line

    def show(self, *, marker: bool) -> None:
        """Shows the question or the marker of a line again, if the terminal can draw over it."""
        text = self._question or (MARKER if marker else "")
        if text and report.can_cover():
            report.cover(text, typed=True)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 4096)  # a terminal hands out whole lines
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            self._done()
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._typed(line.decode(errors="replace"))

    def _typed(self, line: str) -> None:
        late, self._late = self._late, False
        if self._line is not None and not self._line.done():
            self._line.set_result(line)
        elif late and line.strip().lower() in (*report.YES, *_NO):
            report.write("somebody else has answered that question", dim=True)
        else:
            self._take(line)
