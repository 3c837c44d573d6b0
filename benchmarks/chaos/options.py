"""The command line."""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.native import default_cache
from benchmarks.options import find_conductor


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    minutes: float
    seed: int
    chain: int | None
    """The number of the only chain of the seed to play; None: all until the time is over."""
    json: Path | None
    cache: Path
    conductor: tuple[str, ...] | None
    costs: bool = False
    """Guests that cost, instead of harm done to processes."""
    links: bool = False
    """Links between `conductor connect` and a server that get cut, instead."""


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; ends the program with usage and code 2 if it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chaos", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=2.0, help="how long (the last chain is ended in order)"
    )
    parser.add_argument("--seed", type=int, help="what is done is drawn from it (default: any)")
    parser.add_argument("--chain", type=int, help="only the chain of this number, to look closer")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="for what is built")
    parser.add_argument("--conductor", metavar="COMMAND", help="the build to be tried")
    parser.add_argument(
        "--costs", action="store_true", help="guests that cost, and what a neighbour sees of them"
    )
    parser.add_argument(
        "--links", action="store_true", help="cut links between editors and a server"
    )
    given = parser.parse_args(arguments)
    if given.minutes <= 0:
        parser.error("--minutes is above 0")
    seed = random.SystemRandom().randrange(1_000_000) if given.seed is None else given.seed
    conductor = find_conductor(given.conductor)
    return Options(
        minutes=given.minutes,
        seed=seed,
        chain=given.chain,
        json=given.json,
        cache=given.cache,
        conductor=conductor,
        costs=given.costs,
        links=given.links,
    )
