"""How many network connections a principal may have, and which of them end by themselves."""

import http.client
import signal
import threading
from typing import Final

import pytest
from websockets.exceptions import InvalidStatus

from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token, served
from tests.places import DEADLINE

WS: Final = ("--listen", "ws://127.0.0.1:0")
TOO_MANY: Final = b"there are 3 network connections of this principal, as many as there may be"


def asked(server: Served, token: str, path: str = "/acp") -> http.client.HTTPConnection:
    """A network connection that has had a request of a principal, and is open and idle."""
    opened = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    opened.request("GET", path, headers=bearer(token))
    opened.getresponse().read()
    return opened


def test_the_network_connections_of_a_principal_are_counted(rig: Rig) -> None:
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    few = ("-c", "serve.sockets=3", "--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", rig.demo(), *WS, *few) as server:
        client = server.http(**bearer(alice))
        client.initialize()  # its stream is the first
        second = server.socket(headers=bearer(alice))
        third = server.socket(headers=bearer(alice))
        answer = server.http(**bearer(alice)).ask("GET")
        assert (answer.status, answer.body[: len(TOO_MANY)]) == (429, TOO_MANY)
        assert b"close some of them" in answer.body
        assert answer.headers["Connection"] == "close"
        with pytest.raises(InvalidStatus, match="429"):
            server.socket(headers=bearer(alice))
        other = server.socket(headers=bearer(bob))
        assert other.prompt(other.begin(), "/echo bob") == "bob"
        assert second.prompt(second.begin(), "/echo alice") == "alice"
        third.close()
        while (answer := server.http("/metrics", **bearer(alice)).ask("GET")).status == 429:
            pass
        assert b'denied_total{status="429"}' in answer.body


def test_idle_ones_make_room(rig: Rig) -> None:
    """A pool of a front proxy stays open between requests; it keeps nobody out."""
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    few = ("-c", "serve.sockets=3", "--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", rig.demo(), *WS, *few) as server:
        pool = [asked(server, alice) for _ in range(3)]
        clients = [server.socket(headers=bearer(alice)) for _ in range(3)]
        for one in clients:
            one.begin()
        for idle in pool:
            assert idle.sock.recv(1) == b""
            idle.close()
        shared = asked(server, bob)
        shared.request("GET", "/acp", headers=bearer(alice))  # bob's now, alice has hers
        assert shared.getresponse().status == 429
        shared.close()


@needs_proc
def test_a_chain_that_takes_nothing_for_long_costs_no_client(rig: Rig) -> None:
    """The server does not read then, and so no answer to a ping either."""
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket(ping_interval=None)
        session = client.begin()
        kin = rig.kin(server.process)
        agent = kin.handle(kin.named("agent.py")[0])
        signal.pidfd_send_signal(agent, signal.SIGSTOP)
        on = threading.Timer(40.0, signal.pidfd_send_signal, (agent, signal.SIGCONT))
        on.start()
        text = "x" * 1_000_000
        # More than a chain and the network between keep: the client waits with the last ones.
        prompts = [client.start_prompt(session, f"/echo {n} {text}") for n in range(16)]
        assert all("result" in client.answer(one) for one in prompts)
        on.join()
