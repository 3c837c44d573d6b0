"""Who may prompt in a session: the turns of components' own, and who waits until it is idle.

A session is idle while no prompt of anybody runs in it and no component has a turn. A component's
turn begins then, or at once if it nests: in a prompt that the component holds, or in a turn that it
has. In version 2 a component may hold the answer to a prompt that the agent still works on: that it
waits for.

While a turn lasts, prompts of the client wait, and so do turns of others, in order of arrival; what
the client sent goes first. They wait for `MOST_WAIT` seconds at most.
"""

from __future__ import annotations

from enum import Enum
from itertools import count
from typing import Final

import msgspec

from conductor.core.parts import Parts
from conductor.core.state import Follower, Peer, Visit, Waiting

MOST_WAIT: Final = 120.0
"""Seconds that others wait for a turn, at most; then the conductor ends it."""

LAST_WORDS: Final = 2.0
"""Seconds that the agent has to end a turn that the conductor has ended."""


class TurnState(Enum):
    """Where a component's turn stands."""

    WAITING = "waiting"
    """The session is not idle."""
    OPEN = "open"
    """Its owner may prompt, and others wait."""
    ENDING = "ending"
    """It is ended; others wait until its last prompt is over."""
    OVER = "over"


class TurnEvent(Enum):
    """What happens to a component's turn."""

    BEGUN = "the session is idle, or it nests"
    ENDED = "its owner or the user ends it, its owner is gone, or others have waited for too long"
    QUIET = "no prompt of it runs"
    LATE = "the agent has not ended it in time"


MOVES: Final = {
    (TurnState.WAITING, TurnEvent.BEGUN): TurnState.OPEN,
    (TurnState.WAITING, TurnEvent.ENDED): TurnState.OVER,
    (TurnState.OPEN, TurnEvent.ENDED): TurnState.ENDING,
    (TurnState.ENDING, TurnEvent.QUIET): TurnState.OVER,
    (TurnState.ENDING, TurnEvent.LATE): TurnState.OVER,
}
"""Where a turn goes from a state on an event; anything else changes nothing."""


class QueuedTurn(Follower, msgspec.Struct, eq=False):
    """A turn that a component has, or wants."""

    owner: tuple[Peer, str]
    """The component, and the guest if that is a host."""
    session: str
    """As the owner calls it …"""
    known_as: str
    """… and as the client does."""
    show: bool
    """Whether the client sees what the agent says in it."""
    nests: bool
    """Whether its owner holds a prompt of the session."""
    request: Visit
    """The call that is answered when it begins, or the prompt that goes on then …"""
    send: Waiting | None = None
    """… as it waits; None: it is a call."""
    id: str = ""
    """Empty until it begins."""
    state: TurnState = TurnState.WAITING
    prompts: int = 0
    """How many of its prompts run."""
    prompted: bool = False
    """Whether it had any."""
    outside: bool = False
    """Whether its owner has prompted or sent updates in it while it held no prompt of the user's.
    """
    kept: Waiting | None = None
    """Version 2: tells the others that the agent is idle, once it is over."""

    def move(self, event: TurnEvent) -> bool:
        """Takes the step of an event; whether there is one."""
        after = MOVES.get((self.state, event))
        self.state = after or self.state
        return after is not None


class Prompt(Follower, msgspec.Struct, eq=False):
    """A prompt of a session that is not over: of the client, or of a component's turn."""

    session: str
    turn: QueuedTurn | None
    begun: bool = False
    """In version 2: whether the agent works on it, so that its next idle state ends it."""


class _Session(msgspec.Struct, eq=False):
    open: list[QueuedTurn] = []
    waiting: list[QueuedTurn] = []
    prompts: list[Prompt] = []
    client_waits: bool = False
    works: bool = False
    """Version 2: whether the agent works on a prompt. What would nest waits until it has."""
    owed: Waiting | None = None
    """Version 2: tells the client that the session is idle, once it is."""
    deadline: Limit | None = None
    """The time of its turns that runs, since somebody waits; None: none does."""
    late: bool = False
    """Whether that is over: until the turns it had are over, none begins that would nest."""

    @property
    def busy(self) -> bool:
        """Whether a turn that does not nest waits."""
        return bool(self.open or self.prompts or self.waiting)


class Limit(msgspec.Struct, eq=False):
    """The time of a turn, or of all turns of a session, runs: `TurnQueue.time_is_up` after it."""

    of: QueuedTurn | _Session


class TurnQueue:
    """The turns and prompts of all sessions of one chain."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._sessions: dict[str, _Session] = {}
        self.known: dict[QueuedTurn, None] = {}
        """The turns that are not over, whatever their session: few, where sessions are many. In a
        host of guests, what these have or want from the conductor above."""
        self._news: list[str] = []
        """Sessions in which something is over, and what may go on has not yet."""
        self._ids = count(1)

    def turns(self) -> list[QueuedTurn]:
        """The turns that are not over; those that wait last."""
        return sorted(self.known, key=lambda turn: turn.state is TurnState.WAITING)

    @property
    def any(self) -> bool:
        """Whether any component has a turn, or wants one."""
        return bool(self.known)

    def blocks(self, session: str | None) -> bool:
        """Whether prompts of the client wait in a session."""
        found = self._sessions.get(session) if session is not None else None
        return found is not None and bool(found.open)

    def busy(self, session: str) -> bool:
        """Whether a component has a turn in a session, or in version 2 the agent works there."""
        found = self._sessions.get(session)
        if found is None:
            return False
        return bool(found.open) or found.works or any(one.begun for one in found.prompts)

    def agent_works(self, session: str) -> bool:
        """Version 2: whether the agent works on a prompt in a session."""
        found = self._sessions.get(session)
        return found is not None and found.works

    def ends(self, session: str, tell: Waiting) -> None:
        """Version 2: a component has answered a prompt of the client. `tell` tells the client that
        the session is idle: now, or once no component has a turn there and the agent is idle."""
        found = self._sessions.get(session)
        if found is None or not (found.open or found.works):
            self._parts.waits.go_on(tell)
        else:
            found.owed = tell

    def client_waits(self, session: str | None) -> None:
        """A prompt of the client waits for the turns of a session, which block it."""
        assert session is not None
        found = self._sessions[session]
        found.client_waits = True
        self._limit(found)

    # -- turns ---------------------------------------------------------------------------------

    def begin(self, turn: QueuedTurn) -> None:
        """A component wants a turn: it begins now, or once the session is idle."""
        found = self._sessions.setdefault(turn.known_as, _Session())
        within = any(turn.owner == other.owner for other in found.open)
        if (turn.nests or within) and found.late:
            turn.move(TurnEvent.ENDED)
            self._parts.own_turns.over(turn)
            return
        self.known[turn] = None
        if within or not (found.works if turn.nests else found.busy):
            self._begin(found, turn)
        else:
            found.waiting.append(turn)
            self._limit(found)

    def _begin(self, found: _Session, turn: QueuedTurn) -> None:
        turn.move(TurnEvent.BEGUN)
        turn.id = f"turn-{next(self._ids)}"
        found.open.append(turn)
        self._limit(found)  # who waits has waited for something else so far
        self._parts.own_turns.begun(turn)

    def end(self, turn: QueuedTurn) -> None:
        """A turn is ended; it is over once no prompt of it runs."""
        if turn.move(TurnEvent.ENDED):
            self._settle(turn, TurnEvent.QUIET)

    def _settle(self, turn: QueuedTurn, event: TurnEvent) -> None:
        """Takes a turn that is over out of its session, and lets others go on."""
        if turn.state is TurnState.ENDING and (event is TurnEvent.LATE or not turn.prompts):
            turn.move(event)
        found = self._sessions.get(turn.known_as)
        if turn.state is not TurnState.OVER or found is None:
            return
        for turns in (found.open, found.waiting):
            if turn in turns:  # not in any: it was over before its last prompt
                turns.remove(turn)
                del self.known[turn]
                self._parts.own_turns.over(turn)
                self._go_on(turn.known_as)

    def _go_on(self, session: str) -> None:
        """Something is over in a session: what may go on now does."""
        self._news.append(session)
        if len(self._news) == 1:  # else the loop takes it: what goes on may be over at once
            while self._news:
                self._next(self._news[0])
                del self._news[0]

    def _next(self, session: str) -> None:
        found = self._sessions.get(session)
        if found is not None and not found.open:
            found.client_waits = found.late = False
            found.deadline = None
            if found.owed is not None and not found.works:
                tell, found.owed = found.owed, None
                self._parts.waits.go_on(tell)
        if not self.blocks(session):
            self._parts.held.turn_over(session)
        found = self._sessions.get(session)
        if found is not None:
            self._limit(found)
        if found is None or found.open or found.prompts:
            return
        if found.waiting:
            self._begin(found, found.waiting.pop(0))
        elif found.owed is None:
            del self._sessions[session]

    # -- a bounded time ------------------------------------------------------------------------

    @staticmethod
    def _waited_for(found: _Session) -> list[QueuedTurn]:
        """The turns that somebody waits for. Not those that nest in a prompt, if only turns wait:
        they wait for that prompt in any case."""
        if not (found.client_waits or found.waiting):
            return []
        return [
            turn
            for turn in found.open
            if found.client_waits
            or not turn.nests
            or all(prompt.turn is turn for prompt in found.prompts)
        ]

    def _limit(self, found: _Session) -> None:
        if found.deadline is None and self._waited_for(found):
            found.deadline = Limit(found)
            self._parts.deadlines.after(MOST_WAIT, found.deadline)

    def time_is_up(self, limit: Limit) -> None:
        """The agent has not ended a turn in time, or others have waited in a session as long as
        they may."""
        found = limit.of
        if isinstance(found, QueuedTurn):
            self._settle(found, TurnEvent.LATE)
        elif found.deadline is limit:
            found.deadline = None
            turns = self._waited_for(found)
            found.late = found.late or bool(turns)
            for turn in turns:
                self._parts.own_turns.late(turn)
                if turn.prompts:
                    self._parts.deadlines.after(LAST_WORDS, Limit(turn))
                self.end(turn)

    # -- prompts -------------------------------------------------------------------------------

    def prompted(self, session: str, turn: QueuedTurn | None) -> Prompt:
        """A prompt goes on: of the client, or of a turn."""
        prompt = Prompt(session, turn)
        self._sessions.setdefault(session, _Session()).prompts.append(prompt)
        if turn is not None:
            turn.prompts += 1
            turn.prompted = True
        return prompt

    def over(self, prompt: Prompt) -> None:
        """A prompt is over."""
        found, turn = self._sessions.get(prompt.session), prompt.turn
        if found is None or prompt not in found.prompts:
            return
        found.prompts.remove(prompt)
        if not (found.open or found.waiting):  # then nobody waits
            if not found.prompts and found.owed is None:
                del self._sessions[prompt.session]
            return
        if turn is not None:
            turn.prompts -= 1
            self._settle(turn, TurnEvent.QUIET)
        self._go_on(prompt.session)

    def reported(self, session: str, state: str) -> None:
        """Version 2: the agent reports what a session does. A prompt of a turn is over then; one of
        the client's once the client sees it, so that nobody prompts while that is on its way."""
        found = self._sessions.get(session)
        if found is None:
            return
        if state == "running":
            found.works = True
            # While a component has a turn, what runs is no prompt of others: those wait.
            for prompt in found.prompts:
                prompt.begun = prompt.begun or not found.open or prompt.turn is not None
        elif state == "idle":
            # First: what goes on now may have the agent work again.
            found.works = False
            self._idle(session, ours=False)
            self.works(session, found.works)

    def works(self, session: str, now: bool) -> None:
        """Version 2: whether the agent works on a prompt in a session."""
        found = self._sessions.get(session)
        if found is None:
            return
        found.works = now
        while not now and (turn := next((one for one in found.waiting if one.nests), None)):
            found.waiting.remove(turn)
            self._begin(found, turn)

    def seen(self, session: str) -> None:
        """Version 2: the client sees that a session is idle."""
        if session in self._sessions:
            self._sessions[session].owed = None
        self._idle(session, ours=True)

    def _idle(self, session: str, *, ours: bool) -> None:
        found = self._sessions.get(session, _Session())
        begun = [one for one in found.prompts if one.begun and (one.turn is None) is ours]
        for prompt in begun:
            self.over(prompt)
