"""The order in which messages leave a component by one lane.

There is one queue by order of arrival. A message that the component carries holds up messages of
the same session that go past, until the component has passed it on, or has had its round: for a
guest one delivery and the lines it returned, for a program a deadline. Carried notifications that
it has not passed on by then are unforwarded: it may still pass them on, changed or not, but they
hold up nothing any more.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, Generic, TypeVar

from conductor.core.jsonrpc import Params
from conductor.core.policy.entries import (
    Entry,
    Notification,
    Notifications,
    Request,
    WaitingInOrder,
)
from conductor.core.policy.headings import Heading, size_of
from conductor.core.policy.key_table import AFTER_PROMPTS, PROMPT, SETUP
from conductor.core.policy.states import IN_FRONT

_MOST_SESSIONS: Final = 1024
_MOST_COPIES: Final = 1024
_MOST_COPIED_BYTES: Final = 32 * 1024 * 1024
_MOST_CLOSED: Final = 256


# The full record (`conductor.core.state`) knows lanes, and lanes know `InFlight`. So that no import
# circle arises, this module, which needs neither lanes nor visits, is generic.
_Request = TypeVar("_Request", bound=Request)


def _holds_up(entry: Entry, session: str | None) -> bool:
    """Whether an entry of a queue holds up later messages of a session. Messages of no session keep
    their order among those that go past, and behind carried notifications."""
    if session is None:
        return type(entry) is Notification or (
            isinstance(entry, WaitingInOrder) and entry.heading.session is None
        )
    return entry.heading.session == session


class InFlight(Generic[_Request]):
    """The messages that a component was given and that would leave it by one lane."""

    __slots__ = (
        "_came",
        "_closed",
        "_copied",
        "_left",
        "_prompts",
        "copied_notifications",
        "copies",
        "queue",
        "releasing",
        "requests",
        "set_ups",
        "shown",
        "unforwarded",
        "unpassed",
        "waiting",
    )

    def __init__(self) -> None:
        self.queue: deque[Entry] = deque()
        """Entries that hold up others, and messages that wait, in order of arrival."""
        self.waiting: dict[str | None, int] = {}
        """How many messages wait in the queue, by session."""
        self.releasing = False
        """Whether messages that need not wait any more are being sent on just now."""
        self.unforwarded = Notifications()
        """Carried notifications that hold up nothing any more."""
        self.copied_notifications = Notifications()
        """Copies of notifications."""
        self.requests: dict[bytes, _Request] = {}
        """The requests that the component carries, by the id they were delivered under."""
        self.unpassed: dict[_Request, None] = {}
        """The requests among them that it has, and may be about to pass on, the oldest first."""
        self._closed: deque[tuple[bytes, _Request]] = deque()
        """The closed requests among them, of which only the rest is kept, the oldest first."""
        self._prompts: dict[str | None, dict[_Request, None]] = {}
        """The requests that are prompts and not closed, by session."""
        self.copies: dict[bytes, _Request] = {}
        """Copies of requests, by the id they were delivered under."""
        self.set_ups: dict[_Request, None] = {}
        """The copies that set sessions up, until the component has passed them on or had its round
        with them: prompts that it carries wait until then."""
        self.shown: _Request | None = None
        """The last request whose answer the component was given, to amend or as a copy."""
        self._copied = 0
        self._came = 0
        self._left: dict[str, int] = {}
        """The place of the youngest message that has left, by session."""

    # -- the order of arrival ------------------------------------------------------------------

    def comes(self) -> int:
        """The place of a message that comes now among all that have come."""
        self._came += 1
        return self._came

    def in_order(self, session: str | None, order: int) -> bool:
        """Records that a message leaves; False: a later message of its session has left before.

        Messages of no session have no order.
        """
        if session is None or not order:
            return True
        if order < self._left.get(session, 0):
            return False
        self._left[session] = order
        # A forgotten session only loses a report of `reordered` in an audit.
        if len(self._left) > _MOST_SESSIONS:
            del self._left[next(iter(self._left))]
        return True

    # -- messages that go past -----------------------------------------------------------------

    def must_wait(self, heading: Heading) -> bool:
        """Whether a message that goes past must wait for messages that came before it."""
        session = heading.session
        # For these a held prompt counts even after its round, when it has left the queue: a setting
        # that the user chose after a prompt must not reach the agent before it.
        if heading.key in AFTER_PROMPTS and self.holds_prompt(session):
            return True
        if not self.queue:
            return False
        # Waiting messages are counted: else each message of a flood would walk all before it.
        return session in self.waiting or any(_holds_up(entry, session) for entry in self.queue)

    def holds_prompt(self, session: str | None) -> bool:
        """Whether the component holds a prompt of a session."""
        return any(prompt.state in IN_FRONT for prompt in self._prompts.get(session, ()))

    def prompts(self, session: str | None) -> list[_Request]:
        """The prompts of a session that the component carries."""
        return list(self._prompts.get(session, ()))

    def carry(self, request: _Request) -> None:
        """The component is to carry a request."""
        request.order = self.comes()
        self.queue.append(request)
        if request.heading.key == PROMPT:
            self._prompts.setdefault(request.heading.session, {})[request] = None

    def close(self, request: _Request) -> None:
        """The component does not carry a request any more."""
        self.unpassed.pop(request, None)
        if self.queue:
            self.leave(request)
        if request.heading.key == PROMPT:
            session = request.heading.session
            del self._prompts[session][request]
            if not self._prompts[session]:
                del self._prompts[session]

    def keep(self, id_: bytes, request: _Request, left: _Request) -> None:
        """Keeps the rest of a request that is closed, if this id is its own. Of too many the oldest
        is forgotten."""
        requests, closed = self.requests, self._closed
        if requests.get(id_) is not request:
            return
        requests[id_] = left
        closed.append((id_, left))
        if len(closed) > _MOST_CLOSED:
            id_, left = closed.popleft()
            if requests.get(id_) is left:
                del requests[id_]

    def hold(self, held: WaitingInOrder) -> None:
        """Has a message wait."""
        held.order = self.comes()
        self.queue.append(held)
        self._count(held, 1)

    def _count(self, held: WaitingInOrder, change: int) -> None:
        session = held.heading.session
        left = self.waiting.get(session, 0) + change
        if left:
            self.waiting[session] = left
        else:
            del self.waiting[session]

    def go(self, held: WaitingInOrder) -> None:
        """A message waits no longer."""
        if self.queue[0] is held:
            self.queue.popleft()
        else:
            self.queue.remove(held)
        self._count(held, -1)
        self.in_order(held.heading.session, held.order)

    def stand_in(self, notification: Notification, held: WaitingInOrder) -> None:
        """Has a message wait in the place of a carried notification."""
        # The place of the notification, not the last: later messages must not overtake it.
        held.order = notification.order
        self.queue[self.queue.index(notification)] = held
        self._count(held, 1)

    def freed(self) -> WaitingInOrder | None:
        """The next message that need not wait any more, taken out."""
        blocked: set[str | None] = set()
        # Sessions with messages that wait, less those where the scan has met the entry before them.
        # At zero the scan ends: without this bound each release would walk the whole queue.
        left = len(self.waiting)
        for entry in self.queue:
            if not left:
                return None
            session = entry.heading.session
            if (
                isinstance(entry, WaitingInOrder)
                and entry.ready
                and session not in blocked
                and not (entry.heading.key in AFTER_PROMPTS and self.holds_prompt(session))
            ):
                self.go(entry)
                return entry
            for held_up in (session, None):
                if held_up not in blocked and _holds_up(entry, held_up):
                    blocked.add(held_up)
                    left -= held_up in self.waiting
        return None

    # -- carried messages ----------------------------------------------------------------------

    def same(self, method: str, params: Params) -> Notification | None:
        """The oldest carried notification of equal bytes."""
        unforwarded = self.unforwarded.same(method, params)
        if unforwarded is not None:
            return unforwarded
        for entry in self.queue:
            if type(entry) is Notification and entry.params == params and entry.method == method:
                return entry
        return None

    def oldest(self, heading: Heading) -> Notification | None:
        """The oldest carried notification of a key and session, and of the same tool call."""
        unforwarded = self.unforwarded.oldest(heading)
        if unforwarded is not None:
            return unforwarded
        for entry in self.queue:
            if type(entry) is Notification and entry.heading == heading:
                return entry
        return None

    def before(self, entry: Entry) -> list[Entry]:
        """The entries before an entry of the queue, oldest first."""
        return list(islice(self.queue, self.queue.index(entry)))

    def leave(self, entry: Notification | Request) -> None:
        """An entry holds up nothing any more."""
        queue = self.queue
        if queue and queue[0] is entry:
            queue.popleft()
        elif entry in queue:
            queue.remove(entry)

    def had_round(self, round_: int) -> list[Notification]:
        """The notifications that were delivered before a round began that is over; the caller
        settles them. Messages that waited for the round of their copy are ready, and requests hold
        up nothing any more."""
        notifications: list[Notification] = []
        requests: list[Request] = []
        for copy in [copy for copy in self.set_ups if copy.round < round_]:
            del self.set_ups[copy]
        for entry in self.queue:
            if 0 <= entry.round < round_:
                if isinstance(entry, WaitingInOrder):
                    entry.ready = True
                elif isinstance(entry, Notification):
                    notifications.append(entry)
                elif isinstance(entry, Request):  # pragma: no branch
                    requests.append(entry)
        # Not in the loop above: a deque must not change while it is walked.
        for request in requests:
            self.queue.remove(request)
            request.frame = b""
        return notifications

    def until(self, last: WaitingInOrder | Notification) -> list[Notification]:
        """As `had_round`, for a message that has waited long enough, and the entries before it."""
        notifications: list[Notification] = []
        for entry in [*self.before(last), last]:
            if type(entry) is Notification:
                notifications.append(entry)
            elif isinstance(entry, WaitingInOrder):
                entry.ready = True
            else:
                self.queue.remove(entry)
        return notifications

    def overtakes(self, held: WaitingInOrder) -> bool:
        """Whether a message that waits for entries not given yet may go on now; it is taken out."""
        key, session = held.heading.key, held.heading.session
        if key in AFTER_PROMPTS and self.holds_prompt(session):
            held.ready = True
            return False
        self.go(held)
        return True

    def clear(self) -> None:
        """Forgets all notifications: the component is gone."""
        self.unforwarded.clear()
        self.copied_notifications.clear()
        self.copies.clear()
        self.set_ups.clear()
        self._copied = 0

    # -- copies of requests --------------------------------------------------------------------

    def show(self, id_: bytes, copy: _Request) -> None:
        """Remembers a copy under its id; the oldest are forgotten."""
        self.copies[id_] = copy
        if copy.method in SETUP:
            self.set_ups[copy] = None
        self._copied += size_of(copy.params)
        while len(self.copies) > _MOST_COPIES or self._copied > _MOST_COPIED_BYTES:
            oldest = self.copies.pop(next(iter(self.copies)))
            self._copied -= size_of(oldest.params)
            self.set_ups.pop(oldest, None)
