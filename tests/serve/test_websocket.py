"""A WebSocket as a link: what waits leaves in order, and a connection waits for its next link."""

import asyncio
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conductor.http.websocket import WebSocket
from conductor.link import Limits, Link
from conductor.serve import websocket
from conductor.serve.connections import Connection, Farewell
from conductor.serve.websocket import LinkedOutlet, SocketOutlet
from conductor.transports.received import Entry


class Narrow:
    """A WebSocket that is full after each write, until it is emptied."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed: tuple[int, str] | None = None
        self.is_full = False
        self.is_there = True
        self.ready: Callable[[], None] = lambda: None

    def send(self, texts: Iterable[bytes]) -> bool:
        if self.is_there:
            self.sent += [text.rstrip() for text in texts]
            self.is_full = True
        return self.is_there

    def empty(self) -> None:
        """All that was sent has left."""
        self.is_full = False
        self.ready()

    def go_on(self) -> None:
        """Nothing waits."""

    def close(self, code: int, text: str, seconds: float) -> None:
        self.closed = (code, text)


def outlet_of(socket: Narrow) -> SocketOutlet:
    """An outlet over a socket."""
    outlet = SocketOutlet()
    outlet.linked(cast("WebSocket", socket))
    return outlet


async def test_all_that_waits_leaves_in_order() -> None:
    socket = Narrow()
    outlet = outlet_of(socket)
    for number in range(5):
        outlet.send(b"%d" % number + b" " * 64 * 1024, None)
    outlet.close(Farewell.LEAVING)
    for number in range(5):
        assert len(socket.sent) == number + 1
        assert outlet.waiting == (4 - number) * (64 * 1024 + 1)
        socket.empty()
    await asyncio.sleep(0)
    assert socket.sent == [b"0", b"1", b"2", b"3", b"4"]
    assert socket.closed == (1001, "the server is shutting down")


def test_a_socket_that_is_gone_takes_nothing_and_nothing_waits_for_it() -> None:
    socket = Narrow()
    socket.is_there = False
    outlet, drained = outlet_of(socket), list[int]()
    outlet.drained = lambda: drained.append(1)
    outlet.send(b"x", None)
    outlet.flush()
    outlet.send(b"y", None)
    outlet.flush()
    assert (socket.sent, outlet.waiting) == ([], 0)
    assert drained


def test_what_waits_is_dropped_with_a_full_socket_and_nothing_is_taken_after_it() -> None:
    socket = Narrow()
    socket.is_full = True
    outlet = outlet_of(socket)
    outlet.send(b"x", None)
    outlet.flush()
    assert outlet.waiting == 1
    outlet.drop()
    outlet.send(b"y", None)
    outlet.flush()
    assert (socket.sent, outlet.waiting) == ([], 0)


async def test_the_grace_time_ends_a_connection_without_a_link_alone() -> None:
    room: Any = SimpleNamespace(
        cut=lambda _, is_cut: None, left=lambda _, why: None, drained=lambda _: None
    )
    connection = Connection("epoch", room, LinkedOutlet("epoch", 1000, 1000), "", 0.001)
    connection.cut()
    connection.stay()
    await asyncio.sleep(0.01)
    assert connection.closed is None
    connection.cut()  # it was not made
    while connection.closed is None:
        await asyncio.sleep(0)


async def test_another_link_takes_the_place_of_the_one_before() -> None:
    before, after = Narrow(), Narrow()
    outlet = LinkedOutlet("epoch", 1000, 1000)
    outlet.linked(cast("WebSocket", before))
    outlet.linked(cast("WebSocket", after))
    await asyncio.sleep(0)
    assert before.closed == (1001, "")
    assert not outlet.cut(cast("WebSocket", before))
    assert outlet.is_linked
    assert outlet.cut(cast("WebSocket", after))
    assert not outlet.is_linked


async def test_a_client_that_gets_nothing_back_hears_that_its_frames_have_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "_ACK", 0)
    socket, outlet, client = Narrow(), LinkedOutlet("epoch", 1000, 1000), Link("epoch")
    outlet.linked(cast("WebSocket", socket))
    client.linked()
    client.send(b"{}")
    assert await delivered(client, socket, outlet) == [b"{}"]


async def delivered(client: Link, socket: Narrow, outlet: LinkedOutlet) -> list[bytes]:
    """The frames of a client, once it knows that they have come."""
    frames: list[bytes] = []
    while client.kept:
        while (packet := client.take()) is not None:
            frames += outlet.received(packet)
        for packet in socket.sent:
            client.received(packet)
        socket.sent.clear()
        await asyncio.sleep(0)
        socket.empty()
    return frames


async def test_the_beginning_of_a_frame_counts_until_all_of_it_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(websocket, "_ACK", 0)
    socket, outlet = Narrow(), LinkedOutlet("epoch", 1 << 20, 1 << 20)
    client, sizes = Link("epoch", Limits(frame=1 << 20, queue=1 << 20)), list[int]()
    outlet.holds = cast("Entry", SimpleNamespace(set=sizes.append))
    outlet.linked(cast("WebSocket", socket))
    client.linked()
    whole = b'{"x":"%s"}' % (b"x" * 600_000)
    client.send(whole)
    assert await delivered(client, socket, outlet) == [whole]
    assert (min(sizes), sizes[-1]) == (0, 0)
    assert len(whole) > max(sizes) > len(whole) / 2
