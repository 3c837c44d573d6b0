"""The end of a chain: its reason, its waits, and the words for a component's end."""

from __future__ import annotations

import asyncio
import contextlib
import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from conductor.core import UPSTREAM, Closure, json_text
from conductor.core.component import Component, setters
from conductor.core.router import Router
from conductor.transports.base import Ended

_KILLED_HINT: Final = "no guest can end its host: see whether the machine ran out of memory"

_POLL: Final = 0.005
"""Seconds between two checks whether everything is answered."""

_OBSERVER_REPLIES: Final = 0.1
"""The seconds in which an observer sends its messages about the last copy."""

_OBSERVER_STARTS: Final = 5.0
"""Seconds in which an observer starts, or takes a copy, if it ever does."""


class Phase(enum.Enum):
    """The state of a chain between its start and its end."""

    SERVING = "serving"
    DRAINING = "draining"
    """The client closed its end; its open requests may still be answered."""
    FAILED = "failed"
    """The chain cannot go on; its client gets the reason."""
    STOPPED = "stopped"
    """A signal came: nothing is waited for any more."""
    CLOSING = "closing"
    """The connections are being closed."""


NEXT: Final = {
    Phase.SERVING: {Phase.DRAINING, Phase.FAILED, Phase.STOPPED, Phase.CLOSING},
    Phase.DRAINING: {Phase.FAILED, Phase.STOPPED, Phase.CLOSING},
    Phase.FAILED: {Phase.STOPPED, Phase.CLOSING},
    Phase.STOPPED: {Phase.CLOSING},
    Phase.CLOSING: set[Phase](),
}
"""The moves of a chain. Any other changes nothing: the more urgent reason to end stands."""


class Teardown:
    """The phase of one chain, and the steps before its connections are closed."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self.phase = Phase.SERVING
        self.failure: Closure | None = None
        """Why the chain failed: the first reason, whatever the phase was."""
        self._begun = asyncio.Event()
        self._client_acted = asyncio.Event()
        """The client sent a line or closed its end, or nobody waits for the client any more."""
        self._client_gone = False
        self._progress = 0
        self.counts = True
        """Whether `passed` is to be called: until the client has sent a line, and while the chain
        ends."""

    def client_gone(self) -> None:
        """Nothing will come from the client any more."""
        self._client_gone = True
        self._client_acted.set()
        self._move(Phase.DRAINING)

    def fail(self, reason: Closure) -> bool:
        """The chain cannot go on; False if it had failed already."""
        if self.failure is not None:
            return False
        self.failure = reason
        self._move(Phase.FAILED)
        return True

    def stop(self) -> None:
        """A signal came."""
        self._client_acted.set()
        self._move(Phase.STOPPED)

    def close(self) -> None:
        """The connections are being closed."""
        self._move(Phase.CLOSING)

    def _move(self, phase: Phase) -> None:
        if phase in NEXT[self.phase]:
            self.phase = phase
            self.counts = True
            self._begun.set()

    async def begun(self) -> None:
        """Waits until the chain has a reason to end."""
        await self._begun.wait()

    def passed(self, name: str, frames: Iterable[bytes], *, host: bool) -> None:
        """Counts a peer's lines as progress; `host`: whether the peer hosts guests.

        Once the client is gone only requests and notifications of programs count as progress: else
        guests, or a program that only answers them, could prolong the end without working at it.
        """
        if name == UPSTREAM:
            self._client_acted.set()
            self.counts = self.phase is not Phase.SERVING
        if not host and (not self._client_gone or any(map(_is_call, frames))):
            self._progress += 1

    async def first_request(self, seconds: float) -> None:
        """Gives the client time to send the request that is answered with the chain's failure.

        A component that ends at once is often gone before the client has sent anything.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._client_acted.wait()

    async def settled(self, quiet: float, most: float) -> None:
        """Waits until the client's requests are answered or nobody has worked at them for `quiet`
        seconds; at most `most` seconds."""
        await self._quiet(lambda: quiet if self._router.pending() else 0.0, most)

    async def observed(self, most: float, serving: Callable[[], bool]) -> None:
        """Waits until observers have taken their last copies and sent their messages about them,
        and until no service of these is being performed (`serving`); at most `most` seconds."""
        await self._quiet(
            lambda: _OBSERVER_REPLIES if self._router.observed() else _OBSERVER_STARTS,
            most,
            serving,
        )

    async def _quiet(
        self,
        patience: Callable[[], float],
        most: float,
        works: Callable[[], bool] = lambda: False,
    ) -> None:
        """Waits until there was no progress for as long as `patience` returns at each moment. Work
        in progress (`works`) counts as progress."""
        loop = asyncio.get_running_loop()
        seen, since = self._progress_seen(), loop.time()
        end = since + most
        while loop.time() < min(end, since + patience()) and self.phase is not Phase.STOPPED:
            await asyncio.sleep(_POLL)
            # A compiling host works at its waiting input, and its limits end the work.
            if self._progress_seen() != seen or self._router.loading() or works():
                seen, since = self._progress_seen(), loop.time()

    def _progress_seen(self) -> tuple[int, int]:
        return self._progress, self._router.pending()


class _Call(msgspec.Struct):
    method: str | None = None


def _is_call(frame: bytes) -> bool:
    """Whether a line is a request or a notification."""
    try:
        return json_text.decode(frame, type=_Call).method is not None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def closure(
    name: str, label: str, how: Ended, *, host: bool, command: Sequence[str] = ()
) -> Closure:
    """Why the connection of a component ended, in words.

    Args:
        name: The component's name.
        label: The component's name in errors.
        how: How the connection ended.
        host: Whether it hosts guests.
        command: The command that started it, if it is the agent.
    """
    text = f"{label} {how.text}"
    last_words = how.data.get("stderr") or []
    if last_words:
        text += "; its last words: " + " | ".join(last_words[-3:])
    hint = how.hint
    if not hint and "command" in how.data:
        hint = "run its command by itself to see its output"
        from conductor.spec import agents  # an end needs it, and no start

        if known := agents.of_command(command):
            hint = f"`conductor agents {known.id}` tries it by itself, and says how to log in"
        if host:
            killed = str(how.data.get("exitCode")).startswith("-")
            hint = _KILLED_HINT if killed else "please report this"
    return Closure(text, hint, {"component": name, **how.data})


def with_setters(component: Component, reason: Closure, *, starting: bool) -> Closure:
    """Why a component ended, with who set the values that it refuses.

    Args:
        component: The component, or the host of the guest that the reason is about.
        reason: The reason.
        starting: Whether it has yet to take its role; true also for a guest that got no delivery at
            all.
    """
    name = str(reason.data.get("component", component.name))
    set_by = component.set_by.get(name, {})
    starting = starting or reason.data.get("phase", "deliver") != "deliver"
    by = setters(set_by, reason.text, starting=starting)
    return msgspec.structs.replace(reason, text=f"{reason.text}{by}")
