"""The hub: the connections and the chains of one principal, and the clients of each session.

Pure: frames in, effects out; there is no clock and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.dialects import CANCEL
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Malformed,
    Message,
    outcome,
    parse,
)
from conductor.core.policy.key_table import PROMPT, UPDATE
from conductor.errors import ConductorError, are, counted
from conductor.serve.hub import frames
from conductor.serve.hub.attaching import Attaching
from conductor.serve.hub.effects import Effect
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.handshake import Handshake
from conductor.serve.hub.limits import HubLimits
from conductor.serve.hub.params import update_at, update_of
from conductor.serve.hub.questions import Questions, neither
from conductor.serve.hub.requests import Requests
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Chain, Client
from conductor.serve.hub.turns import Turns
from conductor.serve.hub.updates import Updates

_BATCH: Final = "JSON-RPC batches are not supported; send each message individually"


class SessionInfo(msgspec.Struct, frozen=True):
    """A live session, for lists and metrics."""

    session: str
    chain: str
    drivers: tuple[str, ...]
    """Connections, the home connection first."""
    viewers: tuple[str, ...]
    turn: bool
    """Whether a turn is open."""
    history_bytes: int


class Hub:
    """Carries messages between the connections and the chains of one principal.

    Args:
        shares: whether a connection joins a running chain of the principal that fits.
        owns: whether a session that is not live is the principal's, by its id.
        limits: the bounds of the principal's cost.
    """

    def __init__(
        self,
        *,
        shares: bool,
        owns: Callable[[str], bool],
        limits: HubLimits | None = None,
    ) -> None:
        self._seen = 0
        self._floor = floor = Floor(owns, limits or HubLimits())
        self._turns = turns = Turns(floor)
        self._servers = servers = Servers(floor)
        self._questions = questions = Questions(floor, turns, servers)
        self._updates = updates = Updates(floor, turns, servers)
        self._sessions = sessions = Sessions(floor, turns, questions, updates, servers)
        handshake = Handshake(floor, shares)
        attaching = Attaching(floor, sessions, questions, servers)
        self._requests = Requests(
            floor, handshake, attaching, sessions, questions, turns, updates, servers
        )

    @property
    def limits(self) -> HubLimits:
        """The bounds of the principal's cost. New limits hold at once; all above them stays."""
        return self._floor.limits

    @limits.setter
    def limits(self, limits: HubLimits) -> None:
        self._floor.set_limits(limits)

    # -- connections ---------------------------------------------------------------------------

    def joined(self, connection: str, *, named: str = "", views: bool = False) -> None:
        """A client has connected.

        Args:
            connection: its name, new in this hub.
            named: the chain of the configuration that it asks for; only such chains are shared.
            views: it may only watch: it has no other role than viewer in any session.

        Raises:
            ConductorError: the principal has as many connections as it may.
        """
        if len(self._floor.clients) >= self.limits.connections:
            most = self.limits.connections
            text = f"there {are(most)} {counted(most, 'connection')}, as many as there may be"
            raise ConductorError(text, "close some of them, or ask for a higher limit")
        self._seen += 1
        client = Client(connection, named=named, views=views, client_id=f"client-{self._seen}")
        self._floor.clients[connection] = client

    def cut(self, connection: str, is_cut: bool = True) -> None:
        """The link of a connection is cut, or there is a link again. The connection keeps all it
        has: the shell keeps the frames for it, and questions wait."""
        known = self._floor.clients.get(connection)
        if known is not None:
            known.cut = is_cut

    def is_bare(self, connection: str) -> bool:
        """Whether a connection has no session, and waits for no answer but that of `initialize`:
        nothing is lost with it."""
        known = self._floor.clients.get(connection)
        return known is None or not (
            known.attached or any(one.method != "initialize" for one in known.received.values())
        )

    def waits(self, connection: str) -> bool:
        """Whether a connection has a request without an answer."""
        known = self._floor.clients.get(connection)
        return known is not None and bool(known.received)

    def left(self, connection: str, error: tuple[str, str] | None = None) -> list[Effect]:
        """A connection has ended for good. With `error`, a text and a hint, its open requests are
        answered with an error: the client then still reads."""
        gone = self._floor.clients.get(connection)
        if gone is None:
            return []
        chains = {session.chain: None for session in gone.attached.values()}
        if gone.chain is not None:
            gone.chain.clients.pop(gone, None)
            chains[gone.chain] = None
        for asked in [*gone.received.values()]:
            if error is not None:
                self._floor.refuse(asked, INTERNAL_ERROR, *error)
            asked.origin = None
            chains |= {hop: None for hop in asked.to if isinstance(hop, Chain)}
            if asked.method not in ("initialize", PROMPT):  # else it does others good
                self._floor.cancelled(asked)
        gone.received.clear()
        del self._floor.clients[connection]
        for session in [*gone.attached.values()]:
            self._sessions.leave(session, gone)
        for asked in [*gone.sent.values()]:
            self._questions.withdrawn(asked, gone)
        for chain in chains:
            self._servers.left(chain, gone)
            self._sessions.unneeded(chain)
        return self._effects()

    # -- frames --------------------------------------------------------------------------------

    def from_client(self, connection: str, frame: bytes, now: float) -> list[Effect]:
        """A client has sent a frame."""
        sender = self._floor.clients.get(connection)
        if sender is None:
            return []
        try:
            message = parse(frame)
            if isinstance(message, list):
                raise Malformed(INVALID_REQUEST, _BATCH)
            self._requests.sent(sender, message, now)
        except Malformed as problem:
            error = frames.error(problem.id or b"null", problem.code, problem.text)
            self._floor.send(sender, error)
        return self._effects()

    def from_chain(self, chain: str, frame: bytes, now: float) -> list[Effect]:
        """A chain has sent a frame."""
        sender, frame = self._floor.chains.get(chain), frame.rstrip(b"\r\n")
        if sender is None:
            return []
        read = update_at(frame)
        if read is not None:
            self._updates.update(sender, read, frame, now)
            return self._effects()
        try:
            message = parse(frame)
        except Malformed:
            return []  # an answer would only confuse it
        try:
            if isinstance(message, list):
                raise Malformed(INVALID_REQUEST, _BATCH)
            self._chain_sent(sender, message, frame, now)
        except Malformed as problem:
            error = frames.error(problem.id or b"null", problem.code, problem.text)
            self._floor.send(sender, error)
        return self._effects()

    def _chain_sent(self, sender: Chain, message: Message, frame: bytes, now: float) -> None:
        method, id_, params = message.method, message.id, message.params
        if isinstance(method, UnsetType):
            asked = self._floor.answered(sender, message) if isinstance(id_, Raw) else None
            if asked is not None:
                self._requests.answered(asked, sender, *(outcome(message) or neither()))
        elif isinstance(id_, Raw):
            self._questions.ask(sender, id_, method, params)
        elif method == UPDATE:
            self._updates.update(sender, update_of(params), frame, now)
        elif method == CANCEL:
            self._questions.cancelled(sender, params)
        else:
            self._updates.notified(sender, method, params, frame)

    # -- ends and time -------------------------------------------------------------------------

    def chain_ended(self, chain: str, text: str, hint: str = "") -> list[Effect]:
        """A chain has ended: each open request is answered with an error of this text and hint."""
        ended = self._floor.chains.pop(chain, None)
        if ended is None:
            return []
        for client in ended.clients:
            client.chain, client.ended = None, (text, hint)
        error = Raw(frames.error_body(INTERNAL_ERROR, text, hint))
        for asked in [*ended.sent.values(), *ended.waiting]:
            self._floor.finish(asked, b"error", error)
        for client in ended.clients:
            self._floor.refuse_held(client, error)
        for session in [*ended.sessions.values()]:
            if session.turn is not None:
                self._turns.end(session, None, error=error)
            self._sessions.forget(session, close=False, error=error)
        self._questions.abandoned([*ended.received.values()])
        return self._effects()

    def overdue(self, now: float) -> list[Effect]:
        """The time is `now`: turns that take too long are cancelled, then answered."""
        for session in self._turns.overdue(now):
            self._questions.stopped(session, None)
        return self._effects()

    def _effects(self) -> list[Effect]:
        """The effects of a call, and of the requests that have waited for it."""
        floor = self._floor
        while floor.again or floor.opened:
            opened, floor.opened = floor.opened, []
            for client in opened:
                self._requests.released(client)
            waited, floor.again = floor.again, []
            for asked in waited:
                self._requests.take(asked)
        out, floor.out = floor.out, []
        return out

    # -- counts --------------------------------------------------------------------------------

    @property
    def open_turns(self) -> int:
        """Turns that have begun and not ended."""
        return len(self._floor.turning)

    @property
    def sessions(self) -> list[SessionInfo]:
        """The live sessions."""
        return [
            SessionInfo(
                session.id,
                session.chain.name,
                tuple(one.name for one in session.drivers()),
                tuple(one.name for one, how in session.attached.items() if not how.drives),
                session.turn is not None,
                session.history.size,
            )
            for same in self._floor.live.values()
            for session in same
        ]
