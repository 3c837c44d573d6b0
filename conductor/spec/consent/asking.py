"""Which question is asked when: states and moves. No input or output, no clock.

The first prompt is held while questions are open, but not for ever. A client gets one question at a
time. An answer that is no choice of the user ends all questions: nobody is there, or nobody wants
to be asked.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.spec.consent import question as questions
from conductor.spec.consent.question import Answer, Asked

PATIENCE: Final = 60.0
"""Seconds that the first prompt waits for answers."""


class State(enum.Enum):
    """How far the questions are."""

    WAITING = "waiting"
    """No prompt has come: without a session nothing can be asked."""
    ASKING = "asking"
    """A question is open, and the prompt waits."""
    LATE = "late"
    """A question is open, and the prompt has gone on."""
    DONE = "done"
    """Nothing is open, and nothing is left to ask."""


class Event(enum.Enum):
    """The events that move the state."""

    MORE = "more"
    """There are questions that have not been asked."""
    NONE = "none"
    """There are no such questions any more."""
    PROMPT = "prompt"
    ANSWER = "answer"
    """An answer, and questions are left."""
    LAST = "last"
    """The last answer, or an answer that ends the questions."""
    TIME = "time"


MOVES: Final = {
    (State.WAITING, Event.PROMPT): State.ASKING,
    (State.WAITING, Event.NONE): State.DONE,
    (State.WAITING, Event.LAST): State.DONE,
    (State.ASKING, Event.ANSWER): State.ASKING,
    (State.ASKING, Event.LAST): State.DONE,
    (State.ASKING, Event.TIME): State.LATE,
    (State.LATE, Event.ANSWER): State.LATE,
    (State.LATE, Event.LAST): State.DONE,
    (State.DONE, Event.MORE): State.WAITING,
}
"""Every move; any other event changes nothing."""


class Ask(msgspec.Struct, frozen=True):
    """Send the client a question; its answer comes back with `token`."""

    token: int
    params: bytes


class Wake(msgspec.Struct, frozen=True):
    """Call `expired` with `token` after `seconds`."""

    token: int
    seconds: float


class Agreed(msgspec.Struct, frozen=True):
    """The user allows the rights that a component asks for; `lasting`: also later."""

    question: Asked
    lasting: bool


class Narrow(msgspec.Struct, frozen=True):
    """Components keep the default rights; without `why` the user chose so."""

    questions: tuple[Asked, ...]
    why: str


class Resume(msgspec.Struct, frozen=True):
    """Start the components anew that have been agreed to since the last time, then let the prompt
    go on."""


Step = Ask | Wake | Agreed | Narrow | Resume


class Asking:
    """The questions of one conductor.

    Args:
        unguessable: Returns an id that nobody can guess, another one at each call.
    """

    def __init__(self, unguessable: Callable[[], str]) -> None:
        self.state = State.DONE
        self._unguessable = unguessable
        self._left: list[Asked] = []
        self._open: Asked | None = None
        self._over: set[str] = set()
        """The keys of questions that are over: nobody is asked twice."""
        self._token = 0
        """The number of the open question; a time limit keeps the number of its first question."""
        self._limited = 0
        self._session = ""
        self._version = 1

    def put(self, asked: Iterable[Asked]) -> None:
        """These are the questions now. The open question stays open, unless it was settled
        elsewhere and no other is left."""
        asked = list(asked)
        begun = self._over if self._open is None else {*self._over, self._open.key}
        self._left = [question for question in asked if question.key not in begun]
        if self._left:
            self._move(Event.MORE)
        elif self._open is None:
            self._move(Event.NONE)
        elif self._open.key not in {question.key for question in asked}:
            self._open = None
            self._move(Event.LAST)

    def prompted(self, session: str, version: int) -> list[Step]:
        """The first prompt has come and waits: asks the first question."""
        if self.state is not State.WAITING:
            return []
        self._session, self._version = session, version
        self._move(Event.PROMPT)
        first = self._ask()
        self._limited = first.token
        return [first, Wake(first.token, PATIENCE)]

    def answered(self, token: int, member: str, body: bytes) -> list[Step]:
        """The client has answered. An answer to no open question is ignored."""
        question = self._open
        if token != self._token or question is None:
            return []
        self._open = None
        self._over.add(question.key)
        answer, why = questions.meaning(member, body)
        step: Step
        if why:
            step = Narrow((question, *self._end()), why)
        elif answer is Answer.NARROW:
            step = Narrow((question,), "")
        else:
            step = Agreed(question, lasting=answer is Answer.VERSION)
        self._move(Event.ANSWER if self._left else Event.LAST)
        more = [self._ask()] if self._left else []
        return [step, *more] if self.state is State.ASKING else [step, Resume(), *more]

    def expired(self, token: int) -> list[Step]:
        """The prompt has waited long enough; an answer that comes later still counts."""
        if token != self._limited or self.state is not State.ASKING:
            return []
        self._move(Event.TIME)
        assert self._open is not None
        return [Narrow((self._open, *self._left), "nobody has answered yet"), Resume()]

    def unable(self, why: str) -> list[Step]:
        """There is nobody to ask."""
        if self.state is not State.WAITING:
            return []
        left = self._end()
        self._move(Event.LAST)
        return [Narrow(left, why)]

    def _end(self) -> tuple[Asked, ...]:
        """Ends the questions that are left: none of them will be asked."""
        left, self._left = tuple(self._left), []
        self._over.update(question.key for question in left)
        return left

    def _ask(self) -> Ask:
        self._open = self._left.pop(0)
        self._token += 1
        call = self._unguessable()
        return Ask(self._token, questions.params(self._open, self._session, self._version, call))

    def _move(self, event: Event) -> None:
        self.state = MOVES.get((self.state, event), self.state)
