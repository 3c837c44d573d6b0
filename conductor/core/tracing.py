"""The entries of a log: which message passed between whom, and which other message it passes on.

Every message read has a number (`Exchange.number`), by which it is known on its whole way; messages
of the conductor's own have one too. A host of guests has a router of its own: where somebody wants
its entries too, a line with the number goes before each message between the two routers, so that
both use the same numbers.

A message that the conductor refuses crosses nowhere and has no entry: a verdict (`Violated`) stands
for that of a policed component.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, ParamSpec

from msgspec import Raw, UnsetType

from conductor.core.component import Side
from conductor.core.effects import Entry
from conductor.core.jsonrpc import Params
from conductor.core.state import Lane, Peer, Source, TracedRequest, Visit

if TYPE_CHECKING:
    from conductor.core.parts import Parts

_Params = ParamSpec("_Params")

_CONDUCTOR: Final = ""
"""The name of the conductor itself in entries."""
_MOST_DIGITS: Final = 18
_MOST_ANNOUNCED: Final = 1 << 17
"""The most numbers that are remembered as announced to a host of guests: more than messages wait
before a host."""


class Entries:
    """Makes the entries of one router, where somebody keeps them."""

    def __init__(self, parts: Parts, numbers: Iterator[int]) -> None:
        """`numbers`: for the messages that nobody else numbers."""
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
        source = traced.source
        if traced.lane is not None:
            self._taken_back(pending, traced, traced.lane)
        traced.lane = lane
        self._parts.exchange.effects.append(
            Entry(
                "request",
                _CONDUCTOR if source is None else source.peer.name,
                Side.P if source is None else source.side,
                _CONDUCTOR if lane is None else lane.peer.name,
                Side.P if lane is None else lane.side,
                pending.number,
                method,
                _payload(params),
                pending.target_id if source is None else pending.raw_id,
                0,
                traced.passes,
            )
        )

    def _taken_back(self, pending: Visit, traced: TracedRequest, lane: Lane) -> None:
        """The request goes to another peer, or to the same in another form: the response, if any,
        is lost."""
        member, body = traced.response or (b"error", None)
        if body is None:
            pending.answer_number = 0
        failed = member == b"error"
        self._response(pending, traced, lane, body, failed, True)
        pending.answer_number, traced.response = 0, None

    def answered(self, pending: Visit, member: bytes, body: Raw | bytes) -> None:
        """A request has its answer, or would have it if the asker were still there."""
        traced = pending.traced
        assert traced is not None
        lost = pending.origin is None and traced.source is not None
        if traced.lane is None and not traced.service:
            if lost:
                return  # nobody received it, and nobody gets an answer
            self.sent(pending, None, pending.method, traced.params)
        pending.traced = None
        self._response(pending, traced, traced.lane, body, member == b"error", lost)

    def _response(
        self,
        pending: Visit,
        traced: TracedRequest,
        lane: Lane | None,
        body: Raw | bytes | None,
        is_error: bool,
        lost: bool,
    ) -> None:
        own, source = not pending.answer_number, traced.source
        if own:
            pending.answer_number = next(self._numbers)
        self._parts.exchange.effects.append(
            Entry(
                "response",
                _CONDUCTOR if lane is None else lane.peer.name,
                Side.P if lane is None else lane.side,
                _CONDUCTOR if source is None else source.peer.name,
                Side.P if source is None else source.side,
                pending.answer_number,
                traced.service or pending.method,
                body,
                pending.target_id if source is None else pending.raw_id,
                pending.number,
                0 if own or traced.past else traced.answers,
                is_error,
                traced.past and not own,
                own and not traced.service,
                lost,
            )
        )

    # -- calls of services ---------------------------------------------------------------------

    def called(self, lane: Lane, name: str, params: Params, pending: Visit | None) -> None:
        """A component calls a service of the conductor; `pending` None: it waits for no answer.

        The calls of a host are reports, and calls of its guests, of which the host has entries.
        """
        if lane.peer.component.hosts:
            if pending is not None:
                pending.traced = None
        elif pending is None:
            self.notified(Source(lane, self._parts.exchange.number), None, name, params)
        elif pending.traced is not None:
            pending.traced.service = name
            self.sent(pending, None, name, params)

    # -- notifications -------------------------------------------------------------------------

    def notified(
        self,
        source: Source | None,
        lane: Lane | None,
        method: str,
        params: Raw | bytes | UnsetType,
        request: int = 0,
        *,
        lost: bool = False,
    ) -> int:
        """A notification is written to `lane`, or was to be and is `lost`.

        Args:
            source: None: it is the conductor's own.
            lane: None: it is for the conductor.
            request: the number of the request it is about.

        Returns:
            Its number.
        """
        number = next(self._numbers) if source is None else source.number
        self._parts.exchange.effects.append(
            Entry(
                "notification",
                _CONDUCTOR if source is None else source.lane.peer.name,
                Side.P if source is None else source.lane.side,
                _CONDUCTOR if lane is None else lane.peer.name,
                Side.P if lane is None else lane.side,
                number,
                method,
                _payload(params),
                None,
                request,
                0 if source is None else source.passes,
                False,
                False,
                source is None or source.own,
                lost,
            )
        )
        return number


def _payload(params: Raw | bytes | UnsetType) -> Raw | bytes | None:
    return None if isinstance(params, UnsetType) else params


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
