"""Starts the peers: servers that stay, and clients that play one scenario."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.e2e.peers.remote import build
from tests.e2e.peers.remote.scenario import KEPT, PROMPT, Kind, Profile, Seen, plan, words
from tests.harness.process.command import COMMAND
from tests.harness.process.processes import MARKER, outliving
from tests.harness.process.rig import Chain, python_path
from tests.places import DEADLINE

HERE: Final = Path(__file__).parent
AGENT: Final = (sys.executable, str(HERE / "agent.py"), words())

OURS: Final = "conductor"
CONNECT: Final = "conductor connect"
CHAIN: Final = "conductor agent"
TYPESCRIPT: Final = "TypeScript SDK 2.4.0"
PYTHON: Final = "Python SDK 0.12.1"
RUST: Final = "Rust SDK 5.2.0"
SDKS: Final = (TYPESCRIPT, PYTHON, RUST)

PAIRS: Final = (
    *((client, OURS) for client in (*SDKS, CONNECT, CHAIN)),
    *((client, server) for server in SDKS for client in (CONNECT, CHAIN)),
)
"""Clients and servers that are measured."""


class MissingError(Exception):
    """This machine lacks a peer; the argument names the peer, and how to install it."""


@dataclass(frozen=True, slots=True)
class Peers:
    """How to start each peer; ``node`` and ``scripts`` are None where there is no Node."""

    node: str | None
    scripts: Path | None
    folder: Path
    """The folder in which conductors are started."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    @contextmanager
    def server(self, name: str, profile: Profile) -> Iterator[str]:
        """A server until the end of the block; its address in the profile."""
        if name == OURS:
            with self._conductor(profile) as address:
                yield address
            return
        command = self._program(name, "server")
        command += ["serve", *AGENT] if name == RUST else [words()]
        process = subprocess.Popen(command, env=self._env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address.startswith("http://"), f"{name} did not start"
            yield address.replace("http", profile, 1)
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def play(self, client: str, address: str, kind: Kind) -> Seen:
        """Plays the scenario with a client; what it saw. Raises `subprocess.TimeoutExpired`."""
        if client in (CONNECT, CHAIN):
            return self._play_ours("connect" if client == CONNECT else "agent", address, kind)
        command = self._program(client, "client")
        command += ["client", address, kind] if client == RUST else [address, plan(kind)]
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=DEADLINE, check=True
        )
        return Seen.of(done.stdout)

    def leftovers(self) -> list[str]:
        """Command lines of processes that are left when all should have ended."""
        return outliving(self.token)

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, MARKER: self.token, "PYTHONPATH": python_path()}

    def _program(self, sdk: str, side: str) -> list[str]:
        if sdk == PYTHON:
            return [sys.executable, str(HERE / f"python_{side}.py")]
        if sdk == RUST:
            program = build.place()
            if not program.exists():
                raise MissingError(f"the Rust SDK's programs are not built: {build.COMMAND}")
            return [str(program)]
        if self.node is None or self.scripts is None:
            raise MissingError("needs node and npm on PATH")
        return [self.node, str(self.scripts / f"{side}.mjs")]

    @contextmanager
    def _conductor(self, profile: Profile) -> Iterator[str]:
        agent = json.dumps({"command": AGENT[0], "args": AGENT[1:], "name": "saying"})
        command = [*COMMAND, "agent", "--listen", f"{profile}://127.0.0.1:0", agent]
        with Chain(command, self._env, self.folder) as running:
            running.until(lambda: "://127.0.0.1:" in running.stderr, "its address")
            yield next(word for word in running.stderr.split() if "://127.0.0.1:" in word)

    def _play_ours(self, command: str, address: str, kind: Kind) -> Seen:
        where = {"cwd": "/", "mcpServers": []}
        with Chain([*COMMAND, command, address], self._env, self.folder) as chain:
            chosen = {"outcome": {"outcome": "selected", "optionId": "ja-1"}}
            chain.serves["session/request_permission"] = lambda _: chosen
            try:
                _asked(chain, "initialize", {"protocolVersion": 1})
                session = KEPT
                if kind == "load":
                    _asked(chain, "session/load", {"sessionId": KEPT, **where})
                else:
                    session = _asked(chain, "session/new", where)["sessionId"]
                replayed = chain.texts(session)
                prompt = [{"type": "text", "text": PROMPT}]
                answer = _asked(chain, "session/prompt", {"sessionId": session, "prompt": prompt})
            except _FailedError as error:
                return Seen(error=str(error))
            texts = chain.texts(session)[len(replayed) :]
            assert chain.finish() == 0, chain.story()
            return Seen(tuple(replayed), tuple(texts), answer["stopReason"])


class _FailedError(Exception):
    """A request was answered with this error."""


def _asked(chain: Chain, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request. Raises `_FailedError`."""
    answer = chain.request(method, params)
    if "error" in answer:
        raise _FailedError(answer["error"]["message"].partition("\nhint: ")[0])
    result: dict[str, Any] = answer["result"]
    return result
