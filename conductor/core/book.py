"""One component in an audit: the notifications it was given and those it said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from msgspec import UnsetType

from conductor.core.effects import Changed, Effect
from conductor.core.flows import Flow, Given, Match, Said
from conductor.core.peer import Lane
from conductor.core.tokens import Params

_MOST_FLOWS: Final = 1024
_MOST_REFUSALS: Final = 16

Place = tuple[Lane, str, str | None]
"""Where a notification leaves a component, its method and its session."""


class Book:
    """Of one component: its notifications, and the errors the conductor has answered it with."""

    __slots__ = ("_flows", "name", "refusals", "round")

    def __init__(self, name: str) -> None:
        self.name = name
        self._flows: dict[Place, Flow] = {}
        self.refusals: deque[bytes] = deque(maxlen=_MOST_REFUSALS)
        self.round = 0
        """The number of the first message it has not been handed, if it is a guest."""

    def given(self, place: Place, given: Given, out: list[Effect]) -> None:
        """It was given a notification, which would leave it at `place`."""
        self._report(place, self._flow(place, out).give(given), out)

    def said(self, place: Place, said: Said, out: list[Effect]) -> None:
        """It said one."""
        self._report(place, self._flow(place, out).say(said), out)

    def delivered(self, out: list[Effect]) -> None:
        """A guest has said all it had to say to what it was handed."""
        for place, flow in self._flows.items():
            self._report(place, flow.settle(self.round), out)

    def passed_on(self, lane: Lane, session: str | None, number: int, out: list[Effect]) -> None:
        """It passes on by `lane` what it was given under a number: it has had its say about what it
        was given before that."""
        for place, flow in self._flows.items():
            if place[0] is lane and place[2] == session:
                self._report(place, flow.settle(number), out)

    def settled(self, out: list[Effect]) -> None:
        """It ends with its chain: what it has not passed on by now it never will."""
        for place, flow in self._flows.items():
            self._report(place, flow.settle(), out)

    def ended(self, out: list[Effect]) -> None:
        """It has ended by itself: what it has not passed on is not its doing."""
        for place, flow in self._flows.items():
            self._report(place, flow.forget_given(), out)
        self._flows.clear()

    def _flow(self, place: Place, out: list[Effect]) -> Flow:
        found = self._flows.get(place)
        if found is None:
            if len(self._flows) == _MOST_FLOWS:
                oldest = next(iter(self._flows))
                self._report(oldest, self._flows.pop(oldest).settle(), out)
            found = self._flows[place] = Flow()
        return found

    def _report(self, place: Place, found: Iterable[Match], out: list[Effect]) -> None:
        lane, method, session = place
        for change, matched, given, said in found:
            out.append(
                Changed(
                    peer=self.name,
                    change=change,
                    kind="notification",
                    direction=lane.direction.value,
                    method=method,
                    session=session,
                    matched=matched,
                    before=None if given is None else shown(given.params),
                    after=None if said is None else shown(said.params),
                    source=None if given is None else given.source,
                    source_id=None,
                    target=None if said is None else said.target,
                    target_id=None,
                )
            )


def shown(params: Params) -> bytes:
    """Params as they are put on record."""
    return b"null" if isinstance(params, UnsetType) else bytes(params)
