"""The hub: the connections and the chains of one principal, and who is attached to which session.

Pure: frames in, effects out; there is no clock and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.core.json_text import read_members
from conductor.core.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Malformed,
    canonical_id,
    parse,
)
from conductor.core.message import Message
from conductor.errors import ConductorError, are, counted
from conductor.serve.hub import frames
from conductor.serve.hub.attaching import Attaching
from conductor.serve.hub.clients import Clients
from conductor.serve.hub.effects import Effect
from conductor.serve.hub.floor import Floor
from conductor.serve.hub.handshake import Handshake
from conductor.serve.hub.limits import HubLimits
from conductor.serve.hub.opening import Opening
from conductor.serve.hub.params import update_at, update_of
from conductor.serve.hub.questions import Questions
from conductor.serve.hub.requests import Requests
from conductor.serve.hub.servers import Servers
from conductor.serve.hub.sessions import Sessions
from conductor.serve.hub.state import Call, Chain, Connection, Phase
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
        limits: what the principal may cost.
        new_chain: names a chain that is to be opened, for a connection.
    """

    def __init__(
        self,
        *,
        shares: bool,
        owns: Callable[[str], bool],
        limits: HubLimits | None = None,
        new_chain: Callable[[str], str] | None = None,
    ) -> None:
        self._named = 0
        self._seen = 0
        self._floor = floor = Floor(owns, limits or HubLimits())
        self._turns = Turns(floor)
        self._servers = Servers(floor)
        self._questions = Questions(floor, self._turns, self._servers)
        self._updates = Updates(floor, self._turns, self._servers)
        self._sessions = Sessions(floor, self._turns, self._questions)
        handshake = Handshake(floor, shares, new_chain or self._next_name)
        opening = Opening(floor, self._sessions, self._updates, self._servers)
        attaching = Attaching(floor, self._sessions, self._questions, opening, self._servers)
        self._requests = Requests(
            floor,
            handshake,
            opening,
            attaching,
            self._sessions,
            self._turns,
            self._updates,
            self._servers,
        )
        self._clients = Clients(floor, self._requests, self._questions, self._servers)

    def _next_name(self, _connection: str) -> str:
        self._named += 1
        return f"chain-{self._named}"

    @property
    def limits(self) -> HubLimits:
        """What the principal may cost. Others hold at once; what is above them already stays."""
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
        if len(self._floor.connections) >= self.limits.connections:
            most = self.limits.connections
            text = f"there {are(most)} {counted(most, 'connection')}, as many as there may be"
            raise ConductorError(text, "close some of them, or ask for a higher limit")
        self._seen += 1
        joined = Connection(connection, named, views, client_id=f"client-{self._seen}")
        self._floor.connections[connection] = joined

    def cut(self, connection: str) -> list[Effect]:
        """The link of a connection is cut. The connection keeps all it has: the shell keeps the
        frames for it, and questions wait."""
        known = self._floor.connections.get(connection)
        if known is not None:
            known.cut = True
        return []

    def is_bare(self, connection: str) -> bool:
        """Whether a connection has no session, and waits for no answer but that of `initialize`:
        nothing is lost with it."""
        known = self._floor.connections.get(connection)
        return known is None or not (
            known.attached or any(one.method != "initialize" for one in known.open.values())
        )

    def waits(self, connection: str) -> bool:
        """Whether a connection has a request without an answer."""
        known = self._floor.connections.get(connection)
        return known is not None and bool(known.open)

    def linked(self, connection: str) -> list[Effect]:
        """A connection that was cut has a link again."""
        known = self._floor.connections.get(connection)
        if known is not None:
            known.cut = False
        return []

    def left(self, connection: str, error: tuple[str, str] | None = None) -> list[Effect]:
        """A connection has ended for good. Its open requests are answered with an error of this
        text and hint, if there is one: then its client still reads."""
        gone = self._floor.connections.pop(connection, None)
        if gone is None:
            return []
        out = self._begin()
        chains = {session.chain: None for session in gone.attached.values()}
        if gone.chain is not None:
            gone.chain.connections.pop(gone, None)
            chains[gone.chain] = None
        for call in [*gone.open.values()]:
            if error is not None:
                self._floor.refuse(call, INTERNAL_ERROR, *error)
            call.connection = None
            if call.chain is not None:
                chains[call.chain] = None
                self._withdraw(call, call.chain)
        gone.open.clear()
        for session in list(gone.attached.values()):
            self._sessions.leave(session, gone, gone=True)
        for asked in list(gone.questions.values()):
            self._questions.withdrawn(asked, gone, gone=True)
        for chain in chains:
            self._servers.left(chain, gone)
            self._sessions.unneeded(chain)
        return self._end(out)

    def _withdraw(self, call: Call, chain: Chain) -> None:
        """Nobody waits for an answer: its request is cancelled, unless it does others good."""
        if call.method not in ("initialize", "session/prompt"):
            self._floor.send(chain, frames.cancel(call.sent_id))

    # -- frames --------------------------------------------------------------------------------

    def from_client(self, connection: str, frame: bytes, now: float) -> list[Effect]:
        """A client has sent a frame."""
        sender = self._floor.connections.get(connection)
        if sender is None:
            return []
        out = self._begin()
        try:
            message = parse(frame)
            if isinstance(message, list):
                raise Malformed(INVALID_REQUEST, _BATCH)
            self._clients.sent(sender, message, now)
        except Malformed as problem:
            id_ = problem.id or b"null"
            error = frames.error(id_, problem.code, problem.text)
            self._floor.tell(sender, error, None)
        return self._end(out)

    def from_chain(self, chain: str, frame: bytes, now: float) -> list[Effect]:
        """A chain has sent a frame."""
        sender = self._floor.chains.get(chain)
        if sender is None:
            return []
        frame = frame.rstrip(b"\r\n")
        seen = update_at(frame)
        if seen is not None:
            out = self._begin()
            self._updates.update(sender, seen, frame, now)
            return self._end(out)
        out = self._begin()
        try:
            message = parse(frame)
        except Malformed:
            return []  # an answer would only confuse it
        if isinstance(message, list):
            self._floor.send(sender, frames.error(b"null", INVALID_REQUEST, _BATCH))
        else:
            self._chain_sent(sender, message, frame, now)
        return self._end(out)

    def _chain_sent(self, sender: Chain, message: Message, frame: bytes, now: float) -> None:
        method, id_ = message.method, message.id
        if isinstance(method, UnsetType):
            if isinstance(id_, Raw):
                self._chain_answered(sender, id_, message)
        elif isinstance(id_, Raw):
            self._questions.ask(sender, id_, method, message)
        elif method == frames.UPDATE:
            self._updates.update(sender, update_of(message.params), frame, now)
        elif method == frames.CANCEL:
            about = (read_members(message.params) or {}).get("requestId")
            if about is not None:
                self._questions.cancelled(sender, canonical_id(about) or b"")
        else:
            self._updates.notified(sender, method, message.params, frame)

    def _chain_answered(self, sender: Chain, id_: Raw, message: Message) -> None:
        key = canonical_id(id_)
        call = sender.open.pop(key or b"", None)
        if call is None:
            self._floor.drop(sender, key, (one.method for one in sender.open.values()))
            return
        if isinstance(message.error, Raw):
            member, body = b"error", message.error
        elif isinstance(message.result, Raw):
            member, body = b"result", message.result
        else:
            text = "the answer to this request has neither a result nor an error"
            member, body = b"error", Raw(frames.error_body(INTERNAL_ERROR, text))
        self._requests.answered(call, sender, member, body)

    # -- ends and time -------------------------------------------------------------------------

    def chain_ended(self, chain: str, text: str, hint: str = "") -> list[Effect]:
        """A chain has ended: each open request is answered with an error of this text and hint."""
        ended = self._floor.chains.pop(chain, None)
        if ended is None:
            return []
        out = self._begin()
        for connection in ended.connections:
            connection.chain, connection.ended = None, (text, hint)
            if connection.phase is Phase.OPENING:
                connection.phase = Phase.NEW
        error = Raw(frames.error_body(INTERNAL_ERROR, text, hint))
        for call in [*ended.open.values(), *ended.waiting]:
            self._floor.finish(call, b"error", error)
        for connection in ended.connections:
            self._floor.refuse_held(connection, error)
        for session in list(ended.sessions.values()):
            if session.turn is not None:
                self._turns.end(session, None, error=error)
            self._sessions.forget(session, close=False, error=error)
        for asked in list(ended.questions.values()):
            self._questions.abandon(asked)
        return self._end(out)

    def overdue(self, now: float) -> list[Effect]:
        """The time is `now`: turns that take too long are cancelled, then answered."""
        out = self._begin()
        self._turns.overdue(now)
        for session in [*self._floor.turning]:
            if session.turn is not None and session.turn.cancelled == now:
                self._questions.stopped(session, None)
        return self._end(out)

    def _begin(self) -> list[Effect]:
        """Where the effects of a call go."""
        out: list[Effect] = []
        self._floor.out = out
        return out

    def _end(self, out: list[Effect]) -> list[Effect]:
        """The effects of a call, and of the requests that have waited for it."""
        floor = self._floor
        while floor.again or floor.opened:
            opened, floor.opened = floor.opened, []
            for connection in opened:
                self._clients.released(connection)
            waited, floor.again = floor.again, []
            for call in waited:
                self._requests.take(call)
        return out

    # -- what there is -------------------------------------------------------------------------

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

    @property
    def connections(self) -> list[str]:
        """The connections that have not left."""
        return list(self._floor.connections)
