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
from conductor.control.protocol import ChainState
from conductor.errors import ConductorError

EVERY: Final = 1.0
"""Seconds between two looks at a chain."""
_SHOWN: Final = 10.0
"""Seconds for which a chain that has ended is still there."""


class Seen(msgspec.Struct, kw_only=True):
    """A chain as it was seen last."""

    pid: int
    at: float
    """When that was, by the monotonic clock."""
    state: ChainState | None = None
    before: Seen | None = None
    """The look before this one."""
    why: str = ""
    """Why there is nothing newer; empty: it answers."""


class Watch:
    """The chains that run, as they are now.

    Args:
        pid: Of the one chain that is watched; None: all.
        wanted: A filter, of what is counted.
        changed: Called from any thread when there is something new.
    """

    def __init__(self, pid: int | None, wanted: str, changed: Callable[[], None]) -> None:
        self._pid = pid
        self._wanted = wanted
        self._changed = changed
        self._lock = threading.Lock()
        self._seen: dict[int, Seen] = {}
        self._followed: set[int] = set()
        self._switch: Control | None = None
        """Asks for the one switch that waits for the end of a turn."""
        self._done: dict[tuple[int, str], tuple[float, bool]] = {}
        """The switches that were made: when, and whether a component was paused."""
        self._over = threading.Event()
        self.news = ""
        """What became of the last switch, in words."""

    def start(self) -> None:
        """Begins to follow them."""
        threading.Thread(target=self._look, daemon=True).start()

    def stop(self) -> None:
        """Ends it: what is asked for and has not happened does not happen."""
        self._over.set()
        self._give_up()

    def seen(self) -> list[Seen]:
        """The chains, the oldest first."""
        with self._lock:
            chains = [*self._seen.values()]
        return sorted(chains, key=lambda one: one.at - (one.state.uptime if one.state else 0.0))

    # -- what there is -------------------------------------------------------------------------

    def _look(self) -> None:
        """Finds chains that have begun, and forgets those that have ended."""
        while not self._over.is_set():
            for pid, path in places.listed():
                if self._pid in (None, pid) and pid not in self._followed:
                    self._followed.add(pid)
                    threading.Thread(target=self._follow, args=(pid, path), daemon=True).start()
            self._over.wait(EVERY)
            with self._lock:
                late = time.monotonic() - _SHOWN
                for pid in [one.pid for one in self._seen.values() if one.at < late and one.why]:
                    del self._seen[pid]
            self._changed()

    def _follow(self, pid: int, path: str) -> None:
        """Asks one chain again and again, until it has ended or does not answer."""
        why = ""
        try:
            with contextlib.closing(Control.connected(path)) as control:
                while not self._over.is_set():
                    began = time.monotonic()
                    self._put(pid, control.figures(self._wanted), began)
                    self._over.wait(EVERY)
        except TimeoutError:
            why = "it does not answer"
        except OSError:
            why = "the chain has ended"
        except ConductorError as error:
            why = error.text
        with self._lock:
            known = self._seen.get(pid)
            if known is not None and not known.why:
                self._seen[pid] = msgspec.structs.replace(known, why=why, at=time.monotonic())
        self._followed.discard(pid)
        self._changed()

    def _put(self, pid: int, state: ChainState, began: float) -> None:
        with self._lock:
            before = self._seen.get(pid)
            for (of, name), (at, paused) in self._done.items():
                if of == pid and at > began:
                    _switch(state, name, paused=paused)
            if before is not None:
                before = msgspec.structs.replace(before, before=None)
            self._seen[pid] = Seen(pid=pid, at=time.monotonic(), state=state, before=before)
        self._changed()

    # -- switches ------------------------------------------------------------------------------

    def switch(self, pid: int, name: str, *, paused: bool) -> None:
        """Has a component paused or resumed, between two turns. While one waits for that, the next
        call gives it up."""
        if not self._give_up():
            args = (pid, name, "pause" if paused else "resume")
            threading.Thread(target=self._switched, args=args, daemon=True).start()

    def _give_up(self) -> bool:
        with self._lock:
            control, self._switch = self._switch, None
        if control is not None:
            control.close()
        return control is not None

    def _switched(self, pid: int, name: str, do: str) -> None:
        def waits(text: str) -> None:
            self._say(f"p gives up `{name}`: the chain waits {text}")

        path = next((path for one, path in places.listed() if one == pid), "")
        try:
            control = Control.connected(path)
        except OSError:
            self._say(f"the chain of process {pid} has ended")
            return
        except ConductorError as error:
            self._say(error.text)
            return
        with self._lock:
            self._switch = control
        try:
            control.ask(do, name, patient=True, waits=waits)
            with self._lock:
                self._done[pid, name] = time.monotonic(), do == "pause"
                seen = self._seen.get(pid)
                if seen is not None and seen.state is not None:
                    _switch(seen.state, name, paused=do == "pause")
            self._say(f"`{name}` is {do}d")
        except ConductorError as error:
            given_up = self._switch is not control
            self._say(f"`{name}` stays as it was" if given_up else error.text)
        finally:
            with self._lock:
                self._switch = None if self._switch is control else self._switch
            control.close()

    def _say(self, text: str) -> None:
        self.news = text
        self._changed()


def _switch(state: ChainState, name: str, *, paused: bool) -> None:
    """Makes a state, which was seen before, that after a switch."""
    for one in state.components:
        if one.name == name and one.paused is not paused:
            one.paused, one.state = paused, "paused" if paused else "up"
