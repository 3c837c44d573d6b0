"""The state of a hub, and its effects as they come: every part of the hub works on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Raw

from conductor.core.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, Params, dropped
from conductor.serve.hub import frames
from conductor.serve.hub.effects import Effect, LogLine, ToChain, ToClient
from conductor.serve.hub.history import Budget
from conductor.serve.hub.limits import HubLimits
from conductor.serve.hub.state import Call, Chain, Connection, Question, Session

VIEWER: Final = "this client is a viewer"

RESOURCE_NOT_FOUND = -32002
_LOGGED: Final = 20
"""Answers of one client to no request that the log names."""


class Floor:
    """Who is there, and what is to be sent.

    Attributes:
        out: the effects of the call that is being performed.
        turning: the sessions with an open turn.
    """

    def __init__(self, owns: Callable[[str], bool], limits: HubLimits) -> None:
        self.owns = owns
        self.limits = limits
        self.connections: dict[str, Connection] = {}
        self.chains: dict[str, Chain] = {}
        self.live: dict[str, dict[Session, None]] = {}
        """The live sessions by id; chains that know nothing of each other may use the same."""
        self.budget = Budget(limits.all_history_bytes, limits.history_bytes)
        self.turning: dict[Session, None] = {}
        self.out: list[Effect] = []
        self.opened: list[Connection] = []
        """Connections whose `initialize` is answered: what they have sent behind it goes on."""
        self.again: list[Call] = []
        """Requests that have waited, and are to be looked at once more."""
        self.count = 0
        """How many sessions are live."""

    def set_limits(self, limits: HubLimits) -> None:
        """Other limits hold from now on."""
        self.limits = limits
        self.budget.most, self.budget.of_one = limits.all_history_bytes, limits.history_bytes

    # -- sending -------------------------------------------------------------------------------

    def tell(self, connection: Connection, frame: bytes, scope: str | None) -> None:
        """A client gets a frame."""
        self.out.append(ToClient(connection.name, frame, scope))

    def send(self, chain: Chain, frame: bytes) -> None:
        """A chain gets a frame, if it still runs."""
        if chain.name in self.chains:
            self.out.append(ToChain(chain.name, frame))

    def forward(self, call: Call, chain: Chain, params: Params | None = None) -> None:
        """A chain gets a client's request.

        Args:
            call: the request.
            chain: which chain.
            params: in place of those that the client sent.
        """
        if len(chain.open) >= self.limits.open_requests:
            return self.full(call, f"a chain has at most {self.limits.open_requests} open requests")
        chain.last_id += 1
        while b"%d" % chain.last_id in chain.open:  # a client's own
            chain.last_id += 1
        call.chain, call.sent_id = chain, b"%d" % chain.last_id
        chain.open[call.sent_id] = call
        params = call.params if params is None else params
        self.send(chain, frames.request(call.sent_id, call.method, params))
        return None

    def notify_chain(self, chain: Chain, method: str, params: bytes) -> None:
        """A chain gets a notification of the hub's own."""
        self.send(chain, frames.notification(method, params))

    # -- answering -----------------------------------------------------------------------------

    def finish(self, call: Call, member: bytes, body: Raw | bytes) -> None:
        """Answers a client's request, if it still waits; it is open no more."""
        connection, call.connection = call.connection, None
        if connection is not None:
            connection.open.pop(call.key, None)
            self.tell(connection, frames.answer(call.id, member, body), call.scope)

    def refuse(self, call: Call, code: int, text: str, hint: str = "", **data: object) -> None:
        """Answers a client's request with an error of the hub's."""
        self.finish(call, b"error", frames.error_body(code, text, hint, **data))

    def views(self, call: Call) -> None:
        """Refuses a request of a connection that may only watch."""
        hint = "only a driver may do this: connect with a token that may drive"
        self.refuse(call, INVALID_REQUEST, VIEWER, hint)

    def full(self, call: Call, text: str) -> None:
        """Refuses a request because of a limit."""
        self.refuse(call, INVALID_REQUEST, text, "end some of them, or ask for a higher limit")

    def unknown(self, call: Call, session: str) -> None:
        """Refuses a request for a session that is not there, or is none of this principal's."""
        self.refuse(call, RESOURCE_NOT_FOUND, "there is no such session", sessionId=session)

    def reply(self, question: Question, member: bytes, body: Raw | bytes) -> None:
        """Answers a chain's request; nobody has it any more."""
        del question.chain.questions[question.key]
        for connection, id_ in question.to.items():
            self.take_back(connection, id_)
        if question.session is not None:
            question.session.questions.pop(question, None)
        self.send(question.chain, frames.answer(question.id, member, body))

    def take_back(self, connection: Connection, id_: bytes) -> None:
        """A client need not answer a question any more; what it answers goes nowhere."""
        connection.questions.pop(id_, None)
        connection.taken_back[id_] = None
        if len(connection.taken_back) > self.limits.open_requests:
            del connection.taken_back[next(iter(connection.taken_back))]
        self.tell(connection, frames.cancel(id_), None)

    def drop(self, sender: Connection | Chain, key: bytes | None, open_: Iterable[str]) -> None:
        """An answer of a client, or of a chain, to no request; `open_`: what stays without one."""
        sender.dropped += 1
        if sender.dropped <= _LOGGED:
            who = sender.client_id if isinstance(sender, Connection) else sender.name
            more = "; further ones are not logged" if sender.dropped == _LOGGED else ""
            self.out.append(LogLine(who, f"{dropped(key, open_)}{more}"))

    def own(self, call: Call) -> Chain | None:
        """The own chain of who sent a request; without one the request is refused."""
        connection = call.connection
        assert connection is not None
        if connection.chain is None:
            text, hint = connection.ended
            self.refuse(call, INTERNAL_ERROR, text, hint)
        return connection.chain

    def refuse_held(self, connection: Connection, error: Raw) -> None:
        """`initialize` has failed: what was sent behind it is answered with the same error."""
        held, connection.held, connection.held_bytes = connection.held, [], 0
        for one in held:
            if isinstance(one, Call):
                self.finish(one, b"error", error)

    # -- finding -------------------------------------------------------------------------------

    def find(self, connection: Connection, session: str) -> Session | None:
        """The live session that an id means to a connection: one that it is attached to, else one
        of its own chain, else the eldest."""
        found = connection.attached.get(session)
        if found is None and connection.chain is not None:
            found = connection.chain.sessions.get(session)
        return found or next(iter(self.live.get(session, ())), None)
