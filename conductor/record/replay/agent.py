"""Plays the agent of a trace: a request that the trace holds is answered as it was then. Pure.

A message of the agent follows the messages that it had received before, session by session. A
request is paired with a request of the trace by method and session, and by its params if they are
equal; a changed prompt is answered all the same. Messages of MCP and cancellations are not played.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from conductor.core import jsonrpc
from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import Malformed, Message
from conductor.core.policy.headings import session_of
from conductor.record.replay.recording import members
from conductor.record.replay.unplayed import Unplayed
from conductor.record.turns.line import AGENT, Line
from conductor.spec.redaction import redacted


class _Exchange(msgspec.Struct):
    """One message to the agent, and the agent's messages until the next message of the session."""

    event: Line | None
    """None: before the first."""
    session: str | None
    place: int
    """Among the exchanges of its session."""
    sent: list[Line] = []
    came: bool = False
    id: bytes = b""
    """Of a request: its id now."""


class _Session(msgspec.Struct):
    exchanges: list[_Exchange] = []
    played: int = 0
    """How many exchanges have been sent, or passed over."""
    came: int = 0
    """How many requests and notifications have come."""


class Agent:
    """The agent of a trace."""

    def __init__(self, events: Iterable[Line]) -> None:
        """`events`: the messages at the agent's end."""
        self._sessions: dict[str | None, _Session] = defaultdict(_Session)
        self._asked: dict[bytes, _Exchange] = {}
        """The exchanges that a request to the agent has begun, by the id in the trace."""
        self._asks: dict[bytes, str | None] = {}
        """The sessions of the agent's own requests, by the id in the trace."""
        self._unplayed: Unplayed[_Exchange] = Unplayed()
        """The exchanges that have not come, by type, method and session."""
        self._answers: dict[bytes, _Exchange] = {}
        """The exchanges that an answer to the agent begins, by the id in the trace."""
        self._ids: dict[bytes, bytes] = {}
        """The ids in the trace of the agent's requests, by the ids that they have now."""
        self._latest: str | None = None
        """The session of the message that came last in the trace."""
        self._due = 0
        """How many messages of the trace are to come."""
        self.progress = 0
        """How many messages of the trace have come to it."""
        self.warnings: list[str] = []
        """Differences between the received messages and the trace; the caller takes them out."""
        for event in events:
            self._read(event)

    def _read(self, event: Line) -> None:
        by_agent, session, id_ = event.source == AGENT, event.session, bytes(event.id)
        if event.method == CANCEL:
            return
        if event.type == "response" and by_agent:
            exchange = self._asked.get(id_)
            if exchange is None:  # of MCP
                return
            session = exchange.session
            if session is None:  # outside of sessions nothing is in order
                exchange.sent.append(event)
                return
        elif event.type == "response":
            if id_ not in self._asks:  # of MCP
                return
            session = self._asks[id_]
        elif by_agent and session is None:  # follows the message that came to the agent before
            session = self._latest
        if by_agent:
            self._sends(event, session)
        else:
            self._gets(event, session)

    def _sends(self, event: Line, session: str | None) -> None:
        exchanges = self._sessions[session].exchanges
        if not exchanges:
            exchanges.append(_Exchange(None, session, 0, came=True))
        exchanges[-1].sent.append(event)
        if event.type == "request":
            self._asks[bytes(event.id)] = session

    def _gets(self, event: Line, session: str | None) -> None:
        exchanges = self._sessions[session].exchanges
        exchange = _Exchange(event, session, len(exchanges))
        exchanges.append(exchange)
        self._latest = session
        self._due += 1
        if event.type == "response":
            self._answers[bytes(event.id)] = exchange
            return
        if event.type == "request":
            self._asked[bytes(event.id)] = exchange
        key = event.type, event.method, event.session
        self._unplayed.add(key, bytes(event.params), exchange)

    @property
    def missed(self) -> bool:
        """Whether a message of the trace has not come to it."""
        return self.progress < self._due

    def came(self, session: str | None) -> int:
        """How many requests and notifications of a session have come to it."""
        return self._sessions[session].came if session in self._sessions else 0

    def receive(self, frame: bytes) -> list[bytes]:
        """Takes one line. Returns the lines that follow."""
        try:
            message = jsonrpc.parse(frame)
        except Malformed as error:
            body = jsonrpc.error_object(error.code, error.text)
            return [jsonrpc.answer(error.id or b"null", b"error", body)]
        if not isinstance(message, Message):
            return []
        id_ = bytes(message.id) if isinstance(message.id, msgspec.Raw) else b""
        if isinstance(message.method, str):
            exchange = self._find(message, message.method, "request" if id_ else "notification")
        else:
            exchange = self._answers.pop(self._ids.get(id_, b""), None)
        if exchange is None:
            return self._unknown(message)
        session = self._sessions[exchange.session]
        exchange.came, exchange.id = True, id_
        self.progress += 1
        session.came += isinstance(message.method, str)
        if exchange.place < session.played:  # a later message came before it
            return list(self._send(exchange))
        return list(self._play(session, exchange))

    def _find(self, message: Message, method: str, kind: str) -> _Exchange | None:
        """The exchange that a request or a notification begins."""
        params = bytes(message.params) if isinstance(message.params, msgspec.Raw) else b"null"
        session = session_of(message.params)
        key = kind, method, session
        # The trace may hold them as they are, or without secrets.
        for spelling in (params, redacted(params, method)):
            if (found := self._unplayed.equal(key, spelling)) is not None:
                return found
        found = self._unplayed.oldest(key)
        if found is not None:
            of = f" of session {session}" if session else ""
            text = "differs from the recorded one; it is answered as then"
            self.warnings.append(f"`{method}`{of} {text}")
        return found

    def _unknown(self, message: Message) -> list[bytes]:
        if not isinstance(message.method, str) or not isinstance(message.id, msgspec.Raw):
            return []
        self.warnings.append(f"`{message.method}` is not in the trace, or not as often")
        text = (
            f"the trace has no answer to this `{message.method}`\n"
            "hint: send the requests of the trace, or record it anew"
        )
        body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text)
        return [jsonrpc.answer(bytes(message.id), b"error", body)]

    def _play(self, session: _Session, last: _Exchange) -> Iterator[bytes]:
        """Yields what the agent sends now: all that it sent then, up to the last message to it.

        A message that does not come this time is passed over with its consequences, once a later
        message has come.
        """
        while session.played <= last.place:
            exchange = session.exchanges[session.played]
            session.played += 1
            yield from self._send(exchange)

    def _send(self, exchange: _Exchange) -> Iterator[bytes]:
        for event in exchange.sent:
            if event.type == "response":
                yield from self._respond(event)
            elif exchange.came and event.type == "request":
                # An id of its own: that of a trace may be one that nobody may use.
                id_ = b"%d" % (len(self._ids) + 1)
                self._ids[id_] = bytes(event.id)
                yield jsonrpc.request(id_, event.method, bytes(event.params))
            elif exchange.came:
                yield jsonrpc.notification(event.method, bytes(event.params))

    def _respond(self, event: Line) -> Iterator[bytes]:
        exchange = self._asked[bytes(event.id)]
        if exchange.came:
            member = b"error" if event.is_error else b"result"
            yield jsonrpc.answer(exchange.id, member, bytes(event.payload))
            yield from self._begin(event)

    def _begin(self, event: Line) -> Iterator[bytes]:
        """Yields the messages of the agent in a new session before the first message to it."""
        opened = members(event.payload).get("sessionId")
        session = self._sessions.get(opened) if isinstance(opened, str) else None
        if session is not None and not session.played and session.exchanges[0].event is None:
            yield from self._play(session, session.exchanges[0])
