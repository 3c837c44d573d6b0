"""How a chain is initialized: roles, versions, and finding out which dialect a proxy speaks.

`initialize` is the one message whose form differs by whom it is for: the role request of a proxy's
dialect, or plain `initialize` for the agent. Each proxy forwards it to its successor before it
answers, so it walks the whole chain and the capabilities come back the same way.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.dialects import INITIALIZE, LAUNCH, PACP, ROLE_METHODS, Dialect
from conductor.core.effects import Closure, Effect, Listen
from conductor.core.exchange import Exchange
from conductor.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, Malformed
from conductor.core.peer import Lane, Peer
from conductor.core.pending import Pending
from conductor.core.policy.enforcer import Enforcer
from conductor.core.policy.handshake import HOLD_INITIALIZE
from conductor.core.policy.keys import Heading
from conductor.core.policy.observers import nobodys
from conductor.core.roles import offer
from conductor.core.roles.detection import (
    Handshake,
    confirm,
    read_error,
    resume_waiting,
)
from conductor.core.roles.launching import Launcher, successor_name
from conductor.core.roles.upstream import ONLY_CONDUCTOR, UpstreamRole
from conductor.core.topology import Role, Side

__all__ = ["Initializer", "successor_name"]

_NOT_UNDERSTOOD: Final = (METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS)


class Initializer:
    """The part of a router that handles `initialize` and role requests."""

    def __init__(self, exchange: Exchange, enforcer: Enforcer) -> None:
        self._exchange = exchange
        self._enforcer = enforcer
        self._launcher = Launcher(exchange, self._judge, self.not_a_proxy)
        self._upstream = UpstreamRole(exchange)
        self.check_begun = self._upstream.check_begun
        self.listening = self._launcher.listening
        self.not_launching = self._launcher.not_launching

    # -- requests ------------------------------------------------------------------------------

    def request(
        self,
        lane: Lane,
        method: str,
        params: Raw | UnsetType,
        pending: Pending,
        out: list[Effect],
    ) -> None:
        """Handles `initialize` or a role request from any peer. Raises `Malformed` to refuse."""
        peer = lane.peer
        if method == LAUNCH:
            raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
        if peer is self._exchange.upstream:
            params = self._upstream.request(lane, method, params)
        else:
            params = self._forwarded(lane, method, params)
            shadow = (peer.launched_by or peer).shadow
            if shadow is not None:
                self._shadowed(peer.launched_by or peer, pending)
                self._enforcer.copies.passed_on(shadow, pending, out)
                return
            if peer.gate is not None:
                allowed = self._enforcer.handshake.forwarded(lane, params, pending, out)
                if allowed is None:
                    return
                params = allowed
                if peer.gate.enforced and peer.handshake is not None:
                    back = partial(self._came_back, peer, peer.handshake)
                    pending.watchers = (*pending.watchers, back)
        pending.method = INITIALIZE
        target = lane.across
        assert target is not None
        self.deliver(target, params, pending, out)

    @staticmethod
    def _shadowed(peer: Peer, pending: Pending) -> None:
        """A trace tells of an `initialize` that is answered here as the original was if it tells of
        the one that it passes on: where a proxy is given its role again, not where that is a copy.
        """
        given = peer.handshake.pending if peer.handshake is not None else None
        if given is None or given.trail is None:
            pending.trail = None
        elif pending.trail is not None:  # pragma: no branch - both are there, or none is
            pending.trail.passes = given.number

    def _forwarded(self, lane: Lane, method: str, params: Raw | UnsetType) -> Raw | UnsetType:
        """What a proxy passes on to its successor."""
        peer = lane.peer
        if method in ROLE_METHODS:
            if lane.side is Side.S and peer.guessing and peer.handshake is not None:
                # A proxy of another generation forwards the role request it does not know.
                raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
            raise Malformed(INVALID_REQUEST, ONLY_CONDUCTOR.format(method))
        if lane.side is Side.P and peer.launched_by is None:
            raise Malformed(INVALID_REQUEST, "`initialize` goes to the successor only")
        if lane.across is None:
            raise Malformed(INVALID_REQUEST, f"expected `{INITIALIZE}` request")
        (peer.launched_by or peer).forwarded = True
        return offer.remove(params, (peer.launched_by or peer).offer_shape)

    def deliver(
        self, lane: Lane, params: Raw | UnsetType, pending: Pending, out: list[Effect]
    ) -> None:
        """Gives a peer `initialize`, in the form that is for it."""
        peer = lane.peer
        if not self._enforcer.handshake.takes_part(peer):
            self._shadow(lane, params, pending, out)
        elif peer.closure is not None:
            self._exchange.fail(pending, peer.closure, out)
        elif peer.role is not Role.PROXY:
            pending.hook = partial(self._answered_by_end, params)
            self._exchange.send(lane, INITIALIZE, params, pending, out)
        elif peer.handshake is not None and not peer.ready:
            peer.backlog.append(lambda out: self.deliver(lane, params, pending, out))
        else:
            peer.initialize = params
            peer.handshake = Handshake(pending, params, peer)
            peer.handshake.number = self._exchange.number
            late = partial(self._late, peer, peer.handshake)
            self._enforcer.wakes.after(HOLD_INITIALIZE, late, out)
            self.attempt(peer, peer.handshake, out)

    def _late(self, peer: Peer, handshake: Handshake, out: list[Effect]) -> None:
        """A proxy has not passed `initialize` on in its time: a policed one is initialized with a
        copy from now on, and the original goes on without it; of others the request fails."""
        if peer.handshake is not handshake or peer.forwarded or peer.returning:
            return
        pending = handshake.pending
        held = f"has held `{INITIALIZE}` for more than {HOLD_INITIALIZE:g} s"
        reason = Closure(
            f"{peer.label} {held}",
            "it neither passed it on nor answered; is it a proxy? `conductor check` tells",
            {"component": peer.name},
        )
        if not self._enforcer.handshake.goes_without(peer, held, out):
            self._exchange.fail(pending, reason, out)
            return
        copy = nobodys(INITIALIZE)
        copy.target, copy.target_id, copy.hook = pending.target, pending.target_id, pending.hook
        peer.p.link.sent[copy.target_id] = copy
        handshake.pending, pending.hook = copy, None
        found = Heading(INITIALIZE, None)
        peer.shadow = self._enforcer.copies.follow(pending, INITIALIZE, handshake.params, found)
        ahead = peer.p.other.across
        assert ahead is not None
        self.deliver(ahead, handshake.params, pending, out)

    def _came_back(
        self, peer: Peer, handshake: Handshake, member: bytes, body: bytes, out: list[Effect]
    ) -> None:
        """What a policed proxy passed on of `initialize` is answered: it has as long for that."""

        def late(out: list[Effect]) -> None:
            if peer.handshake is handshake and handshake.held is None and peer.closure is None:
                held = f"has held the answer to `{INITIALIZE}` for more than {HOLD_INITIALIZE:g} s"
                self._enforcer.handshake.held(peer, held, out)
                self._over_without(peer, handshake)
                self.finish(handshake, member, body, out)

        self._enforcer.wakes.after(HOLD_INITIALIZE, late, out)

    @staticmethod
    def _over_without(peer: Peer, handshake: Handshake) -> None:
        """What a proxy still answers to its role request is nobody's."""
        pending = handshake.pending
        copy = Pending(None, b"null", b"null", INITIALIZE)
        copy.target, copy.target_id = pending.target, pending.target_id
        copy.hook = lambda *_: None
        peer.p.link.sent[copy.target_id] = copy
        pending.hook = None

    def _shadow(
        self, lane: Lane, params: Raw | UnsetType, pending: Pending, out: list[Effect]
    ) -> None:
        """Initializes a proxy that may not take part in it: with a copy, while the original goes
        on; what the proxy forwards is answered as the original is."""
        peer = lane.peer
        if peer.closure is None and peer.handshake is None:
            peer.initialize = params
            found = Heading(INITIALIZE, None)
            peer.shadow = self._enforcer.copies.follow(pending, INITIALIZE, params, found)
            self.initialize_alone(peer, params, nobodys(INITIALIZE), out)
        ahead = peer.p.other.across
        assert ahead is not None
        self.deliver(ahead, params, pending, out)

    def initialize_alone(
        self, peer: Peer, params: Raw | UnsetType, pending: Pending, out: list[Effect]
    ) -> None:
        """Asks a peer to initialize, while nobody waits for its answer."""
        peer.handshake = Handshake(pending, params, peer)
        self.attempt(peer, peer.handshake, out)

    def attempt(self, peer: Peer, handshake: Handshake, out: list[Effect]) -> None:
        """Asks a peer in the next dialect that it may speak."""
        dialect, params = handshake.next(), handshake.params
        if dialect.offer:
            peer.offer_shape = offer.shape(params)
            params = offer.add(params, "client")
        handshake.pending.hook = partial(self._answered, handshake)
        self._exchange.send(peer.p, dialect.role, params, handshake.pending, out)

    # -- what the peers' behaviour tells ---------------------------------------------------------

    def envelope_seen(self, peer: Peer, form: Dialect, method: str, out: list[Effect]) -> None:
        """Takes note of an unsettled peer's envelope, which held `method`: its form tells apart
        what handshakes cannot."""
        if not peer.guessing:
            peer.unsettled = False
            if form is PACP:
                peer.speak(PACP)
            return
        handshake = peer.handshake
        if handshake is None:
            return  # it speaks before it was asked anything
        if method in ROLE_METHODS:
            handshake.prefer(form)
            return
        confirm(peer, form, out)
        if handshake.held is not None:
            self._launcher.not_needed(handshake, out)

    # -- answers -------------------------------------------------------------------------------

    def _answered(
        self,
        handshake: Handshake,
        pending: Pending,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """A proxy has answered its role request."""
        assert pending.target is not None
        peer = pending.target.peer
        if member == b"error":
            error = read_error(body)
            if peer.guessing and error.unknown_method:
                if handshake.left:
                    self.attempt(peer, handshake, out)
                else:
                    self.not_a_proxy(handshake, f"it answered: {error.message}", out)
                return
        else:
            dialect = handshake.tried[-1]
            if dialect.offer and not offer.present(body):
                self.not_a_proxy(handshake, "its answer lacks the proxy echo", out)
                return
            if self._launcher.concerns(peer, dialect):
                handshake.held = body
                peer.ready = False
                out.append(Listen(peer.name))
                return
            if peer.guessing:
                confirm(peer, dialect, out)
            if not peer.forwarded:
                text = (
                    "it answered `initialize` without forwarding it; its successors are not ready"
                )
                self._exchange.note(out, "warning", peer, text)
        self._judge(handshake, member, body, out)

    def _judge(self, handshake: Handshake, member: bytes, body: bytes, out: list[Effect]) -> None:
        """A proxy's answer to its role request goes back, as far as its policy lets it."""
        assert handshake.pending.target is not None
        peer = handshake.pending.target.peer
        if peer.gate is not None and peer.shadow is None:
            if member == b"result" and peer.offer_shape is not None:
                kept = offer.RESULT | (peer.answer_shape or offer.NOTHING)
                body = bytes(_raw(offer.remove(Raw(body), kept)))
            verdict = self._enforcer.handshake.answered(peer, handshake, (member, body), out)
            if verdict is None:
                self._go_without(peer, handshake, out)
                return
            member, body = verdict
        self.finish(handshake, member, body, out)

    def _go_without(self, peer: Peer, handshake: Handshake, out: list[Effect]) -> None:
        """As if a proxy had passed on the `initialize` that it was not to answer by itself."""
        if handshake.onward is not None:  # it has, and the answer is on its way
            handshake.when_back = partial(self.finish, handshake)
            return
        peer.handshake = None
        ahead = peer.p.other.across
        assert ahead is not None
        self.deliver(ahead, handshake.params, handshake.pending, out)
        if not peer.ready:
            resume_waiting(peer, out)

    def finish(self, handshake: Handshake, member: bytes, body: bytes, out: list[Effect]) -> None:
        """The handshake is over: its answer goes back, and what waited for it goes on."""
        assert handshake.pending.target is not None
        peer = handshake.pending.target.peer
        if peer.handshake is handshake:
            peer.handshake = None
        if peer.returning:
            peer.returning, peer.ready = False, True
            if self._enforcer.handshake.takes_part(peer):
                peer.shadow = None
            resume_waiting(peer, out)
        kept = None
        if peer.offer_shape is not None:
            kept = offer.RESULT | (peer.answer_shape or offer.NOTHING)
        self._pass_back(handshake.pending, member, body, kept, out)
        if not peer.ready:
            resume_waiting(peer, out)

    def not_a_proxy(self, handshake: Handshake, why: str, out: list[Effect]) -> None:
        """Ends the chain over a component that cannot take the role."""
        pending = handshake.pending
        assert pending.target is not None
        peer = pending.target.peer
        reason = Closure(
            f"component {peer.label} is not a proxy ({why})",
            "only the last component of a chain may be an agent; "
            f"if this is a proxy, name its dialect: `{peer.name},dialect=acp`",
            {"component": peer.name},
        )
        peer.handshake = None
        self._exchange.fail(pending, reason, out)
        self._exchange.chain_fails(peer, reason, out)
        resume_waiting(peer, out)

    def _answered_by_end(
        self,
        params: Raw | UnsetType,
        pending: Pending,
        member: bytes,
        body: bytes,
        out: list[Effect],
    ) -> None:
        """The agent has answered, or in proxy mode the outer conductor for its successor."""
        target = pending.target
        assert target is not None
        if target.peer.unsettled:
            # The outer conductor offered the role as `sacp` and `pacp` both do.
            target.peer.unsettled = False
            if member == b"error" and read_error(body).code in _NOT_UNDERSTOOD:
                target.peer.speak(PACP)
                self.deliver(target, params, pending, out)
                return
        elif (
            member == b"error"
            and target.peer.role is Role.AGENT
            and self._exchange.version is None  # it has never taken one
        ):
            error = read_error(body)
            if error.unknown_method:
                self._not_an_agent(target.peer, pending, error.message, out)
                return
        self._pass_back(pending, member, body, None, out)

    def _not_an_agent(self, peer: Peer, pending: Pending, said: str, out: list[Effect]) -> None:
        """Ends the chain over a last component that does not know what an agent is asked first."""
        what = peer.label.removeprefix("agent ")
        reason = Closure(
            f"the last component, {what}, is not an agent (it answered `{INITIALIZE}`: {said})",
            "a chain ends with an agent: put one behind it, such as `demo`, or use "
            "`conductor proxy` for a chain without an agent",
            {"component": peer.name},
        )
        self._exchange.fail(pending, reason, out)
        self._exchange.chain_fails(peer, reason, out)

    def _pass_back(
        self,
        pending: Pending,
        member: bytes,
        body: bytes,
        kept: offer.Shape | None,
        out: list[Effect],
    ) -> None:
        answer: Raw | UnsetType = Raw(body)
        origin = pending.origin
        if member == b"result" and origin is not None:
            answer = offer.remove(answer, kept)
            if origin.peer is self._exchange.upstream:
                answer = self._upstream.answered(answer)
            else:
                (origin.peer.launched_by or origin.peer).answer_shape = offer.shape(answer)
        if origin is not None and isinstance(answer, Raw):
            origin.peer.recorded = (member, bytes(answer))
        assert isinstance(answer, Raw)
        self._exchange.reply(pending, member, answer, out)


def _raw(body: Raw | UnsetType) -> Raw:
    assert isinstance(body, Raw)
    return body
