"""What a policed component was given and has not passed on yet, and how what it says is matched.

A message delivered to a component mints a token; forwarding spends it. Sending without a token is
originating, answering with the token unspent is answering, and each needs its verb.

Notifications are remembered as their bare params, in order, by method; requests as a `Token` each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.copied import size_of

if TYPE_CHECKING:
    from conductor.core.link import Pending
    from conductor.core.peer import Lane

Params = Raw | UnsetType

HEAVY: Final = 2048
"""Bytes above which a notification's weight is counted."""

_MOST: Final = 32_768
"""Notifications remembered for each method: a component may swallow as many as it likes …"""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""… and as much."""

_SKIPPED: Final = 256
CANDIDATES: Final = 8
"""What a component changed may be one of so many at most."""

_LOOKED_AT: Final = 256
_SMALL: Final = 4096


class _Session(msgspec.Struct):
    sessionId: str | None = None  # noqa: N815 - the wire's name


_session = msgspec.json.Decoder(_Session)
_decode = msgspec.json.Decoder().decode


def session_of(params: Params) -> str | None:
    """The session a message belongs to, or None if it names none."""
    if isinstance(params, UnsetType):
        return None
    try:
        return _session.decode(params).sessionId
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def equal(one: Params | bytes, other: Params | bytes) -> bool:
    """Whether two payloads say the same, however they are spelled."""
    if one == other:
        return True
    if isinstance(one, UnsetType) or isinstance(other, UnsetType):
        return False
    try:
        return bool(_decode(one) == _decode(other))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(one) == bytes(other)


class Told(deque[Params]):
    """Notifications of one method given to a component, oldest first."""

    __slots__ = ("_heavy", "skipped")

    def __init__(self) -> None:
        super().__init__()
        self._heavy = 0
        self.skipped: deque[Params] = deque(maxlen=_SKIPPED)

    def weigh(self, size: int) -> None:
        """Takes note of an addition that is large, or one too many; the oldest are forgotten."""
        if len(self) > _MOST:
            self.popleft()
        self._heavy += size
        if self._heavy > _MOST_BYTES:
            self._heavy = sum(map(size_of, self))
            while self._heavy > _MOST_BYTES // 2:  # so that this is not done each time
                self._heavy -= size_of(self.popleft())

    def take(self, params: Params) -> bool:
        """Spends the token of the same bytes, if there is one.

        What was given before it in its session has been skipped: the component keeps that to
        itself, or passes it on out of order, which is understood for a while.
        """
        for index, given in enumerate(self):
            if given == params:
                self._skip(index, session_of(params))
                return True
        if params in self.skipped:
            self.skipped.remove(params)
            return True
        return False

    def candidates(self, session: str | None) -> Iterator[tuple[int, Params]]:
        """Those of a session that a changed message may have been, with their places."""
        found = ((i, p) for i, p in enumerate(islice(self, _LOOKED_AT)) if session_of(p) == session)
        yield from list(islice(found, CANDIDATES))

    def spend(self, index: int) -> None:
        """Spends the token at this place."""
        self._skip(index, session_of(self[index]))

    def forget(self) -> None:
        """The component has had its say: what it has not passed on by now it keeps."""
        self.clear()
        self.skipped.clear()
        self._heavy = 0

    def _skip(self, index: int, session: str | None) -> None:
        others = []
        for _ in range(index):
            given = self.popleft()
            if session_of(given) != session:
                others.append(given)
            elif size_of(given) <= _SMALL:
                self.skipped.append(given)
        self.popleft()
        self.extendleft(reversed(others))


class Token:
    """One request given to a component, until it is answered or goes on without the component."""

    __slots__ = (
        "_session",
        "apart",
        "forwarded",
        "given_up",
        "lane",
        "late",
        "method",
        "number",
        "ordered",
        "params",
        "pending",
        "place",
        "relay",
        "round",
        "settled",
        "straight",
        "upstream",
    )

    def __init__(
        self, lane: Lane, method: str, params: Params, pending: Pending, number: int
    ) -> None:
        self.lane = lane
        """Where it came into the component; what it sends on leaves by `lane.other`."""
        self.method = method
        self.params = params
        self.pending = pending
        """The request, as it waits for the component's answer."""
        self.number = number
        """Its place in the order of what the component was given and what waits for that."""
        self.relay = False
        """Whether it is shown for its place in the order only (`policy.ACCOMPANIED`)."""
        self.ordered = False
        """Whether its answer goes through the component for its place in the order only."""
        self.straight = False
        """Whether its answer does not go through the component."""
        self.forwarded: Pending | None = None
        """The component's own request that spent the token."""
        self.upstream: tuple[bytes, bytes] | None = None
        """The answer (member, body) that came back for that."""
        self.place = 0
        """The number of that answer in the order, as long as it keeps its place."""
        self.apart = False
        """Whether the component has no say any more in what it forwarded."""
        self.settled = False
        """Whether the request has its answer, or goes its way without the component."""
        self.given_up = False
        """Whether the component has answered it although it was gone already."""
        self.late: tuple[bytes, bytes] | None = None
        """Of a prompt that is cancelled: the answer (member, body) to its being sent on."""
        self.round = -1
        """The gate's round in which it was sent, or its answer; -1 before that."""
        self._session: str | UnsetType | None = msgspec.UNSET

    @property
    def session(self) -> str | None:
        """The session it belongs to."""
        if isinstance(self._session, UnsetType):
            self._session = session_of(self.params)
        return self._session

    @property
    def goes_on(self) -> bool:
        """Whether it will be answered even if the component is gone by then."""
        return self.forwarded is not None and (self.straight or self.apart)
