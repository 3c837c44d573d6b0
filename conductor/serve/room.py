"""The room of one principal on a server: its hub, its connections and its running chains.

Performs the effects of the hub. No chain of one room ever meets a connection of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

from conductor.serve.chains import Chain, Factory, HubTransport
from conductor.serve.connections import Connection, Farewell, Outlet, new_id
from conductor.serve.hub import (
    CloseChain,
    Disowned,
    Effect,
    Hub,
    HubLimits,
    LogLine,
    OpenChain,
    Owned,
    ToChain,
    ToClient,
)
from conductor.serve.served import Served

if TYPE_CHECKING:
    from conductor.serve.hub import SessionInfo
    from conductor.serve.owners import Ownership
    from conductor.serve.server import Server
    from conductor.serve.settings import Settings

SHOW: Final = "connect again with a token that is valid; `session/load` goes on with the session"
_FULL: Final = "its chain takes no more"


CHAIN: Final = 12
"""Descriptors of a chain, about: pipes of its programs, its log file, its socket."""


class Room(Served):
    """The hub of one principal, with its connections and chains.

    Attributes:
        principal: The principal of the room.
        draining: Whether no turn may begin any more.
    """

    def __init__(self, principal: str, factory: Factory, owners: Ownership, server: Server) -> None:
        self.principal = principal
        self.server = server
        self.draining = False
        self._factory = factory
        self._owners = owners
        self._clock = asyncio.get_running_loop().time
        settings = server.settings
        self.hub = Hub(
            shares=settings.share,
            owns=lambda session: owners.has(principal, session),
            limits=hub_limits(settings),
        )
        self.connections: dict[str, Connection] = {}
        self.chains: dict[str, Chain] = {}
        self._ending: set[Chain] = set()
        """The chains that nobody needs any more, and that still run."""
        self._readers: dict[str, dict[Connection, None]] = {}
        """By chain, the connections that it has sent something. The first connection is the chain's
        home: the chain waits until the home has read. No other client makes a chain wait."""
        self._effects: deque[tuple[Effect, str]] = deque()
        self._performing = False
        self._finishing = {}
        self._sent: dict[Connection, None] = {}
        """The connections that were sent something since the last flush."""

    @property
    def is_empty(self) -> bool:
        """Whether its principal has nothing here."""
        return not (self.connections or self.chains or self._ending)

    @property
    def running(self) -> list[Chain]:
        """All chains that have not ended."""
        return [*self.chains.values(), *self._ending]

    # -- connections -----------------------------------------------------------------------------

    def join(self, outlet: Outlet, named: str, id_: str = "") -> Connection:
        """A client connects; `id_` is the id of its connection, if there is an id already. Raises
        `ConductorError` if there are too many connections."""
        connection = Connection(id_ or new_id(), self, outlet, named, self.server.settings.linger)
        self.hub.joined(connection.id, named=named)
        self.connections[connection.id] = connection
        return connection

    def take(self, connection: Connection, frame: bytes) -> None:
        """A client has sent a frame, which may pass."""
        self._perform(self.hub.from_client(connection.id, frame, self._clock()))

    def cut(self, connection: Connection, is_cut: bool) -> None:
        """A link is gone, or there again."""
        self.hub.cut(connection.id, is_cut)

    def is_bare(self, connection: Connection) -> bool:
        """Whether a connection has no session, so nobody need wait for its client."""
        return self.hub.is_bare(connection.id)

    @property
    def descriptors(self) -> int:
        """The number of descriptors that the room's chains need, about: each connection may begin a
        chain, unless they share."""
        chains = len(self.running)
        return CHAIN * (
            chains if self.server.settings.share else max(chains, len(self.connections))
        )

    @property
    def sessions(self) -> Collection[SessionInfo]:
        """The live sessions."""
        return self.hub.sessions

    @property
    def open_turns(self) -> int:
        """Turns that run."""
        return self.hub.open_turns

    @property
    def is_busy(self) -> bool:
        """Whether a turn runs, or a request has no answer."""
        return bool(self.hub.open_turns) or any(map(self.hub.waits, self.connections))

    def waits(self, connection: Connection) -> bool:
        """Whether a client has a request without an answer."""
        return self.hub.waits(connection.id)

    def left(self, connection: Connection, why: Farewell) -> None:
        """A connection has ended for good."""
        self._finishing.pop(connection, None)
        if connection.id in self.connections:
            error = (why.value[1], SHOW) if why is Farewell.DENIED else None
            self._perform(self.hub.left(connection.id, error))
            del self.connections[connection.id]
            for name in connection.chains:
                self._readers[name].pop(connection, None)
            self.go_on(connection)
            self.server.changed()

    def go_on(self, connection: Connection) -> None:
        """The chains of a connection may send it more."""
        for name in connection.chains:
            if (chain := self.chains.get(name)) is not None:
                chain.transport.drained()

    # -- effects ---------------------------------------------------------------------------------

    def overdue(self) -> None:
        """Time has passed: turns that take too long end."""
        self._perform(self.hub.overdue(self._clock()))

    def _perform(self, effects: Iterable[Effect], chain: str = "") -> None:
        """Performs effects in order, also the effects that follow from them, and lets frames leave.
        `chain` is the cause of the effects."""
        self._queue(effects, chain)
        self._settle()

    def _settle(self) -> None:
        """All effects are performed, unless that is going on."""
        if not self._performing:
            self._flush()
            if self._finishing:
                self._finish()
            if self.draining:
                self.server.changed()

    def _queue(self, effects: Iterable[Effect], chain: str) -> None:
        """Performs effects in order. Frames for clients wait for `_flush`."""
        if self._performing:
            self._effects += [(effect, chain) for effect in effects]
            return
        self._performing = True
        try:
            for effect in effects:
                self._perform_one(effect, chain)
            while self._effects:  # the effects that follow from these
                self._perform_one(*self._effects.popleft())
        finally:
            self._performing = False

    def _flush(self) -> None:
        """Frames for clients leave."""
        if not self._sent:
            return
        sent, self._sent = self._sent, {}
        for connection in sent:
            self.flush_to(connection)

    def _perform_one(self, effect: Effect, chain: str) -> None:
        if isinstance(effect, ToClient):
            connection = self.connections.get(effect.connection)
            if connection is not None:
                if chain:
                    self._reads(connection, chain)
                self._send(connection, effect.frame, effect.session, chain)
        elif isinstance(effect, ToChain):
            if (running := self.chains.get(effect.chain)) is not None:
                running.transport.feed(effect.frame)
        elif isinstance(effect, OpenChain):
            self._open(effect)
        elif isinstance(effect, CloseChain):
            closed = self.chains.pop(effect.chain, None)
            if closed is not None:
                self._ending.add(closed)
                closed.leave()
        elif isinstance(effect, Owned):
            self._owners.add(self.principal, effect.session)
        elif isinstance(effect, Disowned):
            self._owners.remove(self.principal, effect.session)
        elif isinstance(effect, LogLine):
            self.server.complain(f"{effect.who} of `{self.principal}`: {effect.text}")

    def _send(
        self, connection: Connection, frame: bytes, session: str | None, chain: str = ""
    ) -> None:
        unread = self.server.settings.unread
        if chain and self._home(chain) is not connection:  # a chain waits for its home
            is_much = self.leaves_much(connection, unread, unread)
        else:
            is_much = not chain and connection.outlet.waiting > unread
        if is_much:
            connection.close(Farewell.UNREAD)
            return
        connection.outlet.send(frame, session)
        self._sent[connection] = None

    # -- chains ----------------------------------------------------------------------------------

    def _open(self, effect: OpenChain) -> None:
        name = effect.chain
        connection = self.connections[effect.connection]
        self._readers[name] = {}
        self._reads(connection, name)

        def received(frames: list[bytes]) -> None:
            if name in self.chains:
                now, from_chain = self._clock(), self.hub.from_chain
                for frame in frames:
                    self._queue(from_chain(name, frame, now), name)
                self._settle()

        transport = HubTransport(
            *(received, lambda: self._waiting(name), lambda full: self._held_up(name, full)),
            *(self.server.received, self.principal, lambda: self._give_up(name)),
        )
        self.chains[name] = chain = Chain(
            connection.named,
            self.principal,
            self._factory,
            transport,
            lambda text, hint: self._chain_ended(name, chain, text, hint),
            self.server.start,
        )

    def _waiting(self, name: str) -> int:
        """Bytes from a chain, and others, that its home has not taken."""
        home = self._home(name)
        return home.outlet.waiting if home is not None else 0

    def _home(self, name: str) -> Connection | None:
        """The client that a chain waits for."""
        return next(iter(self._readers.get(name, ())), None)

    def _held_up(self, name: str, full: bool) -> None:
        """A chain takes no more, or takes more again: only its own clients wait."""
        for connection in self._readers.get(name, ()):
            if full:
                connection.pause(f"{_FULL}: {name}")
            else:
                connection.resume(f"{_FULL}: {name}")

    def _give_up(self, name: str) -> None:
        """A chain has not taken its frames in time: its clients are sent away."""
        for connection in [*self._readers.get(name, ())]:
            connection.close(Farewell.LIMIT)

    def _reads(self, connection: Connection, name: str) -> None:
        if name not in connection.chains and name in self._readers:
            connection.chains.add(name)
            self._readers[name][connection] = None

    def _chain_ended(self, name: str, chain: Chain, text: str, hint: str) -> None:
        self._ending.discard(chain)
        if self.chains.pop(name, None) is not None:
            self._perform(self.hub.chain_ended(name, text, hint))
        self._held_up(name, False)
        for connection in self._readers.pop(name, ()):
            connection.chains.discard(name)
        self.server.changed()

    def set(self) -> None:
        """The server has new settings from now on; existing connections stay."""
        self.hub.limits = hub_limits(self.server.settings)

    def reload(self) -> None:
        """All chains read their configuration again."""
        for chain in self.chains.values():
            chain.reload()


def hub_limits(settings: Settings) -> HubLimits:
    """The limits of a hub."""
    return HubLimits(
        connections=settings.connections,
        sessions=settings.sessions,
        history_bytes=settings.history,
        prompt_seconds=settings.prompt_time or None,
    )
