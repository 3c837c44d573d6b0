"""Questions: the requests of a chain, and the clients that have them.

Permissions and elicitations go to all drivers of a session, and the first answer wins. Requests
that need the client's machine (`fs/*`, `terminal/*`) and all others go to the home client.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw

from conductor.core.json_text import member_at, text_of, write_members
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Malformed,
    Message,
    Params,
    canonical_id,
    outcome,
)
from conductor.core.policy.key_table import MCP_FAMILIES, PERMISSION
from conductor.core.policy.ownership import CONNECT
from conductor.core.policy.sessions import MAKES_ONE
from conductor.serve.hub import frames
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.params import inner, session_of
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.state import Asked, Chain, Client, Live
from conductor.serve.hub.turns import Turns

ELICITATION: Final = "elicitation/create"
_NOBODY: Final = {
    PERMISSION: b'{"outcome":{"outcome":"cancelled"}}',
    ELICITATION: b'{"action":"cancel"}',
}
"""The answers to questions, by method, where no driver is left."""


def neither() -> tuple[bytes, Raw]:
    """The outcome of an answer that has neither a result nor an error."""
    text = "the answer to this request has neither a result nor an error"
    return b"error", Raw(frames.error_body(INTERNAL_ERROR, text))


class Questions:
    """The part of a hub that takes a chain's requests to clients, and their answers back."""

    def __init__(self, floor: Floor, turns: Turns, servers: Servers) -> None:
        self._floor = floor
        self._servers = servers
        self._turns = turns

    # -- from the chain ------------------------------------------------------------------------

    def ask(self, chain: Chain, id_: Raw, method: str, params: Params) -> None:
        """A chain asks.

        Raises:
            Malformed: the request is none, or there are too many.
        """
        asked = self._floor.accept(chain, id_, method, params)
        try:
            asked.scope = session_of(params)
        except Malformed as problem:
            return self._floor.refuse(asked, problem.code, problem.text)
        asked.session = session = chain.live(asked.scope)
        if session is not None:
            asked.scope, asked.asks_all = session.id, method in _NOBODY
            session.questions[asked] = None
        for client in self._to(asked, chain):
            self._floor.pass_on(asked, client)
        self._shown(asked, self._viewers(asked))
        return self._left(asked)

    def _to(self, asked: Asked, chain: Chain) -> list[Client]:
        """The clients that get a question."""
        session = asked.session
        if asked.method.startswith(MCP_FAMILIES):
            return self._servers.of(chain, asked.method, asked.params)
        if session is not None:
            if asked.asks_all:
                return session.drivers()
            return [session.home] if session.home is not None else session.drivers()[:1]
        if asked.scope is not None:
            opening = [one.client for one in chain.sent.values() if one.method in MAKES_ONE]
            return [one for one in opening if one is not None][:1]
        about = member_at(asked.params, "requestId")
        if about is not None and asked.method == ELICITATION:
            known = chain.sent.get(canonical_id(about) or b"")
            if known is None or known.client is None:
                return []
            members = {**inner(asked.params), "requestId": Raw(known.raw_id)}
            asked.params = write_members(members)
            return [known.client]
        others = [one for session in chain.sessions.values() for one in session.drivers()]
        return [*chain.clients, *others][:1]

    @staticmethod
    def _viewers(asked: Asked) -> list[Client]:
        """The clients that see a question for permission and may not answer it."""
        if asked.method != PERMISSION or asked.session is None:
            return []
        return [one for one in asked.session.speaking() if not asked.session.drives(one)]

    def _shown(self, asked: Asked, viewers: list[Client]) -> None:
        """Viewers see the question, as an update."""
        if viewers and asked.scope is not None:
            names = {"requestId": Raw(asked.raw_id), "request": asked.params}
            frame = frames.update(asked.scope, "permission_requested", **names)
            self._floor.tell_all(viewers, frame, asked.scope)

    def cancelled(self, chain: Chain, params: Params) -> None:
        """A chain no longer needs an answer; it gets an answer all the same."""
        about = member_at(params, "requestId")
        asked = None if about is None else chain.received.get(canonical_id(about) or b"")
        if asked is not None:
            self._floor.cancelled(asked)

    # -- from a client -------------------------------------------------------------------------

    def answered(self, client: Client, message: Message) -> None:
        """A client answers. An answer to no question, or to an answered question, goes nowhere.

        Raises:
            Malformed: the message is no answer.
        """
        if not isinstance(message.id, Raw):
            raise Malformed(INVALID_REQUEST, "a message has a method, or it is a response")
        key = canonical_id(message.id)
        if not message.answers and key not in client.sent:
            raise Malformed(INVALID_REQUEST, "a request has a method", key)
        asked = self._floor.answered(client, message)
        if asked is None:
            return
        member, body = outcome(message) or neither()
        if member == b"result":
            self._settled(asked, client, body)
        elif not asked.to:  # an error counts where nobody is left who could do better
            self._reply(asked, member, body)

    def _settled(self, asked: Asked, client: Client, result: Raw) -> None:
        chain = asked.origin
        assert isinstance(chain, Chain)
        if asked.method in CONNECT and not self._servers.connected(
            chain, client, asked.method, result
        ):
            body = frames.error_body(INTERNAL_ERROR, "another client has this MCP connection")
            return self._reply(asked, b"error", body)
        return self._reply(asked, b"result", result, client)

    def _reply(
        self, asked: Asked, member: bytes, body: Raw | bytes, by: Client | None = None
    ) -> None:
        """Answers a chain's request, and takes it back from all who have it. All clients that used
        `session/attach` hear of a driver's decision; viewers hear of any other end."""
        for client in [*asked.to]:
            self._floor.take_back(asked, client)
        session = asked.session
        if session is not None:
            session.questions.pop(asked, None)
        self._floor.finish(asked, member, body)
        if session is None or asked.method != PERMISSION:
            return
        to = self._viewers(asked) if by is None else session.speaking()
        if not to:
            return
        within = ("toolCall",) if session.chain.version < 2 else ("subject", "toolCall")
        chosen = inner(body, "outcome")
        frame = frames.update(
            session.id,
            "permission_resolved",
            requestId=Raw(asked.raw_id),
            toolCallId=text_of(member_at(asked.params, *within, "toolCallId")) or None,
            outcome=chosen or None,
            chosenOptionId=text_of(chosen.get("optionId")) or None,
            resolvedBy=None if by is None else by.shown,
        )
        self._floor.tell_all(to, frame, session.id)

    # -- clients that come and go --------------------------------------------------------------

    def joined(self, session: Live, client: Client) -> None:
        """A client has come: a driver gets the questions that still have no answer, a viewer sees
        them."""
        for asked in session.questions:
            if client in self._viewers(asked):
                self._shown(asked, [client])
            elif session.drives(client) and asked.asks_all and client not in asked.to:
                self._floor.pass_on(asked, client)

    def withdrawn(self, asked: Asked, client: Client) -> None:
        """A client cannot answer a question any more."""
        self._floor.take_back(asked, client)
        self._left(asked)

    def moved(self, session: Live, before: Client, after: Client) -> None:
        """The questions of a home client that is cut go to the client in its place."""
        for asked in session.questions:
            if not asked.asks_all and before in asked.to:
                self._floor.take_back(asked, before)
                self._floor.pass_on(asked, after)

    def stopped(self, session: Live, by: Client | None) -> None:
        """A turn is cancelled. The client that cancels answers the questions it has (ACP); the hub
        answers the rest."""
        for asked in [*session.questions]:
            if asked.asks_all and (by is None or by not in asked.to):
                self._abandon(asked)

    def abandoned(self, asked: list[Asked]) -> None:
        """The session or chain of these questions is gone."""
        for one in asked:
            self._abandon(one)

    def _left(self, asked: Asked) -> None:
        if not asked.to:
            self._abandon(asked)

    def _abandon(self, asked: Asked) -> None:
        """A question no longer needs an answer; the chain gets an answer all the same."""
        body = _NOBODY.get(asked.method)
        if body is not None:
            self._reply(asked, b"result", body)
        else:
            text = f"no client is there for `{asked.method}`"
            self._reply(asked, b"error", frames.error_body(INTERNAL_ERROR, text))
