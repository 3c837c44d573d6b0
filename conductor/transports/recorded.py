"""A component's transport whose lines are written down on their way."""

from __future__ import annotations

from typing import Protocol

from conductor.transports.base import Transport, Wrapper


class Recorder(Protocol):
    """Is told what one instance of a component is given and says."""

    def given(self, data: bytes) -> None:
        """Whole lines were written to it."""

    def said(self, frames: list[bytes]) -> None:
        """Lines came from it."""

    def delivered(self, given: bytes, said: bytes, failed: str) -> None:
        """Lines were delivered, and others came of it; `failed`: it ended of them."""


class Recorded(Wrapper):
    """Carries lines as the transport behind it does, and tells a recorder of them.

    One that delivers (it has an `on_delivered`, as that of guests) says itself what came of what.
    """

    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._delivers = hasattr(inner, "on_delivered")
        if self._delivers:
            inner.on_delivered = recorder.delivered  # type: ignore[attr-defined]

    def write(self, data: bytes) -> None:
        """Notes the lines, and passes them on."""
        if not self._delivers:
            self._recorder.given(data)
        super().write(data)

    def received(self, frames: list[bytes]) -> None:
        """Notes the lines, and passes them on."""
        if not self._delivers:
            self._recorder.said(frames)
        super().received(frames)
