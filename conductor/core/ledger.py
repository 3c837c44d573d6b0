"""What components change in the messages that pass through them: found by comparing what each was
given with what it said (`--audit`; nothing of this exists without).

Of requests the ledger knows which is which: a policed component's spends a token, another's is the
open one of its method and session. Answers belong to their requests. Notifications are in the book
of each component (`conductor.core.book`). Byte for byte the same is no change; whether other bytes
say something else is found out by who writes the record.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw, UnsetType

from conductor.core.book import Book, shown
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Changed, Effect
from conductor.core.flows import Given, Said
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.tokens import Params, session_of
from conductor.core.topology import Role


class _Asked:
    """One request a component was given and has not answered."""

    __slots__ = (
        "book", "came", "id", "lane", "method", "number", "onward", "params", "said", "session",
        "source", "upstream",
    )  # fmt: skip

    def __init__(self, book: Book, lane: Lane, pending: Pending, params: Params) -> None:
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
        self._books = {name: Book(name) for name in audited}
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
        book: Book,
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
            book.passed_on(origin, asked.session, asked.number, out)
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
                before=None if asked is None else shown(asked.params),
                after=shown(params),
                source=None if asked is None else asked.source,
                source_id=None if asked is None else asked.id,
                target=_owner(target).name,
                target_id=_text(pending.target_id if leaving else pending.raw_id),
            )
        )

    def _given_as(
        self, book: Book, origin: Lane, pending: Pending, params: Params
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
            book.passed_on(asked.lane, asked.session, asked.came, out)
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
            sender.said((source, method, session), Said(held, _owner(target).name), out)
        if receiver is not None:
            given = Given(self._number, held, _owner(source).name)
            receiver.given((target.other, method, session), given, out)

    def delivering(self, name: str) -> None:
        """A guest is about to be given everything written to it so far."""
        self._books[name].round = self._number + 1

    def delivered(self, name: str, out: list[Effect]) -> None:
        """… and has said all it had to say to that."""
        self._books[name].delivered(out)

    def gone(self, peer: Peer, out: list[Effect]) -> None:
        """A component has ended; what it has not passed on is not its doing."""
        book = self._books.get(peer.name)
        if book is None:
            return
        book.ended(out)
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
            book.settled(out)

    def _book(self, lane: Lane) -> Book | None:
        """The book of the component at a lane; None for the ends of the chain."""
        owner = _owner(lane)
        return self._books.get(owner.name) if owner.role is Role.PROXY else None


def _owner(lane: Lane) -> Peer:
    return lane.peer.launched_by or lane.peer


def _text(raw_id: bytes) -> str:
    return raw_id.decode(errors="replace")
