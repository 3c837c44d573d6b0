"""What one component may cost, and what it has cost so far.

A component's *allowance* has its limits (the rows of `docs/limits.md` that are kept where messages
pass); its *account* has what it has spent. The places that spend ask the account. There is no clock
here: the caller gives the time.

A message that waits to be delivered has a *cause*. What comes from outside a host of guests is
nobody's cost: a user waits for it. What a guest makes of it counts as caused from outside as well,
for as many deliveries as a message needs to pass the chain. After that, and where a component is
answered what it has asked for again and again, it is a component's own: it is done when nothing
from outside waits, and when there is something on the account of who sent it.
"""

from __future__ import annotations

from typing import Final

import msgspec

BURST: Final = 5.0
"""Seconds' worth of a share or a rate that may be spent at once."""

FAR: Final = 64
"""Deliveries that one message from outside may cause, one after the other, at most …"""

SPARE: Final = 6
"""… and how many more they are than there are guests for it to pass."""

TOGETHER: Final = 50
"""Percent of the processor's time for what all components of a host do of their own."""

FLOOD: Final = 50
"""Seconds' worth of messages by which a component that is overdrawn is ended."""

_LARGE: Final = 10
"""A message counts once more for each KiB (two to the power of this)."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one component where its messages pass (`conductor.spec.limits.TABLE`)."""

    json_values: int = 250_000
    """Values in one line that is judged, traced or audited."""
    waiting_bytes: int = 64 * 1024 * 1024
    """Bytes that it has sent and nobody has taken."""
    open_requests: int = 10_000
    """Its requests that have no answer, on each of its sides."""
    open_bytes: int = 128 * 1024 * 1024
    """Bytes of their params."""
    own_share: int = 20
    """Percent of the processor's time for what nobody else has caused."""
    own_messages: int = 500
    """Messages a second that nobody else has caused; a large one counts for each KiB."""
    service_bytes: int = 64 * 1024
    """Bytes of one request to a service that brings no values along."""


class Bucket:
    """Something that comes back at a rate, so many a second; at most `BURST` seconds' worth."""

    __slots__ = ("_level", "_since", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._level = BURST * rate
        self._since = float("-inf")

    def spend(self, amount: float, now: float) -> None:
        """Takes so much at a time of a clock that never goes back; more than there is, too."""
        self._level = self.level(now) - amount
        self._since = now

    def due(self, now: float) -> float:
        """Seconds until there is some; 0: there is."""
        return max(0.0, -self.level(now) / self.rate)

    def level(self, now: float) -> float:
        """How much there is; below 0: how much is owed."""
        return min(BURST * self.rate, self._level + (now - self._since) * self.rate)


class Account:
    """What one component has spent of its allowance."""

    __slots__ = ("_messages", "_time", "allowance", "caused", "name", "waiting")

    def __init__(self, name: str, allowance: Allowance | None = None) -> None:
        self.name = name
        self.allowance = allowance or Allowance()
        self.waiting = 0
        """Bytes of messages on its account that nobody has taken."""
        self.caused = tuple(Cause(self, left) for left in range(FAR + 1))
        """What it causes, by how many further deliveries are caused from outside with it."""
        self._time = Bucket(self.allowance.own_share / 100)
        self._messages = Bucket(float(self.allowance.own_messages))

    def spend_time(self, seconds: float, now: float) -> None:
        """Processor time went into what is its own."""
        self._time.spend(seconds, now)

    def spend_messages(self, number: int, size: int, now: float) -> None:
        """It has sent messages of its own, so many and so many bytes."""
        self._messages.spend(max(0, number) + max(0, size >> _LARGE), now)

    def due(self, now: float) -> float:
        """Seconds until something of its own may be done again; 0: now."""
        return max(self._time.due(now), self._messages.due(now))

    def begin_anew(self, now: float) -> None:
        """The component is started again: it owes nothing."""
        for bucket in (self._time, self._messages):
            bucket.spend(min(0.0, bucket.level(now)), now)

    def floods(self, now: float) -> bool:
        """Whether it sends so much more than it may that it is to be ended."""
        return self._messages.due(now) > FLOOD

    @property
    def full(self) -> bool:
        """Whether so much of it waits that others come first."""
        return self.waiting > self.allowance.waiting_bytes


class Cause:
    """Why a message is sent: on whose account, and how many further deliveries are caused from
    outside with it; none are: it is the component's own."""

    __slots__ = ("account", "left")

    def __init__(self, account: Account, left: int) -> None:
        self.account = account
        self.left = left

    def answered(self, account: Account) -> Cause:
        """The cause of what answers a component that has asked for it."""
        return account.caused[self.left // 2] if self.left else self

    def passed(self, account: Account, *, more: bool) -> Cause:
        """The cause of what a component returns for a delivery with this cause; `more`: that is
        more than it was given, so it is the component's own if nobody outside has caused it."""
        if self.left:
            return account.caused[self.left - 1]
        return account.caused[0] if more else self
