"""The order in which the guests of a host are delivered to, and the accounts that pay for it.

No I/O and no clock: the caller passes the time, delivers, and routes the returned lines. A guest's
*round* is all frames that were queued for it when the round began. It is delivered in pieces and
the returned lines are routed in slices, so that others have their turns in between.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from conductor.core import UPSTREAM
from conductor.core.accounts import TOGETHER, Account, Bucket, Cause
from conductor.run.outboxes import HostOutboxes, QueuedFrames, joined, release

PIECE: Final = 256 * 1024
"""Bytes of one delivery, unless one line is longer: a guest needs memory for them."""

SLICE: Final = 256
"""Lines of one guest that are routed before others have their turn."""


class Round(msgspec.Struct, eq=False):
    """One round of a guest: its frames that are left to be delivered, and the returned lines that
    are not routed yet."""

    runs: deque[QueuedFrames]
    cause: Cause
    """The cause of the returned lines."""
    answering: Cause
    """The cause of the conductor's answers to the returned lines."""
    whole: bool
    """Whether it is all that others have sent the guest."""
    lines: list[bytes] = []
    begun: bool = False
    """Whether any frame of it was delivered."""

    @property
    def outside(self) -> bool:
        """Whether anything outside this host has caused any of it."""
        return (bool(self.lines) and self.cause.left > 0) or _outside(self.runs)

    @property
    def payer(self) -> Account:
        """The account of its next turn, if the turn has no cause outside of the host."""
        return self.runs[0].cause.account if self.runs and not self.lines else self.cause.account

    @property
    def over(self) -> bool:
        """Whether nothing is left of it."""
        return not self.lines and not self.runs

    def piece(self) -> tuple[bytes, Cause]:
        """Takes the next piece: frames of one cause, and the cause."""
        self.begun = True
        taken: list[QueuedFrames] = []
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
                self.runs.appendleft(QueuedFrames(run.cause, run.frames[fit:], run.answer))
                run = QueuedFrames(run.cause, run.frames[:fit], run.answer)
            taken.append(run)
        return joined(taken), taken[0].cause

    def slice(self) -> list[bytes]:
        """Takes the lines that are routed at once."""
        lines, self.lines = self.lines, []
        if len(lines) > SLICE:
            self.lines = lines[SLICE:]
            del lines[SLICE:]
        return lines


class Rounds:
    """The rounds of the guests of one host, and their accounts."""

    def __init__(self, outboxes: HostOutboxes, accounts: Mapping[str, Account]) -> None:
        self.accounts = accounts
        self._outboxes = outboxes
        self._open: dict[str, Round] = {}
        self._used: defaultdict[str, float] = defaultdict(float)
        """Seconds that each guest has run. An idle guest counts as having run as long as the guest
        whose turn it was then: it must not save up time."""
        self._least = 0.0
        self._together = Bucket(TOGETHER / 100)
        """The time for all that guests do of their own, together."""

    def next(self, now: float, *, own: bool = True) -> tuple[str | None, float | None]:
        """The peer whose turn it is; if no peer has a turn, the seconds until one has.

        Frames from outside come first, and of several guests the guest that has run least. Frames
        that guests send of their own wait until the accounts of sender and receiver allow them;
        without `own` they are not considered.
        """
        outside: list[str] = []
        later: list[str] = []
        for name, runs in self._outboxes.queues.items():
            if name == UPSTREAM:
                return name, None
            if name not in self._open and not self._blocked(name):
                (outside if _outside(runs) else later).append(name)
        for name, current in self._open.items():
            if not self._blocked(name):
                # A round that waits for its account must not hold up frames from outside behind it.
                late = current.outside or _outside(self._outboxes.queued(name))
                (outside if late else later).append(name)
        if outside:
            return min(outside, key=self._used.__getitem__), None
        if not later or not own:
            return None, None
        together = self._together.due(now)
        dues = {
            name: max(together, self._payer(name).due(now), self.accounts[name].due(now))
            for name in later
        }
        ready = [name for name in later if not dues[name]]
        if ready:
            return min(ready, key=self._used.__getitem__), None
        return None, min(dues.values())

    @property
    def none(self) -> bool:
        """Whether nothing is to be delivered, and nothing was returned that is not routed."""
        return not self._open and not self._outboxes.queues

    def stuck(self) -> str | None:
        """The guest that has sent most, where all guests wait for each other."""
        names = self._outboxes.queues.keys() | self._open.keys()
        waiting = {name: self.accounts[name].waiting for name in names}
        return max(waiting, key=waiting.__getitem__, default=None)

    def begun(self, name: str) -> Round:
        """The open round of a guest, or a new one with its queued frames.

        The conductor's answers have rounds of their own: they must not hold up frames of others.
        """
        current = self._open.get(name)
        if current is None:
            self._used[name] = max(self._used[name], self._least)
            queued, whole = self._outboxes.queued(name), True
            if len(queued) > 1:
                theirs = [run for run in queued if not run.answer]
                answers = not theirs or (_outside(queued) and not _outside(theirs))
                whole = not answers or not theirs
                queued = self._outboxes.take_from(name, answers=answers)
            else:
                queued = self._outboxes.taken(name)
            outside = self._outboxes.outside
            current = self._open[name] = Round(deque(queued), outside, outside, whole)
        self._least = self._used[name]
        return current

    def returned(self, name: str, lines: list[bytes]) -> None:
        """A guest returned lines when it was started: nothing has caused them."""
        cause = self.accounts[name].caused[0]
        self._open[name] = Round(deque(), cause, cause, whole=False, lines=lines)

    def is_in(self, name: str, current: Round) -> bool:
        """Whether this is the open round of a guest."""
        return self._open.get(name) is current

    def end(self, name: str) -> None:
        """Ends a guest's round; frames of it that are not delivered leave their accounts."""
        current = self._open.pop(name, None)
        if current is not None:
            release(current.runs)

    def used(self, name: str, seconds: float) -> None:
        """Counts seconds that a guest has run."""
        self._used[name] += seconds

    def spend(self, name: str, seconds: float, now: float) -> None:
        """Charges seconds of processor time that nothing outside has caused."""
        self.accounts[name].spend_time(seconds, now)
        self._together.spend(seconds, now)

    def _blocked(self, name: str) -> bool:
        """Whether too much that a guest has sent waits for others, so that it gets no more now."""
        account = self.accounts[name]
        if not account.full:
            return False
        current = self._open.get(name)
        runs = [*self._outboxes.queued(name), *(current.runs if current is not None else ())]
        own = sum(run.size for run in runs if run.cause.account is account)
        return bool(account.waiting - own > account.allowance.waiting_bytes)

    def _payer(self, name: str) -> Account:
        """The account of a guest's next turn, if the turn has no cause outside of the host."""
        current = self._open.get(name)
        if current is not None:
            return current.payer
        runs = self._outboxes.queued(name)
        return next((run for run in runs if not run.answer), runs[0]).cause.account


def _outside(runs: Iterable[QueuedFrames]) -> bool:
    """Whether anything outside this host has caused any of them."""
    return any(run.cause.left for run in runs)


def _same(taken: list[QueuedFrames], run: QueuedFrames) -> bool:
    """Whether a run may be delivered with those before it."""
    if not taken:
        return True
    first = taken[0].cause
    return run.cause.left == first.left and (first.left > 0 or run.cause is first)
