"""One cell: everything measured of one chain, once."""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import proctree
from benchmarks.chains import Cast, Chain, command
from benchmarks.metrics import Step
from benchmarks.session import Session
from benchmarks.stats import percentile

_SETTLED = 0.5
"""Seconds between the last message and the look at memory."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How much of everything. Sizes are bytes of prompt or update text."""

    rounds: int
    spawns: int
    slow_spawns: int
    echoes: int
    stream_count: int
    big_count: int
    warm_echoes: int = 30
    warm_stream: int = 500
    echo_bytes: int = 100
    stream_bytes: int = 200
    big_bytes: int = 1_000_000
    slow_ms: int = 300
    limit_s: int = 60


FULL = Workload(rounds=5, spawns=3, slow_spawns=2, echoes=500, stream_count=20_000, big_count=10)
QUICK = Workload(rounds=2, spawns=1, slow_spawns=1, echoes=100, stream_count=4_000, big_count=3)


@dataclass(slots=True)
class Cell:
    """A round's samples by metric key, and what was odd (never fatal)."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, key: str, value: float) -> None:
        """Records one sample of a metric."""
        self.samples.setdefault(key, []).append(value)


def environment(cache: Path, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The chain's environment: bytecode is cached, as on any installed system.

    Not beside the sources, though: nothing here writes into a source tree.
    """
    env = {name: value for name, value in own.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("PYTHONPYCACHEPREFIX", str(cache / "pycache"))
    return env


def warm_up(chain: Chain, cast: Cast, load: Workload, env: Mapping[str, str]) -> None:
    """Runs the chain once, so that compiled modules and bytecode are cached.

    Raises ChainError when the chain does not work at all.
    """
    with Session(cast.programs.client, command(chain, cast), env, load.limit_s) as session:
        session.open()
        session.echo(1, load.echo_bytes)
        session.stop()


def measure(
    chain: Chain, cast: Cast, load: Workload, steps: Collection[Step], env: Mapping[str, str]
) -> Cell:
    """All wished steps of one chain. Raises ChainError when the chain fails."""
    cell = Cell()
    client, limit_s = cast.programs.client, load.limit_s
    if Step.SLOW in steps:
        for _ in range(load.slow_spawns):
            with Session(client, command(chain, cast, load.slow_ms), env, limit_s) as session:
                cell.add("slow_ms", session.ready_ns / 1e6)
                if session.lag_ns >= 0:  # else the agent's word was lost on the way
                    cell.add("lag_ms", session.lag_ns / 1e6)
                session.stop()
    # The chain that lives on through the scenario is one of the spawns as well.
    spares = load.spawns - 1 if Step.READY in steps else 0
    for _ in range(spares):
        with Session(client, command(chain, cast), env, limit_s) as session:
            cell.add("ready_ms", session.ready_ns / 1e6)
            session.stop()
    with Session(client, command(chain, cast), env, limit_s) as session:
        if Step.READY in steps:
            cell.add("ready_ms", session.ready_ns / 1e6)
        if set(steps) - {Step.READY, Step.SLOW}:
            _scenario(cell, session, cast.programs.agent, load, steps)
        _farewell(cell, session)
    return cell


def _scenario(
    cell: Cell, session: Session, agent: Path, load: Workload, steps: Collection[Step]
) -> None:
    """What is measured in one session, in this order: memory has seen all the rest."""
    session.open()
    session.echo(load.warm_echoes, load.echo_bytes)
    if Step.ECHO in steps:
        trips = session.echo(load.echoes, load.echo_bytes)
        cell.add("echo_p50_us", percentile(trips, 0.5) / 1e3)
        cell.add("echo_p99_us", percentile(trips, 0.99) / 1e3)
    if Step.STREAM in steps:
        _stream(cell, session, agent, load)
    if Step.BIG in steps:
        session.echo(1, load.big_bytes)
        for trip in session.echo(load.big_count, load.big_bytes):
            cell.add("big_ms", trip / 1e6)
    if Step.MEMORY in steps and proctree.SUPPORTED:
        time.sleep(_SETTLED)  # all chains alike: what was only in flight is not what they hold
        memory = proctree.pss_mb(session.client_pid, agent)
        cell.add("pss_mb", memory.others)
        cell.add("pss_all_mb", memory.others + memory.agent)


def _stream(cell: Cell, session: Session, agent: Path, load: Workload) -> None:
    session.stream(load.warm_stream, load.stream_bytes)
    root = session.client_pid
    before = proctree.cpu(root, agent) if proctree.SUPPORTED else None
    elapsed = session.stream(load.stream_count, load.stream_bytes)
    cell.add("stream_per_s", load.stream_count / (elapsed / 1e9))
    if before is not None:
        after = proctree.cpu(root, agent)
        per_message = 1e6 / load.stream_count
        cell.add("cpu_us", (after.others - before.others) * per_message)
        cell.add("agent_cpu_us", (after.agent - before.agent) * per_message)


def _farewell(cell: Cell, session: Session) -> None:
    code = session.stop()
    if code != 0:
        cell.remarks.append(f"ended with {code} when its client left")
    if session.leftovers:
        cell.remarks.append("left processes behind")
    if session.late:
        cell.remarks.append(f"sent {session.late} updates after the answer closing their turn")
