"""Guesses which message passes on which, for files that do not say so.

A trace of ours names the message that a message passes on. A trace of the reference never does, nor
a ring, for components that nobody watched. There a message is taken to pass on a message of the
same method and session that its sender had got: the message with its id, else a message with the
same value, else the oldest. Nothing else in the fold guesses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from conductor.record.turns.line import ENDS, Line, plain
from conductor.record.turns.seen import Asked, Seen

_WAITING: Final = 256
"""The most messages of one method and session that a component got and may still pass on."""
_MOST_KINDS: Final = 10_000
"""The most pairs of a method and a session that are remembered."""

_Kind = tuple[str, str, str, str, str]
"""A component, the direction of messages that it got, their type, method and session."""


class Guesses:
    """Guesses which message passes on which, in one trace."""

    def __init__(self) -> None:
        self._keeps_ids: Mapping[str, bool] | None = None
        self._got: dict[_Kind, deque[Seen]] = {}

    def unwatched(self, keeps_ids: Mapping[str, bool]) -> None:
        """The trace is complete for all components but these. The value of each: whether the
        component passes requests on under the ids that they came with."""
        self._keeps_ids = keeps_ids

    def has_to(self, name: str) -> bool:
        """Whether the fold must guess which messages a component passes on."""
        return name not in ENDS if self._keeps_ids is None else name in self._keeps_ids

    def got(self, seen: Seen, line: Line, direction: str) -> None:
        """A component got a request or a notification."""
        if not self.has_to(line.target):
            return
        kind = _kind(line.target, line, direction)
        if kind in self._got or len(self._got) < _MOST_KINDS:
            self._got.setdefault(kind, deque(maxlen=_WAITING)).append(seen)

    def taken(self, line: Line, direction: str) -> Seen | None:
        """The message that a request or a notification passes on; None: the sender made it."""
        waiting = self._got.get(_kind(line.source, line, direction))
        if not waiting:
            return None
        passes = line.own.passes if line.own is not None else 0
        found = next((one for one in waiting if passes and one.n == passes), None)
        by_id = line.type == "request" and (self._keeps_ids or {}).get(line.source, False)
        if found is None and not by_id:
            print_ = line.fingerprint
            found = next((one for one in waiting if one.fingerprint == print_), waiting[0])
        if found is not None and line.type == "notification":
            while waiting[0] is not found:
                waiting.popleft()  # its receiver has kept the messages before
        if found is not None:
            waiting.remove(found)
        return found

    def answered(self, asked: Asked, direction: str) -> None:
        """A component has answered a request: it does not pass it on any more."""
        kind = asked.target, direction, "request", plain(asked.method), asked.session
        waiting = self._got.get(kind)
        if waiting and asked in waiting:
            waiting.remove(asked)


def _kind(name: str, line: Line, direction: str) -> _Kind:
    return name, direction, line.type, plain(line.method), line.names_session
