"""A server of chains: its addresses, its rooms, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakValueDictionary

from conductor.errors import ConductorError, UsageError, place_of
from conductor.serve import lines, metrics
from conductor.serve.access.gate import LOCAL
from conductor.serve.access.proof import Proof
from conductor.serve.app import App
from conductor.serve.client_sockets import ClientSockets, HttpAddress, taken
from conductor.serve.connections import Connection, Farewell, Outlet
from conductor.serve.room import CHAIN, Room
from conductor.serve.served import Served
from conductor.serve.streams import Kept
from conductor.transports import entrance
from conductor.transports.buffers import Tidying
from conductor.transports.entrance import Entrance
from conductor.transports.received import Received
from conductor.transports.remote.address import ENDPOINT, Address
from conductor.transports.task_group import TaskGroup
from conductor.transports.turns import Turns

if TYPE_CHECKING:
    from ssl import SSLContext

    from conductor.http.request import Request
    from conductor.serve.access.gate import Gate
    from conductor.serve.chains import Factory
    from conductor.serve.owners import Ownership
    from conductor.serve.settings import Settings

_BACKLOG: Final = 1024
_MESSAGES: Final = 8
"""How many of the longest messages may have come and wait to be taken, of all principals."""
_LOOK: Final = 1.0
"""Seconds between two looks for turns that take too long, and for tokens that have expired."""
_END: Final = 10.0
"""Seconds in which chains must end after their clients have been sent away."""


class Server:
    """Serves chains at addresses.

    Attributes:
        settings: The settings of the server.
        complain: Writes a warning.
        gate: Decides whom the server lets in.
        draining: Whether the server is about to end.
        more_numbers: The metrics of a fleet behind the server, in the text format of Prometheus.
        received: The bytes that have come and that nobody has taken yet.
        turns: Says whose bytes are looked at next.
        is_ready: Whether a fleet behind the server can take clients; without a fleet always.
    """

    def __init__(
        self,
        settings: Settings,
        gate: Gate,
        factory: Factory,
        owners: Ownership,
        chains: Container[str],
        complain: Callable[[str], None],
        make: Callable[[str, Server], Served],
    ) -> None:
        """`chains`: the names below `/acp/`; an empty name stands for `/acp` itself. `make` makes
        the room or the lobby of a principal."""
        self.settings = settings
        self.gate = gate
        self.draining = False
        self._loop = asyncio.get_running_loop()
        self._tidying = Tidying(self._loop)
        self.received = Received(_MESSAGES * settings.message, ended=self._tidying.ended)
        self.turns = Turns(self._loop)
        self.is_ready: Callable[[], bool] = lambda: True
        self.more_numbers: Callable[[], str] = str
        self._factory = factory
        self._owners = owners
        self._chains = chains
        self.complain = complain
        self._make = make
        self._rooms: dict[str, Served] = {}
        self._entrances: list[Entrance] = []
        self._paths: list[tuple[str, os.stat_result]] = []
        self._kept: WeakValueDictionary[str, Kept] = WeakValueDictionary()
        self._changed = asyncio.Event()
        self._counts = metrics.Counts()
        self.sockets = ClientSockets()
        self._app = App(self)
        self._https: list[HttpAddress] = []
        self._tasks = TaskGroup(self._failed)
        self._serving = contextlib.AsyncExitStack()
        """The contexts that end with the server."""

    async def __aenter__(self) -> Self:
        await self._serving.enter_async_context(self._tasks)
        return self

    async def __aexit__(self, *why: object) -> None:
        await self._serving.aclose()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task. The log gets its error, which ends no other task."""
        return self._tasks.start(work)

    def _failed(self, error: Exception) -> None:
        self.complain(f"a defect of conductor: {place_of(error)}")

    # -- served paths ----------------------------------------------------------------------------

    def named(self, path: str) -> str | None:
        """The chain at a path: a name, empty for that of the command line; None: there is none."""
        named = "" if path in (ENDPOINT, "/") else path.removeprefix(f"{ENDPOINT}/")
        return named if named in self._chains else None

    def room(self, principal: str) -> Served:
        """The room of a principal."""
        room = self._rooms.get(principal)
        if room is None:
            room = self._rooms[principal] = self._make(principal, self)
            room.draining = self.draining
        return room

    def new_room(self, principal: str) -> Served:
        """A room for a principal."""
        return Room(principal, self._factory, self._owners, self)

    def changed(self) -> None:
        """A turn, a connection or a chain may have ended."""
        self._changed.set()

    def join(self, proof: Proof | None, outlet: Outlet, named: str, id_: str = "") -> Connection:
        """A client connects. `proof` is the client's proof of its identity; None at an address that
        only the user can reach. Raises `ConductorError`."""
        principal = proof.principal if proof is not None else LOCAL
        connection = self.admit(principal, outlet, named, id_)
        connection.proof = proof
        return connection

    def admit(self, principal: str, outlet: Outlet, named: str, id_: str) -> Connection:
        """A client connects whose principal is known. Raises `ConductorError`."""
        if self.draining:
            raise ConductorError("the server is shutting down", "connect again in a moment")
        if sum(len(room.connections) for room in self._rooms.values()) >= (
            self.settings.all_connections
        ):
            raise ConductorError("the server has as many connections as it may", "try again later")
        if not self._may_take(principal, CHAIN):
            raise ConductorError(
                "too few descriptors are left for another connection of this principal",
                "close some of them, or allow the server more (ulimit -n)",
            )
        self._counts.connections += 1
        return self.room(principal).join(outlet, named, id_)

    def connection(self, proof: Proof, id_: str) -> Connection | None:
        """A connection of the principal that a request shows, which holds by that from now on;
        None: the principal has none of this id."""
        room = self._rooms.get(proof.principal)
        found = room.connections.get(id_) if room is not None else None
        if found is not None:
            found.proof = proof
        return found

    def kept(self, principal: str) -> Kept:
        """The bytes that the streams of a principal keep."""
        return self._kept.setdefault(principal, Kept())

    def ended(self) -> None:
        """A network connection has ended."""
        self._tidying.ended(0)

    def known(self, request: Request, principal: str) -> None:
        """A request has shown who it is from: its network connection is no stranger any more.
        Raises `ConductorError` if the principal has too many."""
        link, most = taken(request), self.settings.sockets
        if link.principal != principal and not self._may_take(principal, 1):
            most = min(most, self.sockets.count(principal))
        self.sockets.take(link, principal, most)

    def _may_take(self, principal: str, more: int) -> bool:
        """Whether a principal may have so many descriptors more: as many as are free then, so that
        there are always some for others."""
        room = self._rooms.get(principal)
        held = self.sockets.count(principal) + (room.descriptors if room is not None else 0)
        strangers = sum(map(len, self._entrances)) + sum(one.strangers for one in self._https)
        return held + more <= entrance.free(strangers) - more

    def denied(self, status: int) -> None:
        """A request was refused."""
        self._counts.denied[status] += 1

    def found(self, principal: str) -> Served | None:
        """The room of a principal; None: there is none."""
        return self._rooms.get(principal)

    async def end_room(self, principal: str, *, now: bool = False) -> None:
        """Sends the clients of a principal away, and waits until their chains have ended; `now`:
        without time to drain."""
        room = self._rooms.get(principal)
        if room is None:
            return
        room.close(Farewell.LEAVING)
        running = [chain.task for chain in room.running]
        if running and not now:
            await asyncio.wait(running, timeout=_END)
        room.stop()
        if running:
            await asyncio.wait(running)
        if self._rooms.get(principal) is room and room.is_empty:
            del self._rooms[principal]

    def counts(self) -> dict[str, int]:
        """The present counts: `rooms`, `connections`, `chains`, `sessions`, `open_turns`."""
        return {"rooms": len(self._rooms), **metrics.present(self._rooms.values())}

    def metrics(self) -> str:
        """The numbers of the server, in the text format of Prometheus."""
        own = metrics.text(self._counts, self._rooms.values(), draining=self.draining)
        return own + self.more_numbers()

    # -- addresses -------------------------------------------------------------------------------

    async def listen(self, address: Address, tls: SSLContext | None) -> str:
        """Listens at an address; the address that clients use. Raises `UsageError`."""
        if not address.row.is_served:
            raise UsageError(f"nothing can listen at {address}", "choose another kind of address")
        try:
            listening = _bound(address)
        except OSError as error:
            raise UsageError(
                f"cannot listen at {address}: {error.strerror or error}",
                "choose another address, or end the program that listens there",
            ) from None
        if address.row.is_path:
            self._paths.append((address.path, os.stat(address.path)))
        if not address.row.is_web:
            self._entrances.append(lines.listen(listening, self))
        else:
            app, complain = self._app.serve, self.complain
            served = HttpAddress(self, app, listening, complain, tls)
            self._https.append(await self._serving.enter_async_context(served))
        if address.row.is_path:
            return str(address)
        return str(Address(address.scheme, address.host, listening.getsockname()[1], address.path))

    # -- its life --------------------------------------------------------------------------------

    async def run(
        self, ending: asyncio.Event, leave: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Serves until it is to end; then drains. `leave` is awaited before."""
        looking = self.start(self._look())
        try:
            await ending.wait()
            until = self._loop.time() + self.settings.wind_down
            if leave is not None:
                await leave()
            await self._drain(until)
        finally:
            looking.cancel()
            await self._end()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            for principal, room in [*self._rooms.items()]:
                try:
                    room.overdue()
                    room.check(self.gate.holds)
                except Exception as error:  # the next look, and other rooms, go on
                    self._failed(error)
                if room.is_empty:  # an issuer may vouch for any number of principals
                    del self._rooms[principal]

    @property
    def open_turns(self) -> int:
        """Turns that run."""
        return sum(room.open_turns for room in self._rooms.values())

    async def _drain(self, until: float) -> None:
        """Lets running turns end until a time. New prompts get an error, new clients are turned
        away."""
        self.draining = True
        for room in self._rooms.values():
            room.draining = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                while self.open_turns:
                    self._changed.clear()
                    await self._changed.wait()

    async def _end(self) -> None:
        self._tidying.stop()
        for entrance_ in self._entrances:
            entrance_.close()
        for address in self._https:
            address.close()
        for path, status in self._paths:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(path), status):
                    os.unlink(path)
        for room in self._rooms.values():
            is_late = bool(room.open_turns)
            room.close(Farewell.LEAVING)
            if is_late:  # its turns have had their time: nothing is waited for any more
                room.stop()
        running = [chain.task for room in self._rooms.values() for chain in room.running]
        if running:
            _, left = await asyncio.wait(running, timeout=_END)
            for room in self._rooms.values():
                room.stop()
            if left:
                await asyncio.wait(left)

    def set(self, settings: Settings, chains: Container[str]) -> None:
        """The server has new settings from now on; its addresses and existing connections stay."""
        self.settings = settings
        self.received.most = _MESSAGES * settings.message
        self._chains = chains
        for address in self._https:
            address.set(settings)
        for room in self._rooms.values():
            room.set()
            room.check(self.gate.holds)

    def reload(self) -> None:
        """All chains read their configuration again."""
        for room in self._rooms.values():
            room.reload()


def _bound(address: Address) -> socket.socket:
    """A socket that listens. Raises `OSError`."""
    if address.row.is_path:
        return _bound_path(address.path)
    found = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, place = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _bound_path(path: str) -> socket.socket:
    """A socket that only this user may open. A socket that nobody serves any more is replaced."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                try:
                    probe.connect(path)
                except ConnectionRefusedError:
                    os.unlink(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(path)
        listening.listen(_BACKLOG)
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    return listening
