"""A fleet under measurement: NATS, one gateway, workers, each a process of its own."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks import proctree
from benchmarks.remote.servers import Server
from conductor.fleet import nats_server


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Fleet:
    """A context manager."""

    def __init__(
        self,
        conductor: Sequence[str],
        chain: Sequence[str],
        env: Mapping[str, str],
        agent: Path,
        folder: Path,
        *,
        workers: int = 1,
        gateway: Sequence[str] = (),
        worker: Sequence[str] = (),
    ) -> None:
        """`gateway` and `worker` are further options of these."""
        self._port = _free_port()
        self.nats = f"nats://127.0.0.1:{self._port}"
        self._folder = folder
        self._agent, self._env = agent, env
        at = ["--nats", self.nats, "--listen"]
        runs = [*conductor, "fleet", "worker", *at, "http://127.0.0.1:0", *worker, *chain]
        self.workers = [Server(runs, env, agent) for _ in range(workers)]
        listens = [*conductor, "fleet", "gateway", *at, "ws://127.0.0.1:0", *gateway]
        self.gateway = Server(listens, env, agent)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as held:
            server = subprocess.Popen(
                nats_server.command(str(self._folder), port=self._port),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            held.callback(server.wait)
            held.callback(server.terminate)
            for part in (*self.workers, self.gateway):
                held.enter_context(part)
            self._held = held.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.close()

    def kill_holder(self) -> None:
        """Kills the worker that runs an agent, and all processes below it."""
        holder = max(self.workers, key=lambda worker: len(proctree.descendants(worker.pid)))
        below = proctree.descendants(holder.pid)
        for pid in (holder.pid, *below):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def address(self) -> str:
        """The address where clients connect."""
        return self.gateway.at("ws")

    @property
    def cpu_s(self) -> float:
        """CPU seconds so far of the gateway and the workers, agents aside."""
        return sum(part.cpu_s for part in (self.gateway, *self.workers))

    @property
    def workers_mb(self) -> float:
        """Megabytes of the workers and the processes below them, without agents."""
        return sum(part.pss_mb for part in self.workers)
