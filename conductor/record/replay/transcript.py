"""Writes the lines of a guest in a replay as a transcript, for `conductor test`."""

from __future__ import annotations

from typing import Final

from conductor.errors import UsageError
from conductor.run.host_record import Delivered
from conductor.run.log import Item, OfHost, Sink

_HINT: Final = "replay the trace itself: leave out --output"


class Transcript(Sink[Item]):
    """Keeps the deliveries to the guest of a replay."""

    takes = (OfHost,)

    def __init__(self, name: str) -> None:
        self._name = name
        self._starts = 0
        self._deliveries: list[Delivered] = []

    def take(self, item: Item, at: float, mode: str) -> None:
        """See `Sink`."""
        if isinstance(item, OfHost) and isinstance(item.entry, Delivered):
            if item.entry.given:
                self._deliveries.append(item.entry)
            else:
                self._starts += 1

    def text(self) -> bytes:
        """The transcript, up to a delivery that ended the guest: a transcript cannot say that.
        Raises `UsageError` where the guest was not started once."""
        if self._starts != 1:
            times = f"`{self._name}` was started {self._starts} times in this replay"
            raise UsageError(f"{times}, and a transcript is one conversation", _HINT)
        name = self._name.encode()
        text = [b"# What `%b` gets and returns; written by `conductor log replay`." % name]
        for delivery in self._deliveries:
            if delivery.failed:
                break
            text += [b"> " + line for line in _lines(delivery.given)]
            text += [b"< " + line for line in _lines(delivery.returned)]
            text.append(b"")
        return b"\n".join(text)


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")[:-1]
