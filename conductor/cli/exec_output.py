"""Shows a turn of `conductor exec`: the answer on standard output, all else on standard error.

Nobody has to trust the components that the text comes from. On a terminal its control characters
are written out: an escape sequence could change the user's screen.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from typing import Any, Final

from conductor.cli import report
from conductor.errors import one_line, visible

_ATOMIC: Final = 4096
"""Bytes that a pipe takes without blocking once `select` says that it has room."""
_POLL: Final = 0.01
"""Seconds between two tries to write to an output that is full."""

_MOST: Final = 1000
"""The most tool calls and entries of plans that are remembered: a session may go on for days."""


class OutputClosed(Exception):  # noqa: N818 - an event, not a mistake
    """The reader of standard output is gone."""


class Output:
    """Standard output, written without blocking the event loop.

    Making the descriptor non-blocking would affect all programs that share it. So `data` writes
    only when there is room, and never more than a pipe takes at once.
    """

    def __init__(self, fd: int = 1) -> None:
        self._fd = fd
        self._terminal = os.isatty(fd)
        self.line_open = False
        """Whether the last line has no newline yet."""

    @property
    def terminal(self) -> bool:
        """Whether a person reads the output."""
        return self._terminal

    async def text(self, text: str) -> None:
        """Writes the agent's text. Raises `OutputClosed`."""
        await self.data(report.encoded(visible(text) if self._terminal else text, sys.stdout))

    async def data(self, data: bytes) -> None:
        """Writes bytes unchanged. Raises `OutputClosed`."""
        if self._terminal:
            report.uncover()
        view = memoryview(data)
        while view:
            if not self._ready():
                await asyncio.sleep(_POLL)
                continue
            try:
                view = view[os.write(self._fd, view[:_ATOMIC]) :]
            except BlockingIOError:  # another program has made the shared descriptor non-blocking
                await asyncio.sleep(_POLL)
            except OSError as error:
                raise OutputClosed(error.strerror or str(error)) from None
        if data:
            self.line_open = not data.endswith(b"\n")

    def _ready(self) -> bool:
        return bool(select.select([], [self._fd], [], 0)[1])


class View:
    """Shows a turn as it goes. This base shows nothing but notes."""

    def __init__(self, output: Output) -> None:
        self._output = output

    async def frame(self, line: bytes) -> None:
        """Takes a frame from the chain, byte for byte. Raises `OutputClosed`."""

    async def update(self, update: dict[str, Any]) -> None:
        """Takes a `session/update` of the turn's session. Raises `OutputClosed`."""

    def note(self, text: str) -> None:
        """Shows a line beside the answer, on standard error."""
        report.write(text)

    async def finish(self) -> None:
        """Takes the end of the turn. Raises `OutputClosed`."""


class JsonView(View):
    """Writes every frame from the chain to standard output, one a line, unchanged."""

    async def frame(self, line: bytes) -> None:
        """Writes the frame."""
        await self._output.data(line + b"\n")


class TextView(View):
    """The agent's text on standard output; tool calls, plans and thoughts dim on standard error."""

    def __init__(self, output: Output) -> None:
        super().__init__(output)
        self._titles: dict[str, str] = {}
        self._shown: dict[str, str] = {}
        self._thought = ""

    async def update(self, update: dict[str, Any]) -> None:
        """Shows one update, if its kind means something to a reader."""
        kind = update.get("sessionUpdate")
        if kind == "agent_thought_chunk":
            self._think(text_of(update.get("content")))
            return
        self._end_thought()
        if kind == "agent_message_chunk":
            content = update.get("content")
            if isinstance(content, dict) and content.get("type") != "text":
                self.note(f"[{one_line(described(content))}]")
            else:
                await self._output.text(text_of(content))
        elif kind in ("tool_call", "tool_call_update"):
            self._tool(update)
        elif kind == "plan":
            self._plan(update.get("entries"))
        elif kind == "current_mode_update" and (mode := one_line(update.get("currentModeId"))):
            self.note(f"mode: {mode}")
        elif kind == "notice":
            said = (update.get("severity"), update.get("title"), update.get("description"))
            self.note(": ".join(one_line(text, 1000) for text in said if text))

    def note(self, text: str) -> None:
        """Shows a dim line, and begins a new one if the answer is on the same terminal."""
        if self._output.line_open and self._output.terminal:
            report.write("")
            self._output.line_open = False
        report.write(text, dim=True)

    async def finish(self) -> None:
        """Ends the last line if the agent has not."""
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
        call = update.get("toolCallId")
        if not isinstance(call, str):
            return
        if update.get("title"):
            remember(self._titles, call, one_line(update["title"]))
        self._once(call, self._titles.get(call, one_line(call)), update.get("status"), "tool")

    def _plan(self, entries: object) -> None:
        for at, entry in enumerate(entries if isinstance(entries, list) else []):
            if isinstance(entry, dict) and (content := one_line(entry.get("content"))):
                self._once(f"plan {at} {content}", content, entry.get("status"), "plan")

    def _once(self, key: str, title: str, status: object, what: str) -> None:
        """Shows a line if it is new or has changed: agents repeat the others in each update."""
        line = f"{what}: {title}" + (f" ({one_line(status)})" if status else "")
        if self._shown.get(key) != line and (status or key not in self._shown):
            remember(self._shown, key, line)
            self.note(line)


def remember(texts: dict[str, str], key: str, text: str) -> None:
    """Keeps a text by its key, and forgets the one that changed longest ago."""
    texts.pop(key, None)
    texts[key] = text
    if len(texts) > _MOST:
        del texts[next(iter(texts))]


def text_of(content: object) -> str:
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else ""


def described(content: dict[str, Any]) -> str:
    """A content block other than text, in words."""
    resource = content.get("resource")
    held = resource if isinstance(resource, dict) else content
    details = [held.get(key) for key in ("name", "uri", "mimeType")]
    return " ".join(
        [str(content.get("type") or "something"), *(str(detail) for detail in details if detail)]
    )
