"""A component that may need several tries to start: `,retries=N`.

Until a component has said something, its end is not reported: it is started again, or connected to
again, and gets the lines that were written before. To the router it only took longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from conductor.errors import ComponentError
from conductor.transports import backoff
from conductor.transports.base import Ended, Events, Owner, Transport
from conductor.transports.remote import failures


class Retried:
    """A transport that is made anew until its component says something."""

    def __init__(
        self,
        make: Callable[[], Transport],
        most: int,
        note: Callable[[str], None],
        first: Transport | None = None,
        *,
        returns: bool = False,
    ) -> None:
        """
        Args:
            make: Makes a transport for a try; raises `ComponentError` where that is impossible.
            most: How many tries may follow the first.
            note: Takes a sentence about a try that failed.
            first: The transport of the first try, if it is made already.
            returns: The component was there before. An answer that a further try would get again
                ends the tries, and once they have failed, starting it again would not help.
        """
        self._make, self._most, self._note, self._returns = make, most, note, returns
        self._inner = first
        self._events: Owner | None = None
        self._current: _Try | None = None
        self._failed = 0
        self._written: list[bytes] = []
        """All that a further try must be sent; nothing once the component has said something."""
        self._has_spoken = False
        self._is_open = False
        self._paused = self._finished = self._closed = False
        self._again: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process behind it; None: there is none."""
        return getattr(self._inner, "pid", None)

    async def open(self, events: Owner) -> None:
        """Begins the first try. A final failure is reported as the end."""
        self._events = events
        await self._try()

    async def _try(self) -> None:
        self._current = current = _Try(self)
        try:
            inner = self._inner if not self._failed and self._inner is not None else self._make()
            self._inner = inner
            await inner.open(current)
        except ComponentError as error:
            how = Ended(f"failed: {error.text}", hint=error.hint, data=error.data)
            final = getattr(error, "is_final", False)
            self.failed(current, msgspec.structs.replace(how, final=final))
            return
        if self._closed or self._current is not current:
            return
        self._is_open = True
        if self._paused:
            inner.pause()
        for data in self._written:
            inner.write(data)
        if self._finished:
            inner.finish()

    def spoke(self) -> None:
        """The component has said something: it has started."""
        if not self._has_spoken:
            self._has_spoken = True
            self._written.clear()

    def failed(self, current: _Try, how: Ended) -> None:
        """A try has ended."""
        if self._closed or self._current is not current or self._events is None:
            return
        self._is_open = False
        if self._has_spoken or self._finished:
            self._events.ended(msgspec.structs.replace(how, final=False))
            return
        if self._failed >= self._most or (self._returns and _is_final(how)):
            self._events.ended(msgspec.structs.replace(how, final=self._returns))
            return
        self._failed += 1
        self._current = None
        self._note(f"it {how.text}; try {self._failed} of {self._most} more follows")
        self._again = self._events.carry(self._later())

    async def _later(self) -> None:
        await backoff.wait(self._failed)
        if self._inner is not None:
            await self._inner.close(0.0)
        await self._try()

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        if not self._has_spoken:
            self._written.append(data)
        if self._is_open and self._inner is not None:
            self._inner.write(data)

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet."""
        if self._is_open and self._inner is not None:
            return self._inner.buffered
        return sum(map(len, self._written))

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        if self._is_open and self._inner is not None:
            self._inner.pause()

    def resume(self) -> None:
        """Reads on."""
        self._paused = False
        if self._is_open and self._inner is not None:
            self._inner.resume()

    def finish(self) -> None:
        """Says that nothing more will be written."""
        self._finished = True
        if self._is_open and self._inner is not None:
            self._inner.finish()

    def hear(self) -> None:
        """Takes the component's standard error so far."""
        if self._inner is not None:
            self._inner.hear()

    async def close(self, grace: float) -> None:
        """Ends it, and any further try."""
        self._closed = True
        if self._again is not None:
            self._again.cancel()
        if self._inner is not None:
            await self._inner.close(grace)


def _is_final(how: Ended) -> bool:
    """Whether a further try would end in the same way."""
    return how.final or how.data.get("status") in failures.FINAL


class _Try:
    """Takes the reports of the transport of one try."""

    def __init__(self, owner: Retried) -> None:
        self._owner = owner

    def carry(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task of its own."""
        assert self._owner._events is not None
        return self._owner._events.carry(work)

    def _events(self) -> Events | None:
        is_current = self._owner._current is self and not self._owner._closed
        return self._owner._events if is_current else None

    def received(self, frames: list[bytes]) -> None:
        """The component has said something."""
        if (events := self._events()) is not None:
            self._owner.spoke()
            events.received(frames)

    def oversized(self, head: bytes, limit: int) -> None:
        """The component has sent a line that is too long."""
        if (events := self._events()) is not None:
            self._owner.spoke()
            events.oversized(head, limit)

    def undeliverable(self, frame: bytes, why: str) -> None:
        """A line does not reach it."""
        if (events := self._events()) is not None:
            events.undeliverable(frame, why)

    def drained(self) -> None:
        """Some queued lines have left."""
        if (events := self._events()) is not None:
            events.drained()

    def ended(self, how: Ended) -> None:
        """The component has ended."""
        self._owner.failed(self, how)
