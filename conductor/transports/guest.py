"""Delivering lines to guests; and a guest in this process (`-c isolation=inline`) as a transport.

The child that hosts guests uses `deliver` only, so this module must not import the event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import wasm_host
from conductor.errors import visible, without_keys
from conductor.transports.base import Ended, Events

_LAST_WORDS: Final = 10
"""First and last lines of a failed guest's standard error that are shown."""
_WIDTH: Final = 500
"""Characters of such a line that are shown: a control character takes five of them or more."""


def deliver(guest: wasm_host.Guest, data: bytes, on_refused: Callable[[bytes, str], None]) -> bytes:
    """Delivers whole lines and returns the guest's lines.

    A line beyond the guest's limits (too long, too deep) is left out and reported to `on_refused`
    without its newline; the guest gets the other lines one by one.

    Raises:
        wasm_host.GuestError: The guest itself failed.
    """
    try:
        return guest.deliver(data)
    except wasm_host.LimitRefused:
        # The guest has seen nothing yet. Line by line, no other line is lost.
        returned = []
        for line in data.split(b"\n")[:-1]:
            try:
                returned.append(guest.deliver(line + b"\n"))
            except wasm_host.LimitRefused as refused:
                on_refused(line, str(refused))
        return b"".join(returned)


def explain(name: str, error: wasm_host.GuestError) -> tuple[str, str]:
    """The text of a guest's error without the guest's name before it, and the hint."""
    return str(error).removeprefix(f"{name} "), error.hint or ""


def last_words(stderr: str) -> list[str]:
    """A failed guest's standard error; if long, only both ends: there runtimes name the cause."""
    lines = [visible(line)[:_WIDTH] for line in without_keys(stderr.strip().splitlines())]
    if len(lines) > 2 * _LAST_WORDS:
        lines[_LAST_WORDS:-_LAST_WORDS] = ["…"]
    return lines


class GuestTransport:
    """Carries lines to and from one guest; a delivery happens on the next turn of the loop."""

    def __init__(self, guest: wasm_host.Guest) -> None:
        self._guest = guest
        self._events: Events | None = None
        self._lines: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._paused = False
        self._finishing = False
        self._ended = False

    @property
    def carrier(self) -> str:
        """How the module carries the channel: core, component or wasi."""
        return self._guest.carrier

    async def open(self, events: Events) -> None:
        """Starts the guest; reports its first lines on the loop's next turn."""
        self._events = events
        try:
            returned = self._guest.start(b"")
        except wasm_host.GuestError as error:
            self._fail(error)
            return
        if returned:
            self._call_soon(lambda: self._report(returned))
        self._schedule()

    def write(self, data: bytes) -> None:
        """Queues whole lines for the next delivery."""
        self._lines.append(data)
        self._size += len(data)
        self._schedule()

    @property
    def buffered(self) -> int:
        """Bytes not delivered yet."""
        return self._size

    def pause(self) -> None:
        """Delivers nothing until `resume`, so the guest returns nothing either."""
        self._paused = True

    def resume(self) -> None:
        """Delivers on."""
        self._paused = False
        self._schedule()

    def finish(self) -> None:
        """Ends once everything has been delivered: a guest has no end of file."""
        self._finishing = True
        self._call_soon(self._end)

    def hear(self) -> None:
        """Does nothing: the guest's standard error is reported with its end."""

    async def close(self, grace: float) -> None:
        """Frees the instance."""
        del grace
        self._ended = True
        self._guest.close()

    def _schedule(self) -> None:
        if self._lines and not self._scheduled and not self._paused and self._events is not None:
            self._scheduled = True
            self._call_soon(self._deliver)

    @staticmethod
    def _call_soon(callback: Callable[[], None]) -> None:
        import asyncio  # see the top of this module

        asyncio.get_running_loop().call_soon(callback)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._ended or self._paused or not self._lines or self._events is None:
            return
        data = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        try:
            returned = deliver(self._guest, data, self._events.undeliverable)
        except wasm_host.GuestError as error:
            self._report(error.outbox)
            self._fail(error)
            return
        self._events.drained()
        self._report(returned)
        if self._guest.dead:
            self._ended = True
            self._events.ended(Ended("has ended by itself"))
        elif self._finishing:
            self._end()

    def _end(self) -> None:
        if not self._lines and not self._ended and self._events is not None:
            self._ended = True
            self._events.ended(Ended("was finished", clean=True))

    def _report(self, returned: bytes) -> None:
        if returned and not self._ended and self._events is not None:
            self._events.received(returned.removesuffix(b"\n").split(b"\n"))

    def _fail(self, error: wasm_host.GuestError) -> None:
        assert self._events is not None
        if not self._ended:
            self._ended = True
            data: dict[str, object] = {"phase": error.phase, "limit": error.limit}
            if words := last_words(self._guest.stderr):
                data["stderr"] = words
            text, hint = explain(self._guest.name, error)
            self._events.ended(Ended(text, hint=hint, data=data))
