"""The component's transport, listened to."""

from __future__ import annotations

import asyncio

from conductor.transports.base import Ended, Transport, Wrapper


class Tap(Wrapper):
    """The component's transport, listened to: every raw line it says, those it is given where a
    check wants to know them, and how it ends."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.lines: list[bytes] = []
        self.given: list[bytes] | None = None
        """None: nobody wants to know them."""
        self.how: Ended | None = None
        self.ended_itself = asyncio.Event()

    def write(self, data: bytes) -> None:
        """Notes the lines, if somebody wants to know them."""
        if self.given is not None:
            self.given += data.split(b"\n")[:-1]
        super().write(data)

    def received(self, frames: list[bytes]) -> None:
        """Notes the lines."""
        self.lines += frames
        super().received(frames)

    def ended(self, how: Ended) -> None:
        """Notes how."""
        self.how = how
        self.ended_itself.set()
        super().ended(how)
