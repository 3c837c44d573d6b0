"""Answers to requests: they are read, and given to those who wait for them and follow them."""

from __future__ import annotations

from itertools import islice
from typing import Final

from msgspec import UNSET, Raw, UnsetType

from conductor.core import adaptation, jsonrpc
from conductor.core.agent_turns import only_begun
from conductor.core.aliases import listed, renamed
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    Message,
)
from conductor.core.parts import Part
from conductor.core.policy import own_terminals
from conductor.core.policy.key_table import (
    LIST,
    PERMISSION,
    UPDATE,
)
from conductor.core.policy.own_answers import event_answer
from conductor.core.policy.sessions import MAKES_ONE, Followed
from conductor.core.policy.states import State
from conductor.core.session import AgentPrompt, Prompt, QueuedTurn, Rebind, Settled, WorkEvent
from conductor.core.state import (
    Answer,
    AnswerTo,
    AtPort,
    Follower,
    Forwarded,
    Lane,
    Noted,
    PassedOn,
    Renamed,
    Replayed,
    Seen,
    Step,
    Straight,
    Visit,
)

_ASKER: Final = AnswerTo.ASKER
_CLOSED: Final = State.CLOSED
_RETURNED: Final = State.RETURNED
_LOOKED_AT: Final = 256
"""The most open requests that are read for the log: a peer may drop very many answers."""


class Answers(Part):
    """The part of a router that takes the answers of peers."""

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
                known = self._parts.names.at_agent(lane, session)
                known.does(WorkEvent.BEGUN if begun else WorkEvent.IDLE)
            elif session is not None and not peer.streams:
                for words in adaptation.words_of(session, message.result):
                    self._parts.notifications.send_for(peer.p, UPDATE, words)
            self.complete(pending, b"result", message.result)
        return True

    def answered_as_it_came(self, lane: Lane, carried: Visit) -> bool:
        """A component answers a request with the answer that came back for it. False: the request
        has been answered, is excused, or no answer has come back."""
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
        """The id of the request for which an answer under an unknown id is meant: the only request
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
        # Cancelled requests are forgotten: the late answer to one is no fault of its component.
        level = "debug" if requests.lost and not trusted else "warning"
        self._exchange.log(level, peer, jsonrpc.dropped(key, open_))
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
        """Gives an answer to its taker."""
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
        """The answer to a request, as its rewriters change it on its way back."""
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
                case _:  # the user's list of sessions: those of components are left out
                    assert isinstance(rewriter, Followed)
                    others = rewriter.sessions.of_components()
                    body = listed(body, others) if member == b"result" else body
        return member, body

    def follow(self, follower: Follower, pending: Visit, member: bytes, body: bytes) -> None:
        """A follower reads the answer to a request."""
        parts, own_turns = self._parts, self._parts.own_turns
        match follower:
            case Prompt():
                own_turns.answered(follower, pending, member, body)
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
    """The fault of an answer; None: it has none. `error`: its error, unset where it is null."""
    if message.jsonrpc != "2.0":
        return 'without `"jsonrpc":"2.0"`'
    if isinstance(error, UnsetType):
        return "with neither result nor error" if message.result is UNSET else None
    if isinstance(message.result, Raw) and bytes(message.result) != b"null":
        return "with both result and error"
    return None if memoryview(error)[0] == ord("{") else "with an error that is no object"
