"""One connection's JSON-RPC bookkeeping: fresh ids, what waits for whom, batch slots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from conductor.core.dialects import INITIALIZE, LAUNCH

if TYPE_CHECKING:
    from conductor.core.effects import Effect
    from conductor.core.peer import Lane
    from conductor.core.tokens import Token


class Batch:
    """The answers of one JSON-RPC array, sent as one array once all are there."""

    __slots__ = ("_answers", "_open")

    def __init__(self, entries: int) -> None:
        self._answers: list[bytes] = []
        self._open = entries

    def add(self, answer: bytes | None) -> bytes | None:
        """Notes one entry's answer (None: it needs none); the whole array when it was the last."""
        if answer is not None:
            self._answers.append(answer.rstrip(b"\n"))
        self._open -= 1
        if self._open or not self._answers:
            return None
        return b"[" + b",".join(self._answers) + b"]\n"


class Pending:
    """One request on its way: who asked under which id, and where it went under which."""

    __slots__ = (
        "batch",
        "cancelled",
        "followers",
        "hook",
        "key",
        "method",
        "origin",
        "past",
        "raw_id",
        "spends",
        "target",
        "target_id",
        "token",
        "watchers",
    )

    def __init__(
        self,
        origin: Lane | None,
        raw_id: bytes,
        key: bytes,
        method: str,
        batch: Batch | None = None,
    ) -> None:
        self.origin = origin
        """Where it came in; None for a request of the conductor's own, and once it is answered or
        the asker is gone."""
        self.raw_id = raw_id
        """The id as the asker wrote it."""
        self.key = key
        """The same in the spelling used for comparing."""
        self.method = method
        self.batch = batch
        self.target: Lane | None = None
        """Where it went out; None while it waits."""
        self.target_id = b""
        self.cancelled = False
        self.watchers: tuple[Callable[[bytes, bytes, list[Effect]], None], ...] = ()
        """Told its answer (member and body), once, whether or not the asker is still there."""
        self.followers: tuple[Pending, ...] = ()
        """Requests that are cancelled with it."""
        self.past: tuple[tuple[Lane, str | None], ...] = ()
        """The components it passed by whose other direction its answer must keep its place in: the
        lane it would have come in by, and its session."""
        self.token: Token | None = None
        """For one given to a policed component: what is remembered of that."""
        self.spends: Token | None = None
        """For one a policed component has forwarded: what it was given as."""
        self.hook: Callable[[Pending, bytes, bytes, list[Effect]], None] | None = None
        """Takes the answer (member and body) instead of the asker, where one is set."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for its answer: who asked, or the conductor, or whoever is answered
        through a component that is gone."""
        if self.origin is not None or self.method in (INITIALIZE, LAUNCH):
            return True
        return self.spends is not None and self.spends.goes_on and not self.spends.settled


class Link:
    """The two tables of one id space, keyed by raw id. A connection has one, or one for each side
    where its dialect keeps the sides apart (`channel/1`).

    `sent`: requests written to the peer that it has not answered. `received`: requests it made
    that have not been answered.
    """

    __slots__ = ("_last", "received", "sent")

    def __init__(self) -> None:
        self._last = 0
        self.sent: dict[bytes, Pending] = {}
        self.received: dict[bytes, Pending] = {}

    def fresh_id(self) -> bytes:
        """An id this link has not used before, as raw JSON."""
        self._last += 1
        return b"%d" % self._last
