"""What a component wants to be told again, should it be started again: `keep` and `kept`.

A component that is started again has forgotten everything, and sessions go on. What it must know of
them it has kept here, member by member; `configure` tells it all of them, to a later instance only.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members, write_members

MOST: Final = 256 * 1024
"""Bytes of names and values that are kept of one component; the oldest members go."""

_NULL: Final = b"null"


class Keeping:
    """The members that one component has kept, the one set last at the end."""

    __slots__ = ("_held", "_size")

    def __init__(self, held: Raw | bytes = b"{}") -> None:
        """`held`: what a former instance kept."""
        self._held: dict[str, Raw] = {}
        self._size = 0
        self.take(held)

    def take(self, params: Raw | bytes | UnsetType | None) -> bool:
        """Sets members, or drops those that are null; False if the parameters are no object."""
        found = read_members(params)
        if found is None:
            return False
        for name, value in found.items():
            self._drop(name)
            if bytes(value) != _NULL:
                self._held[name] = Raw(bytes(value))  # not a view of a whole message
                self._size += _size(name, value)
        if self._size > MOST:
            # One walk: to look for the first again and again takes for ever where there are many.
            oldest = iter(list(self._held))
            while self._size > MOST:
                self._drop(next(oldest))
        return True

    def _drop(self, name: str) -> None:
        former = self._held.pop(name, None)
        if former is not None:
            self._size -= _size(name, former)

    def __bool__(self) -> bool:
        return bool(self._held)

    def told(self) -> bytes:
        """All of them, as a JSON object."""
        return bytes(write_members(self._held))


def _size(name: str, value: Raw) -> int:
    return len(name) + len(bytes(value))
