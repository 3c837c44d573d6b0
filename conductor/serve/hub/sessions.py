"""The live sessions: how they begin, who is attached, and how they end."""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import encode, member_at, text_of
from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from conductor.core.policy.sessions import MAKES_ONE
from conductor.serve.hub.effects import CloseChain, Owned
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.history import History
from conductor.serve.hub.params import plain
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.state import Asked, Attachment, Chain, Client, Live
from conductor.serve.hub.turns import Turns
from conductor.serve.hub.updates import Updates

_MOST_FOLDER: Final = 4096


class Sessions:
    """The part of a hub that keeps the live sessions."""

    def __init__(
        self, floor: Floor, turns: Turns, questions: Questions, updates: Updates, servers: Servers
    ) -> None:
        self._floor = floor
        self._turns = turns
        self._questions = questions
        self._updates = updates
        self._servers = servers

    # -- how they begin --------------------------------------------------------------------------

    def begin(self, asked: Asked, chain: Chain) -> None:
        """`session/new` or `session/fork` goes to the agent, which chooses the id."""
        if self._has_room(asked, chain):
            self._send(asked, chain)

    def _has_room(self, asked: Asked, chain: Chain) -> bool:
        """Whether another session may become live; otherwise its request is refused."""
        most = self._floor.limits.sessions
        live = sum(map(len, self._floor.live.values()))
        opening = sum(one.method in MAKES_ONE for one in chain.sent.values())
        if live + opening < most:
            return True
        self._floor.full(asked, f"there are {most} live sessions, as many as there may be")
        return False

    def _send(self, asked: Asked, chain: Chain) -> None:
        if self._servers.offer(asked, chain):
            self._floor.forward(asked, chain, plain(asked.params))

    def begun(self, asked: Asked, chain: Chain, member: bytes, body: Raw) -> None:
        """The agent has answered a request for a new session."""
        id_ = text_of(member_at(body, "sessionId")) if member == b"result" else ""
        if not id_:
            self._floor.finish(asked, member, body)
            return self._updates.forget_early(chain)
        self._floor.out.append(Owned(id_))
        session = chain.sessions.get(id_)
        if session is None:
            session = self._add(id_, chain, asked, complete=asked.method == MAKES_ONE[0])
            self._updates.opened(session, body)
        client = asked.client
        if client is not None and client.attached.get(id_, session) is not session:
            text = "another chain has a session with the id that the agent gave the new one"
            hint = "send `session/detach` for that session, then try again"
            self._floor.refuse(asked, INTERNAL_ERROR, text, hint, sessionId=id_)
        elif client is not None:
            self.attach(session, client, drives=True)
            self._floor.finish(asked, member, body)
        self._updates.late(session, asked.now)
        if not session.attached:
            self.forget(session)
        return None

    def load(
        self, asked: Asked, client: Client, chain: Chain, session: Live | None, *, replays: bool
    ) -> None:
        """The agent opens a session, or replays a live session with an incomplete history."""
        id_ = asked.scope or ""
        if session is None:
            if not self._has_room(asked, chain):
                return None
            session = self._add(id_, chain, asked, complete=False)
            session.provisional = True
        elif session.turn is not None:
            text = "the history of this session is not complete, and a turn is open"
            hint = "load it when the turn has ended, or send `session/attach`"
            return self._floor.refuse(asked, INVALID_REQUEST, text, hint, sessionId=id_)
        self.attach(session, client, drives=True)
        if replays:
            session.history.restart()
        session.loading, asked.session = asked, session
        self._send(asked, chain)
        if asked.origin is None:
            self._failed(session)
        return None

    def loaded(self, asked: Asked, _: Chain, member: bytes, body: Raw) -> None:
        """The agent has answered it."""
        session = asked.session
        assert session is not None
        if session.loading is not asked:  # the session is no longer live
            return self._floor.finish(asked, member, body)
        if member == b"error":
            for one in session.waiting if session.provisional else ():
                self._floor.finish(one, member, body)
            self._floor.finish(asked, member, body)
            return self._failed(session)
        session.provisional = False
        self._floor.out.append(Owned(session.id))
        self._updates.opened(session, body)
        self._floor.finish(asked, member, body)
        return self._settled(session)

    def _failed(self, session: Live) -> None:
        """The agent has not opened or replayed a session."""
        session.history.complete = False
        self._settled(session)
        if session.provisional:
            self.forget(session, close=False)

    def _settled(self, session: Live) -> None:
        """The requests that have waited for the agent go on."""
        session.loading = None
        self._floor.again += session.waiting
        session.waiting = []

    def _add(self, id_: str, chain: Chain, asked: Asked, *, complete: bool) -> Live:
        """A session is live from now on; `complete`: nothing has happened in it yet."""
        session = Live(id_, chain, History(self._floor.budget, complete=complete))
        session.cwd = text_of(member_at(asked.params, "cwd"))[:_MOST_FOLDER]
        chain.sessions[id_] = session
        self._floor.live.setdefault(id_, {})[session] = None
        return session

    # -- who is attached -------------------------------------------------------------------------

    def attach(self, session: Live, client: Client, *, drives: bool) -> Attachment:
        """A client sees a session from now on. One that is attached already stays as it is."""
        how = session.attached.get(client)
        if how is None:
            how = session.attached[client] = Attachment(drives and not client.views)
            client.attached[session.id] = session
        if session.home is None and how.drives:
            session.home = client
        return how

    def set_role(self, session: Live, client: Client, *, drives: bool) -> None:
        """A client that is attached drives from now on, or only watches."""
        how = session.attached[client]
        drove, how.drives = how.drives, drives
        if drove and not drives:
            self._without(session, client)
        elif drives and session.home is None:
            session.home = client

    def leave(self, session: Live, client: Client) -> None:
        """A client is no longer attached."""
        del session.attached[client]
        del client.attached[session.id]
        self._without(session, client)
        if not session.attached:
            self.forget(session, close=_needed(session.chain))

    def _without(self, session: Live, client: Client) -> None:
        """A session loses a driver, if the client was a driver."""
        for asked in [*session.questions]:
            if client in asked.to:
                self._questions.withdrawn(asked, client)
        drivers = session.drivers()
        if session.home is client:
            session.home = drivers[0] if drivers else None
        if not drivers:
            self._turns.cancel(session)

    # -- how they end ----------------------------------------------------------------------------

    def forget(self, session: Live, *, close: bool = True, error: Raw | None = None) -> None:
        """A session is no longer live; `close`: the agent still has the session, and is told.
        `error`: why the chain has ended. Clients that know of `session/attach` are told."""
        chain, floor = session.chain, self._floor
        if not session.is_live:
            return
        del chain.sessions[session.id]
        same = floor.live[session.id]
        del same[session]
        if not same:
            del floor.live[session.id]
        self._questions.abandoned([*session.questions])
        self._turns.announce(session, None, "session_closed", error=error)
        for client in session.attached:
            del client.attached[session.id]
        session.attached.clear()
        session.turn = None
        floor.turning.pop(session, None)
        session.history.close()
        self._settled(session)
        if close and chain.closes:
            params = Raw(encode({"sessionId": session.id}))
            floor.forward(Asked(None, b"", b"", "session/close", params), chain)

    def unneeded(self, chain: Chain) -> None:
        """Closes a chain that nobody needs any more."""
        if _needed(chain) or chain.name not in self._floor.chains:
            return
        for session in list(chain.sessions.values()):
            self.forget(session, close=False)
        self._questions.abandoned([*chain.received.values()])
        del self._floor.chains[chain.name]
        self._floor.out.append(CloseChain(chain.name))


def _needed(chain: Chain) -> bool:
    return (
        bool(chain.clients)
        or any(session.attached for session in chain.sessions.values())
        or any(asked.client for asked in chain.sent.values())
    )
