"""The endless input of one principal, or of strangers, holds up nobody else."""

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.e2e.test_serve_attacks import WS, tokens
from tests.e2e.test_serve_bad_input import resident
from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token, served
from tests.places import DEADLINE

_MIB: Final = 1024 * 1024
_LONG: Final = b"".join(b"X-%d: %b\r\n" % (at, b"a" * 8000) for at in range(100))
"""Most of what a head of HTTP may have."""
_UPGRADE: Final = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Key: {'A' * 22}==\r\n"
)
_JSON: Final = "Content-Type: application/json\r\n"


@contextlib.contextmanager
def connected(server: Served, count: int) -> Iterator[list[socket.socket]]:
    """Network connections."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), DEADLINE))
            for _ in range(count)
        ]


def head(what: str, token: str, more: str = "") -> bytes:
    """The head of a request, without the line that ends it."""
    shown = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{what} HTTP/1.1\r\nHost: 127.0.0.1\r\n{shown}{more}".encode()


def push(taken: list[socket.socket], data: bytes) -> int:
    """Sends as much of the data on each connection as the server and the system take; how much."""
    sent = 0
    for one in taken:
        one.settimeout(0.05)
        with contextlib.suppress(TimeoutError, ConnectionError):
            for at in range(0, len(data), 65536):
                sent += one.send(data[at : at + 65536])
        one.settimeout(DEADLINE)
    return sent


@pytest.mark.proves("a stream of events with 40 requests")
@needs_proc
def test_requests_that_come_ahead_of_an_answer_are_few(rig: Rig) -> None:
    """A stream of events is an answer that does not end."""
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    with served(rig, "serve", rig.demo(), *WS, *tokens(rig)) as server:
        client = server.http(**bearer(alice))
        client.initialize()
        before = resident(server)
        stream = f"Accept: text/event-stream\r\nAcp-Connection-Id: {client.connection}\r\n"
        with connected(server, 6) as taken:
            for number, one in enumerate(taken):
                one.sendall(head("GET /acp", alice, f"{stream}Acp-Session-Id: {number}\r\n\r\n"))
                assert b" 200 " in one.recv(64)
            push(taken, (head("GET /x", "") + _LONG + b"\r\n") * 40)
            other = server.socket(headers=bearer(bob))
            assert other.prompt(other.begin(), "/echo on") == "on"
            assert resident(server) - before < 64 * _MIB


@pytest.mark.proves("40 strangers with half a head")
@pytest.mark.parametrize(
    "begun",
    [
        head("GET /acp", "") + _LONG,
        head("POST /acp", "", f"{_JSON}Content-Length: 4000000\r\n\r\n") + b" " * 3_000_000,
    ],
    ids=["heads", "bodies"],
)
def test_what_strangers_send_keeps_nobody_from_logging_in(rig: Rig, begun: bytes) -> None:
    bob = new_token(rig, "bob")
    limits = ("-c", "serve.message=4M", "-c", "serve.login=600")
    serve = ("serve", rig.demo(), *WS, *tokens(rig), *limits)
    with served(rig, *serve) as server, connected(server, 60) as taken:
        push(taken, begun)
        other = server.socket(headers=bearer(bob))
        session = other.begin()
        for text in ("on", "x" * 200_000):
            assert other.prompt(session, f"/echo {text}") == text
        for size in (200_000, 3_000_000):
            body = b" " * size
            asked = server.http(**bearer(bob)).ask("POST", body, Content_Type="application/json")
            assert asked.status == 400, "the body is no message"


def received(taken: list[socket.socket]) -> bytes:
    """All that has come."""
    came = b""
    for one in taken:
        one.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while more := one.recv(_MIB):
                came += more
    return came


def frames(server: Served, token: str, stack: contextlib.ExitStack) -> socket.socket:
    """A WebSocket; each ping gets an answer of two bytes."""
    (one,) = stack.enter_context(connected(server, 1))
    one.sendall(head("GET /acp", token, _UPGRADE + "\r\n"))
    assert b" 101 " in one.recv(4096)
    return one


def lines(server: Served, token: str, stack: contextlib.ExitStack) -> socket.socket:
    """A socket for lines; each that is no message gets an answer of a line."""
    del token
    one = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    one.connect(server.addresses[1].removeprefix("unix:"))
    one.settimeout(DEADLINE)
    one.sendall(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
    assert one.recv(65536)
    return one


@pytest.mark.proves("frames of six bytes, or lines")
@needs_proc
@pytest.mark.parametrize(
    ("opened", "small", "answer"),
    [(frames, b"\x89\x80\0\0\0\0", b"\x8a\0"), (lines, b"{}\n", b"\n")],
)
def test_small_messages_of_one_principal_hold_up_nobody(
    rig: Rig,
    opened: Callable[[Served, str, contextlib.ExitStack], socket.socket],
    small: bytes,
    answer: bytes,
) -> None:
    """Much of them lies there already when another one asks: the server was stopped meanwhile."""
    alice = new_token(rig, "alice")
    at = ("--listen", f"unix:{rig.folder / 'lines'}")
    with served(rig, "serve", rig.demo(), *WS, *at, *tokens(rig)) as server:
        process = server.process.process
        with contextlib.ExitStack() as stack:
            taken = [opened(server, alice, stack) for _ in range(8)]
            (other,) = stack.enter_context(connected(server, 1))
            os.kill(process.pid, signal.SIGSTOP)
            try:
                sent = push(taken, small * 50_000) // len(small)
                other.sendall(head("GET /health", "", "\r\n"))
            finally:
                os.kill(process.pid, signal.SIGCONT)
            assert b" 200 " in other.recv(64)
            assert received(taken).count(answer) < sent // 10


def test_all_frames_are_taken_however_many_come_at_once(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        for size in (1, 7, 8, 9, 1000):
            pings = b"".join(b"\x89\x84" + bytes(4) + one.to_bytes(4) for one in range(size))
            with connected(server, 1) as (one,):
                one.sendall(head("GET /acp", "", _UPGRADE + "\r\n") + pings)
                data = b""
                while len(pongs := data.partition(b"\r\n\r\n")[2]) < 6 * size:
                    data += one.recv(65536)
                came = [int.from_bytes(pongs[at + 2 : at + 6]) for at in range(0, 6 * size, 6)]
                assert came == [*range(size)]


@pytest.mark.proves("clients of one principal that")
def test_what_all_clients_of_a_principal_leave_unread_is_bounded(rig: Rig) -> None:
    """Each asks on and on, and reads nothing of the answers."""
    bob = new_token(rig, "bob")
    at = ("--listen", f"unix:{rig.folder / 'lines'}", "-c", "serve.unread=2M")
    serve = ("serve", rig.demo(), *WS, *at, *tokens(rig))
    with served(rig, *serve) as server, contextlib.ExitStack() as stack:
        taken = [lines(server, "", stack) for _ in range(12)]
        push(taken, b"{}\n" * 12_000)
        other = server.socket(headers=bearer(bob))
        assert other.prompt(other.begin(), "/echo on") == "on"
        numbers = server.http("/metrics", **bearer(bob)).ask("GET").body.decode().splitlines()
        unread = next(one for one in numbers if one.startswith("conductor_serve_unread_bytes "))
        assert int(unread.split()[1]) < 8 * _MIB
        for one in taken:  # who reads after all is heard again
            one.settimeout(DEADLINE)
            rest, data = b'\n{"jsonrpc":"2.0","id":2,"method":"session/list"}\n', b""
            while b'"id":2' not in data[-4096:]:
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    rest = rest[one.send(rest) :]
                one.settimeout(DEADLINE)
                data += one.recv(_MIB)
