"""What `conductor exec` shows of a turn: the answer on stdout, everything else on stderr.

The text comes from components nobody has to trust. On a terminal its control characters are shown,
not obeyed: an escape sequence could rewrite what the user sees.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from typing import Any, Final, Protocol

from conductor.cli import report
from conductor.errors import one_line, visible

_ATOMIC: Final = 4096
"""Bytes a pipe that is reported writable takes without blocking, at least."""
_POLL: Final = 0.01
"""Seconds between looks at an output that takes nothing."""


class OutputClosed(Exception):  # noqa: N818 - an event, not a mistake
    """Nobody reads standard output any more."""


class View(Protocol):
    """Shows a turn as it goes."""

    async def frame(self, line: bytes) -> None:
        """One frame received from the chain, as it stood on the wire."""

    async def update(self, update: dict[str, Any]) -> None:
        """One `session/update` of our session."""

    def note(self, text: str) -> None:
        """A line beside the answer."""

    async def finish(self) -> None:
        """The turn is over."""


class Output:
    """Standard output, written without ever blocking the event loop.

    The descriptor may be shared with other programs, so it is not made non-blocking; pieces a
    pipe takes at once are written only when there is room.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._terminal = os.isatty(fd)
        self.line_open = False
        """Whether what was written last does not end with a newline."""

    @property
    def terminal(self) -> bool:
        """Whether a person reads this."""
        return self._terminal

    async def text(self, text: str) -> None:
        """Writes text of the agent. Raises `OutputClosed`."""
        await self.data((visible(text) if self._terminal else text).encode(errors="replace"))

    async def data(self, data: bytes) -> None:
        """Writes bytes as they are. Raises `OutputClosed`."""
        view = memoryview(data)
        while view:
            if not self._ready():
                await asyncio.sleep(_POLL)
                continue
            try:
                view = view[os.write(self._fd, view[:_ATOMIC]) :]
            except BlockingIOError:  # somebody who shares the descriptor made it non-blocking
                await asyncio.sleep(_POLL)
            except OSError as error:
                raise OutputClosed(error.strerror or str(error)) from None
        if data:
            self.line_open = not data.endswith(b"\n")

    def _ready(self) -> bool:
        if sys.platform == "win32":
            return True
        return bool(select.select([], [self._fd], [], 0)[1])


class JsonView:
    """Every frame received, one line each, byte for byte."""

    def __init__(self, output: Output) -> None:
        self._output = output

    async def frame(self, line: bytes) -> None:
        """Writes the frame."""
        await self._output.data(line + b"\n")

    async def update(self, update: dict[str, Any]) -> None:
        """Nothing: the frame it came in has been written."""

    def note(self, text: str) -> None:
        """A line on stderr."""
        report.write(text)

    async def finish(self) -> None:
        """Nothing is left to write."""


class TextView:
    """The agent's text on stdout as it comes; tool calls, plans and thoughts dimmed on stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._titles: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._thought = ""

    async def frame(self, line: bytes) -> None:
        """Nothing: what matters of it comes as an update."""

    async def update(self, update: dict[str, Any]) -> None:
        """Shows one update; kinds that say nothing to a reader are left out."""
        kind = update.get("sessionUpdate")
        if kind == "agent_thought_chunk":
            self._think(_text_of(update.get("content")))
            return
        self._end_thought()
        if kind == "agent_message_chunk":
            content = update.get("content")
            if isinstance(content, dict) and content.get("type") != "text":
                self.note(f"[{one_line(_described(content))}]")
            else:
                await self._output.text(_text_of(content))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "plan":
            self._plan(update.get("entries"))
        elif kind == "current_mode_update":
            self.note(f"mode: {one_line(update.get('currentModeId'))}")

    def note(self, text: str) -> None:
        """A dim line on stderr, on a line of its own also when stdout is the same terminal."""
        if self._output.line_open and self._output.terminal:
            report.write("")
            self._output.line_open = False
        report.write(text, dim=True)

    async def finish(self) -> None:
        """Ends the last line if the agent did not."""
        self._end_thought()
        if self._output.line_open:
            await self._output.data(b"\n")

    def _think(self, text: str) -> None:
        *lines, self._thought = (self._thought + text).split("\n")
        for line in lines:
            if line.strip():
                self.note(f"· {visible(line)}")

    def _end_thought(self) -> None:
        if self._thought:
            self._think("\n")

    def _tool(self, update: dict[str, Any]) -> None:
        call = str(update.get("toolCallId"))
        if update.get("title"):
            self._titles[call] = one_line(update["title"])
        self._once(call, self._titles.get(call, one_line(call)), update.get("status"), "tool")

    def _plan(self, entries: object) -> None:
        for at, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, dict):
                content = one_line(entry.get("content"))
                self._once(f"plan {at} {content}", content, entry.get("status"), "plan")

    def _once(self, key: str, title: str, status: object, what: str) -> None:
        """A line for what is new or has changed; agents repeat the rest."""
        line = f"{what}: {title}" + (f" ({one_line(status)})" if status else "")
        if self._shown.get(key) != line and (status or key not in self._shown):
            self._shown[key] = line
            self.note(line)


def _text_of(content: object) -> str:
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def _described(content: dict[str, Any]) -> str:
    """A content block that is no text, in words."""
    resource = content.get("resource")
    held = resource if isinstance(resource, dict) else content
    details = [held.get(key) for key in ("name", "uri", "mimeType")]
    return " ".join([str(content.get("type")), *(str(one) for one in details if one)])
