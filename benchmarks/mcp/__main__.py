"""``python -m benchmarks.mcp``: see README.md."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.mcp.ways import WAYS, Plain, Shim, Way, WayError
from benchmarks.options import find_conductor
from benchmarks.stats import percentile, ratio

_OPEN: Final = 32
"""Calls open at a time when the calls of a second are counted."""

_AIM: Final = 1.5


@dataclass(slots=True)
class Figures:
    """One figure a round: microseconds of a call, and calls of a second."""

    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)


def measure(way: Way, count: int, figures: Figures) -> None:
    """One round of one way: connects, warms up, measures."""
    with way:
        way.calls(max(count // 10, 10), 1)
        alone = [each / 1000 for each in way.calls(count, 1).each]
        many = way.calls(count, _OPEN)
    figures.p50.append(median(alone))
    figures.p99.append(percentile(alone, 0.99))
    figures.per_s.append(count / (many.all / 1e9))


def table(found: dict[type[Way], Figures]) -> str:
    """The figures, and each way's latency beside the yardstick's."""
    base = median(found[Plain].p50) if Plain in found else None
    lines = [
        "| way | call p50 µs | p99 µs | calls/s | p50 : plain |",
        "|---|--:|--:|--:|--:|",
    ]
    for way, figures in found.items():
        times = ratio(median(figures.p50), base)
        lines.append(
            f"| {way.label} | {median(figures.p50):.0f} | {median(figures.p99):.0f} "
            f"| {median(figures.per_s):.0f} | {'' if times is None else f'{times:.2f}'} |"
        )
    if Plain in found and Shim in found:
        times = ratio(median(found[Shim].p50), base)
        met = "met" if times is not None and times <= _AIM else "missed"
        lines.append(f"\naim: through the shim at most {_AIM} times the plain server's: {met}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit code: 0, or 1 if a way failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mcp", description=__doc__)
    parser.add_argument("--calls", type=int, default=2000, metavar="N", help="a round")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--quick", action="store_true", help="300 calls, one round")
    parser.add_argument("--conductor", metavar="COMMAND")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    conductor = find_conductor(given.conductor)
    if conductor is None:
        parser.error("conductor is not installed; hint: pip install -e .")
    count, rounds = (300, 1) if given.quick else (given.calls, given.rounds)
    found: dict[type[Way], Figures] = {}
    failed = 0
    for number in range(rounds):
        for way in WAYS if number % 2 == 0 else reversed(WAYS):
            figures = Figures()
            try:
                measure(way(conductor), count, found.get(way, figures))
            except (WayError, OSError) as error:
                failed = 1
                print(f"{way.label} failed: {error}", file=sys.stderr)
            else:
                found.setdefault(way, figures)
    found = {way: found[way] for way in WAYS if way in found}
    print(table(found))
    if given.json is not None:
        held = {way.label: vars_of(figures) for way, figures in found.items()}
        given.json.write_text(json.dumps(held, indent=2) + "\n", "utf-8")
    return failed


def vars_of(figures: Figures) -> dict[str, list[float]]:
    """The figures of all rounds by name."""
    return {name: getattr(figures, name) for name in ("p50", "p99", "per_s")}


if __name__ == "__main__":
    sys.exit(main())
