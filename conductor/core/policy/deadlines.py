"""What happens if something has not happened by a time: effects, with the clock outside.

`Wake` asks the shell to call `Router.woken` with a token after some seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from conductor.core.effects import Wake
from conductor.core.state import Peer

if TYPE_CHECKING:
    from conductor.core.parts import Parts

Then = Callable[[], None]

ROUND: Final = 1.0
"""Seconds that a program has to pass on what it carries, before what goes past it may overtake."""

LOADING: Final = 600.0
"""Seconds that a host has to load its guests: more than compiling them may take."""


class Deadlines:
    """What is still to be done, by token."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open: dict[int, Then] = {}
        self._last = 0

    def held(self, peer: Peer, seconds: float, then: Then) -> None:
        """Has `then` called once a component has held something for some time. A host that still
        loads its guests has not seen it: the time begins when they are loaded. The host is believed
        for `LOADING` that they are not."""
        if peer.loading:
            if not peer.once_loaded:
                self.after(LOADING, peer.loaded)
            peer.once_loaded.append(partial(self.after, seconds, then))
        else:
            self.after(seconds, then)

    def after(self, seconds: float, then: Then) -> None:
        """Has `then` called after some time; that finds out itself whether it still matters."""
        self._last += 1
        self._open[self._last] = then
        self._parts.exchange.emit(Wake(self._last, seconds))

    def round(self, peer: Peer, then: Then) -> None:
        """Has `then` called when a component that has no rounds, or none now, has had the time of
        a round."""
        if not (peer.policed.rounds and peer.ready):
            self.after(ROUND, then)

    def woken(self, token: int) -> None:
        """The time has come."""
        then = self._open.pop(token, None)
        if then is not None:
            then()
