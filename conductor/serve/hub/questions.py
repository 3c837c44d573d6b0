"""Questions: requests of a chain's, and which clients have them.

Permissions and elicitations go to all drivers of a session, and the first answer wins. What takes
the client's machine (`fs/*`, `terminal/*`) and all else goes to the home connection.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import read_members, write_members
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Malformed,
    canonical_id,
    outcome,
)
from conductor.core.message import Message
from conductor.errors import counted
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import inner, session_of, text_of
from conductor.serve.hub.servers import CONNECT, Servers
from conductor.serve.hub.state import Chain, Connection, Question, Session
from conductor.serve.hub.turns import Turns

PERMISSION: Final = "session/request_permission"
ELICITATION: Final = "elicitation/create"
_NOBODY: Final = {
    PERMISSION: b'{"outcome":{"outcome":"cancelled"}}',
    ELICITATION: b'{"action":"cancel"}',
}
"""What a question of a method is answered where no driver is left."""


class Questions:
    """The part of a hub that takes a chain's requests to clients, and their answers back."""

    def __init__(self, floor: Floor, turns: Turns, servers: Servers) -> None:
        self._floor = floor
        self._servers = servers
        self._turns = turns

    # -- from the chain ------------------------------------------------------------------------

    def ask(self, chain: Chain, id_: Raw, method: str, message: Message) -> None:
        """A chain asks."""
        key = canonical_id(id_)
        if key is None or key in chain.questions:
            text = "a request id must be null, a 64-bit integer or a string"
            if key is not None:
                text = f"request id {key.decode(errors='replace')} is still in use"
            return self._refuse(chain, key or b"null", INVALID_REQUEST, text)
        most = self._floor.limits.open_requests
        if len(chain.questions) >= most:
            text = f"the client has {counted(most, 'request')} without an answer"
            return self._refuse(chain, key, INVALID_REQUEST, text)
        try:
            scope = session_of(message.params)
        except Malformed as problem:
            return self._refuse(chain, key, problem.code, problem.text)
        session = None if scope is None else chain.sessions.get(scope)
        asked = Question(chain, bytes(id_), key, method, message.params, session, scope)
        asked.asks_all = session is not None and method in _NOBODY
        chain.questions[key] = asked
        if session is not None:
            session.questions[asked] = None
        for connection in self._to(asked):
            self.deliver(asked, connection)
        self._shown(asked, self._viewers(asked))
        if not asked.to:
            self.abandon(asked)
        return None

    def _refuse(self, chain: Chain, id_: bytes, code: int, text: str) -> None:
        self._floor.send(chain, frames.error(id_, code, text))

    def _to(self, asked: Question) -> list[Connection]:
        """Who gets a question."""
        session, chain = asked.session, asked.chain
        if self._servers.concerned(asked.method):
            return self._servers.of(chain, asked.method, asked.params)
        if session is not None:
            if asked.asks_all:
                return session.drivers()
            home = session.home
            return [home] if home is not None else session.drivers()[:1]
        if asked.scope is not None:
            opening = [one.connection for one in chain.open.values() if one.method in _OPENING]
            return [one for one in opening if one is not None][:1]
        members = read_members(asked.params) or {}
        about = members.get("requestId")
        if about is not None and asked.method == ELICITATION:
            call = chain.open.get(canonical_id(about) or b"")
            if call is None or call.connection is None:
                return []
            asked.params = write_members({**members, "requestId": Raw(call.id)})
            return [call.connection]
        others = [one for session in chain.sessions.values() for one in session.drivers()]
        return [*chain.connections, *others][:1]

    def deliver(self, asked: Question, connection: Connection) -> None:
        """A client gets a question."""
        if len(connection.questions) >= self._floor.limits.open_requests:
            return
        connection.last_id += 1
        id_ = b"%d" % connection.last_id
        asked.to[connection] = id_
        connection.questions[id_] = asked
        frame = frames.request(id_, asked.method, asked.params)
        self._floor.tell(connection, frame, asked.scope)

    @staticmethod
    def _viewers(asked: Question) -> list[Connection]:
        """Who sees a question for permission and may not answer it."""
        if asked.method != PERMISSION or asked.session is None:
            return []
        attached = asked.session.attached.items()
        return [one for one, how in attached if how.speaks and not how.drives]

    def _shown(self, asked: Question, viewers: list[Connection]) -> None:
        """Viewers see what is asked, as an update."""
        if viewers and asked.session is not None:
            names = {"requestId": Raw(asked.id), "request": asked.params}
            frame = frames.update(asked.session.id, "permission_requested", **names)
            for connection in viewers:
                self._floor.tell(connection, frame, asked.scope)

    def cancelled(self, chain: Chain, id_: bytes) -> None:
        """A chain does not need an answer any more; it gets one all the same."""
        asked = chain.questions.get(id_)
        if asked is not None:
            for connection, sent in asked.to.items():
                self._floor.tell(connection, frames.cancel(sent), None)

    # -- from a client -------------------------------------------------------------------------

    def answered(self, connection: Connection, message: Message) -> None:
        """A client answers. What it was never asked, or another has answered, goes nowhere."""
        key = canonical_id(message.id) if isinstance(message.id, Raw) else None
        asked = connection.questions.pop(key or b"", None)
        if asked is None:
            if key not in connection.taken_back:
                open_ = (one.method for one in connection.questions.values())
                self._floor.drop(connection, key, open_)
            connection.taken_back.pop(key or b"", None)
            return
        del asked.to[connection]
        found = outcome(message)
        if found is not None and found[0] == b"result":
            self._settled(asked, connection, found[1])
        elif not asked.to:  # an error counts where nobody is left who could do better
            if found is not None:
                self._end(asked, *found)
            else:
                text = "the client's answer has neither a result nor an error"
                self._end(asked, b"error", frames.error_body(INTERNAL_ERROR, text))

    def _settled(self, asked: Question, connection: Connection, result: Raw) -> None:
        if asked.method in CONNECT and not self._servers.connected(asked.chain, connection, result):
            body = frames.error_body(INTERNAL_ERROR, "another client has this MCP connection")
            return self._floor.reply(asked, b"error", body)
        return self._end(asked, b"result", result, connection)

    def _end(
        self, asked: Question, member: bytes, body: Raw | bytes, by: Connection | None = None
    ) -> None:
        """The chain has its answer. What a driver has decided all hear of that used
        `session/attach`; of any other end those that were shown the question."""
        self._floor.reply(asked, member, body)
        session = asked.session
        if session is None or asked.method != PERMISSION:
            return
        outcome = inner(read_members(body), "outcome")
        within = ("toolCall",) if asked.chain.version < 2 else ("subject", "toolCall")
        frame = frames.update(
            session.id,
            "permission_resolved",
            requestId=Raw(asked.id),
            toolCallId=text_of(inner(read_members(asked.params), *within).get("toolCallId")),
            outcome=outcome or None,
            chosenOptionId=text_of(outcome.get("optionId")),
            resolvedBy=None if by is None else {"clientId": by.client_id, **by.info},
        )
        for connection in self._viewers(asked) if by is None else session.speaking():
            self._floor.tell(connection, frame, session.id)

    # -- clients that come and go --------------------------------------------------------------

    def joined(self, session: Session, connection: Connection) -> None:
        """A client has come: a driver gets the questions that still have no answer, a viewer sees
        them."""
        for asked in list(session.questions):
            if connection in self._viewers(asked):
                self._shown(asked, [connection])
            elif session.drives(connection) and asked.asks_all and connection not in asked.to:
                self.deliver(asked, connection)

    def withdrawn(self, asked: Question, connection: Connection, *, gone: bool) -> None:
        """A client cannot answer a question any more."""
        id_ = asked.to.pop(connection)
        connection.questions.pop(id_, None)
        if not gone:
            self._floor.take_back(connection, id_)
        if not asked.to:
            self.abandon(asked)

    def moved(self, session: Session, before: Connection, after: Connection) -> None:
        """What waits for a home connection that is cut goes to the one in its place."""
        for asked in list(session.questions):
            id_ = None if asked.asks_all else asked.to.pop(before, None)
            if id_ is not None:
                self._floor.take_back(before, id_)
                self.deliver(asked, after)

    def stopped(self, session: Session, by: Connection | None) -> None:
        """A turn is cancelled: who does that answers the questions it has (ACP), and the hub those
        that it does not have."""
        for asked in list(session.questions):
            if asked.asks_all and (by is None or by not in asked.to):
                self.abandon(asked)

    def abandoned(self, session: Session) -> None:
        """A session is not live any more."""
        for asked in list(session.questions):
            self.abandon(asked)

    def abandon(self, asked: Question) -> None:
        """A question needs no answer any more; the chain gets one all the same."""
        body = _NOBODY.get(asked.method)
        if body is not None:
            self._end(asked, b"result", body)
        else:
            text = f"no client is there for `{asked.method}`"
            self._end(asked, b"error", frames.error_body(INTERNAL_ERROR, text))


_OPENING: Final = ("session/new", "session/fork")
