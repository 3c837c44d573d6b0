"""One message that handlers work on, and the lanes that keep the order meanwhile.

Messages of one session and direction keep their order: while a handler has not passed its message
on (or answered it), later ones of the same session and direction wait in the lane behind it. An
answer that is being worked on holds its lane in the same way, until the handler has answered or
says something of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from .jsontext import Member
from .messages import Notification, Request
from .tasks import Task

if TYPE_CHECKING:
    from .engine import Engine

Key = tuple[str, str | None]
"""The side a message came from, and its session (None: it belongs to none)."""


class Waiting:
    """What waits in a lane: what to do when its turn comes, and the message if it is one."""

    __slots__ = ("go", "message")

    def __init__(self, go: Callable[[], None], message: Request | Notification | None) -> None:
        self.go = go
        self.message = message


class Lane:
    """Who holds up the messages of one session and direction, and what waits behind."""

    __slots__ = ("holder", "queue")

    def __init__(self) -> None:
        self.holder: Handling | None = None
        self.queue: deque[Waiting] = deque()


class Lanes:
    """All lanes that are held."""

    __slots__ = ("_held", "free")

    def __init__(self) -> None:
        self._held: dict[Key, Lane] = {}
        self.free: deque[Key] = deque()
        """Lanes that were released and not looked at since."""

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, key: Key, holder: Handling) -> None:
        """Lets everything later in this lane wait for `holder`."""
        lane = self._held.get(key)
        if lane is None:
            lane = self._held[key] = Lane()
        lane.holder = holder
        holder.lane = key

    def release(self, holder: Handling) -> None:
        """Lets what waits behind `holder` go on, soon."""
        key, holder.lane = holder.lane, None
        if key is None:
            return
        lane = self._held[key]
        if lane.queue:
            lane.holder = None
            self.free.append(key)
        else:
            del self._held[key]

    def behind(self, key: Key, holder: Handling | None = None) -> deque[Waiting] | None:
        """The queue of a lane that is held or not yet emptied; None: the way is free.

        It is free too for what `holder` itself waits for, if that is who holds it.
        """
        lane = self._held.get(key)
        if lane is None or (holder is not None and lane.holder is holder):
            return None
        return lane.queue

    def held_from(self, side: str) -> deque[Waiting] | None:
        """The queue of any lane from this side that is held."""
        for key, lane in self._held.items():
            if key[0] == side and lane.holder is not None:
                return lane.queue
        return None

    def advance(self) -> None:
        """Lets what waits in the next released lane go on, until that is held again."""
        key = self.free.popleft()
        lane = self._held.get(key)
        if lane is None:
            return
        while lane.queue and lane.holder is None:
            lane.queue.popleft().go()
        if lane.holder is None and not lane.queue:
            del self._held[key]

    def requests(self, key: Key, method: str) -> list[Request]:
        """The requests of this method that wait in a lane."""
        lane = self._held.get(key)
        waiting = [one.message for one in lane.queue] if lane is not None else []
        return [one for one in waiting if isinstance(one, Request) and one.method == method]

    def take(self, side: str, id: str) -> Request | None:  # noqa: A002 - the protocol's name
        """Takes a request that waits out of its lane."""
        for key, lane in self._held.items():
            for waiting in lane.queue if key[0] == side else ():
                if isinstance(waiting.message, Request) and waiting.message.id == id:
                    lane.queue.remove(waiting)
                    return waiting.message
        return None


class Handling:
    """A message in the hands of its handlers.

    `forwarded`: it was passed on, under the id `sent_as` if it is a request. `result`: the line
    of the answer that came back, its result, and a snapshot of that.
    """

    __slots__ = (
        "engine",
        "forwarded",
        "lane",
        "message",
        "own",
        "result",
        "sent_as",
        "side",
        "task",
        "turn_over",
    )

    def __init__(self, engine: Engine, side: str, message: Request | Notification) -> None:
        self.engine = engine
        self.side = side
        self.message = message
        self.lane: Key | None = None
        self.task: Task | None = None
        self.forwarded = False
        self.sent_as: tuple[str, str] | None = None
        self.result: tuple[str, Member, bytes | None] | None = None
        self.own: set[tuple[str, str]] = set()
        """Requests of its own that the handler has sent: side and id."""
        self.turn_over = False
        """Whether the client has cancelled the turn, rather than the request."""

    def speaks(self) -> None:
        """The handler says something of its own: what came behind an answer waits no longer."""
        if self.result is not None and self.lane is not None:
            self.engine.lanes.release(self)
