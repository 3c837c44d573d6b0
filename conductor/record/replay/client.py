"""Plays the client of a trace: sends the same messages again, and gives the same answers. Pure.

A message waits until all that came before it in the trace has come: the answers to the client,
and in ACP v2 the ends of turns. A message from within a turn waits until the agent has received as
many messages of the session as then. Nothing waits for words, so other words hold nothing up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core import json_text, jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import Message
from conductor.core.policy.headings import session_of
from conductor.core.policy.key_table import PERMISSION
from conductor.record import diff
from conductor.record.turns.line import AGENT, CLIENT, Line
from conductor.record.turns.messages import read_update

_CANCELLED: Final = b'{"outcome":{"outcome":"cancelled"}}'
_NO_ID: Final = b"null"
_UNKNOWN: Final = "the recording has no answer of the client to this"


class _Step(msgspec.Struct):
    """A message of the client, and the conditions for sending it."""

    event: Line
    id: bytes = b""
    """Of a request: its id, as it was."""
    answered: frozenset[bytes] = frozenset()
    """The requests whose answers had come since the message before it."""
    idle: int = 0
    """How many turns of the session had ended, in ACP v2."""
    pending: frozenset[bytes] = frozenset()
    """The requests of the session that had no answer yet when the client sent the message."""
    reached: int = 0
    """The number of messages of the session that the agent had by then."""


class _Asked(msgspec.Struct):
    """A request to the client, as it was."""

    event: Line
    answer: Line | None = None
    again: bool = False
    """Whether it has come again."""


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
        self._asked: list[_Asked] = []
        self._next = 0
        self._answered: set[bytes] = set()
        self._idle: Counter[str | None] = Counter()
        self._wanted: set[bytes] = set()
        """The requests that were answered then, not by the conductor itself."""
        self._came: set[bytes] = set()
        """The requests with an answer that later messages of the client waited for."""
        self._known: set[bytes] = set()
        """The part of `_came` that the steps so far wait for."""
        self._ids: set[bytes] = set()
        self.received = 0
        """How many messages have come."""
        self.expected = 0
        """How many came then."""
        self._read(list(events), list(agent))

    # -- the recorded messages -----------------------------------------------------------------

    def _read(self, events: list[Line], agent: list[Line]) -> None:
        ids: dict[bytes, tuple[bytes, str | None]] = {}
        asked: dict[bytes, _Asked] = {}
        idle: Counter[str | None] = Counter()
        open_: dict[bytes, str | None] = {}
        to_agent = [e for e in agent if e.source != AGENT and e.method != CANCEL]
        for event in events:
            if event.source != CLIENT:
                self.expected += 1
                if event.type == "response" and bytes(event.id) in ids:
                    id_, _ = ids[bytes(event.id)]
                    by_conductor = event.own is not None and bool(event.own.by)
                    if not by_conductor:
                        self._wanted.add(id_)  # else nobody answered: the client had left …
                    if not by_conductor or event.source != AGENT:
                        self._came.add(id_)  # … or went on after a component had failed
                    open_.pop(id_, None)
                elif event.type == "request":
                    asked[bytes(event.id)] = _Asked(event)
                    self._asked.append(asked[bytes(event.id)])
                elif _is_idle(event.method, event.params):
                    idle[event.session] += 1
                continue
            if event.type == "response":
                if bytes(event.id) in asked:
                    asked[bytes(event.id)].answer = event
                continue
            step = self._step(event, to_agent, idle, open_)
            self._steps.append(step)
            if event.type == "request":
                ids[bytes(event.id)] = step.id, event.session
                open_[step.id] = event.session

    def _step(
        self,
        event: Line,
        agent: list[Line],
        idle: Counter[str | None],
        open_: dict[bytes, str | None],
    ) -> _Step:
        pending = frozenset(id_ for id_, session in open_.items() if session == event.session)
        reached = 0
        if pending:
            reached = sum(each.ts < event.left for each in agent if each.session == event.session)
        # Ids of the trace are unique. The client may have used an id again.
        own = bytes(event.own.id) if event.own is not None else _NO_ID
        id_ = own if own != _NO_ID else bytes(event.id)
        if id_ in self._ids:
            id_ = json_text.encode(f"{bytes(event.id).decode()}-{len(self._steps)}")
        if event.type == "request":
            self._ids.add(id_)
        new, self._known = frozenset(self._came - self._known), set(self._came)
        return _Step(
            event,
            id_ if event.type == "request" else b"",
            new,
            idle[event.session],
            pending,
            reached,
        )

    # -- the messages of this run --------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the client has sent all messages, and has each answer that it had then."""
        return self._next == len(self._steps) and self._wanted <= self._answered

    @property
    def progress(self) -> int:
        """How far it has come: how many messages it has sent, and requests have been answered."""
        return self._next + len(self._answered)

    @property
    def waits_for(self) -> str:
        """The method of a request whose answer it waits for; empty: none."""
        for step in self._steps[: self._next]:
            if step.id and step.id in self._wanted - self._answered:
                return step.event.method
        return ""

    def send(self) -> list[bytes]:
        """The lines that are to be sent by now."""
        lines: list[bytes] = []
        while self._next < len(self._steps) and self._may(self._steps[self._next]):
            step, event = self._steps[self._next], self._steps[self._next].event
            self._next += 1
            if step.id:
                lines.append(jsonrpc.request(step.id, event.method, bytes(event.params)))
            else:
                lines.append(jsonrpc.notification(event.method, bytes(event.params)))
        return lines

    def _may(self, step: _Step) -> bool:
        if not step.answered <= self._answered or self._idle[step.event.session] < step.idle:
            return False
        running = step.pending - self._answered
        return not running or self._reached(step.event.session) >= step.reached

    def receive(self, frame: bytes) -> list[bytes]:
        """Takes one line. Returns the answers to it."""
        self.received += 1
        message = jsonrpc.message_of(frame)
        if message is None:
            return []
        id_ = bytes(message.id) if isinstance(message.id, msgspec.Raw) else b""
        if not isinstance(message.method, str):
            self._answered.add(id_)
            return []
        if id_:
            return self._answer(id_, message, message.method)
        params = message.params if isinstance(message.params, msgspec.Raw) else msgspec.Raw(b"null")
        if _is_idle(message.method, params):
            self._idle[session_of(params)] += 1
        return []

    def _answer(self, id_: bytes, message: Message, method: str) -> list[bytes]:
        params = bytes(message.params) if isinstance(message.params, msgspec.Raw) else b"null"
        session = session_of(message.params)
        similar = [
            asked
            for asked in self._asked
            if not asked.again and (asked.event.method, asked.event.session) == (method, session)
        ]
        same = (asked for asked in similar if diff.same(bytes(asked.event.params), params))
        asked = next(same, similar[0] if similar else None)
        if asked is None:
            if method == PERMISSION:
                return [jsonrpc.answer(id_, b"result", _CANCELLED)]
            text = f"{_UNKNOWN} `{method}`"
            body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text)
            return [jsonrpc.answer(id_, b"error", body)]
        asked.again = True
        if asked.answer is None:
            return []  # it had none then
        member = b"error" if asked.answer.is_error else b"result"
        return [jsonrpc.answer(id_, member, bytes(asked.answer.payload))]


def _is_idle(method: str, params: msgspec.Raw) -> bool:
    update = read_update(method, params)
    return update is not None and update.is_idle
