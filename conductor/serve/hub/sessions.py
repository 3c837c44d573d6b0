"""The live sessions: who is attached, and how they end."""

from __future__ import annotations

from msgspec import Raw

from conductor.serve.hub.effects import CloseChain
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.history import History
from conductor.serve.hub.params import encode
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.state import Attachment, Call, Chain, Connection, Session
from conductor.serve.hub.turns import Turns


class Sessions:
    """The part of a hub that keeps the live sessions."""

    def __init__(self, floor: Floor, turns: Turns, questions: Questions) -> None:
        self._floor = floor
        self._turns = turns
        self._questions = questions

    def add(self, id_: str, chain: Chain, *, complete: bool) -> Session:
        """A session is live from now on; `complete`: nothing has happened in it yet."""
        session = Session(id_, chain, History(self._floor.budget, complete=complete), None)
        chain.sessions[id_] = session
        self._floor.live.setdefault(id_, {})[session] = None
        self._floor.count += 1
        return session

    def attach(self, session: Session, connection: Connection, *, drives: bool) -> Attachment:
        """A connection sees a session from now on. One that is attached already stays as it is."""
        how = session.attached.get(connection)
        if how is None:
            how = session.attached[connection] = Attachment(
                drives and not connection.views, speaks=False
            )
            connection.attached[session.id] = session
        if session.home is None and how.drives:
            session.home = connection
        return how

    def demote(self, session: Session, connection: Connection) -> None:
        """A driver becomes a viewer."""
        session.attached[connection].drives = False
        self._without(session, connection, gone=False)

    def leave(self, session: Session, connection: Connection, *, gone: bool) -> None:
        """A connection is attached no more; `gone`: it has left the hub as well."""
        del session.attached[connection]
        del connection.attached[session.id]
        self._without(session, connection, gone=gone)
        if not session.attached:
            self.forget(session, close=self._needed(session.chain))

    def _without(self, session: Session, connection: Connection, *, gone: bool) -> None:
        """A session goes on with one driver less, if it was one."""
        for asked in list(session.questions):
            if connection in asked.to:
                self._questions.withdrawn(asked, connection, gone=gone)
        drivers = session.drivers()
        if session.home is connection:
            session.home = drivers[0] if drivers else None
        if not drivers:
            self._turns.cancel(session)

    def forget(self, session: Session, *, close: bool = True, error: Raw | None = None) -> None:
        """A session is live no more; `close`: the agent still has it, and hears of that. `error`:
        why the chain has ended. Clients that know of `session/attach` hear of it."""
        chain, floor = session.chain, self._floor
        if chain.sessions.get(session.id) is not session:
            return
        del chain.sessions[session.id]
        floor.count -= 1
        same = floor.live[session.id]
        del same[session]
        if not same:
            del floor.live[session.id]
        self._questions.abandoned(session)
        self._turns.announce(session, None, "session_closed", error=error)
        for connection in session.attached:
            del connection.attached[session.id]
        session.attached.clear()
        session.turn = None
        floor.turning.pop(session, None)
        session.history.close()
        floor.again += session.waiting
        session.waiting = []
        if close and chain.closes:
            params = Raw(encode({"sessionId": session.id}))
            floor.forward(Call(None, b"", b"", "session/close", params, 0.0), chain)

    def unneeded(self, chain: Chain) -> None:
        """Closes a chain that nobody needs any more."""
        if self._needed(chain) or chain.name not in self._floor.chains:
            return
        for session in list(chain.sessions.values()):
            self.forget(session, close=False)
        for asked in list(chain.questions.values()):
            self._questions.abandon(asked)
        del self._floor.chains[chain.name]
        self._floor.out.append(CloseChain(chain.name))

    @staticmethod
    def _needed(chain: Chain) -> bool:
        return (
            bool(chain.connections)
            or any(session.attached for session in chain.sessions.values())
            or any(call.connection for call in chain.open.values())
        )
