"""Clients that do not read: a chain waits for its home alone, and every other one is closed at its
bound."""

import socket
from typing import Final

import pytest

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, Served, Socket, served

WS: Final = ("--listen", "ws://127.0.0.1:0", "-c", "serve.unread=6M")
LOAD: Final = {"cwd": "/", "mcpServers": []}


def slow(server: Served) -> Socket:
    """A client whose side of the network keeps little of what it does not read."""
    narrow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    narrow.connect(("127.0.0.1", server.port))
    return server.socket(max_queue=1, sock=narrow, close_timeout=0.1)


@pytest.mark.parametrize("role", ["viewer", "driver"])
def test_one_who_does_not_read_is_closed_and_delays_nobody(rig: Rig, role: str) -> None:
    """20 MB pass, far more than the sockets between keep."""
    with served(rig, "serve", rig.demo(), *WS) as server:
        home, silent = server.socket(), slow(server)
        session = home.begin()
        silent.initialize(_meta={"conductor": {"attaches": True}})
        attach: Json = {"sessionId": session, "role": role, "historyPolicy": "none"}
        assert "result" in silent.request("session/attach", attach)
        assert home.answer(home.start_prompt(session, "/stream 200 100000"))["result"]
        while True:  # it is closed, also where it reads nothing
            numbers = server.http("/metrics").ask("GET").body
            if b"conductor_serve_connections 1\n" in numbers:
                break
        assert home.prompt(session, "/echo on") == "on"


def test_who_takes_the_place_of_the_home_is_waited_for(rig: Rig) -> None:
    """The editor has left: of the one that goes on with its session nothing is dropped."""
    with served(rig, "serve", rig.demo(), *WS) as server:
        home, second = server.socket(), slow(server)
        session = home.begin()
        second.initialize()
        assert "result" in second.request("session/load", {"sessionId": session, **LOAD})
        home.close()
        while b"conductor_serve_connections 1\n" not in server.http("/metrics").ask("GET").body:
            pass
        prompt = second.start_prompt(session, "/stream 200 100000")
        other = server.socket()
        assert other.prompt(other.begin(), "/echo on") == "on"
        assert second.answer(prompt)["result"]["stopReason"] == "end_turn"
        assert server.process.stderr.count("does not read") == 0


def test_a_home_is_never_sent_away_for_what_its_chain_sends_it(rig: Rig) -> None:
    """A chain waits for it before `unread` is reached, and one frame may be larger than that."""
    with served(
        rig, "serve", rig.demo(), "--listen", "ws://127.0.0.1:0", "-c", "serve.unread=1M"
    ) as server:
        home = slow(server)
        session = home.begin()
        for text in ("/stream 100 100000", "/stream 3 3000000"):
            assert home.answer(home.start_prompt(session, text))["result"]


def test_a_resumable_link_has_the_same_bound(rig: Rig) -> None:
    """20 MB wait for one that may leave 64 unread: it stays, and gets them all."""
    with served(rig, "serve", rig.demo(), "--listen", "ws://127.0.0.1:0") as server:
        home, silent = server.socket(), server.linked()
        session = home.begin()
        silent.initialize(_meta={"conductor": {"attaches": True}})
        attach: Json = {"sessionId": session, "role": "viewer", "historyPolicy": "none"}
        assert "result" in silent.request("session/attach", attach)
        assert home.answer(home.start_prompt(session, "/stream 200 100000"))["result"]
        frames = [silent.receive() for _ in range(202)]
        chunks = [one for one in frames if "agent_message_chunk" in str(one)[:200]]
        assert len(chunks) == 200
