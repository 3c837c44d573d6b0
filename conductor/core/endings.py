"""What becomes of requests when a peer, or the chain, is gone: each gets its one answer."""

from __future__ import annotations

from conductor.core import turns
from conductor.core.effects import Closure, Effect, Send
from conductor.core.exchange import Exchange
from conductor.core.peer import Peer
from conductor.core.pending import Pending
from conductor.core.policy.ordering import Excuse
from conductor.core.policy.states import State
from conductor.core.roles.detection import resume_waiting
from conductor.core.roles.recovery import LostRoles
from conductor.core.topology import Role


def closed(
    exchange: Exchange,
    roles: LostRoles,
    peer: Peer,
    reason: Closure,
    out: list[Effect],
) -> None:
    """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
    if peer.closure is not None or roles.ended(peer, reason, out):
        return
    peer.closure = reason
    peer.ready = False
    _settle(exchange, peer, reason, out, goes_on=False)
    if peer.role not in (Role.CLIENT, Role.OUTER):
        exchange.chain_fails(peer, reason, out)


def bypassed(
    exchange: Exchange,
    roles: LostRoles,
    peer: Peer,
    reason: Closure,
    out: list[Effect],
) -> None:
    """Closes the gap a proxy leaves: its neighbours are joined, and messages flow on."""
    before, after = peer.p.across, peer.s.across
    if peer.closure is not None or before is None or after is None:
        return
    roles.dropped(peer, reason, out)
    before.across, after.across = after, before
    before.policed = after.policed = before.peer.gate is not None or after.peer.gate is not None
    peer.closure = reason
    peer.ready = False
    _settle(exchange, peer, reason, out)


def leaving(
    exchange: Exchange,
    roles: LostRoles,
    peer: Peer,
    reason: Closure,
    out: list[Effect],
) -> None:
    """A proxy that will be started again is gone: what was open is answered, what comes waits.

    So does its `initialize`, if it had not begun with that.
    """
    if peer.closure is not None:
        return
    if roles.may_retry(peer):
        roles.ask_again(peer)
    roles.dropped(peer, reason, out)
    peer.ready = False
    peer.returning = True
    roles.await_return(peer)
    _settle(exchange, peer, reason, out)


def _goes_on(exchange: Exchange, pending: Pending, chain: bool, out: list[Effect]) -> bool:
    """Whether a request goes on, or is answered, without the component that had it: `chain` says
    whether there is still one for it to go on in."""
    carried = pending.given
    if carried is None or (not chain and carried.state in (State.QUEUED, State.GIVEN)):
        return False
    return exchange.enforcer.requests.lost(carried, out)


def faltered(peer: Peer, *, goes_on: bool) -> None:
    """A guest alone in its host has failed; what its host answers for it now breaks no rule."""
    for lane in (peer.p, peer.s):
        for carried in lane.given.requests.values():
            carried.excused = Excuse.GOES_ON if goes_on else Excuse.ENDS


def _settle(
    exchange: Exchange, peer: Peer, reason: Closure, out: list[Effect], *, goes_on: bool = True
) -> None:
    """Answers what waits for the peer, withdraws what it asked, lets go what it held up.
    `goes_on`: the chain does without it, so what it held goes on as it was given."""
    before = len(out)
    for link in peer.links():
        for pending in list(link.sent.values()):
            if not _goes_on(exchange, pending, goes_on, out):
                exchange.fail(pending, reason, out)
        link.sent.clear()
    if peer.closure is not None:
        resume_waiting(peer, out)
    exchange.withdraw(peer, out)
    exchange.enforcer.gone(peer, out)
    # An answer that was let go to the peer would reach who comes in its place.
    out[before:] = [one for one in out[before:] if type(one) is not Send or one.peer != peer.name]


def expire(exchange: Exchange, peer: Peer, key: bytes, reason: Closure, out: list[Effect]) -> None:
    """Fails one request that a peer has not answered, and tells the peer that it is not wanted.

    The answer, should it still come, belongs to nothing any more.
    """
    at, _, id_ = key.partition(b":")
    pending = peer.links()[int(at)].sent.get(id_)
    if pending is not None:
        exchange.cancel(pending, out)
        exchange.fail(pending, reason, out)
        pending.hook = None


def end_turn(
    exchange: Exchange, peer: Peer, key: bytes, reason: Closure, out: list[Effect]
) -> None:
    """Cancels a turn of an agent in which nothing moves, and fails its prompt."""
    at, _, id_ = key.partition(b":")
    pending = peer.links()[int(at)].sent.get(id_)
    if pending is not None and pending.session is not None:
        turns.stop(exchange, peer, pending.session, out)
    expire(exchange, peer, key, reason, out)


def overdue(exchange: Exchange, why: str, hint: str, out: list[Effect]) -> Closure | None:
    """Answers everything upstream still waits for, naming for each who has not answered it.

    The first such reason; None if nothing was waited for.
    """
    first: Closure | None = None
    for link in exchange.upstream.links():
        for pending in list(link.received.values()):
            culprit = _holder(exchange, pending)
            name = culprit.label if culprit is not None else "the chain"
            data = {"component": culprit.name} if culprit is not None else {}
            reason = Closure(f"{name} did not answer `{pending.method}` {why}", hint, data)
            exchange.fail(pending, reason, out)
            first = first or reason
    return first


def _holder(exchange: Exchange, pending: Pending) -> Peer | None:
    """The peer furthest down the chain that a request of this method still waits for."""
    seen: set[str] = set()
    target = pending.target
    while target is not None and target.peer.name not in seen:
        peer = target.peer
        seen.add(peer.name)
        onward = [
            other.target
            for link in peer.links()
            for other in link.received.values()
            if other.method == pending.method and other.target is not None
        ]
        if not onward or onward[0].peer is exchange.upstream:
            return peer
        target = onward[0]
    return target.peer if target is not None else None


def abandon(exchange: Exchange, reason: Closure, out: list[Effect]) -> None:
    """Answers everything upstream still waits for: the chain is over."""
    for link in exchange.upstream.links():
        for pending in list(link.received.values()):
            exchange.fail(pending, reason, out)
