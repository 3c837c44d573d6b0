"""What a component was given and has not passed on, and the messages that wait for that."""

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
"""Notifications of each kind (unforwarded, copied) that one lane remembers: a component may swallow
as many as it likes …"""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""… and as much."""

_Request = TypeVar("_Request", bound="Request")


class Notification(msgspec.Struct, eq=False):
    """A notification that a component was given to carry, or shown a copy of."""

    method: str
    params: Params
    heading: Heading
    source: str
    """Who sent it, by name."""
    number: int
    """Of the hop by which it came."""
    round: int
    """The component's round that delivers it; -1 until it is sent."""
    order: int = 0
    """Its place among all that came to leave by the same lane."""
    frame: bytes = b""
    """As the component was given it, while it may return that (`Dispatcher.read`)."""
    held: WaitingInOrder | None = None
    """The message that waits until the component has passed this copy on, or had its round."""
    stale: bool = False
    """Of a copy: whether the same may be the component's own, once its round is over."""

    @property
    def message(self) -> Message:
        """The message as the component was given it."""
        return Message(self.method, self.params, self.heading)


class WaitingInOrder(msgspec.Struct, eq=False, kw_only=True):
    """A message that goes past a component and waits for what the component was given before."""

    heading: Heading = NO_HEADING
    order: int = 0
    round: int = -1
    frame: ClassVar[bytes] = b""
    """It is not the component's to return."""
    ready: bool = True
    """False while it waits for the component's round with its copy."""


class Excuse(Enum):
    """Why an error is not a component's own answer: its host reports that it failed, or it could
    not take the answer to what it passed on."""

    GOES_ON = "goes on"
    """The chain goes on."""
    ENDS = "ends"
    """The chain ends."""


class Request(msgspec.Struct, eq=False, kw_only=True):
    """A request that a component is to have: what tells it from others, its state, and its place in
    the order."""

    params: Params = UNSET
    heading: Heading = NO_HEADING
    state: State = State.CLOSED
    """Where it stands; set by `begins`, `moves` and `closes` alone."""
    order: int = 0
    """Its place, or that of its answer, among all that came to leave by the same lane."""
    round: int = -1
    """The component's round that delivers it, or its answer; -1 until it is sent."""
    frame: bytes = b""
    """As it, or its answer, was given to the component, while it may return that."""
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
        """It goes where the table says; nothing else sets its state."""
        self.state = TABLE[self.state, event]

    def closes(self) -> None:
        """It has its answer, or goes its way without the component, whatever has led to that."""
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
        """Adds a notification; returns the oldest if that has to go for it."""
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
        """Those of a key and session."""
        return list(self._by_heading.get(heading, ()))

    def clear(self) -> None:
        """Removes all."""
        self.items.clear()
        self._by_heading.clear()
        self._by_bytes.clear()
        self._bytes = 0

    def first(self) -> Notification | None:
        """The oldest."""
        return next(iter(self.items), None)

    def same(self, method: str, params: Params) -> Notification | None:
        """The oldest of equal bytes."""
        same_hash = self._by_bytes.get(_fingerprint(method, params), ())
        return next((other for other in same_hash if other.params == params), None)

    def oldest(self, heading: Heading) -> Notification | None:
        """The oldest of a key and session, and of the same tool call."""
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
