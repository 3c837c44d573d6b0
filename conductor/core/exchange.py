"""The steps that all parts of the router share: to send, answer, refuse, and cancel one hop.

The state the parts share is here too: the peers (`conductor.core.topology`), and whether the chain
has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from msgspec import Raw, UnsetType

from conductor.core import adaptation, agent_turns, jsonrpc
from conductor.core.aliases import renamed
from conductor.core.component import Component, Role
from conductor.core.dialects import CANCEL, INITIALIZE
from conductor.core.effects import Closure, Effect, Effects, Fail, LogLine, Propagate, Send
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Malformed,
    Params,
)
from conductor.core.parts import Parts
from conductor.core.policy.headings import read_message, session_of
from conductor.core.policy.key_table import (
    MCP_FAMILIES,
    NO_QUESTIONS,
    PROMPT,
    SETUP,
    UPDATE,
)
from conductor.core.policy.sessions import Sessions
from conductor.core.policy.states import State
from conductor.core.state import (
    Batch,
    Lane,
    Next,
    Noted,
    Peer,
    Source,
    TracedRequest,
    Visit,
    Waiting,
    own_visit,
)
from conductor.core.topology import Topology
from conductor.core.tracing import Entries, with_number
from conductor.errors import marked

_OWN_ID: Final = '"c{}"'
"""The id of a guest's own request that a host of guests sends to the conductor above it."""
_OWN_PROMPT: Final = '"c{} {}"'
"""The same with the guest's name, for prompts and `_NAMED`: so the conductor knows the guest."""
_NAMED: Final = (*SETUP, *MCP_FAMILIES)
"""The methods beside prompts whose ids name the guest: folders are looked at, MCP servers may ask
the agent's model."""
_ALL_NUMBERS: Final = range(1 << 62)
_OWN_NUMBERS: Final = 500_000_000
"""The distance from the numbers of messages that were read to the numbers of those that only a
trace knows: so the former are the same with a trace and without."""


class Exchange:
    """The messages between the peers of one chain."""

    def __init__(self, parts: Parts, components: Sequence[Component]) -> None:
        self._parts = parts
        self._options = options = parts.options
        self.effects: Effects = []
        """The effects of the step that runs, so far and in order."""
        self.logs = options.logging or options.tracing
        """Whether `Entry` effects are made."""
        self.watches_all = options.tracing
        """Whether components without a policy are watched for these effects."""
        self.audited = frozenset(options.audited)
        """The components of which `Changed` effects are made."""
        self.version: int | None = None
        """The ACP version the chain settled on, once `initialize` has been answered."""
        watched = {one.name for one in components} if options.tracing else self.audited
        numbers = _ALL_NUMBERS if options.first_number else None
        self.topology = Topology(components, options.upstream, watched, numbers)
        self.peers = self.topology.peers
        self.upstream = self.topology.upstream
        self._reserved = frozenset(options.reserved)
        self.reserve_names(components)
        self.sessions = Sessions()
        self.may_keep = False
        """Whether an update for the client may have to wait, or to be changed."""
        self.mends = False
        """Whether an update for the client may hold additions of components to prompts."""
        self.count = options.first_number
        """The last number that was given."""
        self.number = options.first_number
        """The number of the message that is routed now; the message got it when it was read."""
        self._traced = count(options.first_number + _OWN_NUMBERS)
        self.entries = Entries(parts, self._traced)
        self._own_ids = count(1)
        self._failed = False

    def reserve(self, names: Collection[str]) -> None:
        """Names of MCP servers that only their owners may use, besides those that are known."""
        self._reserved |= frozenset(names)
        self.reserve_names(self.topology.components)

    def reserve_names(self, components: Sequence[Component]) -> None:
        """Keeps each component's MCP servers from taking the names of others."""
        own = [{component.name} | component.known_as for component in components]
        names = self._reserved.union(*own)
        for component in components:
            policy_state = self.peers[component.name].policy_state
            if policy_state is not None:
                policy_state.names_of_others = names - {component.name} - component.known_as

    def next_number(self) -> int:
        """The number of a message of the conductor's own, or of an entry of an array."""
        self.count += 1
        return self.count

    def deliver(
        self,
        peer: Peer,
        frame: bytes,
        number: int = 0,
        *,
        copy: bool = False,
        stamped: tuple[bytes, str, bytes] | None = None,
    ) -> None:
        """Has a frame written to a peer: every message to anybody goes through here.

        Args:
            peer: who is told.
            frame: whole lines.
            number: the number of the message, for a peer that is to know it; 0: nobody has to.
            copy: the frame may be left out where the peer is too slow.
            stamped: instead of the frame: id, method and params of a request, which the shell
                writes with the trace context in it.
        """
        if peer.deaf:
            return
        if stamped is not None:
            self.effects.append(Propagate(peer.name, *stamped, number))
            return
        if number and peer.numbers is not None:
            frame = with_number(peer, number, frame)
        self.effects.append(Send(peer.name, frame, copy))

    def emit(self, effect: Effect) -> None:
        """Adds an effect to those of the step that runs."""
        self.effects.append(effect)

    def taken(self) -> Effects:
        """The effects of the step that is over."""
        effects, self.effects = self.effects, []
        return effects

    # -- requests ------------------------------------------------------------------------------

    def own_request(self, method: str) -> Visit:
        """A request of the conductor's own."""
        pending = own_visit(method)
        if self.logs:
            pending.number, pending.traced = next(self._traced), TracedRequest(None)
        return pending

    def forward(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request out on `lane`: now, or once its peer is ready for it, or the folders that
        it names are known."""
        own = self._parts.own_folders if method in SETUP and self._options.resolving else None
        if own is None or not own.keeps(lane, method, params, pending):
            self.go(lane, method, params, pending)

    @property
    def keeps(self) -> bool:
        """Whether this conductor keeps the additions of components to prompts: only the conductor
        next to the client does."""
        return self._options.keeping and self.topology.mode == "agent"

    def watch(self, *, mends: bool) -> None:
        """From now on updates for the client may hold additions of components, if `mends`."""
        self.mends = mends
        self.may_keep = mends or self._parts.early.any

    def go(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request out on `lane`: now, or once its peer is ready for it."""
        if lane.mates:
            try:
                lane = self._parts.moving.leads(lane, method, params, pending)
            except Malformed as wrong:
                self.refuse(pending, wrong)
                return
        peer = lane.peer
        if self.may_keep and lane is self.upstream.p:
            if not method.startswith(NO_QUESTIONS):
                self._parts.early.asked()
            if self.mends:
                self._parts.replays.comes(session_of(params))
        if peer.ready:
            self.send(lane, method, params, pending)
        elif peer.closure is not None:
            self.fail(pending, peer.closure)
        elif peer.handshake is None:
            # It will not become ready by itself: the request would wait for ever.
            error = Malformed(INVALID_REQUEST, f"{peer.label} has not been initialized")
            self.refuse(pending, error)
        else:
            message = read_message(method, params)
            peer.backlog.append(Waiting(Next.ARRIVES, lane, pending, message))

    def notify(self, lane: Lane, method: str, params: Params, source: Source) -> None:
        """Sends a notification of `source` out on `lane`: now, or once its peer is ready for it."""
        if lane.mates:
            lane = self._parts.moving.leads(lane, method, params, None)
        peer = lane.peer
        if self.may_keep and lane is self.upstream.p:
            if self._parts.early.keeps(lane, method, params, source):
                return
            if self.mends:
                shown = self._parts.replays.shown(method, params, source)
                if shown is None:
                    return
                source = source.changed(shown is not params)
                params = shown
        if peer.ready:
            self.deliver(peer, lane.writer.notification(method, params), source.number)
            if self.logs:
                self.entries.notified(source, lane, method, params)
            if self.version == 2 and lane is self.upstream.p:
                self._parts.own_turns.client_sees(method, params)
        elif peer.closure is None and peer.handshake is not None:
            message = read_message(method, params)
            if not peer.wait(Waiting(Next.ARRIVES, lane, source, message)):
                text = f"`{method}` dropped: {peer.label} is not ready, and too much waits for it"
                self._dropped("warning", text, lane, method, params, source)
        else:
            text = f"`{method}` dropped: {peer.label} is not there for it"
            self._dropped("debug", text, lane, method, params, source)

    def _dropped(
        self, level: str, text: str, lane: Lane, method: str, params: Params, source: Source
    ) -> None:
        """Nobody gets a notification: the log says who has sent it."""
        self.log(level, source.lane.peer, text)
        if self.logs:
            self.entries.notified(source, lane, method, params, lost=True)

    def send(
        self, lane: Lane, method: str, params: Raw | bytes | UnsetType, pending: Visit
    ) -> bytes:
        """Writes a request now, and remembers it until its answer. Returns the frame; empty where
        the shell writes the request, or where it is refused."""
        peer, frame = lane.peer, b""
        if peer.agent_sessions is not None and not self._noted(lane, method, params, pending):
            return frame
        # Recorded before it is written: the trace and a cancellation read the id from here.
        pending.target = lane
        pending.target_id = id_ = self._id(lane, pending)
        lane.requests.sent[id_] = pending
        state = peer.policy_state
        if method == PROMPT and (state is None or not state.enforced):
            params = self._prompted(lane, params, pending)
        if pending.traced is not None:
            self.entries.sent(pending, lane, method, params)
        propagating = self._options.propagating and peer.role is Role.AGENT
        if propagating and not isinstance(params, UnsetType):
            named = bytes(params) if peer.names is None else renamed(params, peer.names.down)
            self.deliver(peer, frame, pending.number, stamped=(id_, method, named))
        else:
            frame = lane.writer.request(id_, method, params)
            self.deliver(peer, frame, pending.number)
        # The asker cancelled it while it waited for its peer. It goes out all the same, then its
        # cancellation: a cancelled request needs an answer too, and the peer knows which.
        if pending.cancelled:
            self._send_cancel(pending, lane)
            self._parts.cancellations.given(pending)
        return frame

    def _prompted(
        self, lane: Lane, params: Raw | bytes | UnsetType, pending: Visit
    ) -> Raw | bytes | UnsetType:
        """A prompt goes to an agent, or a component without a policy. Returns the params to
        send."""
        peer = lane.peer
        # The session is needed to cancel a turn in which nothing moves; params are not kept.
        if peer.role is Role.PROXY:
            session = session_of(params) if isinstance(params, Raw) else None
            lane.requests.give_prompt(session, pending)
        elif peer.role is Role.AGENT and isinstance(params, Raw):
            pending.session = session_of(params)
            if self.version == 2:
                self._parts.own_turns.agent_gets(lane, pending, params)
            sent = params
            if peer.untaken:
                params = adaptation.adapt(self._parts, peer, params, pending.session)
            if self.keeps and not lane.port:
                self._parts.replays.agent_gets(lane, pending, sent, params)
        return params

    def _noted(
        self, lane: Lane, method: str, params: Raw | bytes | UnsetType, pending: Visit
    ) -> bool:
        """Takes note of a request to an agent that may be started again; False if it is refused,
        since the agent has not taken its session up again."""
        peer, known = lane.peer, lane.peer.agent_sessions
        if known is None or not peer.ready:  # it is being revived
            return True
        why = known.why_lost(method, params)
        if why is not None:
            text = f"{peer.label} was started again and did not take this session up again: {why}"
            hint = "load the session again, or begin a new one; other sessions go on"
            self.fail(pending, Closure(text, hint, {"component": peer.name}))
            return False
        if known.asked(method, params):
            noted = params if isinstance(params, UnsetType) else Raw(params)
            pending.followers = (*pending.followers, Noted(noted, known))
        return True

    def _id(self, lane: Lane, pending: Visit) -> bytes:
        """The id a request is written under: a fresh id, except in a host of guests. There a
        request keeps the id that the conductor above gave it until it leaves the host."""
        origin, requests = pending.origin, lane.requests
        if not self.topology.hosted or (origin is not None and not origin.peer.sideband):
            return requests.fresh_id()
        if lane.peer is self.upstream:
            named = pending.method == PROMPT or pending.method.startswith(_NAMED)
            if named and (name := pending.flow.by):
                return _OWN_PROMPT.format(next(self._own_ids), name).encode()
        key, passes = pending.key, False
        if origin is not None:
            passes = origin.peer is self.upstream or key in origin.other.requests.sent
        if passes and not pending.is_own and key.isdigit() and key not in requests.sent:
            return key
        if lane.peer is not self.upstream:
            return requests.fresh_id()
        return _OWN_ID.format(next(self._own_ids)).encode()

    def drop(self, pending: Visit) -> None:
        """A request goes no further: its asker is gone, or has been answered meanwhile. Its
        followers and copies get an answer all the same."""
        if pending.followers or pending.copies or pending.passes_on is not None:
            self.refuse(pending, Malformed(REQUEST_CANCELLED, "Request cancelled"))

    def cancel_hop(self, pending: Visit, source: Source | None = None) -> None:
        """Tells the peer that has a request of its cancellation, at once or with the request.

        Args:
            source: who cancels it; None: the conductor.
        """
        pending.cancelled, pending.cancelled_by = True, source
        target = pending.target
        if target is not None and target.requests.sent.get(pending.target_id) is pending:
            self._send_cancel(pending, target)

    def _send_cancel(self, pending: Visit, lane: Lane) -> None:
        number = 0
        if pending.traced is not None:
            params = b'{"requestId":%b}' % pending.target_id
            source, request = pending.cancelled_by, pending.number
            number = self.entries.notified(source, lane, CANCEL, params, request)
        self.deliver(lane.peer, lane.writer.cancel(pending.target_id), number)

    # -- answers -------------------------------------------------------------------------------

    def reply(
        self, pending: Visit, member: bytes, body: Raw | bytes, *, copy: bool = False
    ) -> None:
        """Answers `pending`'s origin, if it is still there and has no answer yet, and tells all who
        have to do with the request. `copy`: it is an observer's request."""
        # Taken off first: their steps may come back here, and each hears of the answer once.
        followers, copies, passed_on = pending.followers, pending.copies, pending.passes_on
        pending.followers, pending.copies, pending.passes_on = (), (), None
        if self.may_keep and pending.origin is self.upstream.p:
            self._parts.early.answers(pending.names)
            if self.mends:
                self._parts.replays.comes(pending.names)
        if pending.rewriters:
            member, body = self._parts.answers.rewritten(pending, member, bytes(body))
        if pending.traced is not None:
            self.entries.answered(pending, member, body)
        frame, asker = b"", pending.origin
        if asker is not None:
            frame = self._answer(pending, asker, member, body, copy=copy)
        # After the asker: the messages of followers must not overtake the answer.
        for follower in followers:
            self._parts.answers.follow(follower, pending, member, bytes(body))
        if passed_on is not None:
            self._parts.policed.came_back(passed_on, pending, member, bytes(body), frame)
        for copied in copies:
            self._parts.observers.answered(copied, member, bytes(body))
        if pending.state is not State.CLOSED:
            self._parts.policed.answered_elsewhere(pending)
        if pending.method == PROMPT and asker is not None and asker.peer.role is Role.PROXY:
            self._parts.own_turns.has_again(asker, pending.names)

    def _answer(
        self, pending: Visit, origin: Lane, member: bytes, body: Raw | bytes, *, copy: bool
    ) -> bytes:
        """Has the answer written to the asker, and takes the request off. Returns the frame."""
        del origin.requests.received[pending.key]
        origin.requests.size -= pending.size
        pending.origin = None
        ended = None
        if origin is self.upstream.p and self.topology.mode == "agent":
            if member == b"error" or pending.method == INITIALIZE:
                body = self._parts.logins.shown(member, body)
            elif self.version == 2:
                body, ended = self._in_version_2(pending, body)
        frame = origin.writer.answer(pending.raw_id, member, body)
        if pending.batch is None:
            self.deliver(origin.peer, frame, pending.answer_number, copy=copy)
        else:
            self.add_to_batch(origin, pending.batch, frame)
        if ended is not None:
            source = Source(origin, self.next_number(), own=True)
            idle = Waiting(Next.ARRIVES, origin, source, read_message(UPDATE, ended))
            self._parts.own_turns.queue.ends(self.sessions.at(pending.names or ""), idle)
        return frame

    def _in_version_2(self, pending: Visit, body: Raw | bytes) -> tuple[Raw | bytes, Raw | None]:
        """The result for the client of version 2, and the update that ends the turn, if a component
        has answered its prompt and not the agent."""
        prompted = pending.method == PROMPT
        reason = agent_turns.stop_reason(bytes(body)) if prompted else None
        if reason is None or pending.names is None:
            return body, None
        by = agent_turns.refused_by(bytes(body))
        return agent_turns.in_version_2(reason, by, pending.names, pending.key)

    def add_to_batch(self, lane: Lane, batch: Batch, frame: bytes | None) -> None:
        """Adds the answer to one entry of an array (None: it has none)."""
        tag = lane.writer.tag
        whole = batch.add(frame[len(tag) :] if frame is not None else None)
        if whole is not None:
            self.deliver(lane.peer, tag + whole)

    def refuse(self, pending: Visit, error: Malformed) -> None:
        """Answers `pending` with an error of the conductor's own."""
        body = jsonrpc.error_object(error.code, error.text, error.data)
        pending.answer_number = 0
        self.reply(pending, b"error", body)

    def fail(self, pending: Visit, reason: Closure) -> None:
        """Answers `pending` with the reason a component is gone."""
        text, hint = marked(reason.text), marked(reason.hint)
        text = f"{text}\nhint: {hint}" if hint else text
        self.refuse(pending, Malformed(INTERNAL_ERROR, text, data=reason.data or None))

    # -- reports -------------------------------------------------------------------------------

    def chain_fails(self, peer: Peer, reason: Closure) -> None:
        """Reports, once, that the chain cannot go on, or that a component cannot join it."""
        if not peer.joined:
            self.emit(Fail(peer.name, reason))
        elif not self._failed:
            self._failed = True
            self.emit(Fail(peer.name, reason))

    def log(self, level: str, peer: Peer, text: str) -> None:
        """Puts a line into the log."""
        self.emit(LogLine(level, peer.name, text))
