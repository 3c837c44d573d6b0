"""What becomes of a proxy's role when it ends: asked anew, kept until it is back, or failed."""

from __future__ import annotations

from functools import partial

from msgspec import UNSET, Raw, UnsetType

from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure, Effect, Reopen
from conductor.core.exchange import Exchange
from conductor.core.peer import Lane, Peer
from conductor.core.pending import Pending
from conductor.core.policy.keys import Heading
from conductor.core.policy.ordering import Copied
from conductor.core.roles.detection import Handshake, resume_waiting
from conductor.core.roles.initialize import Initializer
from conductor.core.topology import Role


class LostRoles:
    """The part of a router that knows what a peer's ending means for its initialization."""

    def __init__(self, exchange: Exchange, initializer: Initializer) -> None:
        self._exchange = exchange
        self._initializer = initializer

    def ended(self, peer: Peer, reason: Closure, out: list[Effect]) -> bool:
        """Whether a peer that just ended is started once more, to be asked in another dialect."""
        handshake = peer.handshake
        if handshake is None:
            return False
        if (
            peer.guessing
            and handshake.left
            and handshake.held is None
            and not handshake.reopened
            and reason.data.get("exitCode") is not None
        ):
            handshake.reopened = True
            handshake.left += handshake.tried  # it may have ended for another reason
            handshake.tried.clear()
            handshake.pending.target = None
            peer.p.link.sent.clear()
            self._exchange.withdraw(peer, out)
            out.append(Reopen(peer.name))
            return True
        peer.handshake = None
        self._exchange.fail(handshake.pending, reason, out)
        return False

    def dropped(self, peer: Peer, reason: Closure, out: list[Effect]) -> None:
        """Fails the handshake a peer was in when it ended, if any."""
        handshake, peer.handshake = peer.handshake, None
        if handshake is not None:
            self._exchange.fail(handshake.pending, reason, out)

    def may_retry(self, peer: Peer) -> bool:
        """Whether a proxy can be started again before it has taken its role: its successor has
        heard nothing of it yet."""
        handshake = peer.handshake
        untold = handshake is None or handshake.held is None
        guessing = peer.guessing and handshake is not None and not handshake.reopened
        return peer.role is Role.PROXY and untold and not peer.forwarded and not guessing

    def ask_again(self, peer: Peer) -> None:
        """What a peer was asked while it was being initialized waits until it has `returned`."""
        handshake = peer.handshake
        if handshake is None or peer.shadow is not None or peer.returning:
            return
        pending = handshake.pending
        peer.p.link.sent.pop(pending.target_id, None)
        pending.target, pending.hook = None, None
        peer.handshake = peer.initialize = None
        peer.backlog.insert(0, partial(self._deliver_late, peer.p, handshake.params, pending))

    def _deliver_late(
        self, lane: Lane, params: Raw | UnsetType, pending: Pending, out: list[Effect]
    ) -> None:
        if pending.origin is not None:  # else: whoever asked is gone, or has been answered
            self._initializer.deliver(lane, params, pending, out)

    def await_return(self, peer: Peer) -> None:
        """From now on messages for the peer wait until it has `returned`."""
        copy = Pending(None, b"null", b"null", INITIALIZE)
        params = UNSET if peer.initialize is None else peer.initialize
        peer.handshake = Handshake(copy, params, peer)

    def returned(self, peer: Peer, out: list[Effect]) -> None:
        """Gives a peer that was started again its role again, without disturbing its successor:
        the `initialize` it forwards is answered as it was the first time."""
        if peer.initialize is None:
            peer.returning, peer.handshake = False, None
            peer.ready = not peer.guessing
            resume_waiting(peer, out)
            return
        answer = peer.recorded if peer.shadow is None else peer.shadow.answer
        if peer.shadow is None or answer is not None:
            peer.shadow = Copied(INITIALIZE, peer.initialize, Heading(INITIALIZE, None))
            peer.shadow.answer = answer
        again = self._exchange.own_request(INITIALIZE)
        self._initializer.initialize_alone(peer, peer.initialize, again, out)

    def reopened(self, peer: Peer, out: list[Effect]) -> None:
        """Asks a restarted peer the next way."""
        assert peer.handshake is not None
        self._initializer.attempt(peer, peer.handshake, out)
