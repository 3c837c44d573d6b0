"""Input of clients that nobody takes has an account for each principal, whatever its road."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.e2e.test_serve_attacks import WS, tokens
from tests.e2e.test_serve_bad_input import resident
from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token, served
from tests.places import DEADLINE

_MIB: Final = 1024 * 1024
_SIZE: Final = 3_900_000
_EACH: Final = 10
"""Connections of each kind: together they send far more than there may be."""
_ROUNDS: Final = 60
_TURN: Final = 0.1
"""Seconds between two looks."""
_JSON: Final = {"Content_Type": "application/json"}


def _connected(server: Served, head: str, token: str) -> socket.socket:
    taken = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
    lines = f"{head}\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    taken.sendall(lines.encode())
    return taken


def _upgraded(server: Served, token: str, more: str = "") -> tuple[socket.socket, bytes]:
    """A WebSocket, and the head of the answer."""
    wanted = (
        "GET /acp HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}=={more}"
    )
    taken = _connected(server, wanted, token)
    head = b""
    while b"\r\n\r\n" not in head:
        head += taken.recv(1)
    return taken, head


def _frame(first: int, data: bytes) -> bytes:
    return bytes([first, 0xFF]) + len(data).to_bytes(8, "big") + bytes(4) + data


def _half_frame(server: Served, token: str) -> tuple[socket.socket, bytes]:
    return _upgraded(server, token)[0], _frame(0x81, b" " * (_SIZE + 1))[:-1]


def _half_message(server: Served, token: str) -> tuple[socket.socket, bytes]:
    """Many fragments, of which none is the last."""
    piece = 10_000
    rest = _frame(0x00, b" " * piece) * (_SIZE // piece - 1)
    return _upgraded(server, token)[0], _frame(0x01, b" " * piece) + rest


def _half_body(server: Served, token: str) -> tuple[socket.socket, bytes]:
    head = f"POST /acp HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {_SIZE}"
    return _connected(server, head, token), b" " * (_SIZE - 1)


def _half_packets(server: Served, token: str) -> tuple[socket.socket, bytes]:
    """Parts of a frame that never ends."""
    named = "\r\nSec-WebSocket-Protocol: acp, conductor.link.1"
    taken, head = _upgraded(server, token, named)
    lines = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
    epoch, piece = lines["acp-connection-id"], 100_000
    packets = [f"hello {epoch} 1 0 4194304 1"]
    packets += [
        f"part {epoch} {number} 0 4194304 {piece} {' ' * piece}"
        for number in range(1, _SIZE // piece + 1)
    ]
    return taken, b"".join(_frame(0x81, packet.encode()) for packet in packets)


def _half_line(server: Served, token: str) -> tuple[socket.socket, bytes]:
    del token
    taken = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    taken.connect(server.addresses[1].removeprefix("unix:"))
    return taken, b" " * _SIZE


def _push(links: list[tuple[socket.socket, bytes]], turn: Callable[[], object]) -> None:
    """Sends as much as the server takes; after each `turn` it has read what it wants."""
    for taken, _ in links:
        taken.setblocking(False)
    rest = [(taken, memoryview(data)) for taken, data in links]
    for _ in range(_ROUNDS):
        left = []
        for taken, data in rest:
            sent = 0
            with contextlib.suppress(BlockingIOError):
                sent = taken.send(data)
            if sent < len(data):
                left.append((taken, data[sent:]))
        if not left:
            return
        rest = left
        turn()


@pytest.mark.proves("frames, fragments, bodies, packets")
@needs_proc
def test_what_one_principal_has_half_sent_is_bounded(rig: Rig) -> None:
    """Frames, fragments, bodies, packets and lines without an end: memory stays, and another
    principal works on."""
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    at = ("--listen", f"unix:{rig.folder / 'lines'}")
    limits = ("-c", "serve.message=4M", "-c", "serve.login=600")
    with served(rig, "serve", rig.demo(), *WS, *at, *tokens(rig), *limits) as server:
        other = server.socket(headers=bearer(bob))
        session = other.begin()
        before = resident(server)
        kinds = (_half_frame, _half_message, _half_body, _half_packets, _half_line)
        links = [kind(server, alice) for kind in kinds for _ in range(_EACH)]
        with contextlib.ExitStack() as stack:
            for taken, _ in links:
                stack.enter_context(taken)
            _push(links, lambda: other.prompt(session, "/echo on"))
            assert resident(server) - before < 64 * _MIB
            assert other.prompt(session, "/echo on") == "on"
        # Who waited has left, which only reading shows: nobody else of its principal waits for it.
        asked = server.http(**bearer(alice)).ask("POST", b" " * _SIZE, **_JSON)
        assert asked.status == 400, "the body is no message"


def _until(server: Served, holds: Callable[[int], bool]) -> None:
    """Waits until the resident memory of a server is as it should be."""
    for _ in range(int(DEADLINE / _TURN)):
        if holds(resident(server)):
            return
        time.sleep(_TURN)
    raise AssertionError(f"{resident(server):,} bytes")


@pytest.mark.proves("clients of a server that come")
@needs_proc
@pytest.mark.parametrize("kind", [_half_message, _half_packets])
def test_the_memory_of_those_who_have_left_goes_back(
    rig: Rig, kind: Callable[[Served, str], tuple[socket.socket, bytes]]
) -> None:
    """Also where no bytes have come for long before the clients leave."""
    token = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig), "-c", "serve.linger=1") as server:
        before = resident(server)
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                taken, data = kind(server, token)
                stack.enter_context(taken)
                taken.sendall(data)
            _until(server, lambda held: held - before > 50 * _MIB)
        _until(server, lambda held: held - before < 15 * _MIB)


@pytest.mark.proves("clients of a server that come")
@needs_proc
def test_those_who_come_and_leave_pile_up_nothing(rig: Rig) -> None:
    """The remains of a client count until the collector has met them."""
    token = new_token(rig, "alice")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        numbers = server.http("/metrics", **bearer(token))
        before = most = resident(server)
        for _ in range(100):
            taken, data = _half_frame(server, token)
            with taken:
                taken.sendall(data)
            while b"\nconductor_serve_connections 0\n" not in numbers.ask("GET").body:
                time.sleep(0.001)
            most = max(most, resident(server))
        assert most - before < 160 * _MIB
