"""``python -m benchmarks.fleet``: see ../README.md."""

import argparse
import asyncio
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from websockets.asyncio.client import connect

import benchmarks
from benchmarks import history, proctree
from benchmarks.fleet import idle
from benchmarks.fleet.bare import Bare
from benchmarks.fleet.parts import Fleet
from benchmarks.measure import environment
from benchmarks.native import BuildError, Programs, build_c, default_cache
from benchmarks.options import find_conductor
from benchmarks.remote.__main__ import say
from benchmarks.remote.report import Goal
from benchmarks.remote.servers import Server, serving, token
from benchmarks.session import ChainError, Session

_PROXIES = ["passthrough"] * 4
_SETTLED = 2.0
_QUIET = 0.2
"""Seconds for leftovers of the connection before to end."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much is measured."""

    rounds: int = 5
    trips: int = 400
    updates: int = 5_000
    places: int = 10
    """Users that come for the first time."""
    kills: int = 3
    """In a minute, at most: a chain gives up then."""
    sessions: int = 1_000
    users: int = 10
    each: int = 10
    """Sessions of one connection."""
    workers: int = 4
    text_bytes: int = 100
    update_bytes: int = 200
    limit_s: int = 120


QUICK = Load(rounds=1, trips=50, updates=500, places=2, kills=1, sessions=20, users=2, workers=2)


class Run:
    """One run: its findings, as goals."""

    def __init__(
        self, programs: Programs, conductor: tuple[str, ...], load: Load, cache: Path, folder: Path
    ) -> None:
        self._programs, self._conductor, self._load = programs, conductor, load
        self._env = environment(cache)
        self._folder = folder
        self.goals: list[Goal] = []

    def trips(self) -> None:
        """Round trips and streams, through a fleet of one worker and through one server."""
        load, agent = self._load, str(self._programs.agent)
        store = self._folder / "trips"
        store.mkdir()
        fleet = Fleet(self._conductor, [agent], self._env, self._programs.agent, store)
        served = Server(
            serving(self._conductor, [agent], "ws://127.0.0.1:0"), self._env, self._programs.agent
        )
        with ExitStack() as held:
            for part in (fleet, served):
                held.enter_context(part)
            bare = held.enter_context(Bare(fleet.nats))
            ways = {"fleet": fleet.address, "one server": served.at("ws")}
            sessions = {}
            for name, address in ways.items():
                session = Session(self._programs.client, [address], self._env, load.limit_s)
                sessions[name] = held.enter_context(session)
                session.open()
                session.turns(3, load.text_bytes)
                session.stream(load.updates // 10, load.update_bytes)
            found: dict[str, list[float]] = {}
            for number in range(load.rounds):
                say(f"round {number + 1}/{load.rounds}")
                found.setdefault("bare", []).append(bare.microseconds(load.trips, 300))
                for name in sorted(sessions, reverse=bool(number % 2)):
                    session = sessions[name]
                    times = session.trips(load.trips, load.text_bytes)
                    found.setdefault(f"trip {name}", []).append(median(times) / 1e3)
                    elapsed = session.stream(load.updates, load.update_bytes)
                    each = elapsed / 1e3 / load.updates
                    found.setdefault(f"stream {name}", []).append(each)
        middle = {name: median(values) for name, values in found.items()}
        bare_us = 2 * middle["bare"]
        self.goals += [
            Goal("round trip, µs, against two bare requests", middle["trip fleet"], bare_us, 2.0),
            Goal("… against one server", middle["trip fleet"], middle["trip one server"]),
            Goal(
                "an update streamed, µs, against one server",
                middle["stream fleet"],
                middle["stream one server"],
            ),
        ]

    def places(self) -> None:
        """The further cost of a user's first connection, compared with one server."""
        load, agent = self._load, str(self._programs.agent)
        store = self._folder / "places"
        store.mkdir()
        tokens = self._folder / "placed.toml"
        shown = [token(self._conductor, tokens, f"user-{n}") for n in range(load.places + 1)]
        extra = ["--tokens", str(tokens)]
        fleet = Fleet(
            self._conductor, [agent], self._env, self._programs.agent, store, gateway=extra
        )
        command = serving(self._conductor, [agent], "ws://127.0.0.1:0", extra=extra)
        served = Server(command, self._env, self._programs.agent)
        times: dict[str, list[float]] = {"first": [], "again": [], "served": []}
        with fleet, served:
            for number, of in enumerate(shown):
                for name, address in (
                    ("first", fleet.address),
                    ("again", fleet.address),
                    ("served", served.at("ws")),
                ):
                    took = self._opened(address, of)
                    if number:  # the first connection warms all up
                        times[name].append(took)
        first, again, alone = (median(times[name]) for name in ("first", "again", "served"))
        self.goals += [
            Goal("place a room: a user's first connection, beside the second", first - again, None,
                 5.0, "ms"),
            Goal("a user's first connection, ms, against one server", first, alone),
        ]  # fmt: skip

    def _opened(self, address: str, of: str) -> float:
        """Milliseconds of a client that connects, and opens a session."""
        env = {**self._env, "BENCH_TOKEN": of}
        time.sleep(_QUIET)
        began = time.perf_counter_ns()
        with Session(self._programs.client, [address], env, self._load.limit_s) as session:
            session.open()
            return (time.perf_counter_ns() - began) / 1e6

    def recover(self) -> None:
        """Kills workers, and asks until a prompt of the session that was there is answered."""
        load = self._load
        agent = shlex.join([sys.executable, "-m", "benchmarks.fleet.lasting"])
        store = self._folder / "kills"
        store.mkdir()
        fleet = Fleet(
            self._conductor,
            [agent],
            {**self._env, "PYTHONPATH": str(Path(benchmarks.__file__).parents[1])},
            self._programs.agent,
            store,
            workers=load.kills + 1,
        )

        async def kill() -> list[float]:
            times = []
            async with connect(fleet.address) as socket:
                client = idle.Client(socket)
                await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
                await client.ask("session/new", {"cwd": "/", "mcpServers": []})
                prompt = {"sessionId": "lasting", "prompt": [{"type": "text", "text": "go on"}]}
                await client.ask("session/prompt", prompt)
                for _ in range(load.kills):
                    fleet.kill_holder()
                    began = time.perf_counter()
                    while "result" not in await client.ask("session/prompt", prompt):
                        pass
                    times.append(time.perf_counter() - began)
                    await asyncio.sleep(_SETTLED)
            return times

        with fleet:
            times = asyncio.run(kill())
        text = "worker killed -9: next prompt answered, the slowest of"
        self.goals.append(Goal(f"{text} {load.kills}", max(times), None, 3.0, "s"))

    def weigh(self) -> None:
        """Idle sessions of several users on several workers."""
        load, agent = self._load, str(self._programs.agent)
        store = self._folder / "idle"
        store.mkdir()
        tokens = self._folder / "idle.toml"
        shown = [token(self._conductor, tokens, f"user-{n}") for n in range(load.users)]
        most = load.sessions
        limit = ["-c", f"serve.connections={most}"]
        fleet = Fleet(
            self._conductor,
            [*_PROXIES, agent],
            self._env,
            self._programs.agent,
            store,
            workers=load.workers,
            gateway=["--tokens", str(tokens), *limit, "-c", f"serve.all-connections={most}"],
            worker=["--share", *limit],
        )

        async def hold() -> float:
            held = asyncio.Event()
            per_user = load.sessions // load.users
            opening = asyncio.ensure_future(
                idle.opened(fleet.address, shown, per_user, load.each, held)
            )
            waiting = asyncio.ensure_future(held.wait())
            await asyncio.wait([opening, waiting], return_when=asyncio.FIRST_COMPLETED)
            if opening.done():
                await opening
            await asyncio.sleep(_SETTLED)
            found = fleet.workers_mb
            opening.cancel()
            return found

        with fleet:
            empty = fleet.workers_mb
            each = (asyncio.run(hold()) - empty) / load.sessions
        text = f"{load.sessions} idle sessions of {load.users} users on {load.workers} workers"
        self.goals.append(Goal(f"{text}, four sandboxed: each", each, None, 3.0, "MB"))


_PARTS: Final = {
    "trip": Run.trips,
    "place": Run.places,
    "recover": Run.recover,
    "idle": Run.weigh,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Performs the command line. Returns 0; 1 when something failed; 2 when nothing can run."""
    given = _parser().parse_args(arguments)
    load = QUICK if given.quick else Load()
    if given.rounds is not None:
        load = replace(load, rounds=given.rounds)
    conductor = find_conductor(given.conductor)
    if conductor is None:
        say("error: there is no conductor beside this Python\n\nhint: pip install -e '.[fleet]'")
        return 2
    about = history.machine()
    try:
        programs = build_c(given.cache)
        with tempfile.TemporaryDirectory() as aside:
            run = Run(programs, conductor, load, given.cache, Path(aside))
            for name in given.only.split(","):
                if name not in _PARTS:
                    say(f"error: there is no part `{name}`\n\nhint: {', '.join(_PARTS)}")
                    return 2
                say(name)
                _PARTS[name](run)
    except BuildError as error:
        say(f"error: {error}\n\nhint: {error.hint}")
        return 2
    except ChainError as error:
        say(f"error: {error}")
        return 1
    if not proctree.SUPPORTED:
        say("note: memory is measured on Linux only")
    print(f"load average at the start {about['load']}\n")
    print("| goal | other | ours | ratio | should be | |\n|---|--:|--:|--:|--:|---|")
    for goal in run.goals:
        print(goal.row())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet",
        description="Measures a fleet on this machine beside one server, and beside bare NATS.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="one round, small sizes")
    add("--rounds", type=int, metavar="N", help=f"default {Load().rounds}")
    add("--only", default=",".join(_PARTS), metavar="PARTS", help=", ".join(_PARTS))
    add("--conductor", metavar="COMMAND", help="default: the one beside this Python")
    add("--cache", type=Path, default=default_cache(), help="where built programs are kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())
