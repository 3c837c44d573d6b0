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
from conductor.record import diff
from conductor.record.replay.recording import members
from conductor.record.turns.line import AGENT, Line
from conductor.spec.redaction import redacted


class _Exchange(msgspec.Struct):
    """One message to the agent, and the agent's messages until the next message of the session."""

    event: Line | None
    """None: before the first."""
    sent: list[Line]
    came: bool = False
    id: bytes = b""
    """Of a request: its id now."""
    played: bool = False
    """Whether its events have been sent, or passed over."""


class Agent:
    """The agent of a trace."""

    def __init__(self, events: Iterable[Line]) -> None:
        """`events`: the messages at the agent's end."""
        self._sessions: dict[str | None, list[_Exchange]] = defaultdict(list)
        self._requests: dict[tuple[bool, bytes], tuple[str | None, _Exchange | None]] = {}
        """The session of each request, and its exchange; the key holds true if the agent made the
        request."""
        self._latest: str | None = None
        """The session of the message that came last in the trace."""
        self.warnings: list[str] = []
        """Differences between the received messages and the trace; the caller takes them out."""
        for event in events:
            self._read(event)

    def _read(self, event: Line) -> None:
        by_agent, session = event.source == AGENT, event.session
        if event.method == CANCEL:
            return
        if event.type == "response":
            request = self._requests.get((not by_agent, bytes(event.id)))
            if request is None:  # of MCP
                return
            session, exchange = request
            if exchange is not None and session is None:  # outside of sessions nothing is in order
                exchange.sent.append(event)
                return
        elif by_agent and session is None:  # follows what came to the agent before
            session = self._latest
        exchanges = self._sessions[session]
        if not by_agent:
            exchanges.append(_Exchange(event, []))
            self._latest = session
        else:
            if not exchanges:
                exchanges.append(_Exchange(None, [], came=True))
            exchanges[-1].sent.append(event)
        if event.type == "request":
            made = None if by_agent else exchanges[-1]
            self._requests[by_agent, bytes(event.id)] = session, made

    @property
    def missed(self) -> bool:
        """Whether a message of the trace has not come to it."""
        return any(not each.came for exchanges in self._sessions.values() for each in exchanges)

    @property
    def progress(self) -> int:
        """How many messages of the trace have come to it."""
        return sum(each.came for exchanges in self._sessions.values() for each in exchanges)

    def came(self, session: str | None) -> int:
        """How many requests and notifications of a session have come to it."""
        return sum(
            each.came and each.event is not None and bool(each.event.method)
            for each in self._sessions.get(session, ())
        )

    def receive(self, frame: bytes) -> list[bytes]:
        """Takes one line. Returns the lines that follow."""
        try:
            message = jsonrpc.parse(frame)
        except Malformed as error:
            body = jsonrpc.error_object(error.code, error.text)
            return [jsonrpc.answer(error.id or b"null", b"error", body)]
        if not isinstance(message, Message):
            return []
        exchange, session = self._find(message)
        if exchange is None:
            return self._unknown(message)
        exchange.came = True
        if isinstance(message.id, msgspec.Raw):
            exchange.id = bytes(message.id)
        if exchange.played:  # a later message came before it
            return list(self._send(exchange))
        return list(self._play(self._sessions[session]))

    def _find(self, message: Message) -> tuple[_Exchange | None, str | None]:
        """The exchange that a message begins, and the session it belongs to."""
        if not isinstance(message.method, str):
            return self._find_answered(message)
        kind = "request" if isinstance(message.id, msgspec.Raw) else "notification"
        params = bytes(message.params) if isinstance(message.params, msgspec.Raw) else b"null"
        session = session_of(message.params)
        similar = [
            (exchange, bytes(exchange.event.params))
            for exchange in self._sessions.get(session, ())
            if exchange.event is not None
            and not exchange.came
            and (exchange.event.type, exchange.event.method) == (kind, message.method)
        ]
        # The trace may hold them as they are, or without secrets.
        spellings = (params, redacted(params, message.method))
        for exchange, then in similar:
            if any(diff.same(then, now) for now in spellings):
                return exchange, session
        if not similar:
            return None, session
        of = f" of session {session}" if session else ""
        text = "differs from the recorded one; it is answered as then"
        self.warnings.append(f"`{message.method}`{of} {text}")
        return similar[0][0], session

    def _find_answered(self, message: Message) -> tuple[_Exchange | None, str | None]:
        """The exchange of an answer to the agent, which makes requests under ids of the trace."""
        number = bytes(message.id) if isinstance(message.id, msgspec.Raw) else b""
        session, _ = self._requests.get((True, number), (None, None))
        for exchange in self._sessions.get(session, ()):
            event = exchange.event
            is_it = event is not None and (event.type, bytes(event.id)) == ("response", number)
            if is_it and not exchange.came:
                return exchange, session
        return None, session

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

    def _play(self, session: list[_Exchange]) -> Iterator[bytes]:
        """Yields what the agent sends now: all that it sent then, up to the last message to it.

        A message that does not come this time is passed over with its consequences, once a later
        message has come.
        """
        last = max((at for at, exchange in enumerate(session) if exchange.came), default=-1)
        for exchange in session[: last + 1]:
            if not exchange.played:
                exchange.played = True
                yield from self._send(exchange)

    def _send(self, exchange: _Exchange) -> Iterator[bytes]:
        for event in exchange.sent:
            if event.type == "response":
                yield from self._respond(event)
            elif exchange.came and event.type == "request":
                yield jsonrpc.request(bytes(event.id), event.method, bytes(event.params))
            elif exchange.came:
                yield jsonrpc.notification(event.method, bytes(event.params))

    def _respond(self, event: Line) -> Iterator[bytes]:
        _, exchange = self._requests[False, bytes(event.id)]
        if exchange is not None and exchange.came:
            member = b"error" if event.is_error else b"result"
            yield jsonrpc.answer(exchange.id, member, bytes(event.payload))
            yield from self._begin(event)

    def _begin(self, event: Line) -> Iterator[bytes]:
        """Yields what the agent sent in a new session before anything came to it there."""
        opened = members(event.payload).get("sessionId")
        session = self._sessions.get(opened, ()) if isinstance(opened, str) else ()
        for exchange in session[:1]:
            if exchange.event is None and not exchange.played:
                exchange.played = True
                yield from self._send(exchange)
