"""Who may prompt in a session: the turns of components' own, and who waits until it is idle.

A session is idle while no prompt of anybody runs in it and no component has a turn. A component's
turn begins then, or at once if it nests: in a prompt that the component holds, or in a turn that it
has. In version 2 a component may hold the answer to a prompt that the agent still works on: then
the turn waits for the agent.

While a turn lasts, prompts of the client wait, and so do turns of others, in order of arrival;
prompts of the client go first. They wait for `MOST_WAIT` seconds at most.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from conductor.core.parts import Parts
from conductor.core.session import (
    Limit,
    Prompt,
    QueuedTurn,
    Session,
    TurnEvent,
    TurnState,
    WorkEvent,
)
from conductor.core.state import Waiting

MOST_WAIT: Final = 120.0
"""The most seconds that others wait for a turn; then the conductor ends it."""

LAST_WORDS: Final = 2.0
"""Seconds that the agent has to end a turn that the conductor has ended."""


_REPORTED: Final = {one.value: one for one in (WorkEvent.RUNNING, WorkEvent.IDLE)}


class TurnQueue:
    """The turns and prompts of all sessions of one chain."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.known: dict[QueuedTurn, None] = {}
        """The turns of all sessions that are not over: few, where sessions are many. In a host of
        guests: the turns that its guests have or want from the conductor above."""
        self._news: list[Session] = []
        """Sessions in which a prompt or a turn is over, and the next has not gone on yet."""
        self._ids = count(1)

    def turns(self) -> list[QueuedTurn]:
        """The turns that are not over; those that wait last."""
        return sorted(self.known, key=lambda turn: turn.state is TurnState.WAITING)

    @property
    def any(self) -> bool:
        """Whether any component has a turn, or wants one."""
        return bool(self.known)

    def ends(self, session: Session, tell: Waiting) -> None:
        """Version 2: a component has answered a prompt of the client. `tell` tells the client that
        the session is idle: now, or once no component has a turn there and the agent is idle."""
        if session.open or session.works:
            session.owed = tell
        else:
            self._parts.waits.go_on(tell)

    # -- turns ---------------------------------------------------------------------------------

    def begin(self, turn: QueuedTurn) -> None:
        """A component wants a turn: it begins now, or once the session is idle."""
        session = turn.session
        within = any(turn.owner == other.owner for other in session.open)
        if (turn.nests or within) and session.late:
            turn.move(TurnEvent.ENDED)
            self._parts.own_turns.over(turn)
            return
        self.known[turn] = None
        waits = session.open or session.prompts or session.waiting
        if within or not (session.works if turn.nests else waits):
            self._begin(turn)
        else:
            session.waiting.append(turn)
            self.limit(session)

    def _begin(self, turn: QueuedTurn) -> None:
        turn.move(TurnEvent.BEGUN)
        turn.id = f"turn-{next(self._ids)}"
        turn.session.open.append(turn)
        self.limit(turn.session)  # who waits has waited for something else so far
        self._parts.own_turns.begun(turn)

    def end(self, turn: QueuedTurn, event: TurnEvent = TurnEvent.ENDED) -> None:
        """A turn is ended; it is over once no prompt of it runs."""
        if turn.move(event):
            self._settle(turn, TurnEvent.QUIET)

    def _settle(self, turn: QueuedTurn, event: TurnEvent) -> None:
        """Takes a turn that is over out of its session, and lets others go on."""
        if event is TurnEvent.LATE or not turn.prompts:
            turn.move(event)
        if turn.state is TurnState.OVER and turn in self.known:  # else it was before
            session = turn.session
            (session.open if turn in session.open else session.waiting).remove(turn)
            del self.known[turn]
            self._parts.own_turns.over(turn)
            self._go_on(session)

    def _go_on(self, session: Session) -> None:
        """A prompt or a turn is over in a session: those that may go on now do."""
        self._news.append(session)
        if len(self._news) == 1:  # else the loop takes it: a turn that goes on may end at once
            while self._news:
                self._next(self._news[0])
                del self._news[0]

    def _next(self, session: Session) -> None:
        if not session.open:
            session.deadline = None
            if session.owed is not None and not session.works:
                tell, session.owed = session.owed, None
                self._parts.waits.go_on(tell)
        if not session.open:
            self._parts.held.turn_over(session)
        self.limit(session)
        if session.waiting and not (session.open or session.prompts):
            self._begin(session.waiting.pop(0))

    # -- a bounded time ------------------------------------------------------------------------

    @staticmethod
    def _waited_for(session: Session) -> list[QueuedTurn]:
        """The turns that somebody waits for. Not those that nest in a prompt, if only turns wait:
        they wait for that prompt in any case."""
        if not (session.client_waits or session.waiting):
            return []
        return [
            turn
            for turn in session.open
            if session.client_waits
            or not turn.nests
            or all(prompt.turn is turn for prompt in session.prompts)
        ]

    def limit(self, session: Session) -> None:
        """Somebody may wait for the turns of a session now, or for others than before."""
        if session.deadline is None and self._waited_for(session):
            session.deadline = Limit(session)
            self._parts.deadlines.after(MOST_WAIT, session.deadline)

    def time_is_up(self, limit: Limit) -> None:
        """The agent has not ended a turn in time, or others have waited in a session as long as
        they may."""
        found = limit.of
        if isinstance(found, QueuedTurn):
            self._settle(found, TurnEvent.LATE)
        elif found.deadline is limit:
            found.deadline = None
            for turn in self._waited_for(found):
                self._parts.own_turns.late(turn)
                if turn.prompts:
                    self._parts.deadlines.after(LAST_WORDS, Limit(turn))
                self.end(turn, TurnEvent.OVERDUE)

    # -- prompts -------------------------------------------------------------------------------

    @staticmethod
    def prompted(session: Session, turn: QueuedTurn | None) -> Prompt:
        """A prompt goes on: of the client, or of a turn."""
        prompt = Prompt(session, turn)
        session.prompts[prompt] = None
        if turn is not None:
            turn.prompts += 1
            turn.prompted = True
        return prompt

    def over(self, prompt: Prompt) -> None:
        """A prompt is over."""
        session, turn = prompt.session, prompt.turn
        if prompt not in session.prompts:
            return
        del session.prompts[prompt]
        if session.open or session.waiting:  # else nobody waits
            if turn is not None:
                turn.prompts -= 1
                self._settle(turn, TurnEvent.QUIET)
            self._go_on(session)

    def reported(self, session: Session, state: str) -> None:
        """Version 2: the agent reports the state of a session. If it is idle, a prompt of a turn is
        over at once. A prompt of the client is over once the client sees the report, so that nobody
        prompts while the report is on its way."""
        session.does(_REPORTED.get(state, WorkEvent.ASKS))
        if state == "running":
            # While a component has a turn, no prompt of others runs: those wait.
            for prompt in session.prompts:
                prompt.begun = prompt.begun or not session.open or prompt.turn is not None
        elif state == "idle":
            self._idle(session, ours=False)
            self.nest(session)

    def nest(self, session: Session) -> None:
        """Version 2: turns that nest begin, if the agent does not work there any more."""
        for turn in [] if session.works else [one for one in session.waiting if one.nests]:
            session.waiting.remove(turn)
            self._begin(turn)

    def seen(self, session: Session) -> None:
        """Version 2: the client sees that a session is idle."""
        session.owed = None
        self._idle(session, ours=True)

    def _idle(self, session: Session, *, ours: bool) -> None:
        begun = [one for one in session.prompts if one.begun and (one.turn is None) is ours]
        for prompt in begun:
            self.over(prompt)
