"""What a trace tells: which message passed between whom, and which other one it passes on.

Every message read has a number (`Exchange.number`); by it a message is known on its whole way, and
what the conductor says of its own has one too. A host of guests is a router of its own: between it
and the conductor above each message comes with its number (`with_number`).

A request stands open at one place at a time. A `Trail` knows where, so that whatever becomes of the
request, it is reported to be answered there, once, before it is open anywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import UNSET, Raw, UnsetType

from conductor.core.effects import Effect, Trace

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.peer import Lane, Peer
    from conductor.core.pending import Pending

CONDUCTOR: Final = ""
"""Stands for the conductor itself in `Trace` effects."""

_MOST_DIGITS: Final = 18
_MOST_LENT: Final = 4096
"""Numbers that are remembered of those a host of guests was told."""


class Source(NamedTuple):
    """Where a notification comes from."""

    lane: Lane
    number: int
    passes: int = 0
    """The number of the notification that is passed on by it; 0: it is its sender's own."""
    own: bool = False
    """Whether the conductor passes it on in its sender's stead."""


class Trail:
    """Of one request, where it stands and what a trace is to say of its answer."""

    __slots__ = ("answers", "lane", "params", "passes", "past", "said", "source")

    def __init__(self, source: Lane | None, params: Raw | UnsetType = UNSET) -> None:
        self.source = source
        """Where it came in; None: it is the conductor's own."""
        self.params = params
        """As it came in."""
        self.passes = 0
        """The number of the request that is passed on by it; 0: it is its sender's own."""
        self.lane: Lane | None = None
        """Where it went out and has no answer yet."""
        self.said: tuple[bytes, bytes] | None = None
        """What was said to it there (member, body), be that its answer or not."""
        self.past = False
        """Whether its answer goes past whom it was asked of."""
        self.answers = 0
        """The number of the answer that is passed on by its own; 0: none is."""


class Traces:
    """Makes the `Trace` effects of one router. Used only where there are to be any."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    # -- requests ------------------------------------------------------------------------------

    def asked(
        self,
        pending: Pending,
        lane: Lane | None,
        method: str,
        params: Raw | bytes | UnsetType,
        out: list[Effect],
    ) -> None:
        """A request is written to `lane`; None: the conductor itself takes it."""
        trail = pending.trail
        assert trail is not None
        if trail.lane is not None:
            self._taken_back(pending, trail, trail.lane, out)
        trail.lane = lane
        out.append(
            Trace(
                kind="request",
                source=_name(trail.source),
                target=_name(lane),
                id=_id(pending, trail),
                method=method,
                payload=_bytes(params),
                source_side=_side(trail.source),
                target_side=_side(lane),
                number=pending.number,
                passes=trail.passes,
            )
        )

    def _taken_back(self, pending: Pending, trail: Trail, lane: Lane, out: list[Effect]) -> None:
        """It is asked of somebody else, or in another way: whatever was said there reached nobody
        else."""
        member, body = trail.said or (b"error", None)
        if body is None:
            pending.answer = 0
        failed = member == b"error"
        self._answer(pending, trail, lane, body, out, is_error=failed, lost=True)
        pending.answer, trail.said = 0, None

    def answered(
        self,
        pending: Pending,
        member: bytes,
        body: Raw | bytes,
        out: list[Effect],
    ) -> None:
        """A request has its answer, or would have it if who asked were still there."""
        trail = pending.trail
        assert trail is not None
        lost = pending.origin is None and trail.source is not None
        if trail.lane is None:
            if lost:
                return  # nobody was asked, and nobody is answered
            self.asked(pending, None, pending.method, trail.params, out)
        pending.trail = None
        failed = member == b"error"
        self._answer(pending, trail, trail.lane, bytes(body), out, is_error=failed, lost=lost)

    def _answer(
        self,
        pending: Pending,
        trail: Trail,
        lane: Lane | None,
        body: bytes | None,
        out: list[Effect],
        *,
        is_error: bool,
        lost: bool,
    ) -> None:
        own = not pending.answer
        if own:
            pending.answer = self._exchange.own_number()
        out.append(
            Trace(
                kind="response",
                source=_name(lane),
                target=_name(trail.source),
                id=_id(pending, trail),
                method=pending.method,
                payload=body,
                is_error=is_error,
                source_side=_side(lane),
                target_side=_side(trail.source),
                number=pending.answer,
                request=pending.number,
                passes=0 if own or trail.past else trail.answers,
                past=trail.past and not own,
                own=own,
                lost=lost,
            )
        )

    # -- notifications -------------------------------------------------------------------------

    def notified(
        self,
        source: Source | None,
        lane: Lane,
        method: str,
        params: Raw | bytes | UnsetType,
        out: list[Effect],
        request: int = 0,
    ) -> int:
        """A notification is written to `lane`; without `source` it is the conductor's own.
        `request`: the number of the request it is about. Its own number."""
        number = source.number if source is not None else self._exchange.own_number()
        out.append(
            Trace(
                kind="notification",
                source=_name(source and source.lane),
                target=_name(lane),
                method=method,
                payload=_bytes(params),
                source_side=_side(source and source.lane),
                target_side=_side(lane),
                number=number,
                request=request,
                passes=source.passes if source is not None else 0,
                own=source is None or source.own,
            )
        )
        return number


# -- numbers on lines ------------------------------------------------------------------------------


def with_number(peer: Peer, number: int, frame: bytes) -> bytes:
    """A frame for a peer that is to know its number: behind a line that says it."""
    peer.lent[number] = None
    if len(peer.lent) > _MOST_LENT:
        del peer.lent[next(iter(peer.lent))]
    return b"#%d\n%b" % (number, frame)


def take_mark(peer: Peer, line: bytes) -> None:
    """Such a line has come in: the next message of the peer has that number. A host of guests may
    say its own, and those it was told: what goes past all of its guests keeps its number."""
    digits = line[1:].strip()
    if digits.isdigit() and len(digits) <= _MOST_DIGITS and peer.numbers is not None:
        number = int(digits)
        if number in peer.numbers or number in peer.lent:
            peer.mark = number


def _id(pending: Pending, trail: Trail) -> str:
    """The id as who asked wrote it."""
    raw = pending.target_id if trail.source is None else pending.raw_id
    return raw.decode(errors="replace")


def _name(lane: Lane | None) -> str:
    return CONDUCTOR if lane is None else lane.peer.name


def _side(lane: Lane | None) -> str:
    return "c" if lane is None else lane.side.value


def _bytes(payload: Raw | bytes | UnsetType) -> bytes | None:
    return None if isinstance(payload, UnsetType) else bytes(payload)
