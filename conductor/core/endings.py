"""What becomes of requests when a peer, or the chain, is gone: each gets its one answer."""

from __future__ import annotations

from conductor.core.detection import resume_waiting
from conductor.core.effects import Closure, Effect
from conductor.core.exchange import Exchange
from conductor.core.initialize import Initializer
from conductor.core.peer import Peer
from conductor.core.topology import Role


def closed(
    exchange: Exchange,
    initializer: Initializer,
    peer: Peer,
    reason: Closure,
    out: list[Effect],
) -> None:
    """Answers everything that waited on a peer that is gone, and withdraws what it asked."""
    if peer.closure is not None or initializer.ended(peer, reason, out):
        return
    peer.closure = reason
    peer.ready = False
    for link in peer.links():
        for pending in list(link.sent.values()):
            exchange.fail(pending, reason, out)
        link.sent.clear()
    resume_waiting(peer, out)
    exchange.withdraw(peer, out)
    if peer.role not in (Role.CLIENT, Role.OUTER):
        exchange.chain_fails(peer, reason, out)


def abandon(exchange: Exchange, reason: Closure, out: list[Effect]) -> None:
    """Answers everything upstream still waits for: the chain is over."""
    for link in exchange.upstream.links():
        for pending in list(link.received.values()):
            exchange.fail(pending, reason, out)
