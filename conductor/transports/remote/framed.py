"""The common part of transports of frames, such as those over a WebSocket or a bus."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from conductor.link import LinkError, Reason

if TYPE_CHECKING:
    from conductor.transports.base import Ended, Owner


class _Link(Protocol):
    """Keeps frames until the other end has them."""

    @property
    def full(self) -> bool: ...

    def send(self, frame: bytes) -> None: ...


class Framed:
    """A transport of frames. It keeps frames that cannot leave yet, and frames that come while it
    is paused.

    Subclasses send frames in `_pass_on`.
    """

    def __init__(self) -> None:
        self._events: Owner | None = None
        self._waiting: deque[bytes] = deque()
        """Frames that have not left, not even to a link."""
        self._waiting_bytes = 0
        self._kept_back: list[bytes] = []
        """Frames that came while paused."""
        self._paused = self._finishing = self._ended = False

    def write(self, data: bytes) -> None:
        """Queues whole lines."""
        if self._ended:
            return
        for frame in data.split(b"\n"):
            if frame:
                self._waiting.append(frame)
                self._waiting_bytes += len(frame)
        self._pass_on()

    def hear(self) -> None:
        """Does nothing: a component elsewhere has no standard error here."""

    def _pass_on(self) -> None:
        """Sends the waiting frames, as far as there is room."""
        raise NotImplementedError

    def _next(self) -> bytes:
        """Takes the first waiting frame out of the queue."""
        frame = self._waiting.popleft()
        self._waiting_bytes -= len(frame)
        return frame

    def _fill(self, link: _Link) -> None:
        """Gives a link the waiting frames, as far as it has room. Raises `LinkError` if the link
        cannot go on; a frame that it cannot take is reported."""
        while self._waiting and not link.full:
            frame = self._next()
            try:
                link.send(frame)
            except LinkError as error:
                if error.reason not in (Reason.FRAME, Reason.TEXT) or self._events is None:
                    raise
                self._events.undeliverable(frame, error.text)

    def _deliver(self, frames: list[bytes]) -> None:
        """Reports frames that have come, once the transport is not paused."""
        if not frames or self._ended or self._events is None:
            return
        if self._paused:
            self._kept_back += frames
        else:
            self._events.received(frames)

    def _go_on(self) -> bool:
        """Reports the frames that came while paused. Returns whether the owner takes more."""
        self._paused = False
        if self._kept_back and self._events is not None:
            frames, self._kept_back = self._kept_back, []
            self._events.received(frames)
        return not self._paused

    def _has_drained(self) -> None:
        """Reports that something has left."""
        if not self._ended and self._events is not None:
            self._events.drained()

    def _report(self, how: Ended) -> None:
        """Reports the end, once."""
        if not self._ended and self._events is not None:
            self._ended = True
            self._events.ended(how)
