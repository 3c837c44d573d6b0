"""Requests that make a session live: `session/new`, and what the agent does of `session/load`,
`session/resume` and `session/fork`."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from conductor.serve.hub.effects import Owned
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import plain, text_of
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Call, Chain, Connection, Session
from conductor.serve.hub.updates import NAMELESS, Updates

_MOST_FOLDER: Final = 4096


class Opening:
    """The part of a hub that opens sessions at an agent."""

    def __init__(
        self, floor: Floor, sessions: Sessions, updates: Updates, servers: Servers
    ) -> None:
        self._floor = floor
        self._servers = servers
        self._sessions = sessions
        self._updates = updates

    def room(self, call: Call, chain: Chain) -> bool:
        """Whether one more session may become live; otherwise its request is refused."""
        most = self._floor.limits.sessions
        opening = sum(one.method in NAMELESS for one in chain.open.values())
        if self._floor.count + opening < most:
            return True
        self._floor.full(call, f"there are {most} live sessions, as many as there may be")
        return False

    def begin(self, call: Call, chain: Chain) -> None:
        """`session/new` or `session/fork` goes to the agent, which chooses the id."""
        if self.room(call, chain):
            self._send(call, chain)

    def _send(self, call: Call, chain: Chain) -> None:
        if self._servers.offer(call, chain):
            self._floor.forward(call, chain, plain(call.params))

    def begun(self, call: Call, chain: Chain, member: bytes, body: Raw) -> None:
        """The agent has answered one of those."""
        id_ = text_of((read_members(body) or {}).get("sessionId")) if member == b"result" else None
        if id_ is None:
            self._floor.finish(call, member, body)
            return self._updates.forget_early(chain)
        self._floor.out.append(Owned(id_))
        session = chain.sessions.get(id_)
        if session is None:
            session = self._sessions.add(id_, chain, complete=call.method == "session/new")
            self._updates.opened(session, body)
            session.cwd = _folder(call)
        if call.connection is not None and self._may_have(call, call.connection, session):
            self._sessions.attach(session, call.connection, drives=True)
            self._floor.finish(call, member, body)
        self._updates.late(session, call.now)
        if not session.attached:
            self._sessions.forget(session)
        return None

    def _may_have(self, call: Call, connection: Connection, session: Session) -> bool:
        """Whether the client knows no other session by this id; otherwise it gets an error."""
        if connection.attached.get(session.id, session) is session:
            return True
        text = "another chain has a session with the id that the agent gave the new one"
        hint = "send `session/detach` for that session, then try again"
        self._floor.refuse(call, INTERNAL_ERROR, text, hint, sessionId=session.id)
        return False

    def load(self, call: Call, chain: Chain, session: Session | None, *, replays: bool) -> None:
        """The agent opens a session that is not live, or replays one whose history is not
        complete."""
        connection, id_ = call.connection, call.scope
        assert connection is not None
        assert id_ is not None
        if session is None:
            if not self.room(call, chain):
                return None
            session = self._sessions.add(id_, chain, complete=False)
            session.provisional = True
            session.cwd = _folder(call)
        elif session.turn is not None:
            text = "the history of this session is not complete, and a turn is open"
            hint = "load it when the turn has ended, or send `session/attach`"
            return self._floor.refuse(call, INVALID_REQUEST, text, hint, sessionId=id_)
        self._sessions.attach(session, connection, drives=True)
        if replays:
            session.history.restart()
        session.loading, call.session = call, session
        self._send(call, chain)
        if call.connection is None:
            self._failed(session)
        return None

    def loaded(self, call: Call, member: bytes, body: Raw) -> None:
        """The agent has answered it."""
        session = call.session
        assert session is not None
        if session.loading is not call:  # it is live no more
            return self._floor.finish(call, member, body)
        if member == b"error":
            if session.provisional:
                for one in session.waiting:
                    self._floor.finish(one, member, body)
                session.waiting = []
            self._floor.finish(call, member, body)
            return self._failed(session)
        session.loading, session.provisional = None, False
        self._floor.out.append(Owned(session.id))
        self._updates.opened(session, body)
        self._floor.finish(call, member, body)
        self._floor.again += session.waiting
        session.waiting = []
        return None

    def _failed(self, session: Session) -> None:
        """The agent has not opened or replayed a session."""
        session.loading = None
        session.history.complete = False
        if session.provisional:
            return self._sessions.forget(session, close=False)
        self._floor.again += session.waiting
        session.waiting = []
        return None


def _folder(call: Call) -> str:
    """The folder that a request opens a session in."""
    return (text_of((read_members(call.params) or {}).get("cwd")) or "")[:_MOST_FOLDER]
