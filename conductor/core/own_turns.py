"""Turns of components' own: the calls `turn/begin` and `turn/end`, and prompts without these.

The conductor nearest to the client decides who may prompt (`conductor.core.turn_queue`). A host of
guests asks the conductor above it for each turn of its guests. A prompt that a component sends of
its own, outside a turn it has begun, is a turn by itself for as long as it runs.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, UnsetType

from conductor.core import json_text
from conductor.core.agent_turns import key_of, only_begun, repeats, reported_state
from conductor.core.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    Malformed,
    Params,
    or_empty,
)
from conductor.core.own_prompts import OwnPrompts
from conductor.core.parts import Part, Parts
from conductor.core.policy import words
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import PROMPT, STATE_KIND, STOP, UPDATE
from conductor.core.policy.policy_state import OwnTurn, PolicyState
from conductor.core.service_table import TURN_BEGIN, TURN_END
from conductor.core.session import (
    AgentPrompt,
    Prompt,
    QueuedTurn,
    Session,
    TurnEvent,
    TurnState,
    WorkEvent,
)
from conductor.core.state import Forwarded, Lane, Peer, Visit, Waiting, own_visit, unread
from conductor.core.turn_queue import MOST_WAIT, TurnQueue

MOST_TURNS: Final = 64
"""The most turns that one component has or waits for."""

MARK: Final = "conductor.turn"
"""The member of `_meta` that tells a client of version 1 that a turn without a prompt is over."""

_NO_MORE: Final = (
    "the turn does not begin: its component or session has ended, or others have waited too long"
)
_MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError)


class _Wanted(msgspec.Struct):
    sessionId: str  # noqa: N815 - the wire's name
    show: bool = True
    within: bool = False
    """Of a host of guests: whether its guest holds a prompt of the session."""


class _Named(msgspec.Struct):
    turn: Annotated[str, Meta(min_length=1)]  # a turn that waits has no id yet


class OwnTurns(Part):
    """The part of a router that gives components turns."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self.own_prompts = OwnPrompts(parts)
        self._hosted = parts.exchange.topology.hosted
        self.queue = TurnQueue(parts)

    def waiting(self, request: Visit) -> list[QueuedTurn]:
        """The turn that a request waits for, if it does, so that it has not gone on."""
        return [
            turn
            for turn in self.queue.turns()
            if turn.request is request and turn.state is TurnState.WAITING
        ]

    # -- the calls -----------------------------------------------------------------------------

    def begin(self, peer: Peer, params: Params, request: Visit, guest: str = "") -> None:
        """A component begins a turn by `turn/begin`: the answer comes once it has it.

        Args:
            guest: the guest it is for, where `peer` is a host.
        """
        try:
            wanted = json_text.decode(or_empty(params), type=_Wanted)
        except _MALFORMED as error:
            self._refuse(request, INVALID_PARAMS, f"`{TURN_BEGIN}`: {error}")
            return
        lane, session = peer.p.other, wanted.sessionId
        nests = wanted.within if guest else self.holds(lane, session)
        wrong = self._wrong(lane, guest, session, nests=nests)
        if wrong is not None:
            self._refuse(request, INVALID_REQUEST, f"{_name(peer, guest)} {wrong}")
            return
        known = self._known(peer, session)
        self._ask(QueuedTurn((peer, guest), known, session, wanted.show, nests, request))

    def keep(self, peer: Peer, guest: str, session: str) -> str:
        """Gives a guest a turn at once, in a session where nobody else has one. Returns its id."""
        known, call = self._known(peer, session), unread(TURN_BEGIN)
        turn = QueuedTurn((peer, guest), known, session, show=False, nests=True, request=call)
        self.queue.begin(turn)
        return turn.id

    def _known(self, peer: Peer, session: str) -> Session:
        """The session that has this id with a component."""
        return self._exchange.sessions.at(self._parts.names.outermost(peer.p, session))

    def _wrong(self, lane: Lane, guest: str, session: str, *, nests: bool) -> str | None:
        """Why a component may not begin a turn; None if it may."""
        peer, policy_state = lane.peer, lane.peer.policy_state
        if sum(turn.owner == (peer, guest) for turn in self.queue.turns()) >= MOST_TURNS:
            return f"has, or waits for, {MOST_TURNS} turns\nhint: it is to end them first"
        known_as = self._parts.names.outermost(peer.p, session)
        client = self._exchange.sessions.find(known_as).client
        if client not in ("", peer.name):
            return "may not begin a turn in a session that another component has opened"
        if policy_state is None or not policy_state.enforced:
            return None
        if self._parts.names.is_set_aside(lane, session):
            return "may not begin a turn in a session that the user's was before it went on as its"
        kind = policy_state.policy.grants.turns
        if policy_state.paused:
            return "is paused, and begins no turns"
        if policy_state.policy.watched:
            return "is only watched, and begins no turns"
        own = self._parts.turns.is_own_session(policy_state, session)
        if own or kind == "unprompted" or (kind and nests):
            return None
        if not kind:
            cure = words.cure("prompt:within", policy_state.denied)
            return f"may not begin turns\nhint: {cure}"
        cure = words.cure("prompt:anytime", policy_state.denied)
        return (
            "may begin a turn only within one of the user's, while it holds that prompt\n"
            f"hint: {cure}"
        )

    def end(self, peer: Peer, params: Params, request: Visit | None, guest: str = "") -> None:
        """A component ends its turn by `turn/end`."""
        try:
            named = json_text.decode(or_empty(params), type=_Named)
        except _MALFORMED as error:
            self._refuse(request, INVALID_PARAMS, f"`{TURN_END}`: {error}")
            return
        turns = [turn for turn in self.queue.turns() if turn.id == named.turn]
        if any(turn.owner != (peer, guest) for turn in turns):
            text = f"{_name(peer, guest)} does not have this turn: another component does"
            self._refuse(request, INVALID_REQUEST, text)
            return
        for turn in turns:
            self._end(turn)
        if request is not None:  # also of one that was over already
            self._exchange.reply(request, b"result", b"{}")

    def _refuse(self, request: Visit | None, code: int, text: str) -> None:
        if request is not None:
            peer = request.origin.peer if request.origin is not None else self._exchange.upstream
            self._exchange.log("warning", peer, text)
            self._exchange.refuse(request, Malformed(code, text))

    def client_sees(self, method: str, params: Params) -> None:
        """Version 2: a notification has gone to the client, which may end a turn there."""
        if method == UPDATE and not self._hosted and not isinstance(params, UnsetType):
            session, state = reported_state(params)
            if state == "idle":
                self.queue.seen(self._exchange.sessions.get(session))

    def agent_gets(self, lane: Lane, request: Visit, params: Raw) -> None:
        """Version 2: the agent gets a prompt. The agent works until it reports that it is idle, or
        until it answers that the prompt's turn is over, or was over before."""
        if request.session is not None:
            session = self._parts.names.at_agent(lane, request.session)
            prompt = AgentPrompt(session, key_of(params), session.works)
            request.followers = (*request.followers, prompt)
            session.does(WorkEvent.GIVEN)

    def agent_answered(
        self, asked: AgentPrompt, pending: Visit, member: bytes, body: bytes
    ) -> None:
        """Version 2: the agent has answered a prompt."""
        session = asked.session
        begun = only_begun(self._exchange.version, member, body)
        if member == b"error":
            session.does(WorkEvent.REFUSED)
        if begun and repeats(session, asked.key, body) and not asked.worked:
            # The agent does not report again that it is idle, and everybody waits for this report.
            assert pending.target is not None
            shows = self._parts.notifications.shows
            shows(pending.target.peer, pending.session or "", STATE_KIND, state="idle")
            self.queue.reported(session, "idle")
        elif not begun:
            self.queue.nest(session)

    # -- prompts -------------------------------------------------------------------------------

    def client_prompts(self, request: Visit) -> None:
        """A prompt of the client goes on."""
        if request.names is not None:
            session = self._exchange.sessions.user_prompts(request.names)
            self._follow(request, session, None)

    def prompts(self, lane: Lane, request: Visit, send: Waiting) -> None:
        """A component prompts by `lane`: `send` goes on, once it may. A prompt that a policed
        component was given comes here only if it is not passed on under its id."""
        peer, session = lane.peer, request.names
        wrong = self.own_prompts.refuses(lane, session, request)
        if wrong is not None:
            self._exchange.refuse(request, wrong)
            return
        mine = self._mine(peer, session)
        if session is None:
            self._parts.waits.go_on(send)
        elif mine:
            self._goes_on_outside(mine[-1])
            self._follow(request, mine[-1].session, mine[-1])
            self._parts.waits.go_on(send)
        else:
            nests = self.holds(lane, session)
            known = self._known(peer, session)
            self._ask(QueuedTurn((peer, ""), known, session, False, nests, request, send))

    def _follow(self, request: Visit, session: Session, turn: QueuedTurn | None) -> None:
        """Counts a prompt as running, until it is over."""
        if self._hosted:
            return
        request.followers = (*request.followers, self.queue.prompted(session, turn))

    def answered(self, prompt: Prompt, pending: Visit, member: bytes, body: bytes) -> None:
        """A prompt is answered."""
        prompt.session.asked.pop(pending.flow, None)
        if only_begun(self._exchange.version, member, body):
            prompt.begun = True  # it is over with the agent's idle state
        else:
            self.queue.over(prompt)

    def passes_on(self, lane: Lane, request: Visit) -> bool:
        """Whether a trusted component passes on, by its prompt, a prompt that it was given. Where a
        library chooses ids, it counts as the oldest prompt of the session that the component holds,
        as long as the component has no turn there."""
        if lane.peer.sideband:
            return not request.is_first
        if self.queue.any and self._mine(lane.peer, request.names):
            return False
        held = lane.other.requests.held_prompt(request.names)
        if held is None:
            return False
        held.forwarded = request
        request.followers = (*request.followers, Forwarded(held, request.names))
        return True

    @staticmethod
    def returned(followed: Forwarded) -> None:
        """A prompt that a trusted program has passed on is answered: the program has it again."""
        prompt = followed.prompt
        assert prompt.target is not None
        prompt.target.requests.give_prompt(followed.session, prompt)

    def _mine(self, peer: Peer, session: str | None) -> list[QueuedTurn]:
        """The turns that a component has in a session."""
        return [
            turn
            for turn in self.queue.turns()
            if turn.named == session and turn.owner[0] is peer and turn.state is TurnState.OPEN
        ]

    def holds(self, lane: Lane, session: str | None) -> bool:
        """Whether the component that sends by `lane` holds a prompt of a session, before or after
        the agent."""
        policy_state = lane.peer.policy_state
        if policy_state is not None and policy_state.enforced:
            return bool(self._parts.turns.held(lane, session))
        given = lane.other.requests
        if lane.peer.sideband:
            return given.has_prompt(session, lane.requests.received)
        return given.held_prompt(session) is not None

    def has_again(self, lane: Lane, session: str | None) -> None:
        """A component has the answer to a prompt that it sent by `lane`. If it thereby holds a
        prompt of the user's, the turns that it waits for nest there: else prompt and turns would
        wait for each other."""
        if session is None or not self.queue.any or not self.holds(lane, session):
            return
        for turn in self.queue.turns():
            waits = turn.owner[0] is lane.peer and turn.state is TurnState.WAITING
            turn.nests |= waits and turn.named == session
        self.queue.nest(self._known(lane.peer, session))

    def holds_still(self, prompt: Visit | None, lane: Lane, session: str) -> bool:
        """Whether the component holds a prompt of the user's (None: there is none) that nobody has
        answered and the user has not cancelled."""
        if prompt is None or prompt.origin is None or prompt.cancelled or prompt.flow.stopped:
            return False
        return self.holds(lane, session)

    # -- the end of turns ----------------------------------------------------------------------

    def stopped(self, session: str | None) -> None:
        """The client cancels the turns of a session: those of components end too."""
        self.own_prompts.user_stops(session)
        for turn in self.queue.turns():
            if turn.session.name == session and turn.state is TurnState.OPEN:
                self._end(turn)

    def closed(self, session: str | None) -> None:
        """The client closes a session: nobody waits for a turn in it."""
        self.own_prompts.user_stops(session)
        for turn in reversed(self.queue.turns()):  # those that wait first, so that none begins
            if turn.session.name == session:
                self._end(turn)

    def gone(self, peer: Peer) -> None:
        """A component is gone, or paused: it loses its turns."""
        for turn in reversed(self.queue.turns()):
            if turn.owner[0] is peer:
                self._end(turn)

    def cancelled(self, request: Visit) -> None:
        """The sender of a request cancels it. A component's own prompt that waits for a turn goes
        nowhere; after a prompt of the client's, components send no more prompts of their own."""
        if request.method == PROMPT and request.origin is self._exchange.upstream.p:
            self.own_prompts.user_stops(request.names)
        for turn in self.waiting(request):
            self._end(turn)

    def late(self, turn: QueuedTurn) -> None:
        """Others have waited too long for a turn: the agent is to stop its work in this turn."""
        peer, guest = turn.owner
        text = f"{_name(peer, guest)} had a turn while others waited for {MOST_WAIT:.0f} s: it ends"
        self._exchange.log("warning", peer, text)
        if turn.prompts and peer.p.other.across is not None:
            session = turn.named
            for aliases in peer.inside:
                session = aliases.down.get(session, session)
            params = Raw(json_text.encode({"sessionId": session}))
            self._parts.notifications.send_for(peer.p.other, STOP, params)

    # -- here, or in the conductor above ---------------------------------------------------------

    def _ask(self, turn: QueuedTurn) -> None:
        """A component wants a turn."""
        if not self._hosted:
            self.queue.begin(turn)
            return
        self.queue.known[turn] = None
        call = own_visit(TURN_BEGIN)
        call.followers = (turn,)
        params = json_text.encode(_Wanted(turn.session.name, turn.show, turn.nests))
        self._parts.services.perform(turn.owner[0], TURN_BEGIN, Raw(params), call)

    def decided(self, turn: QueuedTurn, call: Visit, member: bytes, body: bytes) -> None:
        """The conductor above a host has answered; or the prompt that is a turn by itself is
        answered."""
        if call is turn.request:
            self._end(turn)
            return
        if member == b"error":
            if turn in self.queue.known:
                del self.queue.known[turn]
                self._exchange.reply(turn.request, member, body)
            return
        turn.id = json_text.decode(body, type=_Named).turn
        if turn.move(TurnEvent.BEGUN):
            self.begun(turn)
        else:
            self._relay_end(turn)

    def _end(self, turn: QueuedTurn) -> None:
        if not self._hosted:
            self.queue.end(turn)
        elif turn.move(TurnEvent.ENDED):
            del self.queue.known[turn]
            if turn.id:
                self._relay_end(turn)
            self.over(turn)

    def _relay_end(self, turn: QueuedTurn) -> None:
        params = Raw(json_text.encode(_Named(turn.id)))
        self._parts.services.perform(turn.owner[0], TURN_END, params, None)

    # -- turns that begin, and that are over -----------------------------------------------------

    def begun(self, turn: QueuedTurn) -> None:
        """A turn begins: its owner learns it, or its prompt goes on."""
        request = turn.request
        turn.owner[0].streams &= not self._is_seen(turn)
        if turn.send is None:
            self._exchange.reply(request, b"result", json_text.encode(_Named(turn.id)))
            return
        self._follow(request, turn.session, turn)
        request.followers = (*request.followers, turn)
        self._parts.waits.go_on(turn.send)

    def over(self, turn: QueuedTurn) -> None:
        """A turn is over. The client learns the end of a turn that it has seen, and not asked for:
        in version 2 by the agent's state, or in the agent's stead where nobody has prompted it. A
        turn that goes on after the prompt in which it began is such a turn too."""
        peer = turn.owner[0]
        if not turn.id:
            self._exchange.refuse(turn.request, Malformed(REQUEST_CANCELLED, _NO_MORE))
        if turn.kept is not None:
            self._parts.waits.go_on(turn.kept)
        if not self._is_seen(turn):
            return
        peer.streams = not any(
            one.owner[0] is peer and self._is_seen(one) for one in self.queue.turns()
        )
        shows = self._parts.notifications.shows
        if peer.p.across is None or not turn.outside:
            return
        if self._exchange.version != 2:
            meta = {MARK: {"state": "idle", "component": turn.owner[1] or peer.name}}
            shows(peer, turn.named, "session_info_update", _meta=meta)
        elif not turn.prompted and turn.kept is None:
            shows(peer, turn.named, STATE_KIND, state="idle", stopReason="end_turn")

    def shows(self, policy_state: PolicyState, session: str) -> bool:
        """Whether the client sees the updates in a component's turn: the innermost turn decides."""
        begun = [
            turn
            for turn in self.queue.turns()
            if turn.id and turn.named == session and turn.owner[0].policy_state is policy_state
        ]
        return bool(begun) and begun[-1].show

    def keeps_state(self, peer: Peer, params: Params, later: Waiting) -> bool:
        """Version 2: whether the agent's idle state waits. To the user, the user's turn runs on
        while a turn of the component nests in it, and the component works there itself."""
        session, state = ("", None) if isinstance(params, UnsetType) else reported_state(params)
        nesting = [turn for turn in self._mine(peer, session) if turn.nests]
        if state != "idle" or not nesting or peer.policed.part(session).own is not OwnTurn.NONE:
            return False
        nesting[0].kept = later
        return True

    def _is_seen(self, turn: QueuedTurn) -> bool:
        """Whether the client is told of the end of a turn in which it has seen anything."""
        return turn.show and not self._hosted

    def says(self, peer: Peer, params: Params) -> None:
        """A component that has a turn which the client sees has sent an update. The agent's idle
        state that it passes on is no update of its own: this state ends the user's turn."""
        if not isinstance(params, UnsetType) and reported_state(params)[1] == "idle":
            return
        for turn in self._mine(peer, session_of(params)):
            self._goes_on_outside(turn)

    def _goes_on_outside(self, turn: QueuedTurn) -> None:
        """Takes note of whether the prompt in which a turn began is over. In version 2 the user's
        prompt runs on after its answer, until the client sees that the agent is idle."""
        runs = self._exchange.version == 2 and any(one.turn is None for one in turn.session.prompts)
        held = runs or self.holds(turn.owner[0].p.other, turn.named)
        turn.outside |= not (turn.nests and held)


def _name(peer: Peer, guest: str) -> str:
    return f"`{guest}`" if guest else peer.label
