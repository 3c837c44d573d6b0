"""No login of a part of a fleet reaches a program that it starts, or somebody on the way to
NATS."""

import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.command import COMMAND
from tests.harness.process.fleet import Fleet
from tests.harness.process.nats import Nats
from tests.harness.process.rig import Rig
from tests.places import DEADLINE

SECRET: Final = "4c6f67696e"  # noqa: S105 - of the test
LOGIN: Final = {"CONDUCTOR_NATS_USER": "part", "CONDUCTOR_NATS_PASSWORD": SECRET}
OTHERS: Final = {"MODEL_KEY": "of-another", "CONDUCTOR_TOKEN": "of-us"}
SPY: Final = """\
import os, sys
with open(sys.argv[1], "w") as out:
    for process in ("self", os.getppid()):
        out.write(f"-- {process}" + chr(10))
        try:
            out.write(open(f"/proc/{process}/environ").read().replace(chr(0), chr(10)))
        except OSError as error:
            out.write(f"{process}: {error.strerror}" + chr(10))
    out.write(f"uid={os.getuid()}" + chr(10))
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""
"""Writes its environment and its parent, then becomes another program."""


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Nats]:
    """A server that asks for a login."""
    users = f'authorization {{ users: [ {{ user: "part", password: "{SECRET}" }} ] }}'
    with Nats(tmp_path, config=users) as server:
        yield server


def spying(rig: Rig, seen: Path) -> str:
    """The demo agent, which first writes its environment."""
    entry = json.loads(rig.demo(log=False))
    entry["args"] = ["-c", SPY, str(seen), *entry["args"]]
    return json.dumps(entry)


@pytest.mark.proves("agents and programs get no login")
@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_agent_of_a_worker_gets_a_listed_environment(rig: Rig, closed: Nats) -> None:
    seen = rig.folder / "seen"
    fleet = Fleet(rig, closed.url)
    fleet.worker(spying(rig, seen), **LOGIN, **OTHERS)
    with fleet.gateway(**LOGIN) as gateway:
        client = gateway.socket()
        assert client.prompt(client.begin(), "/echo hello") == "hello"
    text = seen.read_text()
    own = text.split("-- ")[1].splitlines()
    assert any(line.startswith("PATH=") for line in own)
    assert not [line for line in own if line.startswith("CONDUCTOR_")]
    assert [line for line in own if "of-another" in line or "of-us" in line] == []
    assert SECRET not in text


@pytest.mark.parametrize("name", ["CONDUCTOR_TOKEN", "CONDUCTOR_NATS_PASSWORD", "CONDUCTOR_X_KEY"])
def test_an_agent_of_any_conductor_gets_no_login_of_ours(rig: Rig, name: str) -> None:
    seen = rig.folder / "seen"
    asked = subprocess.run(
        [*COMMAND, "exec", spying(rig, seen), "-p", "hello"],
        env={**os.environ, name: SECRET, "OTHER": "stays"},
        capture_output=True,
        timeout=DEADLINE,
        check=False,
    )
    assert asked.returncode == 0, asked
    assert "OTHER=stays" in seen.read_text()
    assert SECRET not in seen.read_text().split("-- ")[1]


@pytest.mark.proves("agents and programs get no login")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs as another user")
def test_agents_run_as_another_user_than_who_has_the_login(rig: Rig, closed: Nats) -> None:
    who = pwd.getpwnam("nobody")
    seen = Path(tempfile.mkdtemp(dir="/tmp"))
    seen.chmod(0o777)
    script = f"id -u > {seen}/uid; env > {seen}/env; cat /proc/$PPID/environ > {seen}/up 2>&1"
    entry = json.dumps({"command": "/bin/sh", "args": ["-c", script], "name": "A"})
    worker = Fleet(rig, closed.url).worker("--run-as", "nobody", entry, **LOGIN)
    with Fleet(rig, closed.url).gateway(**LOGIN) as gateway:
        client = gateway.socket()
        client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    worker.until((seen / "up").exists, "the agent has run")
    assert (seen / "uid").read_text().strip() == str(who.pw_uid)
    assert f"HOME={who.pw_dir}" in (seen / "env").read_text()
    assert SECRET not in (seen / "up").read_text(errors="replace")
    shutil.rmtree(seen)


@pytest.mark.parametrize("user", ["root", "0", "no-such-user"])
def test_agents_run_as_nobody_who_may_read_the_login(rig: Rig, user: str) -> None:
    tried = rig.run("fleet", "worker", "--run-as", user, rig.demo())
    assert tried.exit_code() == 2
    assert f"`{user}`" in tried.stderr


@pytest.mark.proves("agents and programs get no login")
def test_a_worker_says_that_agents_can_read_its_login(rig: Rig, tmp_path: Path) -> None:
    file = tmp_path / "user.creds"
    file.write_text("-----BEGIN NATS USER JWT-----\n-----BEGIN USER NKEY SEED-----\n")
    words = ("--nats", "nats://127.0.0.1:1", "--nats-wait", "0", "--nats-creds", str(file))
    tried = rig.run("fleet", "worker", *words, rig.demo())
    assert tried.exit_code() != 0
    assert f"can read `--nats-creds {file}`" in tried.stderr
    assert "hint: `--run-as USER`" in tried.stderr


def test_a_password_of_the_example_is_refused(rig: Rig) -> None:
    for words in (["fleet", "worker", rig.demo()], ["fleet", "gateway"], ["fleet", "status"]):
        tried = rig.run(*words, **{**LOGIN, "CONDUCTOR_NATS_PASSWORD": "CHANGE-x"})
        assert tried.exit_code() == 2
        assert "the one of the example" in tried.stderr


class Plain:
    """A server that says that it wants no TLS, and keeps the bytes that it gets."""

    def __init__(self, info: dict[str, object]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.got = b""
        self._info = b"INFO " + json.dumps(info).encode() + b"\r\nPONG\r\n"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._listener.accept()
            except OSError:
                return
            with one:
                one.settimeout(1)
                one.sendall(self._info)
                try:
                    while piece := one.recv(65536):
                        self.got += piece
                except OSError:
                    pass

    def close(self) -> None:
        """Ends the server."""
        self._listener.close()


@pytest.mark.parametrize("asked", ["tls", "nats"])
@pytest.mark.parametrize("said", [{}, {"tls_required": False}, {"tls_available": True}])
def test_with_tls_nothing_is_sent_before_the_handshake(
    rig: Rig, asked: str, said: dict[str, object]
) -> None:
    server = Plain({"server_id": "x", "version": "2.11.0", "max_payload": 1024, "headers": True,
                    "auth_required": True, **said})  # fmt: skip
    ca = ["--nats-ca", certificate_authority()] if asked == "nats" else []
    where = f"{asked}://localhost:{server.port}"
    tried = rig.run("fleet", "status", "--nats", where, *ca, "--nats-wait", "1", **LOGIN)
    assert tried.exit_code() == 1, tried.story()
    server.close()
    assert server.got[:1] == b"\x16", server.got  # the first byte of a handshake
    assert SECRET.encode() not in server.got
    assert b"CONNECT" not in server.got


def certificate_authority() -> str:
    """Any certificates."""
    import certifi

    return certifi.where()
