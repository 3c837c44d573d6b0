"""The updates that one turn must have, and the class of each update that comes.

An expectation gets the texts in the order of their arrival. It tells a gap (a text
before this one is missing) from a repetition, so that losing and doubling are told apart.
"""

import enum
from typing import Protocol


class Arrival(enum.Enum):
    """The relation of a text to the texts before it."""

    NEXT = enum.auto()
    GAP = enum.auto()
    AGAIN = enum.auto()
    FOREIGN = enum.auto()


class Expected(Protocol):
    """The updates of one turn."""

    def take(self, text: str) -> Arrival:
        """Notes the text of one update. Returns its relation to the texts before it."""

    @property
    def complete(self) -> bool:
        """Whether everything up to the end has come; gaps were told when they appeared."""


class Text:
    """Any number of chunks that make up one text; each part of it must occur in it once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def take(self, text: str) -> Arrival:
        """As in ``Expected``."""
        if self._text.startswith(text, self._at):
            self._at += len(text)
            return Arrival.NEXT
        later = self._text.find(text, self._at)
        if later >= 0:
            self._at = later + len(text)
            return Arrival.GAP
        return Arrival.AGAIN if text in self._text[: self._at] else Arrival.FOREIGN

    @property
    def complete(self) -> bool:
        """As in ``Expected``."""
        return self._at == len(self._text)


class Numbered:
    """The chunks of the demo agent's ``/stream COUNT SIZE`` (SIZE at least 8 characters)."""

    def __init__(self, count: int, size: int) -> None:
        self._count, self._size = count, size
        self._next = 0

    def take(self, text: str) -> Arrival:
        """As in ``Expected``."""
        digits = text[:8]
        if len(text) != self._size or not digits.isdecimal() or text.strip(".") != digits:
            return Arrival.FOREIGN
        number = int(digits)
        if number >= self._count:
            return Arrival.FOREIGN
        if number < self._next:
            return Arrival.AGAIN
        gap = number > self._next
        self._next = number + 1
        return Arrival.GAP if gap else Arrival.NEXT

    @property
    def complete(self) -> bool:
        """As in ``Expected``."""
        return self._next == self._count


class Anything:
    """Keeps the text, to be looked at when the turn has ended."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def take(self, text: str) -> Arrival:
        """As in ``Expected``."""
        self._parts.append(text)
        return Arrival.NEXT

    @property
    def complete(self) -> bool:
        """Whether something has come."""
        return bool(self._parts)

    @property
    def text(self) -> str:
        """The text that has come so far."""
        return "".join(self._parts)
