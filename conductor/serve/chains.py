"""The chains of a server: each runs as it would for an editor, with a hub in the editor's place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from conductor.errors import ConductorError
from conductor.transports.base import Ended, Events, Transport
from conductor.transports.framing import split

if TYPE_CHECKING:
    from conductor.transports.received import Received

_MUCH: Final = 1024 * 1024
"""Bytes that wait for a chain which takes none: from there on its clients wait too."""


class Hosted(Protocol):
    """A chain whose components have started."""

    async def run(self) -> tuple[str, str]:
        """Runs it to its end: why it failed, and a hint; two empty texts: it did not."""

    def stop(self) -> None:
        """Ends it now."""

    def reload(self) -> None:
        """Reads its configuration again."""


Factory = Callable[[str, str, Transport], Hosted]
"""Starts a chain by its name (empty: that of the command line), for the clients of a principal at a
transport. Raises `ConductorError`."""

Start = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
"""Starts a task of a server."""


class HubTransport:
    """The client's end of a chain: frames come from a hub, and go there."""

    def __init__(
        self,
        received: Callable[[list[bytes]], None],
        waiting: Callable[[], int],
        full: Callable[[bool], None],
        accounts: Received,
        principal: str,
        give_up: Callable[[], None],
    ) -> None:
        """`received` takes the frames of the chain. `waiting`: the bytes of these frames that the
        chain's home has not taken. `full` is called when the chain takes no more, and when it does
        again. Frames that wait for the chain count on the account of its principal; `give_up` is
        called when they have waited too long."""
        self._received = received
        self._waiting = waiting
        self._full = full
        self._events: Events | None = None
        self._held: list[bytes] | None = []
        """The frames that the chain does not take yet; None: the chain takes all."""
        self._holds = accounts.entry(principal, self)
        self._give_up = give_up
        self._is_full = False
        self._over = False
        self._left = False

    async def open(self, events: Events) -> None:
        """The chain takes frames from now on."""
        self._events = events
        self.resume()

    def feed(self, frame: bytes) -> None:
        """A frame for the chain."""
        if self._over:
            return
        if self._held is None:
            assert self._events is not None
            self._events.received([frame])
            return
        self._held.append(frame)
        self._holds.count(len(frame))
        if self._holds.held > _MUCH and not self._is_full:
            self._is_full = True
            self._full(True)

    @property
    def held(self) -> Sequence[bytes]:
        """Frames that the chain has not taken yet."""
        return self._held or ()

    def leave(self) -> None:
        """Nobody needs the chain any more: it drains and ends."""
        self._left = True
        if self._events is not None and self._held is None:
            self._end()

    def _end(self) -> None:
        if not self._over and self._events is not None:
            self._over = True
            self._events.ended(Ended("has left", clean=True))

    def drained(self) -> None:
        """Clients have taken some of the chain's frames."""
        if self._events is not None and not self._over:
            self._events.drained()

    def write(self, data: bytes) -> None:
        """Whole lines for the hub."""
        if data.find(b"\n") == len(data) - 1:
            self._received([data[:-1]])  # nearly all
        else:
            self._received([line for line in split(data) if line])

    @property
    def buffered(self) -> int:
        """Bytes that the home has not taken."""
        return self._waiting()

    def pause(self) -> None:
        """Keeps frames until `resume`."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Hands over the frames that were kept."""
        held, self._held = self._held, None
        self._holds.set(0)
        if self._is_full:
            self._is_full = False
            self._full(False)
        if held and self._events is not None and not self._over:
            self._events.received(held)
        if self._left and self._held is None:
            self._end()

    def finish(self) -> None:
        """Does nothing: a hub hears of the end from the chain's task."""

    def hear(self) -> None:
        """Does nothing: a hub has no standard error."""

    async def close(self, grace: float) -> None:
        """Takes nothing more."""
        self._over = True

    def drop(self) -> None:
        """The chain takes nothing any more; the frames that wait for it are dropped."""
        self._holds.close()
        if self._held is not None:
            self._held = []

    def wait(self) -> None:
        """Does nothing: who sends it something has an entry of its own."""

    def go_on(self) -> None:
        """Does nothing."""

    def go(self) -> None:
        """The frames that wait for the chain have waited too long."""
        self._give_up()
        self.drop()


class Chain:
    """One chain of a server, from its start to its end."""

    def __init__(
        self,
        named: str,
        principal: str,
        factory: Factory,
        transport: HubTransport,
        ended: Callable[[str, str], None],
        start: Start,
    ) -> None:
        """`ended` is called once, with why it ended and a hint. `start` starts its task."""
        self.named = named
        self.transport = transport
        self._principal = principal
        self._factory = factory
        self._ended = ended
        self._hosted: Hosted | None = None
        self.task = start(self._run())

    async def _run(self) -> None:
        try:
            self._hosted = self._factory(self.named, self._principal, self.transport)
            text, hint = await self._hosted.run()
        except ConductorError as error:
            text, hint = error.text, error.hint
        except asyncio.CancelledError:
            self._ended("the server ends it", "connect again later")
            raise
        except Exception:
            # Clients must not wait for ever; the caller that has started the chain reports the
            # defect.
            self._ended("the chain has ended by a defect", "see the log of the server")
            raise
        finally:
            self.transport.drop()
        self._ended(text or "the chain has ended", hint)

    def leave(self) -> None:
        """Nobody needs it any more."""
        self.transport.leave()

    def stop(self) -> None:
        """Ends it now."""
        if self._hosted is not None:
            self._hosted.stop()
        else:
            self.task.cancel()

    def reload(self) -> None:
        """Reads its configuration again."""
        if self._hosted is not None:
            self._hosted.reload()
