"""Copies for observers: the original has gone on, and what becomes of the copy concerns nobody."""

from __future__ import annotations

from functools import partial
from typing import Final

from conductor.core.copied import Copy, size_of
from conductor.core.effects import Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.gate import ORIGINATE
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.tokens import HEAVY, Params
from conductor.core.way import count

_MOST_WAITING: Final = 4096
_MOST_BYTES_WAITING: Final = 32 * 1024 * 1024
"""Copies that wait for an observer that is still being initialized."""

_MOST_SEEN: Final = 4096


class Copies:
    """What observers are given, and what they do with it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting: dict[str, tuple[object, int]] = {}
        """Bytes of the copies that wait for an observer, and the backlog they wait in."""

    def notification(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """Gives the observer at `lane` a copy of a notification."""
        peer = lane.peer
        if peer.ready:
            self._remember(lane, method, params)
            out.append(Send(peer.name, lane.writer.notification(method, params), True))
        elif self._may_wait(peer, params):
            peer.backlog.append(partial(self.notification, lane, method, params))

    def notice(self, lane: Lane, method: str, params: Params, out: list[Effect]) -> None:
        """The same for a component that must get it, whatever its verbs and however slow it is."""
        self._remember(lane, method, params)
        out.append(Send(lane.peer.name, lane.writer.notification(method, params)))

    @staticmethod
    def _remember(lane: Lane, method: str, params: Params) -> None:
        """Takes note of a copy that may come back."""
        gate, way = lane.peer.gate, lane.other.way
        assert gate is not None
        if gate.verbs(lane.other.direction, method) & ORIGINATE:
            seen = gate.told_of(way.seen, method)
            seen.append(params)
            size = size_of(params)
            if size > HEAVY or len(seen) > _MOST_SEEN:
                seen.weigh(size)
        else:
            count(way.copies, method)

    def request(
        self, lane: Lane, method: str, params: Params, original: Pending, out: list[Effect]
    ) -> None:
        """Gives the observer at `lane` a copy of a request."""
        copy = Copy(method, params)
        original.watchers = (*original.watchers, partial(self._answered, copy))
        self._give(lane, copy, params, original, out)

    def _give(
        self, lane: Lane, copy: Copy, params: Params, original: Pending, out: list[Effect]
    ) -> None:
        peer, link = lane.peer, lane.link
        if not peer.ready:
            if self._may_wait(peer, params):
                peer.backlog.append(partial(self._give, lane, copy, params, original))
            return
        assert peer.gate is not None
        shadow = nobodys(copy.method)
        shadow.target, shadow.target_id = lane, link.fresh_id()
        link.sent[shadow.target_id] = shadow
        peer.gate.loosen(link, shadow.target_id, shadow)
        lane.other.way.copied.add(copy)
        frame = lane.writer.request(shadow.target_id, copy.method, params)
        out.append(Send(peer.name, frame, True))
        if original.cancelled:
            self._exchange.cancel(shadow, out)
        else:
            original.followers = (*original.followers, shadow)

    def _may_wait(self, peer: Peer, params: Params) -> bool:
        """Whether a copy for an observer that is not ready shall wait until it is."""
        if peer.closure is not None or peer.handshake is None:
            return False
        backlog, held = self._waiting.get(peer.name, (None, 0))
        held = size_of(params) + (held if backlog is peer.backlog else 0)
        if len(peer.backlog) < _MOST_WAITING and held <= _MOST_BYTES_WAITING:
            self._waiting[peer.name] = (peer.backlog, held)
            return True
        assert peer.gate is not None
        peer.gate.lost += 1
        return False

    def _answered(self, copy: Copy, member: bytes, body: bytes, out: list[Effect]) -> None:
        """The original has its answer."""
        copy.answer = (member, body)
        for pending in copy.forwarded:
            self._exchange.reply(pending, member, body, out, copy=True)
        copy.forwarded.clear()

    # -- what observers send on --------------------------------------------------------------------

    def take_notification(self, lane: Lane, verbs: int, method: str, params: Params) -> bool:
        """Whether a notification that leaves on `lane` is but a copy coming back."""
        if verbs & ORIGINATE:
            seen = lane.way.seen.get(method)
            return seen is not None and seen.take(params)
        copies = lane.way.copies
        left = copies.get(method, 0)
        if left:
            copies[method] = left - 1
        return left > 0

    def take_request(
        self,
        lane: Lane,
        verbs: int,
        method: str,
        params: Params,
        pending: Pending,
        out: list[Effect],
    ) -> bool:
        """Answers a request that is but a copy coming back as its original is answered."""
        found = lane.way.copied.take(method, params, exact=bool(verbs & ORIGINATE))
        if found is None:
            return False
        self.forwarded(found, pending, out)
        return True

    def forwarded(self, copy: Copy, pending: Pending, out: list[Effect]) -> None:
        """An observer sends on a request it got a copy of: it is answered as the original is."""
        if copy.answer is not None:
            self._exchange.reply(pending, *copy.answer, out, copy=True)
        else:
            copy.forwarded.append(pending)

    def shadow(self, original: Pending, method: str, params: Params) -> Copy:
        """A copy that is answered as `original` is, given in a way of the caller's own."""
        copy = Copy(method, params)
        original.watchers = (*original.watchers, partial(self._answered, copy))
        return copy


def nobodys(method: str) -> Pending:
    """Stands for a request whose answer, should one come, nobody reads."""
    pending = Pending(None, b"null", b"null", method)
    pending.hook = _ignore
    return pending


def _ignore(pending: Pending, member: bytes, body: bytes, out: list[Effect]) -> None:
    """Nobody reads it."""
