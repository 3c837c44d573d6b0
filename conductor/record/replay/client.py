"""Plays the client of a trace: sends the same messages again, and gives the same answers. Pure.

A message waits until all that came before it in the trace has come: the answers to the client,
and in ACP v2 the ends of turns. A message from within a turn waits until the agent has received as
many messages of the session as then. Nothing waits for words, so other words hold nothing up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import Message
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import one_line
from conductor.record.replay.unplayed import Unplayed
from conductor.record.turns.line import AGENT, CLIENT, Line, Own
from conductor.record.turns.messages import read_update

_CANCELLED: Final = b'{"outcome":{"outcome":"cancelled"}}'
_UNKNOWN: Final = "the recording has no answer of the client to this"


class _Step(msgspec.Struct):
    """A message of the client, and the conditions for sending it."""

    event: Line
    params: bytes
    id: bytes = b""
    """Of a request: its id in this run. The id in a trace may be one that nobody may use."""
    answered: tuple[bytes, ...] = ()
    """The requests whose answers had come since the message before it."""
    idle: int = 0
    """How many turns of the session had ended, in ACP v2."""
    reached: int = 0
    """The number of messages of the session that the agent had by then, if a request of the session
    had no answer yet."""


class _Asked(msgspec.Struct):
    """A request to the client, as it was."""

    answer: Line | None = None


class Client:
    """The client of a trace.

    Args:
        events: The messages at the client's end, in order.
        agent: The messages at the agent's end.
        reached: Says how many messages of a session the agent has by now.
    """

    def __init__(
        self,
        events: Iterable[Line],
        agent: Iterable[Line],
        reached: Callable[[str | None], int],
    ) -> None:
        self._reached = reached
        self._steps: list[_Step] = []
        self._next = 0
        self._asked: Unplayed[_Asked] = Unplayed()
        """The requests to the client that have not come again, by method and session."""
        self._missing: dict[bytes, str] = {}
        """The methods of the requests that were answered then, not by the conductor itself, and
        have no answer yet."""
        self._answered: set[bytes] = set()
        self._sent: dict[bytes, str | None] = {}
        """The sessions of the requests that have no answer yet."""
        self._open: Counter[str | None] = Counter()
        """How many these are, by session."""
        self._idle: Counter[str | None] = Counter()
        self.received = 0
        """How many messages have come."""
        self.expected = 0
        """How many came then."""
        self._read(events, _arrivals(agent))

    # -- the recorded messages -----------------------------------------------------------------

    def _read(self, events: Iterable[Line], arrivals: dict[str | None, list[float]]) -> None:
        steps: dict[bytes, _Step] = {}
        """The requests of the client, by the id in the trace."""
        numbers: dict[int, _Step] = {}
        """The same by the number of the message."""
        asked: dict[bytes, _Asked] = {}
        answered: list[bytes] = []
        """The requests whose answers have come since the last step."""
        idle: Counter[str | None] = Counter()
        open_: Counter[str | None] = Counter()
        for event in events:
            id_, session = bytes(event.id), event.session
            if event.source != CLIENT:
                self.expected += 1
            if event.source != CLIENT and event.type == "request":
                asked[id_] = _Asked()
                self._asked.add((event.method, session), bytes(event.params), asked[id_])
            elif event.source != CLIENT and event.type == "notification":
                idle[session] += _is_idle(event.method, event.params)
            elif event.source != CLIENT:
                if id_ in steps:
                    open_[steps[id_].event.session] -= 1
                    answered += self._was_answered(steps[id_], event)
            elif event.type == "response":
                if id_ in asked:
                    asked[id_].answer = event
            elif (step := self._step(event, numbers)) is not None:
                step.answered, step.idle = tuple(answered), idle[session]
                if open_[session]:
                    step.reached = bisect_left(arrivals[session], event.left)
                answered.clear()
                if step.id:
                    steps[id_] = step
                    open_[session] += 1

    def _step(self, event: Line, numbers: dict[int, _Step]) -> _Step | None:
        """A message of the client; None for the cancellation of a request that the trace lacks."""
        own, step = event.own or Own(), _Step(event, bytes(event.params))
        if event.method == CANCEL:
            if own.of not in numbers:
                return None
            step.params = b'{"requestId":%b}' % numbers[own.of].id
        if event.type == "request":
            step.id = b"%d" % (len(self._steps) + 1)
            if own.n:
                numbers[own.n] = step
        self._steps.append(step)
        return step

    def _was_answered(self, step: _Step, event: Line) -> Iterator[bytes]:
        """Takes the recorded answer to a request. Yields the request's id if later messages of the
        client waited for the answer."""
        by_conductor = event.own is not None and bool(event.own.by)
        if not by_conductor:  # else nobody answered: the client had left …
            self._missing[step.id] = step.event.method
        if not by_conductor or event.source != AGENT:  # … or went on after a component had failed
            yield step.id

    # -- the messages of this run --------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the client has sent all messages, and has each answer that it had then."""
        return self._next == len(self._steps) and not self._missing

    @property
    def progress(self) -> int:
        """How far it has come: how many messages it has sent, and requests have been answered."""
        return self._next + len(self._answered)

    @property
    def waits(self) -> str:
        """The reason why it is not `done`, in words behind its name."""
        sent = (step.id for step in self._steps[: self._next])
        asked = next((self._missing[id_] for id_ in sent if id_ in self._missing), None)
        if asked is not None:
            return f"waits for an answer to `{one_line(asked)}`"
        return f"waits until it may send `{one_line(self._steps[self._next].event.method)}`"

    def send(self) -> list[bytes]:
        """The lines that are to be sent by now."""
        lines: list[bytes] = []
        while self._next < len(self._steps) and self._may(self._steps[self._next]):
            step = self._steps[self._next]
            self._next += 1
            if step.id:
                self._sent[step.id] = step.event.session
                self._open[step.event.session] += 1
                lines.append(jsonrpc.request(step.id, step.event.method, step.params))
            else:
                lines.append(jsonrpc.notification(step.event.method, step.params))
        return lines

    def _may(self, step: _Step) -> bool:
        session = step.event.session
        if self._idle[session] < step.idle or not self._answered.issuperset(step.answered):
            return False
        return not self._open[session] or self._reached(session) >= step.reached

    def receive(self, frame: bytes) -> list[bytes]:
        """Takes one line. Returns the answers to it."""
        self.received += 1
        message = jsonrpc.message_of(frame)
        if message is None:
            return []
        id_ = bytes(message.id) if isinstance(message.id, msgspec.Raw) else b""
        if not isinstance(message.method, str):
            self._is_answered(id_)
            return []
        if id_:
            return self._answer(id_, message, message.method)
        params = message.params if isinstance(message.params, msgspec.Raw) else msgspec.Raw(b"null")
        if _is_idle(message.method, params):
            self._idle[session_of(params)] += 1
        return []

    def _is_answered(self, id_: bytes) -> None:
        if id_ in self._sent:
            self._answered.add(id_)
            self._missing.pop(id_, None)
            self._open[self._sent.pop(id_)] -= 1

    def _answer(self, id_: bytes, message: Message, method: str) -> list[bytes]:
        params = bytes(message.params) if isinstance(message.params, msgspec.Raw) else b"null"
        key = method, session_of(message.params)
        asked = self._asked.equal(key, params) or self._asked.oldest(key)
        if asked is None:
            if method == PERMISSION:
                return [jsonrpc.answer(id_, b"result", _CANCELLED)]
            text = f"{_UNKNOWN} `{method}`"
            body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text)
            return [jsonrpc.answer(id_, b"error", body)]
        if asked.answer is None:
            return []  # it had none then
        member = b"error" if asked.answer.is_error else b"result"
        return [jsonrpc.answer(id_, member, bytes(asked.answer.payload))]


def _arrivals(agent: Iterable[Line]) -> dict[str | None, list[float]]:
    """The times at which the messages of each session came to the agent, in order."""
    arrivals: dict[str | None, list[float]] = defaultdict(list)
    for event in agent:
        if event.source != AGENT and event.method != CANCEL:
            arrivals[event.session].append(event.ts)
    for times in arrivals.values():
        times.sort()
    return arrivals


def _is_idle(method: str, params: msgspec.Raw) -> bool:
    update = read_update(method, params)
    return update is not None and update.is_idle
