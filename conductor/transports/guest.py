"""A sandboxed module in this process (`--isolation inline`): the fastest, and the least walled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import wasm_host
from conductor.transports.base import Ended, Events
from conductor.transports.delivery import deliver, explain


class GuestTransport:
    """Carries lines to and from one guest; a delivery happens on the next turn of the loop."""

    def __init__(self, guest: wasm_host.Guest) -> None:
        self._guest = guest
        self._events: Events | None = None
        self.on_delivered: Callable[[bytes, bytes, str], None] | None = None
        """Told, for a trace: what was delivered, what came of it, and how the guest failed."""
        self._lines: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._paused = False
        self._ended = False
        self._finishing = False

    @property
    def carrier(self) -> str:
        """How the module carries the channel: core, component or wasi."""
        return self._guest.carrier

    async def open(self, events: Events) -> None:
        """Starts the guest; what it says at once is reported on the loop's next turn."""
        self._events = events
        try:
            said = self._guest.start(b"")
        except wasm_host.GuestError as error:
            self._fail(error)
            return
        if self.on_delivered is not None:
            self.on_delivered(b"", said, "")
        if said:
            asyncio.get_running_loop().call_soon(self._report, said)
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
        """Delivers nothing until `resume`, so the guest has nothing to say either."""
        self._paused = True

    def resume(self) -> None:
        """Delivers on."""
        self._paused = False
        self._schedule()

    def finish(self) -> None:
        """A guest has no end of file: it is done once everything has been delivered."""
        self._finishing = True
        asyncio.get_running_loop().call_soon(self._end)

    def hear(self) -> None:
        """Nothing: what it wrote to a standard error is told with its end."""

    async def close(self, grace: float) -> None:
        """Frees the instance."""
        del grace
        self._ended = True
        self._guest.close()

    def _schedule(self) -> None:
        if self._lines and not self._scheduled and not self._paused and self._events is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        if self._ended or self._paused or not self._lines or self._events is None:
            return
        data = b"".join(self._lines)
        self._lines.clear()
        self._size = 0
        try:
            said = deliver(self._guest, data, self._events.undeliverable)
        except wasm_host.GuestError as error:
            if self.on_delivered is not None:
                self.on_delivered(data, error.outbox, str(error))
            if error.outbox:
                self._report(error.outbox)
            self._fail(error)
            return
        if self.on_delivered is not None:
            self.on_delivered(data, said, "")
        self._events.drained()
        if said:
            self._report(said)
        if self._guest.dead:
            self._ended = True
            self._events.ended(Ended("has ended by itself"))
        elif self._finishing:
            self._end()

    def _end(self) -> None:
        if not self._lines and not self._ended and self._events is not None:
            self._ended = True
            self._events.ended(Ended("was finished", clean=True))

    def _report(self, said: bytes) -> None:
        if not self._ended and self._events is not None:
            self._events.received(said.removesuffix(b"\n").split(b"\n"))

    def _fail(self, error: wasm_host.GuestError) -> None:
        assert self._events is not None
        if not self._ended:
            self._ended = True
            data: dict[str, object] = {"phase": error.phase, "limit": error.limit}
            if said := self._guest.stderr.strip():
                data["stderr"] = said.splitlines()
            text, hint = explain(self._guest.name, error)
            self._events.ended(Ended(text, hint=hint, data=data))
