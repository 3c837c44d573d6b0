"""How `conductor exec` answers `session/request_permission`.

Options are chosen by kind, never by position, and never one that decides for longer than this
once: a denial must not become an allowance, nor one allowance many.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from conductor.errors import one_line

MODES: Final = ("deny", "ask", "allow-once")
SYNONYMS: Final = {"none": "deny", "once": "allow-once"}

ALLOW: Final = "allow_once"
REJECT: Final = "reject_once"

CANCELLED: Final[dict[str, Any]] = {"outcome": {"outcome": "cancelled"}}
"""The answer when the turn is cancelled, or no option fits."""

Ask = Callable[[str], Awaitable[str]]
"""Puts a question to the user and returns the line typed, empty when there will be none."""


class Permissions:
    """Answers permission requests in one of `MODES`; what it did is told by `note`."""

    def __init__(self, mode: str, note: Callable[[str], None], ask: Ask) -> None:
        self._mode = mode
        self._note = note
        self._ask = ask
        self._asking = asyncio.Lock()

    async def request(self, params: dict[str, Any]) -> dict[str, Any]:
        """Serves `session/request_permission`."""
        call = params.get("toolCall")
        title, details = _described(call if isinstance(call, dict) else {})
        options = params.get("options")
        allow = option_of(options, ALLOW)
        if allow is not None and await self._allowed(title, details):
            self._note(f"permission given once: {title}")
            return _selected(allow)
        hint = "; --permissions ask or allow-once permits it" if self._mode == "deny" else ""
        self._note(f"permission denied: {title}{hint}")
        reject = option_of(options, REJECT)
        return CANCELLED if reject is None else _selected(reject)

    async def _allowed(self, title: str, details: list[str]) -> bool:
        if self._mode != "ask":
            return self._mode == "allow-once"
        async with self._asking:
            self._note("\n  ".join([f"the agent asks permission: {title}", *details]))
            return (await self._ask("allow it this once? [y/N] ")).strip().lower() in ("y", "yes")


def option_of(options: object, kind: str) -> str | None:
    """The id of the only kind of option wanted, or None if it is not offered."""
    for option in options if isinstance(options, list) else []:
        if isinstance(option, dict) and option.get("kind") == kind:
            found = option.get("optionId")
            if isinstance(found, str):
                return found
    return None


def _selected(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


def _described(call: dict[str, Any]) -> tuple[str, list[str]]:
    """The tool call's title, and what else a person should see before saying yes."""
    title = one_line(call.get("title") or call.get("toolCallId") or "an action")
    shown = [key for key in ("kind", "rawInput") if call.get(key)]
    details = [f"{key}: {one_line(call[key], 500)}" for key in shown]
    places = call.get("locations")
    if isinstance(places, list):
        details += [one_line(place.get("path")) for place in places if isinstance(place, dict)]
    return title, details


async def ask_terminal(question: str) -> str:
    """Asks on the terminal that standard error is, and waits for a line."""
    # Opened anew: the loop makes the descriptor non-blocking, which the shell must not inherit.
    fd = os.open(os.ttyname(2), os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        try:
            data = os.read(fd, 4096)  # a terminal hands out whole lines
        except BlockingIOError:
            return
        except OSError:  # hung up
            data = b""
        if not answered.done():
            answered.set_result(data)

    loop.add_reader(fd, read)
    try:
        os.write(fd, question.encode())
        return (await answered).decode(errors="replace")
    finally:
        loop.remove_reader(fd)
        os.close(fd)
