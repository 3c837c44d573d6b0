"""Follows the chains of this user while they run, a thread each: none waits for another."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from conductor.control import places
from conductor.control.client import Control
from conductor.control.places import Id
from conductor.control.protocol import ChainState
from conductor.errors import ConductorError

EVERY: Final = 1.0
"""Seconds between two looks at a chain."""
_SHOWN: Final = 10.0
"""Seconds for which a chain that has ended is still there."""


class Seen(msgspec.Struct, kw_only=True):
    """A chain as it was seen last."""

    id: Id
    at: float
    """When that was, by the monotonic clock."""
    state: ChainState | None = None
    before: Seen | None = None
    """The look before this look."""
    why: str = ""
    """Why there is nothing newer; empty: it answers."""


class Watch:
    """The chains that run, as they are now.

    Args:
        only: The one chain, or the process, that is watched; None: all.
        wanted: A filter for the counts.
        changed: Called from any thread when there is something new.
    """

    def __init__(self, only: Id | None, wanted: str, changed: Callable[[], None]) -> None:
        self._only = only
        self._wanted = wanted
        self._changed = changed
        self._lock = threading.Lock()
        self._seen: dict[Id, Seen] = {}
        self._followed: set[Id] = set()
        self._switch: Control | None = None
        """Asks for the switch that waits for the end of a turn."""
        self._done: dict[tuple[Id, str], tuple[float, bool]] = {}
        """The switches that were made: when, and whether a component was paused."""
        self._over = threading.Event()
        self.news = ""
        """The result of the last switch, in words."""

    def start(self) -> None:
        """Begins to follow the chains."""
        threading.Thread(target=self._look, daemon=True).start()

    def stop(self) -> None:
        """Ends the watch: open requests are dropped."""
        self._over.set()
        self._give_up()

    def seen(self) -> list[Seen]:
        """The chains, the oldest first."""
        with self._lock:
            chains = [*self._seen.values()]
        return sorted(chains, key=lambda one: one.at - (one.state.uptime if one.state else 0.0))

    # -- looks at chains -----------------------------------------------------------------------

    def _look(self) -> None:
        """Finds chains that have begun, and forgets those that have ended."""
        while not self._over.is_set():
            for id_, path in places.listed():
                meant = self._only is None or id_.is_of(self._only)
                if meant and id_ not in self._followed:
                    self._followed.add(id_)
                    threading.Thread(target=self._follow, args=(id_, path), daemon=True).start()
            self._over.wait(EVERY)
            with self._lock:
                late = time.monotonic() - _SHOWN
                for id_ in [one.id for one in self._seen.values() if one.at < late and one.why]:
                    del self._seen[id_]
            self._changed()

    def _follow(self, id_: Id, path: str) -> None:
        """Asks one chain again and again, until it has ended or does not answer."""
        why = ""
        try:
            with contextlib.closing(Control.connected(path)) as control:
                while not self._over.is_set():
                    began = time.monotonic()
                    self._put(id_, control.figures(self._wanted), began)
                    self._over.wait(EVERY)
        except TimeoutError:
            why = "it does not answer"
        except OSError:
            why = "the chain has ended"
        except ConductorError as error:
            why = error.text
        with self._lock:
            known = self._seen.get(id_)
            if known is not None and not known.why:
                self._seen[id_] = msgspec.structs.replace(known, why=why, at=time.monotonic())
        self._followed.discard(id_)
        self._changed()

    def _put(self, id_: Id, state: ChainState, began: float) -> None:
        with self._lock:
            before = self._seen.get(id_)
            for (of, name), (at, paused) in self._done.items():
                if of == id_ and at > began:
                    _switch(state, name, paused=paused)
            if before is not None:
                before = msgspec.structs.replace(before, before=None)
            self._seen[id_] = Seen(id=id_, at=time.monotonic(), state=state, before=before)
        self._changed()

    # -- switches ------------------------------------------------------------------------------

    def switch(self, id_: Id, name: str, *, paused: bool) -> None:
        """Has a component paused or resumed, between two turns. While a switch waits for that, the
        next call gives the switch up."""
        if not self._give_up():
            args = (id_, name, "pause" if paused else "resume")
            threading.Thread(target=self._switched, args=args, daemon=True).start()

    def _give_up(self) -> bool:
        with self._lock:
            control, self._switch = self._switch, None
        if control is not None:
            control.close()
        return control is not None

    def _switched(self, id_: Id, name: str, do: str) -> None:
        def waits(text: str) -> None:
            self._say(f"p gives up `{name}`: the chain waits {text}")

        path = next((path for one, path in places.listed() if one == id_), "")
        try:
            control = Control.connected(path)
        except TimeoutError:
            self._say(f"the chain of process {id_} does not answer")
            return
        except OSError:
            self._say(f"the chain of process {id_} has ended")
            return
        except ConductorError as error:
            self._say(error.text)
            return
        with self._lock:
            self._switch = control
        why = ""
        try:
            control.ask(do, name, patient=True, waits=waits)
        except ConductorError as error:
            why = error.text
        with self._lock:
            given_up = self._switch is not control
            if not given_up:
                self._switch = None  # before anybody reads of it: the next key is another switch
            seen = self._seen.get(id_)
            if not why:
                self._done[id_, name] = time.monotonic(), do == "pause"
                if seen is not None and seen.state is not None:
                    _switch(seen.state, name, paused=do == "pause")
        control.close()
        if why:
            self._say(f"`{name}` stays as it was" if given_up else why)
        else:
            self._say(f"`{name}` is {do}d")

    def _say(self, text: str) -> None:
        self.news = text
        self._changed()


def _switch(state: ChainState, name: str, *, paused: bool) -> None:
    """Makes a state, which was seen before, that after a switch."""
    for one in state.components:
        if one.name == name and one.paused is not paused:
            one.paused, one.state = paused, "paused" if paused else "up"
