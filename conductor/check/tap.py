"""The component's transport, listened to."""

from __future__ import annotations

import asyncio

from conductor.transports.base import Ended, Transport, Wrapper


class Tap(Wrapper):
    """The component's transport, listened to: every raw line it says, and how it ends."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.lines: list[bytes] = []
        self.how: Ended | None = None
        self.ended_itself = asyncio.Event()

    def received(self, frames: list[bytes]) -> None:
        """Notes the lines."""
        self.lines += frames
        super().received(frames)

    def ended(self, how: Ended) -> None:
        """Notes how."""
        self.how = how
        self.ended_itself.set()
        super().ended(how)
