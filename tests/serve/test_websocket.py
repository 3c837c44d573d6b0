"""A WebSocket as a link: what waits leaves before it closes, and one that comes too late."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from aiohttp import WSCloseCode
from aiohttp.test_utils import make_mocked_request

from conductor.serve import app as app_module
from conductor.serve import websocket
from conductor.serve.access.proof import Proof
from conductor.serve.app import App
from conductor.serve.connections import Connection, Farewell
from conductor.serve.settings import Settings
from conductor.serve.websocket import LinkedOutlet, SocketOutlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pytest
    from aiohttp.web import WebSocketResponse

    from conductor.serve.client_sockets import ClientSocket


class Narrow:
    """A WebSocket that is full after each write, until it is emptied."""

    prepared = True

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed: tuple[int, bytes] | None = None
        self.headers: dict[str, str] = {}
        self.is_full = False
        self.roomy: Callable[[], None] = lambda: None

    def send_texts(self, texts: Iterable[bytes]) -> bool:
        self.sent += [text.rstrip() for text in texts]
        self.is_full = True
        return True

    def empty(self) -> None:
        """All that was sent has left."""
        self.is_full = False
        self.roomy()

    async def close(self, *, code: int, message: bytes) -> None:
        self.closed = (code, message)

    async def prepare(self, request: object) -> None:
        """It is there at once."""


def outlet_of(socket: Narrow) -> SocketOutlet:
    return SocketOutlet(cast("ClientSocket", socket), cast("WebSocketResponse", socket))


async def settled() -> None:
    """All that can go on has gone on."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_all_that_waits_leaves_before_a_socket_closes() -> None:
    async def work() -> None:
        socket = Narrow()
        outlet = outlet_of(socket)
        for number in range(5):
            outlet.send(b"%d" % number + b" " * 64 * 1024, None)
        outlet.close(Farewell.LEAVING)
        for number in range(5):
            await settled()
            assert len(socket.sent) == number + 1
            assert socket.closed is None
            socket.empty()
        await settled()
        assert socket.sent == [b"0", b"1", b"2", b"3", b"4"]
        assert socket.closed == (1001, b"the server is shutting down")

    asyncio.run(work())


def test_a_client_that_takes_nothing_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "_PARTING", 0.01)

    async def work() -> None:
        socket = Narrow()
        outlet = outlet_of(socket)
        for _ in range(2):
            outlet.send(b"x" + b" " * 64 * 1024, None)
        outlet.close(Farewell.DENIED)
        while socket.closed is None:
            await asyncio.sleep(0)
        assert socket.closed[0] == WSCloseCode.POLICY_VIOLATION
        assert socket.sent == [b"x"]

    asyncio.run(work())


def test_a_socket_whose_connection_ends_meanwhile_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client comes back, and the connection ends before the WebSocket is there."""

    connections: list[Connection] = []

    class Late(Narrow):
        prepared = False

        async def prepare(self, request: object) -> None:
            connections[0].close(Farewell.DENIED)
            self.prepared = True

    room: Any = SimpleNamespace(
        linked=lambda _: None, cut=lambda _: None, left=lambda _, why: None, drained=lambda _: None
    )

    async def work() -> None:
        outlet = LinkedOutlet("epoch", 1000, 1000)
        connection = Connection("epoch", room, outlet, "", 0.0)
        connections.append(connection)
        connection.cut()
        socket = Late()
        server: Any = SimpleNamespace(settings=Settings(), connection=lambda proof, id_: connection)
        app = App(server)
        monkeypatch.setattr(app, "_new_socket", lambda protocols, most: socket)
        monkeypatch.setattr(app_module, "_taken", lambda _: socket)
        request = make_mocked_request("GET", "/acp")
        headers = {"acp-connection-id": "epoch"}
        await app._linked(request, headers, Proof("alice"), "")
        assert socket.closed == (1008, Farewell.DENIED.value[1].encode())
        assert not outlet.is_linked

    asyncio.run(work())


def test_the_grace_time_does_not_end_while_a_socket_is_being_made() -> None:
    room: Any = SimpleNamespace(
        linked=lambda _: None, cut=lambda _: None, left=lambda _, why: None, drained=lambda _: None
    )

    async def work() -> None:
        connection = Connection("epoch", room, LinkedOutlet("epoch", 1000, 1000), "", 0.001)
        connection.cut()
        connection.stay()
        await asyncio.sleep(0.01)
        assert connection.closed is None
        connection.cut()  # it was not made
        while connection.closed is None:
            await asyncio.sleep(0)

    asyncio.run(work())
