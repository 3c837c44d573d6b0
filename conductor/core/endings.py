"""Ends of peers, turns and chains: the requests and roles that they leave are settled.

Each request gets its one answer. A proxy that ended while it took its role may get
its `initialize` again.
"""

from __future__ import annotations

from msgspec import UNSET, Raw

from conductor.core import json_text
from conductor.core.aliases import Aliases
from conductor.core.component import Role
from conductor.core.dialects import INITIALIZE
from conductor.core.effects import Closure, Reopen
from conductor.core.json_text import has_object
from conductor.core.jsonrpc import Params
from conductor.core.parts import Part
from conductor.core.policy.entries import Excuse
from conductor.core.policy.headings import read_message
from conductor.core.policy.key_table import CLOSING, STATE_KIND, STOP
from conductor.core.policy.states import State
from conductor.core.session import Session, Work, WorkEvent
from conductor.core.state import (
    Answer,
    AnswerTo,
    DialectState,
    Lane,
    Life,
    Next,
    Peer,
    Source,
    Visit,
    Waiting,
    copy_of,
    unread,
)
from conductor.core.topology import join, onward


def _closes(answer: Answer | None) -> bool:
    """Version 1: whether the answer to `initialize` says that the agent closes sessions."""
    said = answer[1] if answer is not None else None
    return has_object(said, "agentCapabilities", "sessionCapabilities", "close")


def _goes_on_inside(host: Peer, session: str) -> bool:
    """Whether a session goes on as this one by an alias of a guest in a host that is there, or is
    started again."""
    for aliases in reversed(() if host.closure is not None else host.inside):
        if session in aliases.bound.values():
            return True
        session = aliases.up.get(session, session)
    return False


class Endings(Part):
    """The part of a router that settles the requests of peers, turns and chains that end."""

    # -- a peer is gone ------------------------------------------------------------------------

    def closed(self, peer: Peer, reason: Closure) -> None:
        """Answers the requests that wait for a peer that is gone, and withdraws its own
        requests."""
        if peer.closure is not None or self._reopens(peer, reason):
            return
        self._fail_handshake(peer, reason)
        peer.move(Life.GONE, reason)
        self._settle(peer, reason, goes_on=False)
        if peer.component.peer_agent and peer.names is not None:
            self._parts.moving.gone(peer, reason)
        if peer.role not in (Role.CLIENT, Role.OUTER) and not peer.component.peer_agent:
            self._exchange.chain_fails(peer, reason)

    def bypassed(self, peer: Peer, reason: Closure) -> None:
        """Closes the gap a proxy leaves: its neighbours are joined, and messages flow on."""
        before, after = peer.p.across, peer.s.across
        if peer.closure is not None or before is None or after is None:
            return
        join(before, after)
        self.removed(peer, reason)

    def removed(self, peer: Peer, reason: Closure) -> None:
        """A proxy is gone, and its neighbours have been joined: `Peer.left_out` sees by them that
        the chain goes on."""
        if peer.closure is None:
            self._fail_handshake(peer, reason)
            peer.move(Life.GONE, reason)
            self._settle(peer, reason)

    def leaving(self, peer: Peer, reason: Closure) -> None:
        """A proxy that will be started again is gone: open requests are answered, new messages
        wait.

        Its `initialize` waits too, if its successor has received nothing of that request.
        """
        if peer.closure is not None:
            return
        if self.may_retry(peer):
            self._defer_initialize(peer)
        self._fail_handshake(peer, reason)
        peer.move(Life.RESTARTING)
        peer.loading = peer.component.hosts
        # Nobody waits for the answer to this handshake. It is there since messages for a peer that
        # is not ready wait only while the peer has a handshake; otherwise they fail.
        params = UNSET if peer.initialize is None else peer.initialize
        peer.begin_handshake(unread(INITIALIZE), params)
        self._settle(peer, reason)

    @staticmethod
    def faltered(peer: Peer, *, goes_on: bool) -> None:
        """A guest alone in its host has failed; the answers of its host for it break no rule
        now."""
        for lane in (peer.p, peer.s):
            for carried in lane.in_flight.requests.values():
                carried.excused = Excuse.GOES_ON if goes_on else Excuse.ENDS

    def _settle(self, peer: Peer, reason: Closure, *, goes_on: bool = True) -> None:
        """Answers the requests that wait for the peer, withdraws its own requests, and lets go the
        messages that it held up.

        Args:
            goes_on: the chain does without the peer, so messages that it held go on as they came.
        """
        # The new instance would get answers to requests that only the old instance has sent.
        peer.deaf = True
        self._parts.own_turns.gone(peer)
        if not peer.restarting and self._exchange.peers.get(peer.name) is peer:
            self._end_aliases(peer)
        self._end_subsessions(peer)
        for requests in peer.id_spaces:
            for pending in list(requests.sent.values()):
                if not self._goes_on(pending, goes_on):
                    self._exchange.fail(pending, reason)
            requests.sent.clear()
        if peer.closure is not None:
            self._parts.waits.resume(peer)
        self.withdraw(peer)
        self._parts.notifications.gone(peer)
        peer.deaf = peer.closure is not None

    def _end_aliases(self, peer: Peer) -> None:
        """Nobody comes in the place of a component: its sessions are themselves again below."""
        lane = peer.p.other
        if lane.aliases is None:
            return
        bound = ", ".join(f"`{session:.80}`" for session in lane.aliases.bound)
        text = f"{peer.label} is gone: the agent goes on without its work in {bound} since"
        self._exchange.log("warning", peer, text)
        self._parts.names.alias(peer, Aliases())

    def _end_subsessions(self, peer: Peer) -> None:
        """The sessions that a component has opened with the agent end with the component."""
        sessions, peers = self._exchange.sessions, self._exchange.peers.values()
        for session in sessions.subsessions(peer.name):
            lane, id_ = peer.p.other, session
            inside = any(_goes_on_inside(host, session) for host in peers)
            if self._parts.names.is_set_aside(lane, session) or inside:
                continue  # it is the user's, and another instance goes on with the alias
            sessions.ended(session, peer.name)
            target = lane
            for here, there in onward(lane):
                id_, target = (here.renames or {}).get(id_, id_), there
            if target.peer.ready:
                answer = peer.recorded_answer if peer.shadow is None else peer.shadow.upstream
                self.end_session(target, answer, id_)

    def end_session(self, lane: Lane, answer: Answer | None, session: str) -> None:
        """Has the agent, which is at `lane` or behind it, close a session, or stop its work there
        if it closes none. `answer`: the agent's answer to `initialize`."""
        exchange, params = self._exchange, Raw(json_text.encode({"sessionId": session}))
        if exchange.version == 2 or _closes(answer):
            close = exchange.own_request(CLOSING[0])
            close.answer_to = AnswerTo.NOBODY
            exchange.send(lane, CLOSING[0], params, close)
        else:
            source = Source(lane, exchange.next_number(), own=True)
            exchange.notify(lane, STOP, params, source)

    def _goes_on(self, pending: Visit, chain: bool) -> bool:
        """Whether a request goes on, or is answered, without the component that had it.

        Args:
            chain: there is still a chain in which the request can go on.
        """
        ends = (State.CLOSED,) if chain else (State.CLOSED, State.QUEUED, State.GIVEN)
        return pending.state not in ends and self._parts.policed.lost(pending)

    def withdraw(self, peer: Peer) -> None:
        """Cancels the requests of a peer that is gone; nobody will read the answers."""
        for requests in peer.id_spaces:
            for pending in list(requests.received.values()):
                if pending.given is None or not pending.given.wanted:
                    self._parts.cancellations.cancel(pending)
                pending.origin = None
            requests.received.clear()
            requests.size = 0

    # -- its role ------------------------------------------------------------------------------

    def _reopens(self, peer: Peer, reason: Closure) -> bool:
        """Starts a peer that just ended once more, to try another dialect; False if it may not.

        Some programs end when they get a request they do not know.
        """
        handshake = peer.handshake
        if (
            handshake is None
            or peer.dialect_state is not DialectState.UNKNOWN
            or not handshake.left
            or handshake.role_answer is not None
            or handshake.reopened
            or reason.data.get("exitCode") is None
        ):
            return False
        handshake.reopened = True
        handshake.left += handshake.tried  # it may have ended for another reason
        handshake.tried.clear()
        handshake.pending.target = None
        peer.p.requests.sent.clear()
        self.withdraw(peer)
        self._exchange.emit(Reopen(peer.name))
        return True

    def _fail_handshake(self, peer: Peer, reason: Closure) -> None:
        """Fails the handshake a peer was in when it ended, if any."""
        handshake, peer.handshake = peer.handshake, None
        if handshake is not None:
            self._exchange.fail(handshake.pending, reason)

    def may_retry(self, peer: Peer) -> bool:
        """Whether a proxy can be started again before it has taken its role: its successor has not
        received anything of it yet."""
        handshake = peer.handshake
        launching = handshake is not None and handshake.role_answer is not None
        # `_reopens` first starts a peer of unknown dialect again.
        unknown = peer.dialect_state is DialectState.UNKNOWN
        afresh = unknown and handshake is not None and not handshake.reopened
        return not (peer.role is not Role.PROXY or launching or peer.forwarded or afresh)

    def _defer_initialize(self, peer: Peer) -> None:
        """Puts the `initialize` that a peer had not answered back into its backlog."""
        handshake = peer.handshake
        if handshake is None or peer.shadow is not None or peer.restarting:
            return
        pending = handshake.pending
        peer.p.requests.sent.pop(pending.target_id, None)
        pending.target, pending.answer_to = None, AnswerTo.ASKER
        peer.handshake = peer.initialize = None
        # At the front: everything else in the backlog came after it.
        message = read_message(INITIALIZE, handshake.params)
        peer.backlog.insert(0, Waiting(Next.AGAIN, peer.p, pending, message))

    def returned(self, peer: Peer) -> None:
        """Gives a peer that was started again its role again, without disturbing its successor:
        the `initialize` it forwards is answered as it was the first time."""
        if peer.initialize is None:
            peer.handshake = None
            known = peer.dialect_state is not DialectState.UNKNOWN
            peer.move(Life.READY if known else Life.STARTING)
            self._parts.waits.resume(peer)
            return
        self.takes_role(peer, peer.initialize, self._exchange.own_request(INITIALIZE))

    def takes_role(self, peer: Peer, params: Params, pending: Visit) -> None:
        """Another instance, or a component that is to join, takes the role beside the chain."""
        answer = peer.recorded_answer if peer.shadow is None else peer.shadow.upstream
        if peer.shadow is None or answer is not None:
            peer.shadow = copy_of(read_message(INITIALIZE, params), answer)
        self._parts.initializer.initialize_alone(peer, params, pending)

    # -- a request or a turn is over -----------------------------------------------------------

    def expire(self, peer: Peer, key: bytes, reason: Closure) -> None:
        """Fails one request that a peer has not answered, and cancels it there.

        The answer, should it still come, belongs to nothing any more.

        Args:
            key: from `Router.waiting_on`.
        """
        pending = self._sent(peer, key)
        if pending is not None:
            self._parts.cancellations.cancel(pending)
            self._exchange.fail(pending, reason)
            pending.answer_to = AnswerTo.ASKER

    def end_prompt(self, peer: Peer, key: bytes, reason: Closure) -> None:
        """Cancels a turn of an agent in which nothing moves, and fails its prompt."""
        pending = self._sent(peer, key)
        if pending is not None and pending.session is not None:
            self._stop_turns(peer, pending.session)
        self.expire(peer, key, reason)

    def end_turn(self, peer: Peer, session: str, reason: Closure) -> None:
        """Version 2: cancels a turn of an agent, and tells the others why in the agent's place."""
        known = self._parts.names.sessions_of(peer).at(session)
        if known.work is Work.STOPS:
            self.stopped(peer, known)  # it has not stopped
        else:
            known.does(WorkEvent.STOPPED)
            self._stop_turns(peer, self._parts.names.below(peer, known))
            self.complains(peer, known, reason)

    def complains(self, peer: Peer, session: Session, reason: Closure) -> None:
        """Version 2: tells in the agent's place why a turn is over after the answer to its
        prompt."""
        shows, below = self._parts.notifications.shows, self._parts.names.below(peer, session)
        title, more = reason.text, reason.hint
        shows(peer, below, "notice", severity="error", title=title, description=more)

    def stopped(self, peer: Peer, session: Session) -> None:
        """Version 2: the session of a turn is idle from now on, whatever its agent does."""
        shows, below = self._parts.notifications.shows, self._parts.names.below(peer, session)
        shows(peer, below, STATE_KIND, state="idle", stopReason="cancelled")
        self._parts.own_turns.queue.reported(session, "idle")

    def _stop_turns(self, peer: Peer, session: str) -> None:
        """Has an agent cancel the turns of a session."""
        params = json_text.encode({"sessionId": session})
        self._exchange.deliver(peer, peer.p.writer.notification(STOP, params))
        if self._exchange.logs:
            self._exchange.entries.notified(None, peer.p, STOP, params)

    @staticmethod
    def _sent(peer: Peer, key: bytes) -> Visit | None:
        at, _, id_ = key.partition(b":")
        requests = peer.id_spaces[int(at)]
        pending = requests.sent.get(id_)
        requests.lost = requests.lost or pending is not None
        return pending

    # -- the chain is over ---------------------------------------------------------------------

    def abandon(self, reason: Closure) -> None:
        """Answers each request that upstream still waits for."""
        for pending in self._open():
            self._exchange.fail(pending, reason)

    def overdue(self, why: str, hint: str) -> Closure | None:
        """As `abandon`, but each answer names the peer that has not answered the request.

        Returns:
            The first reason; None: no request was open.
        """
        first: Closure | None = None
        for pending in self._open():
            culprit = self._holder(pending)
            name = culprit.label if culprit is not None else "the chain"
            data = {"component": culprit.name} if culprit is not None else {}
            reason = Closure(f"{name} did not answer `{pending.method}` {why}", hint, data)
            self._exchange.fail(pending, reason)
            first = first or reason
        return first

    def _open(self) -> list[Visit]:
        spaces = self._exchange.upstream.id_spaces
        return [pending for requests in spaces for pending in requests.received.values()]

    def _holder(self, pending: Visit) -> Peer | None:
        """The peer furthest down the chain that a request of this method still waits for."""
        seen: set[str] = set()
        target = pending.target
        while target is not None and target.peer.name not in seen:
            peer = target.peer
            seen.add(peer.name)
            onward = [
                other.target
                for requests in peer.id_spaces
                for other in requests.received.values()
                if other.method == pending.method and other.target is not None
            ]
            if not onward or onward[0].peer is self._exchange.upstream:
                return peer
            target = onward[0]
        return target.peer if target is not None else None
