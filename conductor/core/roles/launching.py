"""Dialect `scp`: the proxy launches its successor itself, as a shim that connects back to us.

A component of unknown dialect that takes the role without an envelope in sight may be one: it is
asked, and if it does not know `_scp/proxy` it is `sacp` or `pacp`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conductor.core.dialects import LAUNCH, PLAIN, SACP, SCP, Dialect
from conductor.core.effects import Closure, Effect
from conductor.core.exchange import Exchange
from conductor.core.peer import Component, Lane, Peer
from conductor.core.pending import Pending
from conductor.core.roles.detection import Handshake, confirm, read_error
from conductor.core.topology import Role

Finish = Callable[[Handshake, bytes, bytes, list[Effect]], None]
Refuse = Callable[[Handshake, str, list[Effect]], None]


def successor_name(name: str) -> str:
    """Name of the peer that stands for an `scp` proxy's own connection to its successor."""
    return f"{name}/successor"


class Launcher:
    """Has proxies launch their successors, and joins the second connection in their place."""

    def __init__(self, exchange: Exchange, finish: Finish, not_a_proxy: Refuse) -> None:
        self._exchange = exchange
        self._finish = finish
        self._not_a_proxy = not_a_proxy

    def concerns(self, peer: Peer, dialect: Dialect) -> bool:
        """Whether a proxy that took the role in `dialect` is to launch its successor now."""
        if dialect.launches:
            return successor_name(peer.name) not in self._exchange.peers
        return dialect.offer and peer.guessing

    def listening(self, peer: Peer, server: bytes, out: list[Effect]) -> None:
        """Tells the proxy how to launch its successor; `server` is a stdio server entry.

        The peer of the second connection exists from now on, whether or not it is still needed.
        """
        name = successor_name(peer.name)
        component = Component(name, f"the successor connection of {peer.label}")
        successor = Peer(component, Role.PROXY, PLAIN, ids=peer.ids)
        successor.launched_by = peer
        successor.p.wraps = False
        successor.gate = peer.gate
        self._exchange.peers[name] = successor
        handshake = peer.handshake
        if peer.closure is not None or handshake is None or handshake.held is None:
            _discard(successor)
            return
        _move(peer.s, successor.p)
        pending = self._exchange.own_request(LAUNCH)
        pending.hook = partial(self._launched, handshake)
        self._exchange.send(peer.p, LAUNCH, b'{"servers":[%b]}' % server, pending, out)

    def _launched(
        self,
        handshake: Handshake,
        pending: Pending,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        assert pending.target is not None
        peer = pending.target.peer
        self._exchange.reply(pending, member, body, out)
        if handshake.held is None:
            return  # its envelopes told meanwhile that it is no `scp` proxy
        if member == b"result":
            confirm(peer, SCP, out)
            self._release(handshake, out)
            return
        error = read_error(body)
        if peer.guessing and error.unknown_method:
            confirm(peer, SACP, out, unsettled=True)
            self.not_needed(handshake, out)
        else:
            self._not_a_proxy(handshake, f"`{LAUNCH}` failed: {error.message}", out)

    def not_launching(self, peer: Peer, out: list[Effect]) -> None:
        """The proxy was told to launch its successor a while ago. One of unknown dialect that has
        not begun to, and has not refused either, has passed over what it does not know."""
        handshake = peer.handshake
        if handshake is None or handshake.held is None or not peer.guessing or peer.forwarded:
            return
        text = f"it did not answer `{LAUNCH}`, and is taken for a proxy of dialect {SACP.name}"
        hint = f"name its dialect, and it is not asked: `{peer.name},dialect={SACP.name}`"
        self._exchange.note(out, "warning", peer, f"{text}\nhint: {hint}")
        confirm(peer, SACP, out, unsettled=True)
        self.not_needed(handshake, out)

    def not_needed(self, handshake: Handshake, out: list[Effect]) -> None:
        """The proxy reaches its successor by envelopes: its answer goes back now."""
        assert handshake.pending.target is not None
        peer = handshake.pending.target.peer
        successor = self._exchange.peers.get(successor_name(peer.name))
        if successor is not None:
            _move(successor.p, peer.s)
            _discard(successor)
        self._release(handshake, out)

    def _release(self, handshake: Handshake, out: list[Effect]) -> None:
        held, handshake.held = handshake.held, None
        assert held is not None
        self._finish(handshake, b"result", held, out)


def _move(old: Lane, new: Lane) -> None:
    """Joins `new` to what `old` is joined to, instead of it."""
    across = old.across
    assert across is not None
    old.across, new.across, across.across = None, across, new
    # What comes in at the proxy's other end leaves it here from now on.
    new.other, old.other.other = old.other, new
    new.direction, new.policed = old.direction, old.policed
    new.policed = old.policed


def _discard(successor: Peer) -> None:
    successor.ready = False
    successor.closure = Closure(f"{successor.label} is not used")
