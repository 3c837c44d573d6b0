"""What a trace records: which message passed between whom, and which other message it passes on.

Every message read has a number (`Exchange.number`), by which it is known on its whole way; messages
of the conductor's own have one too. A host of guests has a router of its own: where there is a
trace, a line with the number goes before each message between the two, so that both use the same
numbers.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, ParamSpec

from msgspec import Raw, UnsetType

from conductor.core.effects import Trace
from conductor.core.state import Lane, Peer, Source, TracedRequest, Visit

if TYPE_CHECKING:
    from conductor.core.parts import Parts

_Params = ParamSpec("_Params")

_CONDUCTOR: Final = ""
"""The name of the conductor itself in `Trace` effects."""
_MOST_DIGITS: Final = 18
_MOST_ANNOUNCED: Final = 4096
"""Numbers that are remembered of those announced to a host of guests."""


class TraceEffects:
    """Makes the `Trace` effects of one router. Used only while tracing is on."""

    def __init__(self, parts: Parts, numbers: Iterator[int]) -> None:
        """`numbers`: of the messages that nobody else numbers."""
        self._parts = parts
        self._numbers = numbers

    # -- requests ------------------------------------------------------------------------------

    def sent(
        self,
        pending: Visit,
        lane: Lane | None,
        method: str,
        params: Raw | bytes | UnsetType,
    ) -> None:
        """A request is written to `lane`; None: the conductor itself takes it."""
        traced = pending.traced
        assert traced is not None
        if traced.lane is not None:
            self._taken_back(pending, traced, traced.lane)
        traced.lane = lane
        self._parts.exchange.emit(
            Trace(
                kind="request",
                source=_name(traced.source),
                target=_name(lane),
                id=_id(pending, traced),
                method=method,
                payload=_payload(params),
                source_side=_side(traced.source),
                target_side=_side(lane),
                number=pending.number,
                passes=traced.passes,
            )
        )

    def _taken_back(self, pending: Visit, traced: TracedRequest, lane: Lane) -> None:
        """The request goes to another peer, or to the same in another form: the response, if any,
        is lost."""
        member, body = traced.response or (b"error", None)
        if body is None:
            pending.answer_number = 0
        failed = member == b"error"
        self._response(pending, traced, lane, body, is_error=failed, lost=True)
        pending.answer_number, traced.response = 0, None

    def answered(self, pending: Visit, member: bytes, body: Raw | bytes) -> None:
        """A request has its answer, or would have it if the asker were still there."""
        traced = pending.traced
        assert traced is not None
        lost = pending.origin is None and traced.source is not None
        if traced.lane is None:
            if lost:
                return  # nobody received it, and nobody gets an answer
            self.sent(pending, None, pending.method, traced.params)
        pending.traced = None
        failed = member == b"error"
        self._response(pending, traced, traced.lane, bytes(body), is_error=failed, lost=lost)

    def _response(
        self,
        pending: Visit,
        traced: TracedRequest,
        lane: Lane | None,
        body: bytes | None,
        *,
        is_error: bool,
        lost: bool,
    ) -> None:
        own = not pending.answer_number
        if own:
            pending.answer_number = next(self._numbers)
        self._parts.exchange.emit(
            Trace(
                kind="response",
                source=_name(lane),
                target=_name(traced.source),
                id=_id(pending, traced),
                method=pending.method,
                payload=body,
                is_error=is_error,
                source_side=_side(lane),
                target_side=_side(traced.source),
                number=pending.answer_number,
                request=pending.number,
                passes=0 if own or traced.past else traced.answers,
                past=traced.past and not own,
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
        request: int = 0,
    ) -> int:
        """A notification is written to `lane`.

        Args:
            source: None: it is the conductor's own.
            request: the number of the request it is about.

        Returns:
            Its number.
        """
        number = source.number if source is not None else next(self._numbers)
        origin = source.lane if source is not None else None
        self._parts.exchange.emit(
            Trace(
                kind="notification",
                source=_name(origin),
                target=_name(lane),
                method=method,
                payload=_payload(params),
                source_side=_side(origin),
                target_side=_side(lane),
                number=number,
                request=request,
                passes=source.passes if source is not None else 0,
                own=source is None or source.own,
            )
        )
        return number


def _id(pending: Visit, traced: TracedRequest) -> str:
    """The id as the asker wrote it."""
    raw = pending.target_id if traced.source is None else pending.raw_id
    return raw.decode(errors="replace")


def _name(lane: Lane | None) -> str:
    return _CONDUCTOR if lane is None else lane.peer.name


def _side(lane: Lane | None) -> str:
    return "c" if lane is None else lane.side.value


def _payload(payload: Raw | bytes | UnsetType) -> bytes | None:
    return None if isinstance(payload, UnsetType) else bytes(payload)


# -- numbers on lines ------------------------------------------------------------------------------


def with_number(peer: Peer, number: int, frame: bytes) -> bytes:
    """A frame behind the line that announces its number."""
    peer.announced[number] = None
    if len(peer.announced) > _MOST_ANNOUNCED:
        del peer.announced[next(iter(peer.announced))]
    return b"#%d\n%b" % (number, frame)


def read_number(peer: Peer, line: bytes) -> None:
    """Reads a line that announces the number of the peer's next message.

    A host of guests may use its own numbers, and those announced to it: a message that goes past
    all of its guests keeps its number.
    """
    digits = line[1:].strip()
    if digits.isdigit() and len(digits) <= _MOST_DIGITS and peer.numbers is not None:
        number = int(digits)
        if number in peer.numbers or number in peer.announced:
            peer.next_number = number


# -- records ---------------------------------------------------------------------------------------


def best_effort(record: Callable[_Params, None]) -> Callable[_Params, None]:
    """Loses a record that takes more memory or nests deeper than there is room for.

    Records are no part of the conversation, so they must not end it.
    """

    @functools.wraps(record)
    def attempt(*args: _Params.args, **named: _Params.kwargs) -> None:
        with contextlib.suppress(MemoryError, RecursionError):
            record(*args, **named)

    return attempt
