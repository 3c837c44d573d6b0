"""One round of a life: turns and harms at the same time, then proof that the chain still serves."""

import signal
import time
from collections.abc import Callable

from benchmarks.chaos import victims
from benchmarks.chaos.life import Life, StuckError
from benchmarks.chaos.script import Blow, Harm, Round, chat

HOST, AGENT = "conductor.run.segment", "agent.py"
"""Words in the command lines of these processes."""


def proxy_word(number: int) -> str:
    """The word in the command line of the proxy process in this place."""
    return f"chaos-proxy-{number}"


def play(life: Life, plan: Round, number: int) -> None:
    """Plays the round to its end. Raises `StuckError` when something is left open."""
    life.killed.clear()
    life.hold_permissions = plan.hold_permissions
    sessions = [life.session() for _ in plan.turns]
    for blow in plan.blows:
        life.later(blow.after, _blow(life, blow))
    for session, turn in zip(sessions, plan.turns, strict=True):
        life.prompt(session, turn)
    for at in range(plan.unknown):
        entry = {"what": f"unknown method {number}.{at}", "code": -32601}
        life.request("_chaos/nobody", {"round": number, "at": at}, entry)
    life.until_quiet()
    _prove(life, number)
    life.memory.append(victims.pss_mb(life.wire.process.pid))


def _prove(life: Life, number: int) -> None:
    """A turn must go through: each kill may cost one turn, if it is noticed only then."""
    for attempt in range(len(life.killed) + 2):
        entry = life.prompt(life.session(), chat(f"{number}.proof.{attempt}", 0))
        life.until_answered([entry])
        if entry.good:
            return
    raise StuckError(f"the chain does not serve after round {number}: {entry.answer}")


def _blow(life: Life, blow: Blow) -> Callable[[], None]:
    return lambda: _BLOWS[blow.harm](life, blow)


def _pick(life: Life, blow: Blow, word: str) -> int | None:
    pids = victims.below(life.wire.process.pid, word)
    return pids[blow.pick % len(pids)] if pids else None


def _proxy_place(life: Life, blow: Blow) -> int:
    places = [at for at, kind in enumerate(life.plan.proxies) if kind == "process"]
    return places[blow.pick % len(places)]


def _kill_host(life: Life, blow: Blow) -> None:
    if (pid := _pick(life, blow, HOST)) is not None:
        life.kill(pid, "guests")


def _kill_proxy(life: Life, blow: Blow) -> None:
    place = _proxy_place(life, blow)
    if (pid := _pick(life, blow, proxy_word(place))) is not None:
        life.kill(pid, f"process{place}")


def _stall(life: Life, pid: int | None, blow: Blow) -> None:
    if pid is not None and victims.send(pid, signal.SIGSTOP):
        life.count(blow.harm.value)
        life.later(blow.lasts, lambda: _go_on(pid))


def _go_on(pid: int) -> None:
    victims.send(pid, signal.SIGCONT)


def _stall_host(life: Life, blow: Blow) -> None:
    _stall(life, _pick(life, blow, HOST), blow)


def _stall_proxy(life: Life, blow: Blow) -> None:
    _stall(life, _pick(life, blow, proxy_word(_proxy_place(life, blow))), blow)


def _stall_agent(life: Life, blow: Blow) -> None:
    _stall(life, _pick(life, blow, AGENT), blow)


def _stall_conductor(life: Life, blow: Blow) -> None:
    _stall(life, life.wire.process.pid, blow)


def _deaf(life: Life, blow: Blow) -> None:
    life.wire.deaf_until = time.monotonic() + blow.lasts
    life.count(blow.harm.value)


def _swap(life: Life, blow: Blow) -> None:
    if victims.send(life.wire.process.pid, signal.SIGHUP):
        life.count(blow.harm.value)


_BLOWS: dict[Harm, Callable[[Life, Blow], None]] = {
    Harm.KILL_HOST: _kill_host,
    Harm.KILL_PROXY: _kill_proxy,
    Harm.STALL_HOST: _stall_host,
    Harm.STALL_PROXY: _stall_proxy,
    Harm.STALL_AGENT: _stall_agent,
    Harm.STALL_CONDUCTOR: _stall_conductor,
    Harm.DEAF_CLIENT: _deaf,
    Harm.SWAP: _swap,
}
