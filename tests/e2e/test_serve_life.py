"""The life of a server: links that are cut, the end, and a reload."""

import json
import shutil
import signal
import ssl
import subprocess
from pathlib import Path
from typing import Final

import pytest
from websockets.exceptions import InvalidStatus

from tests.harness.process.rig import Rig
from tests.harness.process.serving import Json, bearer, new_token, served

WS: Final = ("--listen", "ws://127.0.0.1:0")


def texts(frames: list[Json]) -> list[str]:
    """The texts of all updates."""
    updates = [one["params"]["update"] for one in frames if one.get("method") == "session/update"]
    return [one["content"]["text"] for one in updates if "content" in one]


def test_http_goes_on_behind_the_last_event(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.http()
        session = client.begin()
        stream = client.streams[-1]
        prompt = client.start_prompt(session, "/stream 30 10")
        for _ in range(5):
            client.frames.append(stream.receive())
        client.streams.remove(stream)
        stream.close()
        client.stream(session, Last_Event_ID=str(stream.last))
        assert "result" in client.answer(prompt)
        got = texts(client.frames)
        assert len(got) == 30
        assert len({*got}) == 30


def test_an_event_that_is_too_old_is_a_conflict(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.http()
        session = client.begin()
        client.prompt(session, "/stream 200 100000")
        stream = client.streams.pop()
        stream.close()
        answer = client.stream(session, Last_Event_ID="1").answer
        assert answer.status == 409
        assert b"session/load" in answer.read()


def test_a_second_reader_is_a_conflict(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.http()
        session = client.begin()
        assert client.stream(session).answer.status == 409


def test_a_plain_client_loads_the_session_of_before(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        session = client.begin()
        client.start_prompt(session, "/sleep 1")
        client.cut()
        again = server.socket()
        again.initialize()
        params = {"sessionId": session, "cwd": "/", "mcpServers": []}
        assert "result" in again.request("session/load", params)
        while not any("slept" in text for text in texts(again.frames)):  # or it was replayed
            again.frames.append(again.receive())


def test_a_connection_whose_client_is_gone_ends(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.linger=0.3") as server:
        client = server.linked()
        client.begin()
        client.cut()
        other = server.http("/metrics")
        while b"conductor_serve_connections 0\n" not in other.ask("GET").body:
            pass
        while b"conductor_serve_chains 0\n" not in other.ask("GET").body:
            pass
        with pytest.raises(InvalidStatus, match="404"):
            client.back()


def test_a_connection_over_http_whose_client_is_gone_ends(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.linger=0.3") as server:
        client = server.http()
        client.initialize()  # its stream may come too late: then it is gone already
        gone = client.connection
        client.close()
        other = server.http("/metrics")
        while b"conductor_serve_connections 0\n" not in other.ask("GET").body:
            pass
        assert server.http().ask("DELETE", Acp_Connection_Id=gone).status == 404


def test_the_end_waits_for_turns(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS) as server:
        client = server.socket()
        session = client.begin()
        other = client.new_session()
        prompt = client.start_prompt(session, "/permission")
        question = client.receive()
        while question.get("method") != "session/request_permission":
            question = client.receive()
        server.process.process.send_signal(signal.SIGTERM)
        ready = server.http("/ready").ask("GET")
        while ready.status != 503:
            ready = server.http("/ready").ask("GET")
        with pytest.raises(InvalidStatus):
            server.socket()
        refused = client.answer(client.start_prompt(other, "hi"))
        assert "shutting down" in refused["error"]["message"]
        asked = {"sessionId": other, "prompt": [{"type": "text", "text": "hi"}]}
        text = json.dumps({"jsonrpc": "2.0", "id": 99, "method": "session/prompt", "params": asked})
        client.socket.send(text.replace("session/prompt", r"session\/prompt"))  # as PHP writes it
        assert "shutting down" in client.answer(99)["error"]["message"]
        client.send({"jsonrpc": "2.0", "method": "session/prompt", "params": asked})
        option = question["params"]["options"][0]["optionId"]
        outcome = {"outcome": {"outcome": "selected", "optionId": option}}
        client.send({"jsonrpc": "2.0", "id": question["id"], "result": outcome})
        assert client.answer(prompt)["result"]["stopReason"] == "end_turn"
        assert server.process.exit_code() == 0
    assert rig.methods("A").count("session/prompt") == 1
    assert rig.leftovers(server.process) == []


def test_a_turn_that_does_not_end_is_not_waited_for_for_ever(rig: Rig) -> None:
    with served(rig, "serve", rig.demo(), *WS, "-c", "serve.wind-down=0.2") as server:
        client = server.socket()
        client.start_prompt(client.begin(), "/hang")
        server.end()
    assert rig.leftovers(server.process) == []


def test_a_reload_reads_tokens_again(rig: Rig) -> None:
    alice = new_token(rig, "alice")
    path = rig.folder / "tokens"
    with served(rig, "serve", rig.demo(), *WS, "--tokens", str(path)) as server:
        assert server.socket(headers=bearer(alice)).begin()
        path.unlink()
        bob = new_token(rig, "bob")
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("have been read again")
        with pytest.raises(InvalidStatus):
            server.socket(headers=bearer(alice))
        assert server.socket(headers=bearer(bob)).begin()


def make_certificate(cert: Path, key: Path) -> None:
    """Makes a certificate that vouches for itself."""
    program = shutil.which("openssl")
    assert program is not None
    subject = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-keyout", str(key), "-out", str(cert), "-days", "2", "-nodes")
    kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")
    subprocess.run(
        [program, "req", "-x509", *kind, *made, *subject], check=True, capture_output=True
    )


def test_tls(rig: Rig) -> None:
    cert, key = rig.folder / "cert.pem", rig.folder / "key.pem"
    make_certificate(cert, key)
    files = ("--tls-cert", str(cert), "--tls-key", str(key))
    with served(rig, "serve", rig.demo(), "--listen", "wss://127.0.0.1:0", *files) as server:
        assert server.address.startswith("wss://127.0.0.1:")
        client = rig.run("connect", server.address, "--ca", str(cert))
        session = client.begin()
        assert client.prompt(session, "/echo hi") == "hi"
        assert client.finish() == 0


def test_a_reload_reads_the_certificate_again(rig: Rig) -> None:
    cert, key = rig.folder / "cert.pem", rig.folder / "key.pem"
    make_certificate(cert, key)
    files = ("--tls-cert", str(cert), "--tls-key", str(key))
    with served(rig, "serve", rig.demo(), "--listen", "wss://127.0.0.1:0", *files) as server:
        port = int(server.address.split(":")[2].split("/")[0])
        first = ssl.get_server_certificate(("127.0.0.1", port))
        make_certificate(cert, key)
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("have been read again")
        second = ssl.get_server_certificate(("127.0.0.1", port))
        assert second != first
        cert.write_text("broken")
        server.process.process.send_signal(signal.SIGHUP)
        server.process.until_stderr("the server stays as it was")
        assert ssl.get_server_certificate(("127.0.0.1", port)) == second
