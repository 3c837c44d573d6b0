"""``python -m benchmarks.fleet.simulation``: the breaks of a fleet, and the changes against
them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.simulation import findings, picture, report
from benchmarks.fleet.simulation.shape import CHANGED, FIRST, Use


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the tables; with ``--picture`` draws them too."""
    given = _parser().parse_args(arguments)
    sizes = findings.SIZES[:5] if given.quick else findings.SIZES
    workers, use = sizes[-1], Use()
    steady = findings.parts(workers, use)
    sudden = findings.sudden(sizes, use, given.seed)
    print(report.tables(steady, sudden, workers))
    shares = [
        findings.waiting_share(workers, use, design, given.seed) for design in (FIRST, CHANGED)
    ]
    print(
        f"\nOf the rooms opened in an election, {shares[0]:.0%} wait for it;"
        f" changed: {shares[1]:.0%}."
    )
    if given.picture is not None:
        given.picture.write_text(picture.draw(steady, sudden, workers), encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fleet.simulation",
        description="Models a fleet of 10,000 workers and a million sessions with measured costs.",
    )
    parser.add_argument("--quick", action="store_true", help="up to 1,000 workers")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--picture", type=Path, metavar="SVG", help="draw the tables there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
