"""Descriptors: one principal leaves some for others, and strangers leave some for `/health`."""

import contextlib
import socket
import subprocess
from typing import Final

import pytest
from websockets.exceptions import InvalidStatus

from tests.e2e.test_serve_attacks import WS, tokens
from tests.harness.process.command import COMMAND, environment
from tests.harness.process.processes import needs_proc
from tests.harness.process.rig import Rig
from tests.harness.process.serving import Served, bearer, new_token
from tests.places import DEADLINE

_MANY: Final = 60
"""More connections than there are descriptors for their chains."""


def limited(hard: int, *arguments: str, soft: int = 0) -> list[str]:
    """A command with so many descriptors."""
    limits = f"ulimit -n {hard}; ulimit -Sn {soft or hard}"
    return ["sh", "-c", f'{limits}; exec "$0" "$@"', *COMMAND, *arguments]


@pytest.mark.proves("one principal that takes all")
@needs_proc
def test_one_principal_leaves_descriptors_for_others(rig: Rig) -> None:
    alice, bob = new_token(rig, "alice"), new_token(rig, "bob")
    serve = ("serve", rig.demo(log=False), *WS, *tokens(rig))
    with Served(rig.start(limited(256, *serve, soft=100))) as server:
        crowd = 0
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(InvalidStatus):
                while crowd < _MANY:
                    server.socket(headers=bearer(alice)).begin()
                    crowd += 1
            assert 5 < crowd < 30  # the soft limit was raised, and half of the rest is left
            for _ in range(300):
                held = socket.create_connection(("127.0.0.1", server.port), DEADLINE)
                stack.enter_context(held).sendall(b"GET /acp HTTP/1.1\r\n")
            assert server.http("/health").ask("GET").body == b"ok"
            other = server.socket(headers=bearer(bob))
            assert other.prompt(other.begin(), "/echo bob") == "bob"


@pytest.mark.parametrize("command", [("agent", "demo"), ("serve", "demo", *WS)])
def test_too_few_descriptors_are_named(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        limited(16, *command),
        input=b"",
        capture_output=True,
        timeout=DEADLINE,
        env=environment(),
        check=False,
    )
    text = done.stderr.decode()
    assert text.startswith("error: this process may have 16 files and connections open"), text
    assert "hint: allow 64 or more" in text
    assert done.returncode == 2
