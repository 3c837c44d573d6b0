"""One cell: all measures of one chain, once."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import proctree
from benchmarks.chains import ALONE, Cast, Chain, command
from benchmarks.metrics import Step
from benchmarks.session import ChainError, Session
from benchmarks.stats import percentile

_SETTLED: Final = 0.5
"""Seconds between the last message and the look at memory."""

_PACE: Final = 200
"""Updates a second where an agent writes as slowly as a model."""

_SLOW_MS: Final = 300
"""The start time of an agent that is no program in C; many take more."""

_IDLE_CPU_S: Final = 0.005
"""A chain that uses less in the time above has come to rest."""


@dataclass(frozen=True, slots=True)
class Workload:
    """How much of everything. Sizes are bytes of prompt or update text."""

    rounds: int
    spawns: int
    turns: int
    turns_each: int
    stream_count: int
    paced_count: int
    big_count: int
    unread_count: int
    prompts: int = 1_000
    sessions: int = 8
    warm_turns: int = 30
    warm_stream: int = 500
    turn_bytes: int = 100
    stream_bytes: int = 200
    big_bytes: int = 1_000_000
    unread_bytes: int = 10_000
    limit_s: int = 60


FULL: Final = Workload(
    rounds=5,
    spawns=3,
    turns=500,
    turns_each=60,
    stream_count=20_000,
    paced_count=400,
    big_count=10,
    unread_count=30_000,
)
QUICK: Final = Workload(
    rounds=2,
    spawns=1,
    turns=100,
    turns_each=15,
    stream_count=4_000,
    paced_count=200,
    big_count=3,
    unread_count=30_000,
)


@dataclass(slots=True)
class Cell:
    """A round's samples by metric key, and remarks (never fatal)."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, key: str, value: float) -> None:
        """Records one sample of a metric."""
        self.samples.setdefault(key, []).append(value)


def environment(cache: Path, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The chain's environment: bytecode is cached, as on any installed system.

    Not beside the sources, though: nothing here writes into a source tree. Nor is the state folder
    a user's own, which would fill up with prompts.
    """
    env = {name: value for name, value in own.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault("PYTHONPYCACHEPREFIX", str(cache / "pycache"))
    return env | {"XDG_STATE_HOME": str(cache / "state")}


def warm_up(chain: Chain, cast: Cast, load: Workload, env: Mapping[str, str]) -> None:
    """Runs the chain once, so that compiled modules and bytecode are cached.

    Raises ChainError when the chain does not work, or changes prompts other than it should.
    """
    with Session(cast.programs.client, command(chain, cast), env, load.limit_s) as session:
        session.open()
        if (blocks := session.blocks()) != chain.blocks:
            raise ChainError(f"the agent got a prompt of {blocks} blocks, not {chain.blocks}")
        session.stop()


def measure(
    chain: Chain, cast: Cast, load: Workload, steps: Collection[Step], env: Mapping[str, str]
) -> Cell:
    """All wished steps of one chain. Raises ChainError when the chain fails."""
    # Prompts that chains before it have kept would be looked through.
    with tempfile.TemporaryDirectory() as state:
        return _measured(chain, cast, load, steps, {**env, "XDG_STATE_HOME": state})


def _measured(
    chain: Chain, cast: Cast, load: Workload, steps: Collection[Step], env: Mapping[str, str]
) -> Cell:
    cell = Cell()
    agent = cast.programs.agent
    client, words = cast.programs.client, command(chain, cast)
    started = partial(Session, client, words, env, limit_s=load.limit_s)
    if Step.SLOW in steps:
        slow = {**env, "BENCH_AGENT_STARTS_MS": str(_SLOW_MS)}
        _slow(cell, partial(Session, client, words, slow, limit_s=load.limit_s), load)
    if Step.READY in steps and chain == ALONE:
        _python(cell, load, env)
    # The chain that lives on through the scenario is among the spawns, too.
    for _ in range(load.spawns - 1 if Step.READY in steps else 0):
        with started() as session:
            cell.add("ready_ms", session.ready_ns / 1e6)
            session.stop()
    if set(steps) - {Step.UNREAD, Step.SLOW}:
        with started() as session:
            if Step.READY in steps:
                cell.add("ready_ms", session.ready_ns / 1e6)
            if set(steps) - {Step.UNREAD, Step.SLOW, Step.READY}:
                _scenario(cell, session, agent, load, steps)
            _farewell(cell, session)
    if Step.UNREAD in steps and proctree.SUPPORTED:
        with started() as session:
            _unread(cell, session, agent, load)
            _farewell(cell, session)
    return cell


def _slow(cell: Cell, started: Callable[[], Session], load: Workload) -> None:
    """From the start of the client until a session is there: a user waits as long."""
    for _ in range(load.spawns):
        began = time.monotonic_ns()
        with started() as session:
            session.open()
            cell.add("slow_ms", (time.monotonic_ns() - began) / 1e6)
            session.stop()


def _python(cell: Cell, load: Workload, env: Mapping[str, str]) -> None:
    """A Python that does nothing: the least time that a program in Python takes to start."""
    for _ in range(load.spawns):
        began = time.monotonic_ns()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], env=env, check=True)
        cell.add("python_ms", (time.monotonic_ns() - began) / 1e6)


def _scenario(
    cell: Cell, session: Session, agent: Path, load: Workload, steps: Collection[Step]
) -> None:
    """The measures within one session, in this order: memory has seen all the rest."""
    session.open()
    session.turns(load.warm_turns, load.turn_bytes)
    if Step.TRIP in steps:
        trips = session.trips(load.turns, load.turn_bytes)
        cell.add("trip_us", percentile(trips, 0.5) / 1e3)
    if Step.OTHER in steps:
        session.trips(load.prompts, load.turn_bytes)
        cell.add("other_ms", session.other() / 1e6)
    if Step.TURN in steps:
        with _cpu(cell, "turn_cpu_us", 1e6 / load.turns, session, agent):
            turns = session.turns(load.turns, load.turn_bytes)
        cell.add("turn_us", percentile(turns, 0.5) / 1e3)
        cell.add("turn_p99_us", percentile(turns, 0.99) / 1e3)
    if Step.MANY in steps:
        session.many(load.sessions, 2, load.turn_bytes)
        elapsed = session.many(load.sessions, load.turns_each, load.turn_bytes)
        cell.add("many_us", elapsed / (load.sessions * load.turns_each) / 1e3)
    if Step.STREAM in steps:
        session.stream(load.warm_stream, load.stream_bytes)
        with _cpu(cell, "stream_cpu_us", 1e6 / load.stream_count, session, agent):
            elapsed = session.stream(load.stream_count, load.stream_bytes)
        cell.add("stream_per_s", load.stream_count / (elapsed / 1e9))
    if Step.PACED in steps:
        with _cpu(cell, "paced_cpu", 100 * _PACE / load.paced_count, session, agent):
            session.stream(load.paced_count, load.stream_bytes, pace=_PACE)
    if Step.BIG in steps:
        session.turns(1, load.big_bytes)
        for turn in session.turns(load.big_count, load.big_bytes):
            cell.add("big_ms", turn / 1e6)
    if Step.MEMORY in steps and proctree.SUPPORTED:
        time.sleep(_SETTLED)  # the same for all chains: messages in flight are not what they hold
        cell.add("pss_mb", proctree.pss_mb(session.client_pid, agent).others)


@contextmanager
def _cpu(cell: Cell, key: str, times: float, session: Session, agent: Path) -> Iterator[None]:
    """Records the CPU seconds that the chain used meanwhile, its agent aside, so many times."""
    if not proctree.SUPPORTED:
        yield
        return
    before = proctree.cpu(session.client_pid, agent).others
    yield
    after = proctree.cpu(session.client_pid, agent).others
    cell.add(key, (after - before) * times)


def _unread(cell: Cell, session: Session, agent: Path, load: Workload) -> None:
    """A client that has asked for much and reads nothing, until the chain rests; then all of it."""
    session.open()
    session.hold(load.unread_count, load.unread_bytes)
    used = 0.0
    deadline = time.monotonic() + load.limit_s
    while time.monotonic() < deadline:
        time.sleep(_SETTLED)
        usage = proctree.cpu(session.client_pid, agent)
        if usage.agent + usage.others - used < _IDLE_CPU_S:
            break
        used = usage.agent + usage.others
    else:
        raise ChainError(f"did not come to rest in {load.limit_s} s before a client that reads not")
    cell.add("unread_mb", proctree.pss_mb(session.client_pid, agent).others)
    session.drain()


def _farewell(cell: Cell, session: Session) -> None:
    code = session.stop()
    if code != 0:
        cell.remarks.append(f"ended with {code} when its client left")
    if session.leftovers:
        cell.remarks.append("left processes behind")
    if session.late:
        cell.remarks.append(f"sent {session.late} updates after the answer closing their turn")
