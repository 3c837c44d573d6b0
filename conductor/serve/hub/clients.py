"""Messages of clients: whether one is a request, a notification or an answer, and may pass."""

from __future__ import annotations

from typing import Final

from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INVALID_REQUEST, REQUEST_CANCELLED, Malformed, canonical_id
from conductor.core.message import Message
from conductor.errors import counted
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import plain, session_of
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.requests import Requests
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.state import Call, Connection, Phase

_STOP: Final = "session/cancel"
_LONGEST_ID: Final = 1024
"""Bytes: an id is kept until the request is answered."""


class Clients:
    """The part of a hub that takes what clients send."""

    def __init__(
        self, floor: Floor, requests: Requests, questions: Questions, servers: Servers
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._requests = requests
        self._questions = questions

    def sent(self, sender: Connection, message: Message, now: float) -> None:
        """A client has sent a message.

        Raises:
            Malformed: it is neither a request, nor a notification, nor an answer.
        """
        method, id_ = message.method, message.id
        if isinstance(method, UnsetType):
            return self._answered(sender, message)
        if message.answers:
            key = canonical_id(id_) if isinstance(id_, Raw) else None
            raise Malformed(INVALID_REQUEST, "a message is a request or a response", key)
        if isinstance(id_, UnsetType):
            return self._notified(sender, method, message)
        call = self._call(sender, id_, method, message, now)
        if sender.phase is Phase.OPENING and method != "initialize":
            if not self._hold(sender, call, message):
                text = "too much was sent before `initialize` has an answer"
                self._floor.refuse(call, INVALID_REQUEST, text, "wait for it")
            return None
        return self._requests.take(call)

    def _hold(self, sender: Connection, one: Call | Message, message: Message) -> bool:
        """Keeps what was sent behind `initialize`; whether there is room."""
        size = 0 if isinstance(message.params, UnsetType) else len(message.params)
        limits = self._floor.limits
        if len(sender.held) >= limits.open_requests:
            return False
        if sender.held_bytes + size > limits.history_bytes:
            return False
        sender.held.append(one)
        sender.held_bytes += size
        return True

    def released(self, sender: Connection) -> None:
        """`initialize` is answered: what was sent behind it goes on, in order."""
        held, sender.held, sender.held_bytes = sender.held, [], 0
        for one in held:
            if isinstance(one, Call):
                self._requests.take(one)
            else:
                self._notified(sender, str(one.method), one)

    def _answered(self, sender: Connection, message: Message) -> None:
        if not isinstance(message.id, Raw):
            raise Malformed(INVALID_REQUEST, "a message has a method, or it is a response")
        key = canonical_id(message.id)
        if not message.answers and key not in sender.questions:
            raise Malformed(INVALID_REQUEST, "a request has a method", key)
        self._questions.answered(sender, message)

    def _call(
        self, sender: Connection, id_: Raw, method: str, message: Message, now: float
    ) -> Call:
        """A request, now open.

        Raises:
            Malformed: its id is none, or in use, or too many are open.
        """
        key = canonical_id(id_)
        if key is None:
            text = "a request id must be null, a 64-bit integer or a string"
            raise Malformed(INVALID_REQUEST, text)
        if key == b"null" and sender.version >= 2:
            text = "ACP protocol v2 request ids must be a string or an integer, not null"
            raise Malformed(INVALID_REQUEST, text)
        if len(key) > _LONGEST_ID:
            text = f"a request id has at most {_LONGEST_ID} bytes, this one has {len(key)}"
            raise Malformed(INVALID_REQUEST, text, key)
        if key in sender.open:
            text = f"request id {key.decode(errors='replace')} is still in use"
            raise Malformed(INVALID_REQUEST, text, key)
        if len(sender.open) >= self._floor.limits.open_requests:
            most = counted(self._floor.limits.open_requests, "request")
            text = f"this connection has {most} without an answer"
            raise Malformed(INVALID_REQUEST, text, key)
        call = Call(sender, bytes(id_), key, method, message.params, now)
        sender.open[key] = call
        return call

    def _notified(self, sender: Connection, method: str, message: Message) -> None:
        """A notification goes to the chain of its session, if its sender drives that; else to the
        sender's own. What may not pass is dropped: nothing answers a notification."""
        if method == frames.CANCEL:
            return self._cancelled(sender, message)
        if sender.phase is Phase.OPENING:
            self._hold(sender, message, message)
            return None
        if sender.phase is not Phase.READY or sender.views:
            return None
        try:
            scope = session_of(message.params)
        except Malformed:
            return None
        chain, params = sender.chain, message.params
        session = None
        if scope is not None:
            session = sender.attached.get(scope)
            if session is None or not session.drives(sender):
                return None
            chain, params = session.chain, plain(params)
        elif self._servers.concerned(method):
            chain = self._servers.chain_of(sender, method, params)
        if chain is not None:
            self._floor.send(chain, frames.notification(method, params))
        if session is not None and method == _STOP:
            self._questions.stopped(session, sender)
        return None

    def _cancelled(self, sender: Connection, message: Message) -> None:
        about = (read_members(message.params) or {}).get("requestId")
        call = None if about is None else sender.open.get(canonical_id(about) or b"")
        if call is None or call.method == "initialize":
            return
        if call.chain is not None:
            self._floor.send(call.chain, frames.cancel(call.sent_id))
        else:
            self._floor.refuse(call, REQUEST_CANCELLED, "cancelled")
