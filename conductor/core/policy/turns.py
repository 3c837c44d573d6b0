"""Turns of a component's own, and the updates that they hide from the user."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from msgspec import UnsetType

from conductor.core import jsonrpc
from conductor.core.agent_turns import only_begun, reported_state
from conductor.core.guards import Violation
from conductor.core.jsonrpc import INVALID_REQUEST, Params
from conductor.core.parts import Part
from conductor.core.policy import words
from conductor.core.policy.cancellations import turn_cancelled
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.key_table import (
    PERMISSION,
    PROMPT,
    STATE_KIND,
    SUGGESTIONS_KIND,
    TEXT_KINDS,
    update,
)
from conductor.core.policy.policy_state import OwnTurn, PolicyState
from conductor.core.policy.states import IN_HAND, State
from conductor.core.policy.withheld import TOOLS, Withheld
from conductor.core.state import Lane, Seen, Source, Visit

TURNS: Final = "turns"
"""The rule that is broken by a prompt of a component's own at the wrong time."""

_TEXT: Final = frozenset(map(update, (*TEXT_KINDS, SUGGESTIONS_KIND)))
_STATE: Final = update(STATE_KIND)
_TURNS: Final = _TEXT | TOOLS | {_STATE}
"""Keys of updates that belong to a turn, rather than to its session."""

NOT_GIVEN: Final = b'{"outcome":{"outcome":"cancelled"}}'
"""The answer to a permission that is asked for where no user is there to give it."""
_NOBODY: Final = jsonrpc.error_object(
    INVALID_REQUEST, "A proxy has opened this session: no user is there to answer"
)
_UNSEEN: Final = jsonrpc.error_object(
    INVALID_REQUEST, "The user has not seen this tool call, and it cannot be shown any more"
)


class Turns(Part):
    """The part of a router that knows of turns of components."""

    def violation(
        self, policy_state: PolicyState, lane: Lane, session: str | None, pending: Visit
    ) -> Violation | None:
        """The violation of a component's own prompt that leaves by `lane` now; None: there is
        none."""
        if session is None or policy_state.part(session).own is not OwnTurn.NONE:
            return Violation(TURNS, "may have one prompt of its own in a session at a time")
        if policy_state.policy.grants.turns == "unprompted" or self.is_own_session(
            policy_state, session
        ):
            return None
        users = (prompt.flow.whole for prompt in self.held(lane, session))
        pending.flow.within = next((flow for flow in users if not flow.stopped), None)
        if pending.flow.within is None:
            cure = words.cure("prompt:anytime", policy_state.denied)
            return Violation(
                TURNS,
                "may prompt the agent only within a turn of the user's, while it holds that\n"
                f"hint: {cure}",
            )
        return None

    def is_own_session(self, policy_state: PolicyState, session: str | None) -> bool:
        """Whether the component itself opened a session, or an ancestor of it."""
        if not policy_state.policy.grants.sessions:
            return False
        return self._exchange.sessions.is_client(policy_state.name, session)

    def refuses(self, lane: Lane, message: Message, pending: Visit) -> bool:
        """Whether a request of the agent's is refused at the component of `lane`: no user is there
        to answer it, in a session that the component has opened; or it is about a tool call that a
        turn of the component has hidden, and that nobody can show any more. MCP has its own
        owners."""
        policy_state, session = lane.peer.policed, message.session
        if type(message.heading.detail) is tuple:
            return False
        refusal = b""
        if (
            policy_state.enforced and self._parts.names.is_set_aside(lane, session)
        ) or self.is_own_session(policy_state, session):
            refusal = _NOBODY
        elif any(one.hides(message.params) for one in self._hidden(policy_state, session)):
            text = f"`{message.method}` refused: it is about a tool call that {lane.peer.label} hid"
            self._exchange.log("warning", lane.peer, text)
            refusal = _UNSEEN
        if refusal and message.key == PERMISSION:
            self._exchange.reply(pending, b"result", NOT_GIVEN)
        elif refusal:
            self._exchange.reply(pending, b"error", refusal)
        return bool(refusal)

    # -- tool calls of hidden turns ----------------------------------------------------------------

    def _hidden(self, policy_state: PolicyState, session: str | None) -> list[Withheld]:
        """The withheld updates of a session of others and its ancestors; None: of all sessions."""
        parts = policy_state.parts
        line = parts if session is None else self._exchange.sessions.line(session)
        theirs = [
            parts[id_].withheld
            for id_ in line
            if id_ in parts and not self.is_own_session(policy_state, id_)
        ]
        return [one for one in theirs if one is not None]

    def withhold(self, policy_state: PolicyState, source: Source, message: Message) -> None:
        """An update goes to the component alone; updates of tools are kept. Outside of its turns,
        in a session of its own, a call is only known as unseen: this session may become the
        user's."""
        if message.key not in TOOLS:
            return
        sessions, turn = self._exchange.sessions, self._own_turn(policy_state, message.session)
        line = sessions.line(message.session)
        own = (id_ for id_ in line if sessions.client(id_) == policy_state.name)
        session = turn if turn is not None else next(own)
        part = policy_state.at(session)
        part.withheld = part.withheld or Withheld()
        part.withheld.keep(source, message)
        if turn is None:
            _is_over(policy_state, session)

    @staticmethod
    def rebound(policy_state: PolicyState, names: Callable[[str], str]) -> None:
        """Sessions have changed places: `names` gives the id of each now."""
        policy_state.parts = {names(id_): part for id_, part in policy_state.parts.items()}

    def goes_on(self, policy_state: PolicyState, message: Message) -> bool:
        """An update goes on past the component. Returns whether it is about a tool call with
        withheld updates, which are to go before."""
        hidden = self._hidden(policy_state, message.session) if message.key in TOOLS else []
        for one in hidden:
            one.begins(message, self._exchange.version)
        return any(one.about(message.heading.detail) for one in hidden)

    def unhide(
        self, policy_state: PolicyState, session: str | None
    ) -> list[tuple[Source, Message]]:
        """From now on the user is to see updates of tools in a turn of the component in this
        session (None: in any). Returns those that are withheld."""
        parts = policy_state.parts
        for id_ in parts if session is None else self._exchange.sessions.line(session):
            if id_ in parts:
                parts[id_].asked = parts[id_].own is not OwnTurn.NONE
        return [kept for one in self._hidden(policy_state, session) for kept in one.take()]

    @staticmethod
    def held(lane: Lane, session: str | None, states: Collection[State] = IN_HAND) -> list[Visit]:
        """The prompts of a session that the policed component which sends by `lane` holds, before
        or after the agent."""
        prompts = () if session is None else lane.in_flight.prompts(session)
        return [prompt for prompt in prompts if prompt.state in states]

    def runs_within(self, policy_state: PolicyState, lane: Lane, session: str | None) -> bool:
        """Version 2: whether a turn of the component's own runs in one of the user's, whose prompt
        the component holds at `lane`."""
        part = policy_state.part(session)
        return part.own is OwnTurn.RUNS and not part.others and bool(self.held(lane, session))

    def opened(self, policy_state: PolicyState, session: str, pending: Visit) -> None:
        """A component has sent a prompt of its own."""
        policy_state.takes(session, OwnTurn.PROMPTED)
        pending.followers = (*pending.followers, Seen(policy_state, session, own=True))

    def stops_own(self, lane: Lane, session: str | None) -> None:
        """A component cancels its turn in a session: its prompt there goes nowhere, if it still
        waits for the settings of the session."""
        for pending in list(lane.requests.received.values()):
            waits = pending.target is None and pending.is_own and pending.method == PROMPT
            if waits and pending.names == session:
                self._exchange.reply(pending, *turn_cancelled(self._exchange.version))

    def answered(self, prompted: Seen, member: bytes, body: bytes) -> None:
        """A prompt that a component was to know of is answered."""
        policy_state, session = prompted.policy_state, prompted.session
        begun = only_begun(self._exchange.version, member, body)
        if not prompted.own:
            part = policy_state.at(session)
            part.waiting -= part.waiting > 0
            part.running += begun
            policy_state.settle(session)
        elif begun:
            policy_state.takes(session, OwnTurn.RUNS)
        else:
            _ended(policy_state, session)

    @staticmethod
    def state_reported(policy_state: PolicyState, session: str | None, params: Params) -> None:
        """Version 2: the agent reports the state of a session; if it is idle, a turn is over."""
        idle = not isinstance(params, UnsetType) and reported_state(params)[1] == "idle"
        if session is not None and idle:
            part = policy_state.at(session)
            part.running = 0
            if part.own is OwnTurn.RUNS:
                _ended(policy_state, session)
            policy_state.settle(session)

    def prompt_passed(self, policy_state: PolicyState, session: str | None, pending: Visit) -> None:
        """Another prompt of a session goes on: until it is over, updates there are about it."""
        if session is None or not policy_state.prompts:
            return
        part = policy_state.at(session)
        part.waiting += 1
        if part.own is OwnTurn.RUNS:
            _ended(policy_state, session)
        pending.followers = (*pending.followers, Seen(policy_state, session, own=False))

    def heard_alone(self, policy_state: PolicyState, lane: Lane, heading: Heading) -> bool:
        """Whether an update belongs to a turn of the component's own that the client does not see:
        in that session, or in an ancestor of it. Once the agent has asked the user something in it,
        the client sees the updates of its tools."""
        session = self._own_turn(policy_state, heading.session)
        if session is None:
            return False
        if heading.key in TOOLS:
            part = policy_state.part(session)
            if part.asked:
                return False
            begun = part.withheld is not None and part.withheld.about(heading.detail)
            return begun or not self._parts.own_turns.shows(policy_state, session)
        if self._parts.own_turns.shows(policy_state, session):
            return False
        if heading.key == _STATE:  # within a turn of the user's it may be of the time before
            return not self.held(lane, session)
        return heading.key in _TEXT

    def heard_too(self, policy_state: PolicyState, heading: Heading) -> bool:
        """Whether an update belongs to a turn of the component's own that the client sees."""
        session = self._own_turn(policy_state, heading.session)
        shown = session is not None and self._parts.own_turns.shows(policy_state, session)
        return shown and heading.key in _TURNS

    def _own_turn(self, policy_state: PolicyState, session: str | None) -> str | None:
        """The session, this or an ancestor, in which a prompt of the component's own runs alone."""
        if policy_state.own_turns:
            for id_ in self._exchange.sessions.line(session):
                part = policy_state.part(id_)
                if part.others:
                    return None
                if part.own is not OwnTurn.NONE:
                    return id_
        return None


def _ended(policy_state: PolicyState, session: str) -> None:
    """A component's own prompt is over."""
    policy_state.takes(session, OwnTurn.NONE)
    policy_state.part(session).asked = False
    _is_over(policy_state, session)


def _is_over(policy_state: PolicyState, session: str) -> None:
    """The withheld updates of a session are kept no more."""
    part = policy_state.part(session)
    if part.withheld is not None and not part.withheld.over():
        part.withheld = None
    policy_state.settle(session)
