"""The lanes that keep messages in order while handlers work on them.

Messages of one session and direction keep their order: while a handler has not passed its message
on (or answered it), later ones of the same session and direction wait in the lane behind it. An
answer that is being worked on holds its lane in the same way, until the handler has answered or
says something of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .messages import Notification, Request

if TYPE_CHECKING:
    from .handling import Handling

Key = tuple[str, str | None]
"""The side a message came from, and its session (None: it belongs to none)."""


class Waiting:
    """An entry that waits in a lane: its action once its turn comes, and its message, if any."""

    __slots__ = ("go", "message")

    def __init__(self, go: Callable[[], None], message: Request | Notification | None) -> None:
        self.go = go
        self.message = message


class Lanes:
    """All lanes that are held: by whom, and what waits behind, where something does."""

    __slots__ = ("free", "holders", "queues")

    def __init__(self) -> None:
        self.holders: dict[Key, Handling] = {}
        """Who holds a lane."""
        self.queues: dict[Key, deque[Waiting]] = {}
        """The entries that wait in lanes that are held, or were held until just now."""
        self.free: deque[Key] = deque()
        """Lanes that were released and not looked at since."""

    def hold(self, key: Key, holder: Handling) -> None:
        """Lets everything later in this lane wait for `holder`."""
        self.holders[key] = holder
        holder.lane = key

    def release(self, holder: Handling) -> None:
        """Lets the waiters behind `holder` go on, soon."""
        key, holder.lane = holder.lane, None
        if key is None:
            return
        del self.holders[key]
        if key in self.queues:
            self.free.append(key)

    def behind(self, key: Key, holder: Handling | None = None) -> deque[Waiting] | None:
        """The queue of a lane that is held or not yet emptied; None: the way is free.

        It is free too for what `holder` itself waits for, if that is who holds it. Whoever asks
        for a queue puts something in it.
        """
        held = self.holders.get(key)
        if held is None:
            return self.queues.get(key)
        return None if held is holder else self._queue(key)

    def held_from(self, side: str) -> deque[Waiting] | None:
        """The queue of any lane from this side that is held."""
        for key in self.holders:
            if key[0] == side:
                return self._queue(key)
        return None

    def _queue(self, key: Key) -> deque[Waiting]:
        found = self.queues.get(key)
        if found is None:
            found = self.queues[key] = deque()
        return found

    def advance(self) -> None:
        """Lets the waiters in the next released lane go on, until the lane is held again."""
        key = self.free.popleft()
        queue = self.queues.get(key)
        if queue is None:
            return
        while queue and key not in self.holders:
            queue.popleft().go()
        if not queue:
            self.queues.pop(key, None)

    def requests(self, key: Key, method: str) -> list[Request]:
        """The requests of this method that wait in a lane."""
        waiting = [one.message for one in self.queues.get(key, ())]
        return [one for one in waiting if isinstance(one, Request) and one.method == method]

    def take(self, side: str, id: str) -> Request | None:  # noqa: A002 - the protocol's name
        """Takes a request that waits out of its lane."""
        for key, queue in self.queues.items():
            for waiting in queue if key[0] == side else ():
                if isinstance(waiting.message, Request) and waiting.message.id == id:
                    queue.remove(waiting)
                    return waiting.message
        return None
