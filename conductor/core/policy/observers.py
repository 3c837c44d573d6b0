"""Observers get copies: the original has gone past them, whatever they do with the copy.

A component may pass a copy on under its id, as it would the original: that request is answered as
the original is. Its own answer to a copy is ignored.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import Params
from conductor.core.policy.entries import Held, Notification, meant
from conductor.core.policy.headings import Message, size_of
from conductor.core.policy.key_table import ORIGINATE
from conductor.core.state import Lane, Peer, PendingRequest, copy_of

_MOST_WAITING: Final = 4096
_MOST_BYTES_WAITING: Final = 32 * 1024 * 1024
"""Copies that wait for a component that is still being initialized."""


class Observers:
    """The copies that components get, and what they do with them."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting: dict[str, tuple[object, int]] = {}
        """Bytes of the copies that wait for a component, and the backlog they wait in."""

    # -- notifications -------------------------------------------------------------------------

    def notification(
        self, lane: Lane, message: Message, held: Held | None = None, *, must: bool = False
    ) -> None:
        """Sends the component at `lane` a copy of a notification; `held` waits for its round with
        that. `must`: also if the component is too slow for copies."""
        peer, policy_state = lane.peer, lane.peer.policed
        if not peer.ready:
            if held is not None:
                held.ready = True
            if self._may_wait(peer, message.params):
                peer.backlog.append(partial(self.notification, lane, message))
            return
        notification = Notification(message, "", 0, policy_state.round)
        notification.held = held
        lane.other.in_flight.copied_notifications.add(notification)
        frame = lane.writer.notification(message.method, message.params)
        self._exchange.deliver(peer, frame, copy=policy_state.watches_only and not must)

    # -- requests ------------------------------------------------------------------------------

    def request(self, lane: Lane, message: Message, original: PendingRequest) -> PendingRequest:
        """Sends the component at `lane` a copy of a request."""
        copy = self.follow(original, message)
        self._give(lane, copy, original)
        return copy

    def follow(self, original: PendingRequest, message: Message) -> PendingRequest:
        """A copy that is answered as `original` is; the caller sends it."""
        copy = copy_of(message)
        original.copies = (*original.copies, copy)
        return copy

    def _give(self, lane: Lane, copy: PendingRequest, original: PendingRequest) -> None:
        peer = lane.peer
        if not peer.ready:
            if self._may_wait(peer, copy.params):
                peer.backlog.append(partial(self._give, lane, copy, original))
            return
        copy.target, copy.target_id = lane, lane.requests.fresh_id()
        lane.requests.ignore(copy.target_id, copy)
        lane.other.in_flight.show(copy.target_id, copy)
        frame = lane.writer.request(copy.target_id, copy.method, copy.params)
        self._exchange.deliver(peer, frame, copy=peer.policed.watches_only)
        if original.cancelled:
            self._exchange.cancel_hop(copy)

    def _may_wait(self, peer: Peer, params: Params) -> bool:
        """Whether a copy for a component that is not ready shall wait until it is."""
        if peer.closure is not None or peer.handshake is None:
            return False
        backlog, held = self._waiting.get(peer.name, (None, 0))
        held = size_of(params) + (held if backlog is peer.backlog else 0)
        if len(peer.backlog) < _MOST_WAITING and held <= _MOST_BYTES_WAITING:
            self._waiting[peer.name] = (peer.backlog, held)
            return True
        peer.policed.lost += 1
        return False

    @staticmethod
    def unseen(peer: Peer) -> bool:
        """Whether an observer has not passed on its copy of a request that has been answered."""
        return any(
            copy.upstream is not None and not copy.is_taken
            for lane in (peer.p, peer.s)
            for copy in lane.in_flight.copies.values()
        )

    @staticmethod
    def copy_answered(copy: PendingRequest) -> None:
        """The component answers a copy: nothing waits for it any more."""
        if copy.held is not None:
            copy.held.ready = True
            assert copy.target is not None
            release(copy.target)
            release(copy.target.other)

    def answered(self, copy: PendingRequest, member: bytes, body: bytes) -> None:
        """The original has its answer."""
        copy.upstream = (member, body)
        for pending in copy.passed_on_by:
            self._exchange.reply(pending, member, body, copy=True)

    def take(self, lane: Lane, message: Message, pending: PendingRequest) -> PendingRequest | None:
        """The copy that a component passes on by `lane`; None if it is none."""
        in_flight, policy_state = lane.in_flight, lane.peer.policed
        if lane.peer.sideband or policy_state.policy.ids == "kept":
            copy = in_flight.copies.get(pending.key)
            return copy if copy is not None and copy.method == message.method else None
        may_be_own = bool(lane.other.rights_on(message.heading) & ORIGINATE)
        left = [copy for copy in in_flight.copies.values() if not copy.is_taken]
        return meant(left, message.method, message.params, exactly=may_be_own)

    def passed_on(self, copy: PendingRequest, pending: PendingRequest) -> None:
        """A component passes on a copy: it is answered as the original is."""
        copy.passed_on_by = (*copy.passed_on_by, pending)
        if copy.upstream is not None:
            self._exchange.reply(pending, *copy.upstream, copy=True)


def release(lane: Lane) -> None:
    """Sends on, in order, the messages behind a component at `lane` that need not wait any more."""
    in_flight = lane.in_flight
    if in_flight.releasing:
        return  # the loop that runs already sends what becomes free meanwhile
    in_flight.releasing = True
    while in_flight.waiting and (held := in_flight.freed()) is not None:
        held.resume()
    in_flight.releasing = False
