"""What components change in the messages that pass through them: found by comparing what each was
given with what it said (`--audit`; nothing of this exists without).

Of requests the books know which is which: a policed component's spends a token, another's is the
open one of its method and session. Answers belong to their requests. For notifications see
`conductor.core.flows`. Byte for byte the same is no change; whether other bytes say something else
is found out by who writes the record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Changed, Effect
from conductor.core.flows import Flow, Given, Match, Said
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.tokens import Params, session_of
from conductor.core.topology import Role

_MOST_FLOWS: Final = 1024
_MOST_REFUSALS: Final = 16

_Place = tuple[Lane, str, str | None]
"""Where a notification leaves a component, its method and its session."""


class _Book:
    """One component: its notifications, and the errors the conductor has answered it with."""

    __slots__ = ("flows", "name", "refusals", "round")

    def __init__(self, name: str) -> None:
        self.name = name
        self.flows: dict[_Place, Flow] = {}
        self.refusals: deque[bytes] = deque(maxlen=_MOST_REFUSALS)
        self.round = 0
        """The number of the first message it has not been handed, if it is a guest."""


class _Asked:
    """One request a component was given and has not answered."""

    __slots__ = (
        "book", "came", "id", "lane", "method", "number", "onward", "params", "said", "session",
        "source", "upstream",
    )  # fmt: skip

    def __init__(self, book: _Book, lane: Lane, pending: Pending, params: Params) -> None:
        assert pending.origin is not None
        self.book = book
        self.lane = lane
        """Where it came in."""
        self.method = pending.method
        self.params = params
        self.session = session_of(params)
        self.source = _owner(pending.origin).name
        self.id = _text(pending.raw_id)
        self.number = 0
        self.onward = False
        """Whether the component has sent it on."""
        self.upstream: tuple[bytes, bytes] | None = None
        """The answer (member, body) that came back for that, …"""
        self.came = 0
        """… and its number."""
        self.said = False
        """Whether the component has answered."""


class Ledger:
    """Compares, for the components whose names it is given.

    `hosted`: they are guests of the conductor upstream, which knows a request that leaves here by
    the id it leaves with.
    """

    def __init__(self, audited: Collection[str], *, hosted: bool) -> None:
        self._hosted = hosted
        self._books = {name: _Book(name) for name in audited}
        self._asked: dict[Pending, _Asked] = {}
        self._onward: dict[Pending, _Asked | None] = {}
        """Requests of components that are not answered yet, with what they were given as."""
        self._opened: dict[Pending, Lane] = {}
        """The lane that requests leave by which came in an envelope, until they are sent on."""
        self._number = 0

    # -- requests --------------------------------------------------------------------------------

    def opened(self, pending: Pending, lane: Lane) -> None:
        """A request came in an envelope, and leaves by `lane`."""
        self._opened[pending] = lane

    def request(
        self, pending: Pending, target: Lane, params: Raw | bytes | UnsetType, out: list[Effect]
    ) -> None:
        """A request is written to its target."""
        if pending.origin is None:
            return  # the conductor's own
        held = Raw(params) if isinstance(params, bytes) else params
        self._number += 1
        origin = self._opened.pop(pending, pending.origin)
        sender = self._book(origin)
        if sender is not None and pending not in self._onward:
            self._sent_on(sender, pending, (origin, target), held, out)
        self._asked.pop(pending, None)  # it goes on without whom it was given to
        receiver = self._book(target)
        if receiver is not None:
            asked = self._asked[pending] = _Asked(receiver, target, pending, held)
            asked.number = self._number

    def _sent_on(
        self,
        book: _Book,
        pending: Pending,
        route: tuple[Lane, Lane],
        params: Params,
        out: list[Effect],
    ) -> None:
        origin, target = route
        asked, matched = self._given_as(book, origin, pending, params)
        self._onward[pending] = asked
        if asked is not None:
            asked.onward = True
            self._anchor(book, origin, asked.session, asked.number, out)
            if asked.params == params:
                return
        leaving = self._hosted and target.peer.role is not Role.PROXY
        out.append(
            Changed(
                peer=book.name,
                change="originated" if asked is None else "modified",
                kind="request",
                direction=origin.direction.value,
                method=pending.method,
                session=session_of(params) if asked is None else asked.session,
                matched=matched,
                before=None if asked is None else _bytes(asked.params),
                after=_bytes(params),
                source=None if asked is None else asked.source,
                source_id=None if asked is None else asked.id,
                target=_owner(target).name,
                target_id=_text(pending.target_id if leaving else pending.raw_id),
            )
        )

    def _given_as(
        self, book: _Book, origin: Lane, pending: Pending, params: Params
    ) -> tuple[_Asked | None, str]:
        """What a component's request was given to it as, and how that is known."""
        if pending.spends is not None:
            return self._asked.get(pending.spends.pending), "token"
        if origin.peer.gate is not None and pending.method != INITIALIZE:
            return None, "token"
        known = [
            asked
            for asked in self._asked.values()
            if asked.book is book
            and asked.method == pending.method
            and asked.lane.other is origin
            and not asked.onward
        ]
        exact = [asked for asked in known if asked.params == params]
        session = session_of(params)
        fitting = exact or [asked for asked in known if asked.session == session]
        if not fitting:
            return None, "request"
        return fitting[0], "request" if len(fitting) == 1 else "order"

    # -- answers ---------------------------------------------------------------------------------

    def said(self, pending: Pending) -> None:
        """The peer a request went to has answered it, in due form."""
        asked = self._asked.get(pending)
        if asked is not None:
            asked.said = True
            if pending.origin is None:  # whoever asked is gone
                del self._asked[pending]

    def refused(self, pending: Pending) -> None:
        """The answer is the conductor's own, whatever the peer has said."""
        self._asked.pop(pending, None)

    def answered(
        self, pending: Pending, origin: Lane, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """A request is answered to its `origin`."""
        self._opened.pop(pending, None)
        asked = self._asked.pop(pending, None)
        if asked is not None and asked.said:
            self._passed_back(asked, origin, member, body, out)
        if pending in self._onward:
            given = self._onward.pop(pending)
            if given is not None:
                self._number += 1
                given.upstream, given.came = (member, body), self._number
        else:
            book = self._book(origin)
            if book is not None and member == b"error":
                book.refusals.append(body)

    def _passed_back(
        self, asked: _Asked, origin: Lane, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        book, upstream = asked.book, asked.upstream
        if upstream is not None:
            self._anchor(book, asked.lane, asked.session, asked.came, out)
        if upstream == (member, body) or (upstream is None and body in book.refusals):
            return
        out.append(
            Changed(
                peer=book.name,
                change="answered" if upstream is None else "modified",
                kind="response",
                direction=asked.lane.direction.value,
                method=asked.method,
                session=asked.session,
                matched="request",
                before=None if upstream is None else b'{"%b":%b}' % upstream,
                after=b'{"%b":%b}' % (member, body),
                source=None,
                source_id=None,
                target=_owner(origin).name,
                target_id=asked.id,
            )
        )

    # -- notifications ---------------------------------------------------------------------------

    def notification(
        self,
        source: Lane,
        target: Lane,
        method: str,
        params: Raw | bytes | UnsetType,
        out: list[Effect],
    ) -> None:
        """A notification passes from one peer to another."""
        held = Raw(params) if isinstance(params, bytes) else params
        self._number += 1
        sender, receiver = self._book(source), self._book(target)
        session = session_of(held)
        if sender is not None:
            place = (source, method, session)
            said = Said(held, _owner(target).name)
            self._report(sender, place, self._flow(sender, place, out).say(said), out)
        if receiver is not None:
            place = (target.other, method, session)
            given = Given(self._number, held, _owner(source).name)
            self._report(receiver, place, self._flow(receiver, place, out).give(given), out)

    def delivering(self, name: str) -> None:
        """A guest is about to be given everything written to it so far."""
        self._books[name].round = self._number + 1

    def delivered(self, name: str, out: list[Effect]) -> None:
        """… and has said all it had to say to that."""
        book = self._books[name]
        for place, flow in book.flows.items():
            self._report(book, place, flow.settle(book.round), out)

    def gone(self, peer: Peer, out: list[Effect]) -> None:
        """A component has ended; what it has not passed on is not its doing."""
        book = self._books.get(peer.name)
        if book is None:
            return
        for place, flow in book.flows.items():
            self._report(book, place, flow.forget_given(), out)
        book.flows.clear()
        self._asked = {k: asked for k, asked in self._asked.items() if asked.book is not book}
        self._onward = {
            pending: asked
            for pending, asked in self._onward.items()
            if pending.origin is not None and _owner(pending.origin) is not peer
        }

    def settled(self, name: str, out: list[Effect]) -> None:
        """A component ends with its chain: what it has not passed on by now it never will."""
        book = self._books.get(name)
        if book is not None:
            for place, flow in book.flows.items():
                self._report(book, place, flow.settle(), out)

    def _anchor(
        self, book: _Book, lane: Lane, session: str | None, number: int, out: list[Effect]
    ) -> None:
        """A component passes on by `lane` what it was given under a number: it has had its say
        about what it was given before that."""
        for place, flow in book.flows.items():
            if place[0] is lane and place[2] == session:
                self._report(book, place, flow.settle(number), out)

    def _flow(self, book: _Book, place: _Place, out: list[Effect]) -> Flow:
        found = book.flows.get(place)
        if found is None:
            if len(book.flows) == _MOST_FLOWS:
                oldest = next(iter(book.flows))
                self._report(book, oldest, book.flows.pop(oldest).settle(), out)
            found = book.flows[place] = Flow()
        return found

    @staticmethod
    def _report(book: _Book, place: _Place, found: Iterable[Match], out: list[Effect]) -> None:
        lane, method, session = place
        for change, matched, given, said in found:
            out.append(
                Changed(
                    peer=book.name,
                    change=change,
                    kind="notification",
                    direction=lane.direction.value,
                    method=method,
                    session=session,
                    matched=matched,
                    before=None if given is None else _bytes(given.params),
                    after=None if said is None else _bytes(said.params),
                    source=None if given is None else given.source,
                    source_id=None,
                    target=None if said is None else said.target,
                    target_id=None,
                )
            )

    def _book(self, lane: Lane) -> _Book | None:
        """The book of the component at a lane; None for the ends of the chain."""
        owner = _owner(lane)
        return self._books.get(owner.name) if owner.role is Role.PROXY else None


def _owner(lane: Lane) -> Peer:
    return lane.peer.launched_by or lane.peer


def _text(raw_id: bytes) -> str:
    return raw_id.decode(errors="replace")


def _bytes(params: Params) -> bytes:
    return b"null" if isinstance(params, UnsetType) else bytes(params)
