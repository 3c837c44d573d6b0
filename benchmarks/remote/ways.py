"""Round trips and streams by each way to a chain, one after the other in every round."""

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import proctree
from benchmarks.native import Programs
from benchmarks.remote.load import Load, Part
from benchmarks.remote.servers import Server, serving
from benchmarks.session import Session

STDIO: Final = "stdio"
SCHEMES: Final = ("unix", "tcp", "ws", "http")
RUST_WS: Final = "rust ws"
RUST_HTTP: Final = "rust http"


@dataclass(slots=True)
class Way:
    """A client at the end of one way, and its samples by name."""

    session: Session
    cpu_s: Callable[[], float]
    """CPU seconds so far of all processes between client and agent."""
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, key: str, value: float) -> None:
        """Records one sample."""
        self.samples.setdefault(key, []).append(value)

    def measured(self, key: str) -> float | None:
        """The median of a figure's samples."""
        return median(self.samples[key]) if key in self.samples else None

    def measure(self, load: Load, parts: Collection[Part]) -> None:
        """One round."""
        if Part.TRIP in parts:
            before = self.cpu_s()
            times = self.session.trips(load.trips, load.text_bytes)
            self.add("trip_us", median(times) / 1e3)
            self.add("trip_cpu_us", (self.cpu_s() - before) * 1e6 / load.trips)
        if Part.TURN in parts:
            self.add("turn_us", median(self.session.turns(load.turns, load.text_bytes)) / 1e3)
        if Part.STREAM in parts:
            before = self.cpu_s()
            elapsed = self.session.stream(load.updates, load.update_bytes)
            self.add("stream_per_s", load.updates / (elapsed / 1e9))
            self.add("stream_cpu_us", (self.cpu_s() - before) * 1e6 / load.updates)


def measure(
    programs: Programs,
    conductor: tuple[str, ...],
    rust: str | None,
    load: Load,
    parts: Collection[Part],
    env: dict[str, str],
    folder: Path,
    say: Callable[[str], None],
) -> dict[str, Way]:
    """All rounds of all ways. Raises ChainError."""
    agent = str(programs.agent)
    with ExitStack() as held:

        def way(address: str | None, server: Server | None) -> Way:
            command = [address] if address else [*conductor, "agent", agent]
            session = held.enter_context(Session(programs.client, command, env, load.limit_s))
            session.open()
            session.turns(3, load.text_bytes)
            session.stream(load.updates // 10, load.update_bytes)
            if server is not None:
                return Way(session, lambda: server.cpu_s)
            return Way(session, lambda: proctree.cpu(session.client_pid, programs.agent).others)

        places = ("ws://127.0.0.1:0", "tcp://127.0.0.1:0", f"unix:{folder / 'bench.sock'}")
        server = Server(serving(conductor, [agent], *places), env, programs.agent)
        held.enter_context(server)
        ways = {STDIO: way(None, None)}
        for scheme in SCHEMES:
            ways[scheme] = way(server.at(scheme), server)
        if rust is not None:
            peer = held.enter_context(Server([rust, "serve", agent], env, programs.agent))
            ways[RUST_WS] = way(peer.at("ws"), peer)
            ways[RUST_HTTP] = way(peer.at("http"), peer)
        for number in range(load.rounds):
            for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
                say(f"round {number + 1}/{load.rounds}: {name}")
                ways[name].measure(load, parts)
        for one in ways.values():
            one.session.stop()
    return ways
