"""A component's transport whose lines are recorded as they pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from conductor.transports.base import Transport, Wrapper


class Recorder(Protocol):
    """Takes down what one instance of a component receives and sends."""

    def given(self, data: bytes) -> None:
        """Whole lines were written to it."""

    def sent(self, frames: list[bytes]) -> None:
        """Lines came from it."""

    def delivered(self, given: bytes, sent: bytes, failed: str, /) -> None:
        """Lines were delivered, and the component returned lines; `failed`: why it ended then."""


@runtime_checkable
class _Delivers(Protocol):
    """A transport that knows which lines its component returned for which delivery."""

    def observe_deliveries(self, observer: Callable[[bytes, bytes, str], None]) -> None:
        """Reports every delivery to `observer`."""


class Recorded(Wrapper):
    """Passes lines on unchanged and reports them to a recorder."""

    def __init__(self, inner: Transport, recorder: Recorder) -> None:
        super().__init__(inner)
        self._recorder = recorder
        self._delivers = isinstance(inner, _Delivers)
        if isinstance(inner, _Delivers):
            inner.observe_deliveries(recorder.delivered)

    def write(self, data: bytes) -> None:
        """Records the lines and passes them on."""
        if not self._delivers:
            self._recorder.given(data)
        super().write(data)

    def received(self, frames: list[bytes]) -> None:
        """Records the lines and passes them on."""
        if not self._delivers:
            self._recorder.sent(frames)
        super().received(frames)
