"""Clients at the addresses of a chain (docs/remote.md)."""

import json
import socket
import stat
from pathlib import Path
from typing import Final

import pytest
from websockets.exceptions import InvalidStatus

from tests.harness.process.rig import Rig
from tests.harness.process.serving import INITIALIZE, Answer, Served, bearer, new_token, served


def test_a_client_over_a_websocket_has_a_chain_of_its_own(rig: Rig) -> None:
    with served(rig, "agent", "--listen", "ws://127.0.0.1:0", rig.demo()) as server:
        first, second = server.socket(), server.socket()
        one, two = first.begin(), second.begin()
        assert first.prompt(one, "/echo grüße") == "grüße"
        assert second.prompt(two, "/echo two") == "two"
        first.close()
        assert second.prompt(two, "/echo on") == "on"
        second.close()
        server.end()
        assert server.process.lines == []
        assert rig.leftovers(server.process) == []


def test_a_client_over_http(rig: Rig) -> None:
    with served(rig, "agent", "--listen", "http://127.0.0.1:0", rig.demo()) as server:
        client = server.http()
        session = client.begin()
        assert client.prompt(session, "/echo grüße") == "grüße"
        left = client.ask("DELETE", Acp_Connection_Id=client.connection)
        assert left.status == 202
        assert client.post({"jsonrpc": "2.0", "method": "x"}).status == 404


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_client_with_lines(rig: Rig, kind: str) -> None:
    address = f"unix:{rig.folder}/s" if kind == "unix" else "tcp://127.0.0.1:0"
    with served(rig, "agent", "--listen", address, rig.demo()) as server:
        client = server.lines()
        session = client.begin()
        assert client.prompt(session, "/echo grüße") == "grüße"
        client.close()
        server.end()
        if kind == "unix":
            assert not (rig.folder / "s").exists()


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_a_client_that_sends_no_more_gets_its_answers(rig: Rig, kind: str) -> None:
    address = f"unix:{rig.folder}/s" if kind == "unix" else "tcp://127.0.0.1:0"
    with served(rig, "agent", "--listen", address, rig.demo()) as server:
        family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as client:
            if kind == "unix":
                client.connect(f"{rig.folder}/s")
            else:
                client.connect(("127.0.0.1", int(server.address.rpartition(":")[2])))
            first = {"protocolVersion": 1, "clientCapabilities": {}}
            new = {"cwd": str(rig.folder), "mcpServers": []}
            for id_, (method, params) in enumerate([("initialize", first), ("session/new", new)]):
                asked = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
                client.sendall(json.dumps(asked).encode() + b"\n")
            client.shutdown(socket.SHUT_WR)
            answers = [json.loads(line) for line in client.makefile("rb")]
        assert [one["id"] for one in answers if "result" in one] == [0, 1]


def test_the_socket_is_private(rig: Rig) -> None:
    with served(rig, "agent", "--listen", f"unix:{rig.folder}/s", rig.demo()) as server:
        path: Path = rig.folder / "s"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        server.end()


# -- conductor serve -------------------------------------------------------------------------------


def test_tokens(rig: Rig) -> None:
    token = new_token(rig, "alice")
    path = str(rig.folder / "tokens")
    assert token not in (rig.folder / "tokens").read_text()
    listen = ("--listen", "ws://127.0.0.1:0", "--tokens", path)
    with served(rig, "serve", rig.demo(), *listen) as server:
        for shown in ({}, bearer("acp_wrong"), {"Authorization": "Basic YTpi"}):
            client = server.http(**shown)
            answer = client.post({"jsonrpc": "2.0", "id": 1, "method": "initialize"})
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            with pytest.raises(InvalidStatus):
                server.socket(headers=shown)
        client = server.http(**bearer(token))
        session = client.begin()
        assert client.prompt(session, "/echo hi") == "hi"
        assert server.http().ask("GET").status == 401
        for path in ("/health", "/ready"):
            assert server.http(path).ask("GET").body == b"ok"
        assert server.http("/metrics").ask("GET").status == 401
        metrics = server.http("/metrics", **bearer(token)).ask("GET").body.decode()
        assert "\nconductor_serve_connections 1\n" in metrics
        assert 'conductor_serve_denied_total{status="401"}' in metrics
        server.end()


@pytest.mark.parametrize("names", [(), ("alice", "bob")])
def test_a_token_is_for_one_principal(rig: Rig, names: tuple[str, ...]) -> None:
    made = rig.run("serve", "token", *names)
    assert made.exit_code() == 2
    assert "takes the name of a principal" in made.stderr
    hints = made.stderr.partition("\nhint: ")[2]
    assert "conductor serve token alice" in hints
    assert len(hints.splitlines()) == 1


def test_an_expired_token_is_refused(rig: Rig) -> None:
    token = new_token(rig, "alice", "--days", "3")
    path = rig.folder / "tokens"
    text = path.read_text()
    assert " until " in text
    until = text.partition(" until ")[2].partition('"')[0]
    path.write_text(text.replace(until, "2020-01-01T00:00:00Z"))
    path.chmod(0o600)
    listen = ("--listen", "ws://127.0.0.1:0", "--tokens", str(path))
    with served(rig, "serve", rig.demo(), *listen) as server:
        answer = server.http(**bearer(token)).ask("GET")
        assert (answer.status, answer.body) == (401, b"the token has expired")


def test_a_connection_belongs_to_its_principal(rig: Rig) -> None:
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    listen = ("--listen", "ws://127.0.0.1:0", "--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", rig.demo(), *listen) as server:
        client = server.http(**bearer(alice))
        client.initialize()
        other = server.http(**bearer(bob))
        other.connection = client.connection
        assert other.post({"jsonrpc": "2.0", "method": "x"}).status == 404
        assert other.ask("DELETE", Acp_Connection_Id=client.connection).status == 404
        stream = other.ask("GET", Accept="text/event-stream", Acp_Connection_Id=client.connection)
        assert stream.status == 404
        assert client.new_session()


_HERE: Final = "https://chat.example"


def preflight(server: Served, path: str = "/acp", **headers: str) -> Answer:
    """The question of a browser before it sends a request of a page."""
    return server.http(path, **headers).ask("OPTIONS", Access_Control_Request_Method="POST")


def test_pages_of_an_allowed_origin_can_read_each_answer(rig: Rig) -> None:
    token = new_token(rig, "alice")
    listen = ("--listen", "ws://127.0.0.1:0", "--tokens", str(rig.folder / "tokens"))
    with served(rig, "serve", rig.demo(), *listen, "-c", f"serve.origin={_HERE}") as server:
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        client = server.http(Origin=_HERE, **bearer(token))
        opened = client.post(initialize)
        client.connection = opened.headers["Acp-Connection-Id"]
        answers = [
            (200, opened),
            (202, client.post({"jsonrpc": "2.0", "method": "x"})),
            (202, client.ask("DELETE", Acp_Connection_Id=client.connection)),
            (404, client.ask("DELETE", Acp_Connection_Id=client.connection)),
            (405, client.ask("PUT")),
            (406, client.ask("GET", Accept="text/plain")),
            (401, server.http(Origin=_HERE).post(initialize)),
            (204, preflight(server, Origin=_HERE)),
            (204, preflight(server, "/nothing", Origin=_HERE)),
            (401, server.http(Origin=_HERE).ask("OPTIONS")),
        ]
        assert [answer.status for _, answer in answers] == [status for status, _ in answers]
        for _, answer in answers:
            assert answer.headers["Access-Control-Allow-Origin"] == _HERE
            assert answer.headers["Vary"] == "Origin"
            assert "Access-Control-Allow-Credentials" not in answer.headers
        others = [
            (403, preflight(server, Origin="https://evil.example")),
            (403, preflight(server, Origin="null")),
            (401, preflight(server)),
            (200, server.http(**bearer(token)).post(initialize)),
        ]
        assert [answer.status for _, answer in others] == [status for status, _ in others]
        for _, answer in others:
            assert not [name for name in answer.headers if name.startswith("Access-Control")]
            assert "Vary" not in answer.headers


def test_strangers_are_kept_out_unless_that_is_wanted(rig: Rig) -> None:
    for listen, word in (
        ("ws://0.0.0.0:0", "everybody on the way could read along"),
        ("tcp://0.0.0.0:0", "lines show no token"),
        ("wss://127.0.0.1:0", "needs a certificate"),
        ("ws://127.0.0.1:0/elsewhere", "nothing is served at the path"),
        ("http://127.0.0.1:0/acp?a=b", "nothing is served at the path"),
    ):
        chain = rig.run("serve", rig.demo(), "--listen", listen)
        assert chain.exit_code() == 2
        assert word in chain.stderr
    chain = rig.run("agent", "--listen", "ws://0.0.0.0:0", rig.demo())
    assert chain.exit_code() == 2
    with served(rig, "serve", rig.demo(), "--listen", "ws://0.0.0.0:0", "--insecure") as server:
        assert server.socket().begin()


def test_named_chains_have_paths_and_logs_of_their_own(rig: Rig) -> None:
    """Two chains in one conductor, interleaved; their logs are disjoint."""
    one, two = json.loads(rig.demo(name="A")), json.loads(rig.demo(name="B"))
    lines = ["[serve]", 'chain = ["one", "two"]', 'listen = ["ws://127.0.0.1:0"]']
    for name, agent in (("one", one), ("two", two)):
        words = f"command = {json.dumps(agent['command'])}, args = {json.dumps(agent['args'])}"
        lines += [f"[chains.{name}]", f"components = [{{{words}}}]"]
        lines += [f"[chains.{name}.options]", f'log-file = "{rig.folder}/log-{name}"']
    file = rig.folder / "config" / "conductor" / "conductor.toml"
    file.parent.mkdir(parents=True)
    file.write_text("\n".join(lines))
    with served(rig, "serve", XDG_CONFIG_HOME=str(rig.folder / "config")) as server:
        here = f"ws://127.0.0.1:{server.port}/acp"
        assert server.addresses == [f"{here}/one", f"{here}/two"]
        clients = [server.socket(f"/acp/{name}") for name in ("one", "two")]
        sessions = [client.begin() for client in clients]
        for turn in range(3):
            for client, session, name in zip(clients, sessions, ("one", "two"), strict=True):
                assert client.prompt(session, f"/echo {name} {turn}") == f"{name} {turn}"
        with pytest.raises(InvalidStatus):
            server.socket("/acp/three")
        server.end()
    for log, name, other in (("A", "one", "two"), ("B", "two", "one")):
        heard = b"".join(entry.raw for entry in rig.log(log))
        assert f"{name} 2".encode() in heard
        assert f"{other} ".encode() not in heard
        assert (rig.folder / f"log-{name}").exists()


def test_lines_name_no_chain(rig: Rig) -> None:
    file = rig.folder / "config" / "conductor" / "conductor.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[chains.one]\ncomponents = ["demo"]\n')
    words = ("serve", "--chain", "one", "--listen", f"unix:{rig.folder}/s")
    with served(rig, *words, XDG_CONFIG_HOME=str(rig.folder / "config")) as server:
        error = server.lines().request("initialize", {"protocolVersion": 1})["error"]
        assert "does not serve a chain of its command line" in error["message"]
        server.end()


def test_each_chain_has_a_trace_of_its_own(rig: Rig) -> None:
    trace = str(rig.folder / "t.jsons")
    listen = ("--listen", "ws://127.0.0.1:0")
    with served(rig, "agent", "--trace", trace, *listen, rig.demo()) as server:
        for text in ("one", "two"):
            client = server.socket()
            assert client.prompt(client.begin(), f"/echo {text}") == text
        server.end()
    assert "/echo one" in (rig.folder / "t.jsons").read_text()
    assert "/echo two" in (rig.folder / "t-2.jsons").read_text()


def test_a_cut_link_loses_and_doubles_nothing(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), "--listen", "ws://127.0.0.1:0") as server:
        client = server.linked()
        session = client.begin()
        prompt = client.start_prompt(session, "/stream 40 4")
        client.frames.append(client.receive())
        client.cut()
        client.back()
        assert client.answer(prompt)["result"]["stopReason"] == "end_turn"
        numbers = [one for one in client.frames if one.get("method") == "session/update"]
        texts = [one["params"]["update"].get("content", {}).get("text", "") for one in numbers]
        assert len(texts) == 40
        assert len({*texts}) == 40
