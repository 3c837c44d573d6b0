"""The dialect of a proxy, as its behaviour tells; and the second connection of dialect `scp`.

An `scp` proxy launches its successor itself, as a shim that connects back to us. A component of
unknown dialect that takes the role without an envelope in sight may be such a proxy: it gets
`_scp/proxy`. If it does not know this request, its dialect is `sacp` or `pacp`.
"""

from __future__ import annotations

from conductor.core.component import Component, Role
from conductor.core.dialects import (
    INITIALIZE,
    LAUNCH,
    PACP,
    PLAIN,
    ROLE_METHODS,
    SACP,
    Dialect,
)
from conductor.core.effects import Closure
from conductor.core.jsonrpc import read_error, unknown_method
from conductor.core.parts import Part
from conductor.core.roles.initialize import successor_name
from conductor.core.state import (
    AnswerTo,
    DialectState,
    Handshake,
    Lane,
    Life,
    Peer,
    Visit,
)


class Detection(Part):
    """The part of a router that finds out dialects, and joins launched successors."""

    def envelope_seen(self, peer: Peer, form: Dialect, method: str) -> None:
        """A peer of uncertain dialect has sent `method` in an envelope of `form`. The form tells
        dialects apart that answer a role request alike."""
        if peer.dialect_state is not DialectState.UNKNOWN:
            peer.dialect_state = DialectState.KNOWN
            if form is PACP:
                peer.speak(PACP)
            return
        handshake = peer.handshake
        if handshake is None:
            return  # it sends before it has received anything
        asked = handshake.role_answer is not None or form.role == handshake.tried[-1].role
        if method in ROLE_METHODS or not (asked or method == INITIALIZE):
            # It passes on a role request that it does not know, or a message from before that: its
            # envelope shows which dialect to try next, not yet that it takes the role.
            handshake.prefer(form)
            return
        self.settle(peer, form)
        if handshake.role_answer is not None:
            self._not_needed(peer, handshake)

    def listening(self, peer: Peer, server: bytes) -> None:
        """Asks the proxy to launch its successor.

        The peer of the second connection exists from now on, whether or not it is still needed: the
        shell has its address already.

        Args:
            server: a stdio server entry, as JSON.
        """
        name = successor_name(peer.name)
        component = Component(name, f"the successor connection of {peer.label}", PLAIN)
        successor = Peer(component, Role.PROXY, peer.ids)
        successor.launched_by, successor.joined = peer, peer.joined
        successor.p.wraps = False
        # One component on two connections: its acts are counted once.
        successor.policy_state = peer.policy_state
        if peer.payloads is not None:
            successor.refer(peer.payloads)
        self._exchange.peers[name] = successor
        handshake = peer.handshake
        if peer.closure is not None or handshake is None or handshake.role_answer is None:
            _discard(successor)
            return
        _move(peer.s, successor.p)
        pending = self._exchange.own_request(LAUNCH)
        if not peer.joined:
            pending.traced = None
        pending.answer_to, pending.handshake = AnswerTo.LAUNCH, handshake
        self._exchange.send(peer.p, LAUNCH, b'{"servers":[%b]}' % server, pending)

    def launch_answered(
        self, handshake: Handshake, pending: Visit, member: bytes, body: bytes
    ) -> None:
        """A proxy has answered the request to launch its successor."""
        peer = handshake.peer
        self._exchange.reply(pending, member, body)
        if handshake.role_answer is None:
            return  # its envelopes have shown meanwhile that it is no `scp` proxy
        if member == b"result":
            handshake.launched = body
            self._parts.initializer.take_launched(handshake)
            return
        answer = self._exchange.peers[successor_name(peer.name)].recorded_answer
        if answer is not None and answer[0] == b"error":  # the launch failed for this reason
            handshake.launched = b"{}"
            self._parts.initializer.take_launched(handshake)
            return
        error = read_error(body)
        if peer.dialect_state is DialectState.UNKNOWN and unknown_method(error):
            self.settle(peer, SACP, DialectState.TENTATIVE)
            self._not_needed(peer, handshake)
        else:
            self._parts.initializer.not_launched(handshake, error.message)

    def settle(
        self, peer: Peer, dialect: Dialect, state: DialectState = DialectState.KNOWN
    ) -> None:
        """A peer's dialect is settled; messages that have waited for this go on."""
        peer.dialect_state = state
        peer.speak(dialect)
        if not peer.restarting:  # else it is written to once it has its role
            peer.move(Life.READY)
        self._parts.waits.resume(peer)

    def not_launching(self, peer: Peer) -> None:
        """The proxy has had the time to launch its successor and to initialize it. A proxy of
        unknown dialect that has neither begun to launch nor refused ignores requests that it does
        not know. Of a proxy that has launched, the client gets only the proxy's own answer."""
        handshake = peer.handshake
        if handshake is None or handshake.role_answer is None:
            return
        handshake.had_time = True
        if handshake.launched is not None:
            self._parts.initializer.take_launched(handshake)
            return
        if peer.dialect_state is not DialectState.UNKNOWN or peer.forwarded:
            return
        text = f"it did not answer `{LAUNCH}`, and is taken for a proxy of dialect {SACP.name}"
        hint = f"name its dialect, then it is not tried: `{peer.name},dialect={SACP.name}`"
        self._exchange.log("warning", peer, f"{text}\nhint: {hint}")
        self.settle(peer, SACP, DialectState.TENTATIVE)
        self._not_needed(peer, handshake)

    def _not_needed(self, peer: Peer, handshake: Handshake) -> None:
        """The proxy reaches its successor by envelopes: its answer goes back now."""
        successor = self._exchange.peers.get(successor_name(peer.name))
        if successor is not None:
            _move(successor.p, peer.s)
            _discard(successor)
        self._parts.initializer.take_role_answer(handshake)


def _move(old: Lane, new: Lane) -> None:
    """Joins `new` to the lane that `old` is joined to, in the place of `old`."""
    across = old.across
    old.across, new.across = None, across
    if across is not None:  # else the proxy has not joined the chain yet
        across.across = new
        for mate in across.mates:
            mate.across = new
    # Messages that come in at the proxy's other side leave it here from now on.
    new.other, old.other.other = old.other, new
    new.direction, new.policed = old.direction, old.policed


def _discard(successor: Peer) -> None:
    successor.move(Life.GONE, Closure(f"{successor.label} is not used"))
