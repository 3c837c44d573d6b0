"""The history of live sessions: the updates that a hub keeps for those who attach.

Frames are kept as they are: a client gets the same frames as the clients before it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from conductor.core.policy.key_table import STATE_KIND, SUGGESTIONS_KIND

REPLAYED: Final = "replay_complete"
_PASSING: Final = (STATE_KIND, REPLAYED, SUGGESTIONS_KIND)
"""Kinds that are no part of a history: the state of a turn, the end of a replay, and the agent's
guess of the user's next words."""


class Budget:
    """The bytes of all histories of a hub."""

    def __init__(self, most: int, of_one: int) -> None:
        self.most = most
        self.of_one = of_one
        self.size = 0
        self.histories: dict[History, None] = {}

    def fit(self, history: History) -> None:
        """Shortens a history that is too long, and the longest of all while all are."""
        if history.size > self.of_one:
            history.shorten(self.of_one * 3 // 4)
        while self.size > self.most:
            longest = max(self.histories, key=lambda one: one.size)
            longest.shorten(longest.size * 3 // 4)


class History:
    """The updates of one session.

    Attributes:
        size: its bytes.
        complete: whether the history goes back to the session's beginning.
        state: the agent's last update about the session's state; empty: none has come.
    """

    def __init__(self, budget: Budget, *, complete: bool) -> None:
        self.size = 0
        self.complete = complete
        self.state = b""
        self._frames: deque[bytes] = deque()
        self._budget = budget
        budget.histories[self] = None

    @property
    def frames(self) -> list[bytes]:
        """The updates, the oldest first."""
        return list(self._frames)

    def add(self, kind: str, frame: bytes) -> None:
        """Keeps an update."""
        if kind in _PASSING:
            self.state = frame if kind == STATE_KIND else self.state
            return
        self._frames.append(frame)
        self.size += len(frame)
        self._budget.size += len(frame)
        if self.size > self._budget.of_one or self._budget.size > self._budget.most:
            self._budget.fit(self)

    def shorten(self, most: int) -> None:
        """Drops the oldest updates until the rest has at most `most` bytes."""
        while self._frames and self.size > most:
            dropped = len(self._frames.popleft())
            self.size -= dropped
            self._budget.size -= dropped
            self.complete = False

    def restart(self) -> None:
        """Begins anew, before the agent replays the session."""
        self.shorten(-1)
        self.complete = True

    def close(self) -> None:
        """Ends the history; its bytes no longer count."""
        self.shorten(-1)
        self._budget.histories.pop(self, None)
