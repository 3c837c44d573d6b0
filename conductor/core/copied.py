"""Copies of requests an observer was given, so that one that comes back is known for what it is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from msgspec import Raw, UnsetType

if TYPE_CHECKING:
    from conductor.core.link import Pending

_MOST: Final = 1024
_MOST_BYTES: Final = 32 * 1024 * 1024
"""Copies that are remembered: an observer may swallow as many, and as large ones, as it likes."""


def size_of(params: Raw | UnsetType) -> int:
    """Bytes that params take."""
    return 0 if isinstance(params, UnsetType) else memoryview(params).nbytes


class Copy:
    """A request an observer was given a copy of."""

    __slots__ = ("answer", "forwarded", "method", "params")

    def __init__(self, method: str, params: Raw | UnsetType) -> None:
        self.method = method
        self.params = params
        """As it was given."""
        self.forwarded: list[Pending] = []
        """The observer's requests that wait for what the original is answered."""
        self.answer: tuple[bytes, bytes] | None = None


class Copied:
    """The copies an observer has not passed on, oldest first; the oldest are forgotten."""

    __slots__ = ("_bytes", "_copies")

    def __init__(self) -> None:
        self._copies: deque[Copy] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._copies)

    def add(self, copy: Copy) -> None:
        """One more has been given."""
        self._copies.append(copy)
        self._bytes += size_of(copy.params)
        while len(self._copies) > _MOST or self._bytes > _MOST_BYTES:
            self._bytes -= size_of(self._copies.popleft().params)

    def take(self, method: str, params: Raw | UnsetType, *, exact: bool) -> Copy | None:
        """The copy that a request is; `exact`: only if it says the same, byte for byte."""
        known = [copy for copy in self._copies if copy.method == method]
        found = next((copy for copy in known if copy.params == params), None)
        if found is None and known and not exact:
            found = known[0]
        if found is not None:
            self._copies.remove(found)
            self._bytes -= size_of(found.params)
        return found
