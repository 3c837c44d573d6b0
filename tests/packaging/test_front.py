"""Several servers behind deploy/haproxy.cfg: each user comes to the same one every time."""

import contextlib
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import jwt
import pytest

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Http, Served, Socket, bearer, new_token, served
from tests.places import ROOT

FRONT: Final = ROOT / "deploy" / "haproxy.cfg"
WS: Final = ("--listen", "ws://127.0.0.1:0", "-c", "serve.owners=none")
needs_haproxy: Final = pytest.mark.skipif(shutil.which("haproxy") is None, reason="no haproxy here")


def test_each_server_of_the_file_is_one_of_the_unit() -> None:
    text = FRONT.read_text()
    unit = (ROOT / "deploy" / "conductor-serve@.service").read_text()
    for port in re.findall(r"^ +server .*:(\d+) check$", text, re.MULTILINE):
        assert f"conductor-serve@{port}" in unit


@contextlib.contextmanager
def front(folder: Path, servers: Sequence[Served]) -> Iterator[int]:
    """HAProxy as `deploy/` has it, without TLS and before these servers; its port."""
    program = shutil.which("haproxy")
    assert program is not None
    # It inherits the socket: nobody else can take the port meanwhile, and clients may come before
    # it is there.
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        fd, port = listening.fileno(), int(listening.getsockname()[1])
        text = re.sub(r"bind .*", f"bind fd@{fd}", FRONT.read_text().replace("4000", "200"))
        for place, server in zip((8791, 8792), servers, strict=True):
            text = text.replace(f":{place} check", f":{server.port}")
        (folder / "haproxy.cfg").write_text(text)
        command = [program, "-f", str(folder / "haproxy.cfg")]
        running = subprocess.Popen(command, pass_fds=[fd])
    try:
        yield port
    finally:
        running.kill()
        running.wait()


@needs_haproxy
def test_a_token_leads_to_the_same_server_every_time(rig: Rig, tmp_path: Path) -> None:
    """By HTTP, by WebSocket and from a page: all of them reach the same live session."""
    shown = [new_token(rig, f"user{number}") for number in range(3)]
    tokens = ("--tokens", str(rig.folder / "tokens"), "-c", "serve.origin=https://chat.example")
    with (
        served(rig, "serve", rig.demo(), *WS, *tokens) as one,
        served(rig, "serve", rig.demo(), *WS, *tokens) as two,
        front(tmp_path, [one, two]) as port,
    ):
        for token in shown:
            client = Http(port, "/acp", bearer(token))
            session = client.begin()
            assert client.prompt(session, "/echo http") == "http"
            origin = {"Origin": "https://chat.example"}
            url = f"ws://127.0.0.1:{port}/acp"
            others = [
                Socket(url, bearer(token)),
                Socket(url, origin, [f"acp.bearer.{token}", "acp"]),
                Socket(url, origin, ["acp", f"acp.bearer.{token}"]),
            ]
            for other in others:
                other.initialize()
                load = {"sessionId": session, "cwd": "/", "mcpServers": []}
                assert "result" in other.request("session/load", load)
                other.close()
            client.close()


@needs_haproxy
def test_fresh_tokens_of_an_issuer_lead_to_the_same_server(rig: Rig, tmp_path: Path) -> None:
    """Who they are for counts, and not the token. Both servers get some."""
    known = new_token(rig, "operator")
    tokens = ("--tokens", str(rig.folder / "tokens"))
    with (
        served(rig, "serve", rig.demo(), *WS, *tokens) as one,
        served(rig, "serve", rig.demo(), *WS, *tokens) as two,
        front(tmp_path, [one, two]) as port,
    ):
        homes = []
        for number in range(8):
            before = denied(one, known), denied(two, known)
            for end in (2_000_000_000, 2_000_000_600):
                claims = {"sub": f"user{number}", "exp": end}
                fresh = jwt.encode(claims, "k" * 32, "HS256")  # for the way; no server takes it
                assert Http(port, "/acp", bearer(fresh)).ask("GET").status == 401
            homes.append((denied(one, known) - before[0], denied(two, known) - before[1]))
        assert sorted({*homes}) == [(0, 2), (2, 0)], homes


def denied(server: Served, token: str) -> int:
    """How many requests a server has refused for want of a token."""
    text = server.http("/metrics", **bearer(token)).ask("GET").body.decode()
    found = re.search(r'denied_total\{status="401"\} (\d+)', text)
    return int(found[1]) if found is not None else 0
