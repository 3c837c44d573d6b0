"""One connection's JSON-RPC bookkeeping: fresh ids, what waits for whom, batch slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING

from conductor.core.dialects import INITIALIZE, LAUNCH

if TYPE_CHECKING:
    from conductor.core.effects import Effect
    from conductor.core.peer import Lane
    from conductor.core.policy.keys import Heading
    from conductor.core.policy.ordering import Carried, Copied, Turn
    from conductor.core.trail import Source, Trail


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
        "answer",
        "batch",
        "cancelled",
        "followers",
        "given",
        "hook",
        "key",
        "method",
        "number",
        "origin",
        "own",
        "passes",
        "past",
        "raw_id",
        "session",
        "size",
        "stopped",
        "target",
        "target_id",
        "trail",
        "turn",
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
        self.past: tuple[tuple[Lane, Heading, Copied | None], ...] = ()
        """The components it went past, outermost first, where its answer must keep its place: the
        lane it came in by, its heading, and the copy that was shown there."""
        self.given: Carried | None = None
        """For one given to a component with a gate: what is remembered of that."""
        self.passes: Carried | None = None
        """For one by which a policed component passes on what it carries: that."""
        self.own = False
        """Whether a policed component has sent it of its own."""
        self.session: str | None = None
        """Of a prompt that an agent has: its session."""
        self.turn: Turn | None = None
        """Of a request that a component passes on or sends of its own: what that is part of."""
        self.number = 0
        """Of the message that it is."""
        self.size = 0
        """Bytes that it keeps, as far as its asker can choose how many."""
        self.answer = 0
        """Of the message that is its answer, as far as there is one; 0: one of the conductor's."""
        self.stopped: Source | None = None
        """Who has cancelled it; None: the conductor, or nobody."""
        self.trail: Trail | None = None
        """What a trace is to say of it; None where there is none, or no more."""
        self.hook: Callable[[Pending, bytes, bytes, list[Effect]], None] | None = None
        """Takes the answer (member and body) instead of the asker, where one is set."""

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for its answer: who asked, or the conductor, or whoever is answered
        through a component that is gone."""
        if self.origin is not None or self.method in (INITIALIZE, LAUNCH):
            return True
        return self.passes is not None and self.passes.pending.wanted


class Link:
    """The two tables of one id space, keyed by raw id. A connection has one, or one for each side
    where its dialect keeps the sides apart (`channel/1`).

    `sent`: requests written to the peer that it has not answered. `received`: requests it made
    that have not been answered.
    """

    __slots__ = ("_ids", "received", "sent", "size")

    def __init__(self, ids: Iterator[int] | None = None) -> None:
        self._ids = count(1) if ids is None else ids
        self.sent: dict[bytes, Pending] = {}
        self.received: dict[bytes, Pending] = {}
        self.size = 0
        """Bytes of those received."""

    def fresh_id(self) -> bytes:
        """An id that is not open here, as raw JSON."""
        while (id_ := b"%d" % next(self._ids)) in self.sent:
            pass
        return id_
