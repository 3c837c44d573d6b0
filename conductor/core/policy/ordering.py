"""What a component was given that would leave it by one lane, and what waits for that.

One queue by order of arrival. What the component carries holds up what goes past it, within one
session, until it has passed that on, or has had its round: for a guest one delivery and what it
returned, for a program a deadline. Carried notifications that it has not passed on by then it may
still pass on, changed or not; they hold up nothing any more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from itertools import islice
from typing import Final, Generic, TypeVar

from msgspec import UnsetType

from conductor.core.effects import Effect
from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import Heading, Message, heading, inner_method, size_of
from conductor.core.policy.key_table import AFTER_PROMPTS, PROMPT
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.states import State

_MOST: Final = 32_768
"""Notifications remembered of each kind (carried, shown): a component may swallow as many as it
likes …"""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""… and as much."""

_MOST_SESSIONS: Final = 1024
_MOST_COPIES: Final = 1024
_MOST_COPIED_BYTES: Final = 32 * 1024 * 1024

_HELD: Final = (State.QUEUED, State.GIVEN, State.STOPPED)

Resume = Callable[[list["Effect"]], None]


class Notification:
    """A notification that a component was given to carry, or shown a copy of."""

    __slots__ = (
        "heading",
        "held",
        "method",
        "number",
        "order",
        "params",
        "round",
        "source",
        "stale",
    )

    def __init__(self, message: Message, source: str, number: int, round_: int) -> None:
        self.method, self.params, self.heading = message
        self.source = source
        """Who sent it, by name."""
        self.number = number
        """Of the hop by which it came."""
        self.order = 0
        """Its place among all that came to leave by the same lane."""
        self.round = round_
        """The component's round that delivers it; -1 until it is sent."""
        self.held: Held | None = None
        """What waits until the component has passed this copy on, or had its round."""
        self.stale = False
        """Of a copy: whether the same may be the component's own, once its round is over."""

    @property
    def message(self) -> Message:
        """The message as the component was given it."""
        return Message(self.method, self.params, self.heading)


class Held:
    """A message that goes past a component and waits for what that was given before."""

    __slots__ = ("heading", "order", "ready", "resume", "round")

    def __init__(self, heading: Heading, resume: Resume, round_: int, *, ready: bool) -> None:
        self.heading = heading
        self.order = 0
        self.resume = resume
        self.round = round_
        self.ready = ready
        """False while it waits for the component's round with its copy."""


class Turn:
    """A request of the user's with all that components make of it, also of each other's: how often
    each has asked again, and prompted by itself. Bounded for the whole of it, or a few that work
    together would make thousands of one."""

    __slots__ = ("_spent", "stopped")

    def __init__(self) -> None:
        self._spent: dict[tuple[PolicyState, str], int] = {}
        self.stopped = False
        """Whether the user has cancelled it."""

    def spend(self, policy_state: PolicyState, what: str, most: int) -> bool:
        """Counts what a component does; whether it may do it once more."""
        spent = self._spent.get((policy_state, what), 0)
        self._spent[policy_state, what] = spent + (spent < most)
        return spent < most


class Excuse(Enum):
    """Why an error in a component's place is none that it answers: its host says that it failed."""

    GOES_ON = "goes on"
    """And that the chain goes on."""
    ENDS = "ends"
    """And that the chain ends."""


class Request:
    """A request that a component was given: what tells it from others."""

    __slots__ = ("heading", "method", "params")

    method: str
    params: Params
    heading: Heading

    @property
    def message(self) -> Message:
        """The message as the component was given it."""
        return Message(self.method, self.params, self.heading)


class RequestInOrder(Request):
    """One that the component carries, with its place in the order."""

    __slots__ = ("order", "round", "state")

    state: State
    order: int
    """Its place, or that of its answer, among all that came to leave by the same lane."""
    round: int
    """The component's round that delivers it, or its answer; -1 until it is sent."""


# The full records (`conductor.core.state`) know lanes, and lanes know `Given`. So that no import
# circle arises, this module, which needs neither lanes nor pending requests, is generic.
_Carried = TypeVar("_Carried", bound=RequestInOrder)
_Copied = TypeVar("_Copied", bound=Request)
_Request = TypeVar("_Request", bound=Request)

Entry = Notification | RequestInOrder | Held


class Notifications:
    """Notifications in order of arrival, so many and so much of them at most. Each is found at
    once, however many there are."""

    __slots__ = ("_alike", "_bytes", "_same", "items")

    def __init__(self) -> None:
        # Not `dict`: to look for the first of one takes long when many before it have gone.
        self.items: OrderedDict[Notification, None] = OrderedDict()
        self._alike: dict[Heading, OrderedDict[Notification, None]] = {}
        """Those of a key and session, and of the same tool call."""
        self._same: dict[tuple[str, int], OrderedDict[Notification, None]] = {}
        """Those of a method, and of bytes of one hash."""
        self._bytes = 0

    def add(self, notification: Notification) -> Notification | None:
        """Adds one; the oldest that has to go for it, if any."""
        self.items[notification] = None
        self._alike.setdefault(notification.heading, OrderedDict())[notification] = None
        self._same.setdefault(_print(notification.method, notification.params), OrderedDict())[
            notification
        ] = None
        self._bytes += size_of(notification.params)
        if len(self.items) > _MOST or self._bytes > _MOST_BYTES:
            gone = next(iter(self.items))
            self.remove(gone)
            return gone
        return None

    def remove(self, notification: Notification) -> None:
        """Takes one out."""
        del self.items[notification]
        _without(self._alike, notification.heading, notification)
        _without(self._same, _print(notification.method, notification.params), notification)
        self._bytes -= size_of(notification.params)

    def of(self, heading: Heading) -> list[Notification]:
        """Those of a key and session."""
        return list(self._alike.get(heading, ()))

    def clear(self) -> None:
        """Takes all out."""
        self.items.clear()
        self._alike.clear()
        self._same.clear()
        self._bytes = 0

    def first(self) -> Notification | None:
        """The oldest."""
        return next(iter(self.items), None)

    def same(self, method: str, params: Params) -> Notification | None:
        """The oldest of equal bytes."""
        known = self._same.get(_print(method, params), ())
        return next((notification for notification in known if notification.params == params), None)

    def oldest(self, heading: Heading) -> Notification | None:
        """The oldest of a key and session, and of the same tool call."""
        return next(iter(self._alike.get(heading, ())), None)


_Key = TypeVar("_Key")


def _without(
    known: dict[_Key, OrderedDict[Notification, None]], key: _Key, notification: Notification
) -> None:
    del known[key][notification]
    if not known[key]:
        del known[key]


def _print(method: str, params: Params) -> tuple[str, int]:
    return method, 0 if isinstance(params, UnsetType) else hash(bytes(params))


def _holds_up(entry: Entry, session: str | None) -> bool:
    """Whether an entry of a queue holds up what comes after it in a session; what is of no session
    keeps its order among what goes past, and waits for nothing that is carried."""
    if session is None:
        return type(entry) is Held and entry.heading.session is None
    return entry.heading.session == session


def meant(
    known: Iterable[_Request], method: str, params: Params, *, exactly: bool = False
) -> _Request | None:
    """Which of the requests it was given a program means by one that it sends, where its library
    chooses ids: equal params, else the oldest alike in key, session, address and inner method;
    `exactly`: equal params only."""
    known = [one for one in known if one.method == method]
    same = next((one for one in known if one.params == params), None)
    if same is not None or exactly or not known:
        return same
    key = heading(method, params), inner_method(method, params)
    return next(
        (one for one in known if (one.heading, inner_method(method, one.params)) == key), None
    )


class InFlight(Generic[_Carried, _Copied]):
    """What a component was given that would leave it by one lane."""

    __slots__ = (
        "_came",
        "_copied",
        "_left",
        "copied_notifications",
        "copies",
        "queue",
        "queued",
        "releasing",
        "requests",
        "unforwarded",
        "waiting",
    )

    def __init__(self) -> None:
        self.queue: deque[Entry] = deque()
        """What holds up others, and what waits, in order of arrival."""
        self.waiting: dict[str | None, int] = {}
        """How many messages wait in the queue, by session."""
        self.releasing = False
        """Whether messages that need not wait any more are being sent on just now."""
        self.unforwarded = Notifications()
        """Carried notifications that hold up nothing any more."""
        self.copied_notifications = Notifications()
        """Copies of notifications."""
        self.requests: dict[bytes, _Carried] = {}
        """Requests that the component carries, by the id they were delivered under."""
        self.queued: list[_Carried] = []
        """Those that are not delivered yet."""
        self.copies: dict[bytes, _Copied] = {}
        """Copies of requests, likewise."""
        self._copied = 0
        self._came = 0
        self._left: dict[str, int] = {}
        """The youngest that has left, by session."""

    # -- the order it came in ------------------------------------------------------------------

    def comes(self) -> int:
        """The place of a message that comes now among all that did."""
        self._came += 1
        return self._came

    def in_order(self, session: str | None, order: int) -> bool:
        """Takes note that a message leaves; whether nothing of its session has left that came
        later. What is of no session has no order."""
        if session is None or not order:
            return True
        if order < self._left.get(session, 0):
            return False
        self._left[session] = order
        if len(self._left) > _MOST_SESSIONS:
            del self._left[next(iter(self._left))]
        return True

    # -- what goes past ------------------------------------------------------------------------

    def must_wait(self, heading: Heading) -> bool:
        """Whether a message that goes past must wait for what came before it."""
        session = heading.session
        if heading.key in AFTER_PROMPTS and self.holds_prompt(session):
            return True
        return any(_holds_up(entry, session) for entry in self.queue)

    def holds_prompt(self, session: str | None) -> bool:
        """Whether the component holds a prompt of a session."""
        return any(one.state in _HELD for one in self.prompts(session))

    def prompts(self, session: str | None) -> list[_Carried]:
        """The prompts of a session that the component carries."""
        return [
            one
            for one in (*self.requests.values(), *self.queued)
            if one.heading.key == PROMPT and one.heading.session == session
        ]

    def hold(self, held: Held) -> None:
        """Has a message wait."""
        held.order = self.comes()
        self.queue.append(held)
        self._waits(held, 1)

    def _waits(self, held: Held, one: int) -> None:
        session = held.heading.session
        left = self.waiting.get(session, 0) + one
        if left:
            self.waiting[session] = left
        else:
            del self.waiting[session]

    def go(self, held: Held) -> None:
        """A message waits no longer."""
        if self.queue[0] is held:
            self.queue.popleft()
        else:
            self.queue.remove(held)
        self._waits(held, -1)
        self.in_order(held.heading.session, held.order)

    def stand_in(self, notification: Notification, held: Held) -> None:
        """Has a message wait in the place of a carried notification."""
        held.order = notification.order
        self.queue[self.queue.index(notification)] = held
        self._waits(held, 1)

    def freed(self) -> Held | None:
        """The next message that need not wait any more, taken out."""
        blocked: set[str | None] = set()
        left = len(self.waiting)
        """Sessions with messages that wait, and nothing before them has been met that they wait
        for: where there are none, nothing further on can go."""
        for entry in self.queue:
            if not left:
                return None
            session = entry.heading.session
            if session in blocked:
                continue
            if (
                type(entry) is Held
                and entry.ready
                and not (entry.heading.key in AFTER_PROMPTS and self.holds_prompt(session))
            ):
                self.go(entry)
                return entry
            if _holds_up(entry, session):
                blocked.add(session)
                left -= session in self.waiting
        return None

    # -- what is carried -----------------------------------------------------------------------

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
        """What stands before an entry of the queue, oldest first."""
        return list(islice(self.queue, self.queue.index(entry)))

    def leave(self, entry: Notification | RequestInOrder) -> None:
        """An entry holds up nothing any more."""
        queue = self.queue
        if queue and queue[0] is entry:
            queue.popleft()
        elif entry in queue:
            queue.remove(entry)

    def had_round(self, round_: int) -> list[Notification]:
        """What was delivered before a round began that is over. Messages that waited for the round
        of their copy are ready, requests hold up nothing any more; what becomes of notifications
        is for the caller."""
        notifications: list[Notification] = []
        requests: list[RequestInOrder] = []
        for entry in self.queue:
            if 0 <= entry.round < round_:
                if type(entry) is Held:
                    entry.ready = True
                elif isinstance(entry, Notification):
                    notifications.append(entry)
                elif isinstance(entry, RequestInOrder):  # pragma: no branch
                    requests.append(entry)
        for one in requests:
            self.queue.remove(one)
        return notifications

    def until(self, last: Held | Notification) -> list[Notification]:
        """The same for what stands before a message that has waited long enough, and for that."""
        notifications: list[Notification] = []
        for entry in [*self.before(last), last]:
            if type(entry) is Notification:
                notifications.append(entry)
            elif type(entry) is Held:
                entry.ready = True
            else:
                self.queue.remove(entry)
        return notifications

    def overtakes(self, held: Held) -> bool:
        """Whether a message that waits for what is not given yet may go on now; taken out."""
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
        self._copied = 0

    # -- copies of requests --------------------------------------------------------------------

    def show(self, id_: bytes, copy: _Copied) -> None:
        """Remembers a copy under its id; the oldest are forgotten."""
        self.copies[id_] = copy
        self._copied += size_of(copy.params)
        while len(self.copies) > _MOST_COPIES or self._copied > _MOST_COPIED_BYTES:
            oldest = next(iter(self.copies))
            self._copied -= size_of(self.copies.pop(oldest).params)
