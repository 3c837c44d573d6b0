"""``python -m benchmarks.chaos``: see ../README.md."""

import itertools
import json
import sys
import time
from pathlib import Path
from random import Random

from benchmarks.chaos import endings, report, rounds, told, victims
from benchmarks.chaos.life import Life, StuckError
from benchmarks.chaos.options import Options, parse
from benchmarks.chaos.report import Summary
from benchmarks.chaos.script import Ending, LifePlan, draw_life, draw_round
from benchmarks.measure import environment
from benchmarks.native import BuildError, build_c


def main() -> int:
    """0; 1 when anything was lost, doubled, unanswered, left over …; 2 when nothing can run."""
    options = parse()
    if not victims.SUPPORTED:
        say("error: only Linux shows and holds processes as this needs\n\nhint: run it on Linux")
        return 2
    if options.conductor is None:
        say("error: no conductor found beside this Python\n\nhint: install it, or --conductor")
        return 2
    if options.links:
        from benchmarks.chaos import links

        victims.adopt_orphans()
        return report.shown(links.run(options, options.conductor, say), options.json)
    try:
        proxy = build_c(options.cache).proxy
    except BuildError as error:
        say(f"error: {error}\n\nhint: {error.hint}")
        return 2
    victims.adopt_orphans()
    if options.costs:
        from benchmarks.chaos import costs

        env = environment(options.cache)
        cache = options.cache / "modules"
        good = costs.run(options.minutes, options.seed, options.conductor, env, cache)
        return 0 if good else 1
    return report.shown(run(options, options.conductor, proxy), options.json)


def run(options: Options, conductor: tuple[str, ...], proxy: Path) -> Summary:
    """One life after the other until the time is over; a life that has begun ends in order."""
    summary = Summary(options.seed)
    env = environment(options.cache)
    start = time.monotonic()
    over = start + 60 * options.minutes
    numbers = itertools.count() if options.chain is None else (options.chain,)
    for number in numbers:
        if time.monotonic() > over:
            break
        rng = Random(f"{options.seed}/{number}")  # noqa: S311 - no secret is drawn
        plan = draw_life(rng)
        # With a trace a host of guests has no shortcut: half of all chains have a trace.
        trace = options.cache / "chaos.jsons" if number % 2 else None
        command = [*conductor, *arguments(plan, proxy, options.cache, trace)]
        say(f"chain {number}: {' '.join(plan.proxies)}, {plan.isolation}, "
            f"{plan.rounds} rounds, then {plan.ending.value}")  # fmt: skip
        life = Life(plan, command, env)
        life.wire.keeps = trace is not None
        live(number, plan, rng, life, over, summary, trace)
    summary.seconds = time.monotonic() - start
    return summary


def arguments(plan: LifePlan, proxy: Path, cache: Path, trace: Path | None = None) -> list[str]:
    """The conductor's arguments for a chain."""
    components = []
    for at, kind in enumerate(plan.proxies):
        if kind == "guest":
            components.append(f"passthrough,name=guest{at},on_failure=restart")
            continue
        spec = {
            "command": str(proxy),
            "args": [rounds.proxy_word(at)],
            "name": f"process{at}",
            "dialect": "acp",
            "on_failure": "restart",
        }
        components.append(json.dumps(spec))
    options = ["-c", f"isolation={plan.isolation}", "-c", f"cache={cache / 'modules'}"]
    if trace is not None:
        options += ["--trace", f"{trace}", "-c", "trace-content=all", "-c", "trace-size=none"]
    return ["agent", *options, *components, "demo,name=agent"]


def live(
    number: int,
    plan: LifePlan,
    rng: Random,
    life: Life,
    over: float,
    summary: Summary,
    trace: Path | None = None,
) -> None:
    """Plays one chain from its first message to its last process; adds the result to `summary`."""
    played = 0
    try:
        life.initialize()
        # At least one round: a slow machine needs all the time of a short run to start a chain.
        while not played or (played < plan.rounds and time.monotonic() < over):
            rounds.play(life, draw_round(rng, played), played)
            played += 1
        endings.compare_histories(life)
        endings.end(life)
    except StuckError as error:
        life.tally.failures += 1
        life.tally.trouble(f"chain {number}, round {played}: {error}")
    finally:
        life.release()
    summary.rounds += played
    life.ledger.close()
    endings.look_for_orphans(life)
    if trace is not None and plan.ending is not Ending.CONDUCTOR:
        told.compare(trace, life.wire.sent, life.wire.got, life.tally)
    _add(summary, life)


def _add(summary: Summary, life: Life) -> None:
    life.tally.messages = life.wire.lines
    if "Traceback (most recent" in life.wire.stderr:
        life.tally.failures += 1
        life.tally.trouble(f"a traceback: {life.wire.stderr[-1500:]}")
    summary.tally.add(life.tally)
    summary.lives += 1
    for what, count in life.harms.items():
        summary.harms[what] = summary.harms.get(what, 0) + count
    ending = life.plan.ending.value
    summary.endings[ending] = summary.endings.get(ending, 0) + 1
    memory = report.memory_of(life.memory)
    if memory is not None:
        summary.memory.append(memory)


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout holds the table only."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
