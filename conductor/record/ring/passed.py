"""What components pass on that nobody watched: found when the ring is read.

Of a component with a policy, or in a chain with a trace, the router knows. All else is trusted, and
to watch it costs every message something. So only here, by the rules of the router: a request goes
on under the id that it came with; of a program whose library chooses ids, and of notifications, it
is the one with equal params, else the oldest of that method and session.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from conductor.core import Entry
from conductor.core.component import Side
from conductor.core.dialects import INITIALIZE, ROLE_METHODS
from conductor.core.roles.initialize import successor_name
from conductor.run.log import session_in

_MOST: Final = 1024
"""Messages of one method and session that a component got and may pass on still."""
_SUCCESSOR: Final = successor_name("")

_Kind = tuple[str, Side, str, str, bytes]
"""A component, the side on which it got messages, and their kind, method and session."""


class Passing:
    """Completes entries, in order."""

    def __init__(self) -> None:
        self._keeps_ids: Mapping[str, bool] = {}
        self._got: defaultdict[_Kind, deque[Entry]] = defaultdict(lambda: deque(maxlen=_MOST))
        self._passes: dict[int, int] = {}
        """Of open requests, which others they pass on."""
        self._answers: dict[int, int] = {}
        """The answers to what passed on requests that are still open."""
        self._held: dict[int, deque[Entry]] = {}
        """Where requests without an answer wait to be passed on."""

    def chain(self, unwatched: Mapping[str, bool]) -> None:
        """Nobody watches these components from now on; whether they pass requests on under the id
        that those came with."""
        self._keeps_ids = unwatched

    def completed(self, entry: Entry) -> Entry:
        """An entry with what its sender passes on by it."""
        if entry.kind == "response":
            return self._response(entry)
        name, side = _end(entry.source, entry.source_side)
        if name in self._keeps_ids and not entry.own:
            across = Side.S if side is Side.P else Side.P
            found = self._taken(entry, self._got[_kind(name, across, entry)], name)
            if found != entry.passes:
                entry = replace(entry, passes=found)
        if entry.kind == "request":
            self._passes[entry.number] = entry.passes
        name, side = _end(entry.target, entry.target_side)
        if name in self._keeps_ids:
            waiting = self._got[_kind(name, side, entry)]
            waiting.append(entry)
            if entry.kind == "request":
                self._held[entry.number] = waiting
        return entry

    def _response(self, entry: Entry) -> Entry:
        waiting = self._held.pop(entry.request, None) or deque()
        held = next((one for one in waiting if one.number == entry.request), None)
        if held is not None:
            waiting.remove(held)  # its component has answered, and not passed it on
        passes = self._passes.pop(entry.request, 0)
        if passes:
            self._answers[passes] = entry.number
        answer = self._answers.pop(entry.request, 0)
        name, _ = _end(entry.source, entry.source_side)
        if answer and name in self._keeps_ids and not (entry.own or entry.past):
            return replace(entry, passes=answer)
        return entry

    def _taken(self, entry: Entry, waiting: deque[Entry], name: str) -> int:
        """The number of the message that an entry passes on, which then waits no more."""
        found = next((one for one in waiting if one.number == entry.passes), None)
        by_id = entry.kind == "request" and self._keeps_ids[name]
        if found is None and not by_id:
            found = next((one for one in waiting if one.payload == entry.payload), None)
            found = found or next(iter(waiting), None)
        if found is None:
            return entry.passes
        if entry.kind == "notification":
            while waiting.popleft() is not found:
                pass  # it has kept those before
        else:
            waiting.remove(found)
        return found.number


def _end(name: str, side: Side) -> tuple[str, Side]:
    """Whose end it is, also of the connection that a proxy has opened to its successor."""
    base = name.removesuffix(_SUCCESSOR)
    return (base, Side.S) if base != name else (name, side)


def _kind(name: str, side: Side, entry: Entry) -> _Kind:
    method = INITIALIZE if entry.method in ROLE_METHODS else entry.method
    return name, side, entry.kind, method, session_in(entry.payload)
