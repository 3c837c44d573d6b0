"""Whose turn it is in a host of guests, what it is delivered, and on whose account that is.

No I/O and no clock: the host gives the time, delivers what a turn holds, and routes what came of
it. A guest's *round* is all that was queued for it when the round began. It is delivered in pieces
and what the guest returns is routed in slices, so that others have their turns in between.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Final

from conductor.core import UPSTREAM
from conductor.core.accounts import TOGETHER, Account, Bucket, Cause
from conductor.hub import Hub, Run, joined

PIECE: Final = 256 * 1024
"""Bytes of one delivery, unless one line is longer: a guest needs memory for them."""

SLICE: Final = 256
"""Lines of one guest that are routed before others have their turn."""


class Round:
    """One round of a guest: what is left of it to be delivered, and what the guest has returned
    that is not routed yet."""

    __slots__ = ("begun", "cause", "echo", "lines", "runs", "whole")

    def __init__(self, runs: list[Run], *, whole: bool) -> None:
        self.runs = deque(runs)
        self.whole = whole
        """Whether it is all that others have sent the guest."""
        self.begun = False
        """Whether any of it was delivered."""
        self.lines: list[bytes] = []
        self.cause: Cause
        """Why the guest returned these lines …"""
        self.echo: Cause
        """… and why the conductor answers them."""

    @property
    def outside(self) -> bool:
        """Whether somebody outside has caused any of it."""
        return (bool(self.lines) and self.cause.left > 0) or _outside(self.runs)

    @property
    def payer(self) -> Account:
        """On whose account its next turn is, if nobody outside has caused it."""
        return self.cause.account if self.lines else self.runs[0].cause.account

    @property
    def over(self) -> bool:
        """Whether nothing is left of it."""
        return not self.lines and not self.runs

    def piece(self) -> tuple[bytes, Cause]:
        """Takes what is delivered at once, and why: frames that were caused from outside, or those
        of one account."""
        self.begun = True
        taken: list[Run] = []
        size = 0
        while self.runs and size < PIECE and _same(taken, self.runs[0]):
            run = self.runs.popleft()
            fit = len(run.frames)
            for index, frame in enumerate(run.frames, 1):
                size += len(frame)
                if size >= PIECE:
                    fit = index
                    break
            if fit < len(run.frames):
                self.runs.appendleft(Run(run.cause, run.frames[fit:], echo=run.echo))
                run = Run(run.cause, run.frames[:fit], echo=run.echo)
            taken.append(run)
        return joined(taken), max((run.cause for run in taken), key=lambda cause: cause.left)

    def slice(self) -> list[bytes]:
        """Takes the lines that are routed at once."""
        lines, self.lines = self.lines[:SLICE], self.lines[SLICE:]
        return lines


class Rounds:
    """The rounds of the guests of one host, and their accounts."""

    def __init__(self, hub: Hub, accounts: Mapping[str, Account]) -> None:
        self.accounts = accounts
        self._hub = hub
        self._open: dict[str, Round] = {}
        self._served: Counter[str] = Counter()
        """When each guest had its last turn, by number."""
        self._turns = count(1)
        self._together = Bucket(TOGETHER / 100)
        """The time for what all of them do of their own."""

    def next(self, now: float) -> tuple[str | None, float | None]:
        """The peer whose turn it is; if nobody's, the seconds until it is somebody's.

        What comes from outside is first, and of several guests who has waited longest. What a guest
        does of its own waits until there is something on the account.
        """
        outside: list[str] = []
        own: list[str] = []
        for name, runs in self._hub.waiting():
            if name == UPSTREAM:
                return name, None
            if name not in self._open and not self._blocked(name):
                (outside if _outside(runs) else own).append(name)
        for name, found in self._open.items():
            if not self._blocked(name):
                (outside if found.outside else own).append(name)
        if outside:
            return (outside[0] if len(outside) == 1 else self._longest(outside)), None
        if not own:
            return None, None
        together = self._together.due(now)
        dues = {name: max(together, self._payer(name).due(now)) for name in own}
        ready = [name for name in own if not dues[name]]
        return (self._longest(ready), None) if ready else (None, min(dues.values()))

    def stuck(self) -> str | None:
        """The guest of which most waits, where all wait for each other to take what they sent."""
        names = {name for name, _ in self._hub.waiting()} | self._open.keys()
        waiting = {name: self.accounts[name].waiting for name in names}
        return max(waiting, key=waiting.__getitem__, default=None)

    def begun(self, name: str) -> Round:
        """The round that a guest is in; a new one if it is in none, with what was queued for it.

        What it has caused itself holds up nothing that others send it, and waits for nothing.
        """
        self._served[name] = next(self._turns)
        found = self._open.get(name)
        if found is None:
            queued = self._hub.queued(name)
            theirs = [run for run in queued if not run.echo]
            echo = not theirs or (_outside(queued) and not _outside(theirs))
            runs = self._hub.take_from(name, echo=echo)
            found = self._open[name] = Round(runs, whole=not echo or not theirs)
        return found

    def is_in(self, name: str, found: Round) -> bool:
        """Whether a guest is in a round still."""
        return self._open.get(name) is found

    def end(self, name: str) -> None:
        """A guest's round is over; what is not delivered of it is on nobody's account any more."""
        found = self._open.pop(name, None)
        if found is not None and found.runs:
            joined(list(found.runs))

    def spend(self, account: Account, seconds: float, now: float) -> None:
        """Processor time went into what is a guest's own."""
        account.spend_time(seconds, now)
        self._together.spend(seconds, now)

    def _blocked(self, name: str) -> bool:
        """Whether so much that a guest has sent waits for others that it is given no more."""
        account = self.accounts[name]
        if not account.full:
            return False
        found = self._open.get(name)
        runs = [*self._hub.queued(name), *(found.runs if found is not None else ())]
        own = sum(run.size for run in runs if run.cause.account is account)
        return bool(account.waiting - own > account.allowance.waiting_bytes)

    def _longest(self, names: list[str]) -> str:
        """Whose last turn is the longest ago."""
        return min(names, key=self._served.__getitem__)

    def _payer(self, name: str) -> Account:
        """On whose account the next turn of a guest is, that nobody outside has caused."""
        found = self._open.get(name)
        if found is not None:
            return found.payer
        runs = self._hub.queued(name)
        return next((run for run in runs if not run.echo), runs[0]).cause.account


def _outside(runs: Iterable[Run]) -> bool:
    """Whether somebody outside has caused any of them."""
    return any(run.cause.left for run in runs)


def _same(taken: list[Run], run: Run) -> bool:
    """Whether a run may be delivered with those before it."""
    if not taken:
        return True
    first = taken[0].cause
    return bool(run.cause.left) if first.left else run.cause is first
