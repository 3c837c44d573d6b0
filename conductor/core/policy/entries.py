"""Messages that a component was given and has not passed on, and messages that wait for these."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from enum import Enum
from typing import ClassVar, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from conductor.core.jsonrpc import Params
from conductor.core.policy.headings import (
    NO_HEADING,
    Heading,
    Message,
    heading,
    inner_method,
    size_of,
)
from conductor.core.policy.states import ENDS, TABLE, Event, State

_MOST: Final = 32_768
"""The most notifications of each kind (unforwarded, copied) that one lane remembers: a component
may swallow any number of them."""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of their params."""

_Request = TypeVar("_Request", bound="Request")


class Notification(msgspec.Struct, eq=False):
    """A notification that a component was given to carry, or shown a copy of."""

    method: str
    params: Params
    heading: Heading
    source: str
    """The name of its sender."""
    number: int
    """Its number at the hop by which it came."""
    round: int
    """The component's round that delivers it; -1 until it is sent."""
    order: int = 0
    """Its place among all messages that are to leave by the same lane."""
    frame: bytes = b""
    """The frame that the component was given, while the component may return it
    (`Dispatcher.read`)."""
    held: WaitingInOrder | None = None
    """The message that waits until the component has passed this copy on, or had its round."""
    stale: bool = False
    """Of a copy whose round is over: whether an equal message may be the component's own."""

    @property
    def message(self) -> Message:
        """The message as the component was given it."""
        return Message(self.method, self.params, self.heading)


class WaitingInOrder(msgspec.Struct, eq=False, kw_only=True):
    """A message that goes past a component and waits for messages that the component was given
    before."""

    heading: Heading = NO_HEADING
    order: int = 0
    round: int = -1
    frame: ClassVar[bytes] = b""
    """Empty: the component was not given it, and cannot return it."""
    ready: bool = True
    """False while it waits for the component's round with its copy."""


class Excuse(Enum):
    """Why an error is not a component's own answer: its host reports that it failed, or it could
    not take the answer to the request that it passed on."""

    GOES_ON = "goes on"
    """The chain goes on."""
    ENDS = "ends"
    """The chain ends."""


class Request(msgspec.Struct, eq=False, kw_only=True):
    """A request that a component is to have: its marks, its state, and its place in the order."""

    params: Params = UNSET
    heading: Heading = NO_HEADING
    state: State = State.CLOSED
    """Its state; set by `begins`, `moves` and `closes` alone."""
    order: int = 0
    """Its place, or that of its answer, among all messages that are to leave by the same lane."""
    round: int = -1
    """The component's round that delivers it, or its answer; -1 until it is sent."""
    frame: bytes = b""
    """The frame of the request, or of its answer, while the component may return it."""
    method: str

    @property
    def message(self) -> Message:
        """The message as the component was given it."""
        return Message(self.method, self.params, self.heading)

    def begins(self) -> None:
        """A component is to have it."""
        assert self.state is State.CLOSED
        self.state = State.QUEUED

    def moves(self, event: Event) -> None:
        """Takes the step that the table has for an event."""
        self.state = TABLE[self.state, event]

    def closes(self) -> None:
        """The request has its answer, or goes its way without the component."""
        assert self.state in ENDS
        self.state, self.frame = State.CLOSED, b""


Entry = Notification | Request | WaitingInOrder


class Notifications:
    """Notifications in order of arrival, bounded in number and bytes. Looking one up takes the same
    time however many there are."""

    __slots__ = ("_by_bytes", "_by_heading", "_bytes", "items")

    def __init__(self) -> None:
        # Not `dict`: finding the first entry takes long there once many before it were removed.
        self.items: OrderedDict[Notification, None] = OrderedDict()
        self._by_heading: dict[Heading, OrderedDict[Notification, None]] = {}
        """By key, session and tool call."""
        self._by_bytes: dict[tuple[str, int], OrderedDict[Notification, None]] = {}
        """By method, and the hash of the params' bytes."""
        self._bytes = 0

    def add(self, notification: Notification) -> Notification | None:
        """Adds a notification; returns the oldest if it has to make room."""
        self.items[notification] = None
        self._by_heading.setdefault(notification.heading, OrderedDict())[notification] = None
        fingerprint = _fingerprint(notification.method, notification.params)
        self._by_bytes.setdefault(fingerprint, OrderedDict())[notification] = None
        self._bytes += size_of(notification.params)
        if len(self.items) > _MOST or self._bytes > _MOST_BYTES:
            oldest = next(iter(self.items))
            self.remove(oldest)
            return oldest
        return None

    def remove(self, notification: Notification) -> None:
        """Removes a notification."""
        del self.items[notification]
        _without(self._by_heading, notification.heading, notification)
        _without(
            self._by_bytes, _fingerprint(notification.method, notification.params), notification
        )
        self._bytes -= size_of(notification.params)

    def of(self, heading: Heading) -> list[Notification]:
        """The notifications of a key and session, and of the same tool call."""
        return list(self._by_heading.get(heading, ()))

    def clear(self) -> None:
        """Removes all."""
        self.items.clear()
        self._by_heading.clear()
        self._by_bytes.clear()
        self._bytes = 0

    def first(self) -> Notification | None:
        """The oldest notification."""
        return next(iter(self.items), None)

    def same(self, method: str, params: Params) -> Notification | None:
        """The oldest notification of equal bytes."""
        same_hash = self._by_bytes.get(_fingerprint(method, params), ())
        return next((other for other in same_hash if other.params == params), None)

    def oldest(self, heading: Heading) -> Notification | None:
        """The oldest notification of a key and session, and of the same tool call."""
        return next(iter(self._by_heading.get(heading, ())), None)


_Key = TypeVar("_Key")


def _without(
    known: dict[_Key, OrderedDict[Notification, None]], key: _Key, notification: Notification
) -> None:
    del known[key][notification]
    if not known[key]:
        del known[key]


def _fingerprint(method: str, params: Params) -> tuple[str, int]:
    return method, 0 if isinstance(params, UnsetType) else hash(bytes(params))


def meant(
    requests: Collection[_Request], method: str, params: Params, *, exactly: bool = False
) -> _Request | None:
    """The request that a program passes on, where its library chooses the ids.

    It is the one of equal params, else (unless `exactly`) the oldest with the same key, session,
    address and inner method.
    """
    for request in requests:
        if request.method == method and request.params == params:
            return request
    if exactly or not requests:
        return None
    key, inner = heading(method, params), inner_method(method, params)
    for request in requests:
        alike = request.method == method and request.heading == key
        if alike and inner_method(method, request.params) == inner:
            return request
    return None
