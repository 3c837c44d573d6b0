"""The limits of one component's cost, and its cost so far.

A component's *allowance* has its limits (the rows of docs/configuration.md, "Limits", that are kept
where messages pass); its *account* records what it has spent. There is no clock here: the caller
gives the time.

A message that waits to be delivered has a *cause*. A message from outside a host of guests costs no
component anything: a user waits for it. A message that guests make of it counts as caused from
outside too, for as many deliveries as a message needs to pass the chain. After that, and where a
component gets answers to request after request of its own, a message is the component's own. Such
a message is delivered when nothing from outside waits, and when its sender's account allows it.
"""

from __future__ import annotations

from typing import Final

import msgspec

BURST: Final = 5.0
"""Seconds' worth of a share or a rate that may be spent at once."""

FAR: Final = 64
"""Most deliveries that one message from outside may cause, one after the other."""

SPARE: Final = 6
"""A message from outside may cause so many more deliveries than it has guests to pass."""

TOGETHER: Final = 50
"""Percent of the processor's time for all that the components of a host do of their own."""

FLOOD: Final = 50
"""Seconds' worth of messages: a component that has overdrawn its account by more is ended."""

_LARGE: Final = 10
"""A message counts once more for each KiB (two to the power of this)."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one component where its messages pass (`conductor.spec.limits.TABLE`)."""

    json_values: int = 250_000
    """Values in one line that is judged, traced or audited."""
    waiting_bytes: int = 64 * 1024 * 1024
    """Bytes that it has sent and that wait for their receivers."""
    open_requests: int = 10_000
    """Its requests without an answer, on each of its sides."""
    open_bytes: int = 128 * 1024 * 1024
    """Bytes of the params of these requests."""
    own_share: int = 20
    """Percent of the processor's time for its own work."""
    own_messages: int = 500
    """Messages of its own a second; a large message counts once more for each KiB."""
    own_sessions: int = 32
    """Sessions of its own that are open with one agent."""
    text_bytes: int | None = None
    """The most bytes of a text that it gets as it is; it gets longer texts as references. None: it
    gets all texts as they are."""
    service_bytes: int = 64 * 1024
    """Bytes of one call of a service that brings no values along."""


class Bucket:
    """An amount that refills at `rate` a second, up to `BURST` seconds' worth."""

    __slots__ = ("_level", "_since", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._level = BURST * rate
        self._since = float("-inf")

    def spend(self, amount: float, now: float) -> None:
        """Takes `amount`, even if it is more than there is. `now`: seconds of a monotonic clock."""
        self._level = self.level(now) - amount
        self._since = now

    def due(self, now: float) -> float:
        """Seconds until the level is above 0; 0: it is."""
        return max(0.0, -self.level(now) / self.rate)

    def level(self, now: float) -> float:
        """The amount that is left; below 0: the amount that is owed."""
        return min(BURST * self.rate, self._level + (now - self._since) * self.rate)


class Account:
    """The part of its allowance that one component has spent."""

    __slots__ = ("_messages", "_time", "allowance", "caused", "name", "waiting")

    def __init__(self, name: str, allowance: Allowance | None = None) -> None:
        self.name = name
        self.allowance = allowance or Allowance()
        self.waiting = 0
        """Bytes of messages on its account that wait for their receivers."""
        self.caused = tuple(Cause(self, left) for left in range(FAR + 1))
        """Its causes, by the number of further deliveries that count as caused from outside: made
        once, since each message has its own."""
        self._time = Bucket(self.allowance.own_share / 100)
        self._messages = Bucket(float(self.allowance.own_messages))

    def spend_time(self, seconds: float, now: float) -> None:
        """The component has used processor time of its own."""
        self._time.spend(seconds, now)

    def spend_messages(self, number: int, size: int, now: float) -> None:
        """The component has sent `number` messages of its own, of `size` bytes in all."""
        self._messages.spend(max(0, number) + max(0, size >> _LARGE), now)

    def due(self, now: float) -> float:
        """Seconds until a message of its own may be delivered again; 0: now."""
        return max(self._time.due(now), self._messages.due(now))

    def begin_anew(self, now: float) -> None:
        """The component is started again: it owes nothing."""
        for bucket in (self._time, self._messages):
            bucket.spend(min(0.0, bucket.level(now)), now)

    def floods(self, now: float) -> bool:
        """Whether it sends so much more than it may that the host ends it."""
        return self._messages.due(now) > FLOOD

    @property
    def full(self) -> bool:
        """Whether so many of its bytes wait that other components come first."""
        return self.waiting > self.allowance.waiting_bytes


class Cause:
    """Why a message is sent: the account it is on, and how many further deliveries count as caused
    from outside with it. 0: the message is the component's own."""

    __slots__ = ("account", "left")

    def __init__(self, account: Account, left: int) -> None:
        self.account = account
        self.left = left

    def answered(self, account: Account) -> Cause:
        """The cause of an answer to a component. Half is left, so that a component that asks again
        and again comes to its own account soon."""
        return account.caused[self.left // 2] if self.left else self

    def passed(self, account: Account, *, more: bool) -> Cause:
        """The cause of the messages that a component returns for a delivery with this cause.

        Args:
            more: it returns more than it was given, so the messages are its own unless they were
            caused from outside.
        """
        if self.left:
            return account.caused[self.left - 1]
        return account.caused[0] if more else self
