"""How a chain is initialized: roles and versions are agreed on, peer by peer.

`initialize` is the only message with a form that depends on its receiver: the role request of a
proxy's dialect, or plain `initialize` for the agent. Each proxy forwards it to its successor before
it answers, so it walks the whole chain and the capabilities come back by the same peers.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.adaptation import untaken
from conductor.core.component import HOLD_INITIALIZE, Role, Side, setters
from conductor.core.dialects import INITIALIZE, LAUNCH, PACP, ROLE_METHODS, SCP
from conductor.core.effects import Closure, Listen, Silent
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Params,
    read_error,
    unknown_method,
)
from conductor.core.parts import Part, Parts
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.own_answers import named
from conductor.core.roles.initialize_params import (
    EMPTY,
    RESULT,
    Shape,
    add_offer,
    composed,
    has_offer,
    offer_shape,
    remove_offer,
)
from conductor.core.roles.peer_agents import PeerAgents, with_peers, without_peers
from conductor.core.roles.upstream import ONLY_CONDUCTOR, UpstreamRole
from conductor.core.state import (
    AnswerTo,
    DialectState,
    Handshake,
    Lane,
    Life,
    Next,
    PassedOn,
    Peer,
    Visit,
    Waiting,
    unread,
)
from conductor.core.waits import Initializing

_NOT_UNDERSTOOD: Final = (METHOD_NOT_FOUND, INVALID_REQUEST, INVALID_PARAMS)
_NOT_FORWARDED: Final = (
    "it answered `initialize` without forwarding it; its successors are not ready"
)
_HEADING: Final = Heading(INITIALIZE, None)


def successor_name(name: str) -> str:
    """Name of the peer that stands for an `scp` proxy's own connection to its successor."""
    return f"{name}/successor"


class Initializer(Part):
    """The part of a router that handles `initialize` and role requests."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.upstream = UpstreamRole(parts.exchange)
        self.peer_agents = PeerAgents(parts)

    # -- requests ------------------------------------------------------------------------------

    def request(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Handles `initialize` or a role request from any peer.

        Raises:
            Malformed: it is refused.
        """
        peer = lane.peer
        if method == LAUNCH:
            raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
        if peer is self._exchange.upstream:
            params = self.upstream.request(lane, method, params)
        else:
            params = self._forwarded(lane, method, params)
            shadow = (peer.launched_by or peer).shadow
            if shadow is not None:
                self._trace_shadow(peer.launched_by or peer, pending)
                self._parts.observers.passed_on(shadow, pending)
                return
            if peer.policy_state is not None:
                allowed = self._parts.handshake.forwarded(lane, params, pending)
                if allowed is None:
                    return
                params = allowed
            elif pending.traced is not None and peer.handshake is not None:
                pending.traced.passes = peer.handshake.pending.number
        pending.method = INITIALIZE
        (peer.launched_by or peer).passed = params
        target = lane.across
        assert target is not None
        self.deliver(target, params, pending)

    @staticmethod
    def _trace_shadow(peer: Peer, pending: Visit) -> None:
        """A trace reports an `initialize` with a recorded answer only if it reports the one that
        the proxy was given: so for a proxy that takes its role again, not for one with a copy."""
        given = peer.handshake.pending if peer.handshake is not None else None
        if given is None or given.traced is None:
            pending.traced = None
        elif pending.traced is not None:  # pragma: no branch - both are there, or none is
            pending.traced.passes = given.number

    def _forwarded(self, lane: Lane, method: str, params: Params) -> Params:
        """The params that a proxy passes on to its successor."""
        peer = lane.peer
        if method in ROLE_METHODS:
            unknown = peer.dialect_state is DialectState.UNKNOWN
            if lane.side is Side.S and unknown and peer.handshake is not None:
                # A proxy of another generation forwards the role request it does not know.
                raise Malformed(METHOD_NOT_FOUND, f"Method not found: `{method}`")
            raise Malformed(INVALID_REQUEST, ONLY_CONDUCTOR.format(method))
        if lane.side is Side.P and peer.launched_by is None:
            raise Malformed(INVALID_REQUEST, "`initialize` goes to the successor only")
        if lane.across is None and (peer.launched_by or peer).joined:
            raise Malformed(INVALID_REQUEST, f"expected `{INITIALIZE}` request")
        # From now on its successor knows of it, so that it cannot get its role anew.
        (peer.launched_by or peer).forwarded = True
        if peer.ports and peer.handshake is not None:
            params = without_peers(params, peer.handshake.params)
        return remove_offer(params, (peer.launched_by or peer).offer_shape)

    def deliver(self, lane: Lane, params: Params, pending: Visit) -> None:
        """Gives a peer `initialize`, in the peer's form."""
        peer = lane.peer
        if not self._parts.handshake.takes_part(peer):
            self._bypass(lane, params, pending)
        elif peer.closure is not None:
            self._exchange.fail(pending, peer.closure)
        elif peer.role is not Role.PROXY:
            pending.answer_to, pending.params = AnswerTo.LAST, params
            self.has_time(peer, pending)
            self._exchange.forward(lane, INITIALIZE, params, pending)
        elif peer.handshake is not None and (not peer.ready or _judged(peer)):
            # A second `initialize` while one is open: the first answer may settle the dialect, and
            # ends a policed component that refuses.
            message = Message(INITIALIZE, params, _HEADING)
            peer.backlog.append(Waiting(Next.INITIALIZE, lane, pending, message))
        else:
            peer.initialize = params
            handshake = peer.begin_handshake(pending, params)
            handshake.number = self._exchange.number
            self.has_time(peer, handshake)
            self.attempt(peer, handshake)

    def attempt(self, peer: Peer, handshake: Handshake) -> None:
        """Sends a peer its role request in the next dialect that it may speak."""
        dialect, params = handshake.next_dialect(), handshake.params
        if dialect.offer:
            peer.offer_shape = offer_shape(params)
            params = add_offer(params, "client")
        if peer.ports and not peer.sideband:  # a guest finds them in `configure`
            params = with_peers(params, peer.ports)
        handshake.pending.answer_to, handshake.pending.handshake = AnswerTo.ROLE, handshake
        self._exchange.send(peer.p, dialect.role, params, handshake.pending)

    def initialize_alone(self, peer: Peer, params: Params, pending: Visit) -> None:
        """Asks a peer to initialize while nobody waits for its answer."""
        handshake = peer.begin_handshake(pending, params)
        if peer.joined:  # a component that is to join may wait for a service until it has joined
            self.has_time(peer, handshake)
        self.attempt(peer, handshake)

    def has_time(self, peer: Peer, asked: Handshake | Visit) -> None:
        """A component is to take its role, at any of its starts: its time for that begins, unless
        nobody waits for it and it may stay without the role."""
        if is_waited_for(peer):
            self._parts.deadlines.held(peer, _patience(peer), Initializing(peer, asked))

    # -- past a proxy --------------------------------------------------------------------------

    def _bypass(self, lane: Lane, params: Params, pending: Visit) -> None:
        """Initializes a proxy that may not take part with a copy, while the original goes on. The
        `initialize` that the proxy forwards is answered as the original is."""
        peer = lane.peer
        if peer.closure is None and peer.handshake is None:
            peer.initialize = params
            message = Message(INITIALIZE, params, _HEADING)
            peer.shadow = self._parts.observers.follow(pending, message)
            self.initialize_alone(peer, params, unread(INITIALIZE))
        self._deliver_ahead(peer, params, pending)

    def _deliver_ahead(self, peer: Peer, params: Params, pending: Visit) -> None:
        ahead = peer.p.other.across
        assert ahead is not None
        self.deliver(ahead, params, pending)

    def late(self, due: Initializing) -> None:
        """A component has had its time to take its role. A guest that was never started again can
        be written to all the same."""
        peer, asked, _ = due
        if isinstance(asked, Visit):
            if peer.p.requests.sent.get(asked.target_id) is asked and asked.wanted:
                self._exchange.emit(Silent(peer.name, asked.method, _patience(peer)))
        elif peer.handshake is not asked:
            pass
        elif _waits_behind(peer):
            self.has_time(peer, asked)  # anew: nobody can answer before those behind it
        elif _must_take_role(peer):
            self._exchange.emit(Silent(peer.name, INITIALIZE, _patience(peer)))
        elif not peer.forwarded and peer.shadow is None:
            self._holds(peer, asked)
        elif peer.shadow is None and not (peer.policy_state and peer.policed.enforced):
            self._exchange.emit(Silent(peer.name, INITIALIZE, _patience(peer)))

    def _holds(self, peer: Peer, handshake: Handshake) -> None:
        """A guest has not passed `initialize` on in time. A policed guest has a copy from now on,
        and the original goes on without it; any other guest ends the chain."""
        pending = handshake.pending
        held = f"has held `{INITIALIZE}` for more than {_patience(peer):g} s"
        if not self._parts.handshake.goes_without(peer, held):
            hint = "it neither passed it on nor answered; is it a proxy? `conductor test` tells"
            self._chain_ends(peer, pending, f"{peer.label} {held}", hint)
            return
        handshake.pending = self._replace(peer, pending)
        handshake.pending.answer_to, handshake.pending.handshake = AnswerTo.ROLE, handshake
        params = handshake.params
        peer.shadow = self._parts.observers.follow(pending, Message(INITIALIZE, params, _HEADING))
        self._deliver_ahead(peer, params, pending)

    def came_back(self, passed: PassedOn, member: bytes, body: bytes) -> None:
        """The `initialize` that a proxy passed on is answered: a policed proxy must answer in
        time."""
        peer, handshake = passed.peer, passed.handshake
        self._parts.handshake.came_back(handshake, member, body)
        if peer.launched_by is not None or not peer.policed.enforced:
            return
        if handshake.answer_goes_past:
            self._finish(handshake, member, body)
            return
        due = Initializing(peer, handshake, (member, body))
        self._parts.deadlines.after(HOLD_INITIALIZE, due)

    def answer_late(self, due: Initializing) -> None:
        """A policed proxy has held the answer from behind it for too long: this answer goes
        back."""
        peer, handshake, answer = due
        assert answer is not None
        assert isinstance(handshake, Handshake)
        waits = handshake.role_answer is None and peer.closure is None
        if peer.handshake is handshake and waits:
            held = f"has held the answer to `{INITIALIZE}` for more than {HOLD_INITIALIZE:g} s"
            self._parts.handshake.held(peer, held)
            self._replace(peer, handshake.pending)
            self._finish(handshake, *answer)

    @staticmethod
    def _replace(peer: Peer, pending: Visit) -> Visit:
        """Takes a role request back from a peer: a stand-in, which nobody waits for, gets its
        answer."""
        copy = unread(INITIALIZE)
        copy.target, copy.target_id = pending.target, pending.target_id
        peer.p.requests.sent[copy.target_id] = copy
        pending.answer_to = AnswerTo.ASKER
        return copy

    # -- answers -------------------------------------------------------------------------------

    def role_answered(self, handshake: Handshake, member: bytes, body: bytes) -> None:
        """A proxy has answered its role request."""
        peer = handshake.peer
        unknown = peer.dialect_state is DialectState.UNKNOWN
        if member == b"error":
            error = read_error(body)
            if unknown and unknown_method(error):
                if handshake.left:
                    self.attempt(peer, handshake)
                else:
                    self.not_a_proxy(handshake, f"it answered: {error.message}")
                return
        else:
            dialect = handshake.tried[-1]
            # One that has launched its successor is a proxy, whatever it answers a repetition.
            launched = dialect.launches and successor_name(peer.name) in self._exchange.peers
            if dialect.offer and not launched and not has_offer(body):
                self.not_a_proxy(handshake, "its answer lacks the proxy echo")
                return
            if (dialect.launches and not launched) or (dialect.offer and unknown):
                handshake.role_answer = body
                if not peer.restarting:
                    peer.move(Life.STARTING)
                self._exchange.emit(Listen(peer.name))
                return
            if unknown:
                self._parts.detection.settle(peer, dialect)
            if not peer.forwarded:
                self._exchange.log("warning", peer, _NOT_FORWARDED)
        self._judge(handshake, member, body)

    def take_launched(self, handshake: Handshake) -> None:
        """A proxy has launched its successor, or has had the time to: its answer goes back with the
        successor's answer, as soon as both are known."""
        peer = handshake.peer
        answer = self._exchange.peers[successor_name(peer.name)].recorded_answer
        if answer is None and peer.shadow is None:
            if peer.forwarded or not handshake.had_time:
                return
            self._exchange.log("warning", peer, _NOT_FORWARDED)
        own, launched, handshake.role_answer = handshake.role_answer, handshake.launched, None
        assert own is not None
        assert launched is not None
        self._parts.detection.settle(peer, SCP)
        member, body = answer if answer is not None else (b"result", own)
        if member == b"result":
            body = composed(own, launched, body)
        self._judge(handshake, member, body)

    def take_role_answer(self, handshake: Handshake) -> None:
        """A proxy need not launch its successor: its answer goes back."""
        body, handshake.role_answer = handshake.role_answer, None
        assert body is not None
        self._judge(handshake, b"result", body)

    def _judge(self, handshake: Handshake, member: bytes, body: bytes) -> None:
        """A proxy's answer to its role request goes back, as far as its policy lets it."""
        peer = handshake.peer
        refuses = member == b"error" and not peer.forwarded
        if refuses and (peer.shadow is not None or not self._parts.handshake.may_answer(peer)):
            # Nobody gets that answer.
            said = read_error(body).message.removeprefix(f"{peer.name}: ")
            self._exchange.emit(Silent(peer.name, INITIALIZE, 0.0, said))
            return
        if peer.policy_state is not None and peer.shadow is None:
            if member == b"result" and peer.offer_shape is not None:
                unflagged = remove_offer(Raw(body), _kept_shape(peer))
                assert isinstance(unflagged, Raw)
                body = bytes(unflagged)
            verdict = self._parts.handshake.answered(peer, handshake, (member, body))
            if verdict is None:
                self._go_without(peer, handshake)
                return
            member, body = verdict
        if refuses:
            body = named(peer, body)
        self._finish(handshake, member, body)

    def _go_without(self, peer: Peer, handshake: Handshake) -> None:
        """Goes on as if a proxy had passed on `initialize`, which it may not answer by itself."""
        if handshake.onward is not None:  # it has, and the answer is on its way
            handshake.answer_goes_past = True
            return
        peer.handshake = None
        self._deliver_ahead(peer, handshake.params, handshake.pending)
        self._parts.waits.resume(peer)

    def _finish(self, handshake: Handshake, member: bytes, body: bytes) -> None:
        """The handshake is over: its answer goes back, and messages that waited for it go on."""
        peer = handshake.peer
        if peer.handshake is handshake:
            peer.handshake = None
        if peer.restarting:
            peer.move(Life.READY)
            # The next `initialize` is the client's own, and goes on to the successor again.
            if self._parts.handshake.takes_part(peer):
                peer.shadow = None
            self._parts.waits.resume(peer)
        kept = _kept_shape(peer) if peer.offer_shape is not None else None
        self._pass_back(handshake.pending, member, body, kept)
        self._parts.waits.resume(peer)

    def last_answered(self, params: Params, pending: Visit, member: bytes, body: bytes) -> None:
        """The agent has answered, or in proxy mode the outer conductor for its successor."""
        target = pending.target
        assert target is not None
        peer = target.peer
        if peer.dialect_state is not DialectState.KNOWN:
            # The outer conductor offered the role as `sacp` and `pacp` both do.
            peer.dialect_state = DialectState.KNOWN
            if member == b"error" and read_error(body).code in _NOT_UNDERSTOOD:
                peer.speak(PACP)
                self.deliver(target, params, pending)
                return
        elif (
            member == b"error"
            and peer.role is Role.AGENT
            and self._exchange.version is None  # it has never taken one
        ):
            error = read_error(body)
            if unknown_method(error):
                self._not_an_agent(peer, pending, error.message)
                return
        elif member == b"result" and peer.role is Role.AGENT:
            peer.untaken = untaken(body)
            if peer.agent_sessions is not None:
                peer.agent_sessions.initialized(params, body)
        self._pass_back(pending, member, body, None)

    def _pass_back(self, pending: Visit, member: bytes, body: bytes, kept: Shape | None) -> None:
        """Answers the sender of an `initialize`, without an offer of the hop it came from."""
        answer: Params = Raw(body)
        origin, target = pending.origin, pending.target
        assert target is not None
        if member == b"result" and origin is not None:
            answer = remove_offer(answer, kept)
            assert isinstance(answer, Raw)
            target.peer.answered = (member, bytes(answer))
            if origin.peer is self._exchange.upstream:
                answer = self.upstream.answered(answer)
            else:
                (origin.peer.launched_by or origin.peer).answer_shape = offer_shape(answer)
        assert isinstance(answer, Raw)
        if origin is not None:
            origin.peer.recorded_answer = (member, bytes(answer))
        self._exchange.reply(pending, member, answer)
        if origin is not None and origin.peer is self._exchange.upstream:
            self.peer_agents.greet()
        launcher = origin.peer.launched_by if origin is not None else None
        handshake = launcher.handshake if launcher is not None else None
        if handshake is not None and handshake.launched is not None:
            self.take_launched(handshake)

    # -- components in the wrong place ---------------------------------------------------------

    def not_a_proxy(self, handshake: Handshake, why: str) -> None:
        """Ends the chain over a component that cannot take the role."""
        peer = handshake.peer
        hint = (
            "only the last component of a chain may be an agent; "
            f"if this is a proxy, name its dialect: `{peer.name},dialect=acp`"
        )
        self._without_role(handshake, f"component {peer.label} is not a proxy ({why})", hint)

    def not_launched(self, handshake: Handshake, why: str) -> None:
        """Ends the chain over an `scp` proxy that has refused to launch its successor. `why`: the
        proxy's words, which may have a hint of their own."""
        peer = handshake.peer
        said, _, hint = why.partition("\nhint: ")
        hint = hint or f"if it speaks another dialect, name that: `{peer.name},dialect=acp`"
        text = f"{peer.label} has not launched its successor (`{LAUNCH}`): {said}"
        self._without_role(handshake, text, hint)

    def _without_role(self, handshake: Handshake, text: str, hint: str) -> None:
        peer = handshake.peer
        peer.handshake = None
        self._chain_ends(peer, handshake.pending, text, hint)
        self._parts.waits.resume(peer)

    def _chain_ends(self, peer: Peer, pending: Visit, text: str, hint: str) -> None:
        """The chain fails by a component, and so does the `initialize` that it has."""
        text += setters(peer.component.set_by.get(peer.name, {}), text, starting=True)
        reason = Closure(text, hint, {"component": peer.name})
        self._exchange.fail(pending, reason)
        self._exchange.chain_fails(peer, reason)

    def _not_an_agent(self, peer: Peer, pending: Visit, message: str) -> None:
        """Ends the chain over a last component that does not know an agent's first request."""
        what = peer.label.removeprefix("agent ")
        self._chain_ends(
            peer,
            pending,
            f"the last component, {what}, is not an agent (it answered `{INITIALIZE}`: {message})",
            "a chain ends with an agent: put one behind it, such as `demo`, or use "
            "`conductor proxy` for a chain without an agent",
        )


def is_waited_for(peer: Peer) -> bool:
    """Whether a component that takes its role holds up others; else it stays where it is, however
    long that takes."""
    alone = peer.shadow is not None or not peer.component.timed
    return _must_take_role(peer) or (peer.role is Role.PROXY and not alone)


def _must_take_role(peer: Peer) -> bool:
    """Whether a component counts as ended if it does not take its role; also in a host that was
    started again itself. A component that cannot be written to before would hold messages."""
    component = peer.component
    return peer.restarting or component.program or bool(component.instance) or not peer.ready


def _judged(peer: Peer) -> bool:
    """Whether its policy says how far it may answer the `initialize` that it was given."""
    return peer.policy_state is not None and peer.policy_state.enforced and peer.shadow is None


def _patience(peer: Peer) -> float:
    return peer.component.patience or HOLD_INITIALIZE


def _waits_behind(peer: Peer) -> bool:
    """Whether an `initialize` that a proxy has passed on has no answer yet."""
    return any(
        pending.method == INITIALIZE
        for lane in (peer.p, peer.p.other)
        for pending in lane.requests.received.values()
    )


def _kept_shape(peer: Peer) -> Shape:
    """The places of the offer that stay in the result of a proxy that was offered the role."""
    return RESULT | (peer.answer_shape or EMPTY)
