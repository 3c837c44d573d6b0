"""Requests and their answers: accepted, unwrapped, sent on across the chain, and completed."""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from conductor.core import adaptation, dialects, jsonrpc
from conductor.core.agent_turns import only_begun
from conductor.core.aliases import listed, renamed
from conductor.core.component import Role, Side
from conductor.core.dialects import ENVELOPES, PACP, ROLES
from conductor.core.effects import Reached
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Malformed,
    Params,
)
from conductor.core.message import Message
from conductor.core.parts import Part
from conductor.core.policy import own_terminals
from conductor.core.policy.headings import read_message, session_of, size_of
from conductor.core.policy.key_table import (
    CLOSING,
    EVENTS,
    LIST,
    MCP_FAMILIES,
    OF_EDITOR,
    PERMISSION,
    PROMPT,
    UPDATE,
    Direction,
)
from conductor.core.policy.own_answers import event_answer
from conductor.core.policy.ownership import CONCERNED
from conductor.core.policy.sessions import ENTERING, FOLLOWED, MAKES_ONE, Followed, guest_of
from conductor.core.policy.states import State
from conductor.core.services import called
from conductor.core.session import AgentPrompt, Prompt, QueuedTurn, Rebind, Settled, WorkEvent
from conductor.core.state import (
    Answer,
    AnswerTo,
    AtPort,
    Batch,
    DialectState,
    Flow,
    Follower,
    Forwarded,
    Lane,
    Next,
    Noted,
    PassedOn,
    Renamed,
    Replayed,
    Seen,
    Step,
    Straight,
    TracedRequest,
    Visit,
    Waiting,
)
from conductor.errors import counted

ONE_HOP: Final = "$/"
"""How methods begin that concern one connection: the ids they name are only known there."""
_ASKER: Final = AnswerTo.ASKER
_CLOSED: Final = State.CLOSED
_GIVEN: Final = State.GIVEN
_RETURNED: Final = State.RETURNED
_LONGEST_ID: Final = 1024
"""Bytes: an id is kept until the request is answered."""
_LOOKED_AT: Final = 256
"""Open requests that are looked at for the log: a peer may drop very many answers."""

_NOTIFIED: Final = "Method not found: `{}` is no request; what begins with `$/` is only notified"
_MISPLACED: Final = "`{}` is only exchanged between the conductor and the proxies it initialized"


class Requests(Part):
    """The part of a router that handles requests and answers."""

    # -- requests ------------------------------------------------------------------------------

    def accept(
        self, lane: Lane, method: str, message: Message, batch: Batch | None
    ) -> Visit | None:
        """Makes a request pending, or refuses its id."""
        assert isinstance(message.id, Raw)
        raw_id = bytes(message.id)
        key = jsonrpc.canonical_id(raw_id)
        requests, allowed, known = lane.requests, lane.peer.component.allowance, None
        size = size_of(message.params)
        if key is None:
            text = "a request id must be null, a 64-bit integer or a string"
        elif key == b"null" and self._exchange.version == 2:
            text = "ACP protocol v2 request ids must be a string or an integer, not null"
        elif len(key) > _LONGEST_ID:
            text = f"a request id has at most {_LONGEST_ID} bytes, this one has {len(key)}"
        elif key in requests.received:
            text = f"request id {key.decode(errors='replace')} is still in use"
        elif (
            len(requests.received) >= allowed.open_requests
            or requests.size + size > allowed.open_bytes
        ) and (excess := self._excess(lane, key, size)):
            text, known = excess, key
        else:
            number = self._exchange.number
            flow = Flow(lane, key)
            pending = Visit(lane, raw_id, key, flow, batch, number, size, method=method)
            self._opens(lane, message.params, pending)
            return pending
        self._exchange.reject(lane, Malformed(INVALID_REQUEST, text, known), batch)
        return None

    def _opens(self, lane: Lane, params: Params, pending: Visit) -> None:
        """A request of a peer's is open from now on."""
        lane.requests.size += pending.size
        if self._exchange.logs and lane.peer.joined:
            pending.traced = TracedRequest(lane, params)
        lane.requests.received[pending.key] = pending

    def passed_as_it_came(self, lane: Lane, carried: Visit) -> bool:
        """A component passes on, as it came, a request that it was given; False: it may not, or has
        another open under that id."""
        key, method, params = carried.target_id, carried.method, carried.params
        if carried.state is not _GIVEN or key in lane.requests.received:
            return False
        number, size = self._exchange.number, size_of(params)
        pending = Visit(lane, key, key, carried.flow, None, number, size, method=method)
        self._opens(lane, params, pending)
        if method in CONCERNED:
            self._parts.mcp_ownership.requested(lane, method, params, pending)
        lane.in_flight.queue.popleft()
        self._parts.policed.goes_on(carried, params, pending)
        return True

    def _excess(self, lane: Lane, key: bytes, size: int) -> str | None:
        """Why a component may not send another request, although it has reached a limit; None if it
        may.

        The client always may, and a component may always pass on what it carries: a limit there
        would fail requests of others. A single request may have any size.
        """
        requests, peer = lane.requests, lane.peer
        allowed = peer.component.allowance
        carried = key in peer.p.in_flight.requests or key in peer.s.in_flight.requests
        # A guest, and a host of guests, passes on under the same id, also where it has no policy.
        carried = carried or (peer.sideband and key in lane.other.requests.sent)
        if carried or peer is self._exchange.upstream:
            return None
        if len(requests.received) >= allowed.open_requests:
            limit, most = "open_requests", f"{allowed.open_requests} of its requests"
        elif requests.size:
            limit, most = "open_bytes", f"{counted(requests.size, 'byte')} of its requests"
        else:
            return None
        return (
            f"{peer.label} asks too much at once: {most} have no answer yet\n"
            f"hint: raise the component's {limit} if this is intended"
        )

    def route(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends an accepted request where it belongs, or refuses it."""
        try:
            if method in ENVELOPES:
                lane, method, params = self.unwrap(lane, method, params)
                pending.method = method
            params = jsonrpc.structured(params)
            if pending.traced is not None:
                pending.traced.source, pending.traced.params = lane, params
            if method in ROLES:
                self._parts.initializer.request(lane, method, params, pending)
            elif method.startswith(ONE_HOP):
                raise Malformed(METHOD_NOT_FOUND, _NOTIFIED.format(method))
            elif method.startswith("_"):
                self._extension(lane, method, params, pending)
            else:
                self._send_across(lane, method, params, pending)
        except Malformed as error:
            self._exchange.refuse(pending, error)

    def _extension(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request of no part of ACP where it belongs; `Malformed` where that is nowhere."""
        service = called(lane, method)
        if service is not None:
            self._parts.services.ask(lane, service, params, pending)
            return
        if method.startswith(OF_EDITOR):
            if method in EVENTS and lane is self._exchange.upstream.p:
                self._parts.initializer.upstream.check_begun()
                if self._parts.editor.deliver(method, params, pending):
                    return
            params = self._parts.editor.named(lane, method, params)
        self._send_across(lane, method, params, pending)

    def _send_across(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request of the conversation on; `Malformed` where it comes too early."""
        if lane.peer is self._exchange.upstream:
            self._parts.initializer.upstream.check_begun()
            if self._parts.held.may_keep and self._parts.held.keeps(lane, method, params, pending):
                return
        if lane.across is None:
            raise Malformed(INVALID_REQUEST, f"`{method}` before `initialize`")
        if lane.port:
            self._cross(lane, method, params, pending)
        else:
            self.send_on(lane, method, params, pending)

    def _cross(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request on across a port. What a component prompts there, says by MCP servers of
        its own or answers as one, and all that is refused there, is reported; what a host lets
        through, the conductor above reports."""
        by_mcp, refused = method.startswith(MCP_FAMILIES), ""
        if lane.direction is Direction.UP and by_mcp:
            assert lane.across is not None
            pending.followers = (*pending.followers, AtPort(lane.across))
        try:
            self._parts.ports.ask(lane, method, params, pending)
        except Malformed as wrong:
            refused = wrong.text
            raise
        finally:
            goes = (method == PROMPT or by_mcp) and not self._exchange.topology.hosted
            if lane.direction is Direction.DOWN and (refused or goes):
                peer = lane.peer
                name = (guest_of(pending.key) if peer.component.hosts else "") or peer.name
                session = session_of(params) or ""
                where = f"{lane.port}, session {session}" if session else lane.port
                self._exchange.emit(Reached(name, method, where, size_of(params), refused))

    def send_on(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """Sends a request of the conversation on, which nothing holds."""
        exchange, peer = self._exchange, lane.peer
        trusted = peer.policy_state is None or not peer.policy_state.enforced
        if trusted and peer.sideband and peer.role is Role.PROXY:
            # A guest, and a host of guests, passes a request on under the same id.
            given = lane.other.requests.sent.get(pending.key)
            if given is not None and given.method == method and not given.flow.made:
                pending.flow = given.flow
                if pending.traced is not None:
                    pending.traced.passes = given.number
        if method in own_terminals.FOLLOWED and trusted and lane.direction is Direction.UP:
            own_terminals.asked(self._parts, lane, method, params, pending)
        if method in CONCERNED:
            self._parts.mcp_ownership.requested(lane, method, params, pending)
        if method in FOLLOWED and trusted:
            exchange.follow(lane, method, params, pending)
        elif method in CLOSING and trusted:
            exchange.sessions.closes(session_of(params), pending)
        if lane is exchange.upstream.p:
            self._client_asks(method, params, pending)
            if exchange.keeps and self._parts.replays.client_asks(lane, method, params, pending):
                return
        elif method == PROMPT and trusted and lane.direction is Direction.DOWN:
            pending.names = session_of(params)
            if not self._parts.own_turns.passes_on(lane, pending):
                pending.flow.own = True
                send = Waiting(Next.SENT, lane, pending, read_message(method, params))
                self._parts.own_turns.prompts(lane, pending, send)
                return
        elif trusted and peer.component.hosts and method.startswith(MCP_FAMILIES):
            own_prompts = self._parts.own_turns.own_prompts
            wrong = own_prompts.samples(lane, params, pending) if pending.is_first else None
            if wrong is not None:
                exchange.refuse(pending, wrong)
                return
        self.send_out(lane, method, params, pending)

    def _client_asks(self, method: str, params: Params, pending: Visit) -> None:
        """A request of the client's goes on."""
        sessions, pending.names = self._exchange.sessions, session_of(params)
        if method in ENTERING:
            if method != PROMPT or not sessions.is_client_in(pending.names):
                sessions.client_enters(pending.names, method)
            if method == PROMPT:
                self._parts.own_turns.client_prompts(pending)
            elif method in MAKES_ONE and self._exchange.topology.mode == "agent":
                self._parts.early.opens()
        elif method == LIST:
            pending.rewriters = (Followed(sessions),)
        elif method in CLOSING:
            sessions.client_ends(pending.names, method, params, pending)
            self._parts.own_turns.closed(pending.names)

    def send_out(self, lane: Lane, method: str, params: Params, pending: Visit) -> None:
        """A request leaves its sender, who may send it."""
        if lane.policed:
            self._parts.policed.ask(lane, method, params, pending)
        else:
            assert lane.across is not None
            self._exchange.forward(lane.across, method, params, pending)

    def unwrap(self, lane: Lane, method: str, params: Params) -> tuple[Lane, str, Params]:
        """Opens an envelope; `Malformed` where it does not belong."""
        if not lane.wraps:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
        inner, inner_params, nested, peer = dialects.unwrap(params)
        if lane.peer.dialect_state is not DialectState.KNOWN:
            form = PACP if nested else ENVELOPES[method]
            self._parts.detection.envelope_seen(lane.peer, form, inner)
        if inner in ENVELOPES:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(inner))
        if peer:
            return self._parts.ports.named(lane.peer, peer, inner), inner, inner_params
        if lane.side is Side.S:
            raise Malformed(INVALID_REQUEST, _MISPLACED.format(method))
        return lane.peer.s, inner, inner_params

    # -- answers -------------------------------------------------------------------------------

    def answer(self, lane: Lane, message: Message) -> bool:
        """Completes the request that a message answers; False if it is no answer at all.

        A malformed answer is an error for the asker: the request would stay open otherwise.
        """
        peer = lane.peer
        key = jsonrpc.canonical_id(message.id) if isinstance(message.id, Raw) else None
        pending = lane.requests.sent.pop(key, None) if key is not None else None
        if pending is None:
            if not message.answers:
                return False
            key = self._meant(lane, message, key)
            if key is None:
                return True
            pending = lane.requests.sent.pop(key)
        if peer.payloads is not None and key is not None:
            peer.payloads.answered(key)
        pending.answer_number = self._exchange.number
        error = message.error
        if isinstance(error, Raw) and bytes(error) == b"null":
            error = UNSET  # some agents send both members, one of them null: see `_wrong`
        wrong = _wrong(message, error)
        if wrong is not None:
            text = f"{peer.label} answered `{pending.method}` {wrong}"
            body = jsonrpc.error_object(INTERNAL_ERROR, text, {"component": peer.name})
            self.complete(pending, b"error", body)
        elif isinstance(error, Raw):
            self.complete(pending, b"error", error)
        else:
            assert isinstance(message.result, Raw)
            session = pending.session
            if session is not None and self._exchange.version == 2:
                begun = only_begun(2, b"result", bytes(message.result))
                known = self._exchange.at_agent(lane, session)
                known.does(WorkEvent.BEGUN if begun else WorkEvent.IDLE)
            elif session is not None and not peer.streams:
                for words in adaptation.words_of(session, message.result):
                    self._parts.notifications.send_for(peer.p, UPDATE, words)
            self.complete(pending, b"result", message.result)
        return True

    def answered_as_it_came(self, lane: Lane, carried: Visit) -> bool:
        """A component answers a request with what came back for that; False: it has answered, or
        may not, or that may be no answer of its own."""
        sent, answer, id_ = lane.requests.sent, carried.upstream, carried.target_id
        if sent.get(id_) is not carried or carried.excused is not None or answer is None:
            return False
        if carried.answer_to is AnswerTo.PAST:  # a copy
            lane.in_flight.shown = None
            del sent[id_]
            return True
        if carried.state is not _RETURNED:
            return False
        del sent[id_]
        carried.answer_number = self._exchange.number
        if carried.traced is not None:
            carried.traced.response = answer
        self._parts.policed.hands_back(carried, *answer)
        return True

    def _meant(self, lane: Lane, message: Message, key: bytes | None) -> bytes | None:
        """The id of the request that an answer under the id of none is meant for: of the only one
        that is open there. None, and a line in the log, where that is not sure."""
        peer, requests = lane.peer, lane.requests
        state = peer.policy_state
        trusted = not peer.sideband and (state is None or not state.enforced)
        found = requests.only(key) if trusted and message.id is not UNSET else None
        if found is not None and self._may_be_meant(lane, requests.sent[found], message):
            method = requests.sent[found].method
            text = f"an answer under no id of ours is taken for that to `{method}`"
            self._exchange.log("warning", peer, text)
            return found
        some = islice(requests.sent.values(), _LOOKED_AT)
        open_ = (one.method for one in some if one.wanted)
        self._exchange.log("warning", peer, jsonrpc.dropped(key, open_))
        return None

    def _may_be_meant(self, lane: Lane, pending: Visit, message: Message) -> bool:
        """Whether an answer without its id may be to this request. Never where it would give a
        permission: to a request for one, or to a question of the conductor's own."""
        own = pending.origin is None and lane.peer is self._exchange.upstream
        permits = own or pending.method == PERMISSION
        return pending.wanted and message.jsonrpc == "2.0" and not permits

    def complete(self, pending: Visit, member: bytes, body: Raw | bytes) -> None:
        """Hands a peer's answer to who takes it: the component that carries the request, or by
        `answer_to`."""
        to = pending.answer_to
        if pending.state is not _CLOSED:
            if pending.traced is not None:
                pending.traced.response = member, body
            self._parts.policed.answered(pending, member, bytes(body))
            return
        if to is _ASKER:
            if pending.bypassed:
                self._parts.policed.reply_in_order(pending, member, bytes(body))
            else:
                self._exchange.reply(pending, member, body)
            return
        pending.answer_to = _ASKER  # a taker that sends the request again sets it anew
        if pending.traced is not None:
            pending.traced.response = member, body
        self._taken(to, pending, member, bytes(body))

    def _taken(self, to: AnswerTo, pending: Visit, member: bytes, body: bytes) -> None:
        """The taker of an answer takes it."""
        parts = self._parts
        match to:
            case AnswerTo.PAST:
                parts.policed.answered_past(pending, member, body)
            case AnswerTo.COPY:
                parts.observers.seen(pending)
            case AnswerTo.ROLE:
                parts.initializer.role_answered(pending.handshake, member, body)
            case AnswerTo.LAUNCH:
                parts.detection.launch_answered(pending.handshake, pending, member, body)
            case AnswerTo.LAST:
                parts.initializer.last_answered(pending.params, pending, member, body)
            case AnswerTo.PEER_AGENT:
                parts.initializer.peer_agents.answered(pending, member, body)
            case AnswerTo.CONDUCTOR if not pending.followers:  # nobody waits for it
                self._exchange.reply(pending, member, body)
            case AnswerTo.CONDUCTOR:
                parts.policed.reply_in_order(pending, member, body)
            case _:
                assert to is AnswerTo.NOBODY

    def rewritten(self, pending: Visit, member: bytes, body: bytes) -> Answer:
        """What the answer to a request becomes on its way back."""
        rewriters, pending.rewriters = pending.rewriters, ()
        for rewriter in reversed(rewriters):
            match rewriter:
                case Renamed(ids, lane):
                    body = renamed(body, ids)
                    if member == b"result" and pending.method == LIST:
                        aliases = lane.aliases if lane is not None else None
                        body = listed(body, aliases.set_aside) if aliases is not None else body
                case AtPort():
                    member, body = self._parts.ports.answers(rewriter, pending, member, body)
                case Replayed():
                    body = self._parts.replays.rewritten(rewriter, pending, member, body)
                case Straight(peer):
                    body = event_answer(peer, member, body)
                case _:  # the user's list of sessions: those of components are in nobody else's
                    assert isinstance(rewriter, Followed)
                    others = rewriter.sessions.others("")
                    body = listed(body, others) if member == b"result" else body
        return member, body

    def follow(self, follower: Follower, pending: Visit, member: bytes, body: bytes) -> None:
        """One thing follows the answer to a request."""
        parts, own_turns = self._parts, self._parts.own_turns
        match follower:
            case Prompt():
                own_turns.answered(follower, member, body)
            case Forwarded():
                own_turns.returned(follower)
            case Seen():
                parts.turns.answered(follower, member, body)
            case own_terminals.Opening():
                own_terminals.opened(parts, follower, member, body)
            case Followed():
                follower.sessions.answered(follower, pending, member, body)
                one = follower.client and pending.method in MAKES_ONE
                if one and self._exchange.topology.mode == "agent":
                    self._parts.early.opened()
            case QueuedTurn():
                own_turns.decided(follower, pending, member, body)
            case AgentPrompt():
                own_turns.agent_answered(follower, pending, member, body)
            case PassedOn():
                parts.initializer.came_back(follower, member, body)
            case AtPort(port):
                parts.ports.answered(port, pending, member, body)
            case Replayed():
                self._parts.replays.answered(follower, pending, member, body)
            case Settled():
                parts.policed.settling.answered(follower, pending, member, body)
            case Rebind():
                parts.rebinding.decided(follower, member, body)
            case Noted(params, known) if known is not None:
                if member == b"result":
                    known.done(pending.method, params, body)
            case Noted():
                parts.mcp_ownership.opened(follower, pending, member, body)
                lane = pending.flow.lane
                if lane is not None and lane.peer.names is not None:
                    self._parts.moving.connected(lane, pending.method, member, body)
            case Step():
                self._parts.moving.answered(follower, pending, member, body)
            case Straight(peer) if peer is self._exchange.upstream:
                parts.questions.answered(pending, member, body)
            case _:
                assert isinstance(follower, Straight)
                parts.reviving.answered(follower.peer, pending, member, body)


def _wrong(message: Message, error: Raw | UnsetType) -> str | None:
    """What is wrong with an answer; `error` is its error, unset if that is null."""
    if message.jsonrpc != "2.0":
        return 'without `"jsonrpc":"2.0"`'
    if isinstance(error, UnsetType):
        return "with neither result nor error" if message.result is UNSET else None
    if isinstance(message.result, Raw) and bytes(message.result) != b"null":
        return "with both result and error"
    return None if memoryview(error)[0] == ord("{") else "with an error that is no object"
