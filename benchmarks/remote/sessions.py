"""Many sessions of one server: the weight of an idle session, and whether streams arrive whole."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.native import Programs
from benchmarks.remote.load import Load
from benchmarks.remote.servers import Server, serving, token
from benchmarks.session import Session, Tally

_SETTLED: Final = 1.0
_PROXIES: Final = ["passthrough"] * 4


@dataclass(frozen=True, slots=True)
class Weight:
    """Megabytes of a server with four sandboxed proxies a chain, agents aside."""

    first: float
    """With one session."""
    session: float
    """One more of the same user."""
    user: float
    """One more user, with a session."""


def weigh(
    programs: Programs,
    conductor: tuple[str, ...],
    load: Load,
    env: dict[str, str],
    folder: Path,
    *,
    share: bool,
) -> Weight:
    """Weighs idle sessions. Raises ChainError."""
    tokens = folder / f"tokens-{share}.toml"
    shown = [token(conductor, tokens, f"user-{number}") for number in range(load.users + 1)]
    extra = ["--tokens", str(tokens), *(["--share"] * share)]
    chain = [*_PROXIES, str(programs.agent)]
    command = serving(conductor, chain, "ws://127.0.0.1:0", extra=extra)
    with ExitStack() as held, Server(command, env, programs.agent) as server:

        def one_more(of: str) -> None:
            known = {**env, "BENCH_TOKEN": of}
            session = Session(programs.client, [server.at("ws")], known, load.limit_s)
            held.enter_context(session)
            session.open()
            session.turns(5, load.text_bytes)

        def settled() -> float:
            time.sleep(_SETTLED)
            return server.pss_mb

        one_more(shown[0])
        first = settled()
        for _ in range(load.more):
            one_more(shown[0])
        several = settled()
        for other in shown[1:]:
            one_more(other)
        return Weight(first, (several - first) / load.more, (settled() - several) / load.users)


@dataclass(frozen=True, slots=True)
class Crowd:
    """The result of streams in so many sessions at once, in one server."""

    sessions: int
    updates: int
    tally: Tally
    seconds: float
    cpu_us: float
    """CPU time of the server per update."""
    session_mb: float
    """The memory that one of the sessions has added to the server after its stream."""


def crowd(
    programs: Programs,
    conductor: tuple[str, ...],
    load: Load,
    env: dict[str, str],
    scheme: str,
) -> Crowd:
    """Has sessions stream at once, each over a connection and in a chain of its own. Raises
    ChainError."""
    # An HTTP client has a stream of its connection, a stream of its session, and requests.
    sockets = str(4 * load.sessions)
    extra = ["-c", f"serve.connections={load.sessions}", "-c", f"serve.sockets={sockets}"]
    command = serving(conductor, [str(programs.agent)], "ws://127.0.0.1:0", extra=extra)
    with ExitStack() as held, Server(command, env, programs.agent) as server:
        empty = server.pss_mb
        sessions = []
        for _ in range(load.sessions):
            session = Session(programs.client, [server.at(scheme)], env, load.limit_s)
            sessions.append(held.enter_context(session))
            session.open()
        began, used = time.monotonic(), server.cpu_s
        for session in sessions:
            session.begin_tally(load.updates_each, load.update_bytes)
        found = [session.tally() for session in sessions]
        elapsed, used = time.monotonic() - began, server.cpu_s - used
        updates = load.sessions * load.updates_each
        time.sleep(_SETTLED)
        held_mb = (server.pss_mb - empty) / load.sessions
        total = Tally(
            sum(one.lost for one in found),
            sum(one.doubled for one in found),
            sum(one.disordered for one in found),
        )
        return Crowd(load.sessions, updates, total, elapsed, used * 1e6 / updates, held_mb)
