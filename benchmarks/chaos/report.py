"""The table, and the same as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.ledger import FAULTS, SUMMED, Tally
from benchmarks.stats import fit

_SETTLED = 3
"""Rounds before a chain's memory counts: buffers and caches are filled then."""

_LEAST = 20
"""The least rounds in the later half of a life that give its memory a trend."""


@dataclass(frozen=True, slots=True)
class Memory:
    """PSS of one conductor over its rounds, in MB (10^6 bytes)."""

    least: float
    most: float
    trend: float | None
    """MB per 100 rounds over the later half, by least squares; None for a life too short."""
    rounds: int


@dataclass(slots=True)
class Summary:
    """A whole run."""

    seed: int
    lives: int = 0
    rounds: int = 0
    seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    harms: dict[str, int] = field(default_factory=dict)
    endings: dict[str, int] = field(default_factory=dict)
    memory: list[Memory] = field(default_factory=list)


def memory_of(samples: Sequence[float]) -> Memory | None:
    """The memory of one conductor; None where it was not seen."""
    settled = [sample for sample in samples[_SETTLED:] if sample]
    if not settled:
        return None
    later = settled[len(settled) // 2 :]  # floods fill the allocator first, then it stays
    enough = len(later) >= _LEAST
    line = fit([(float(at), sample) for at, sample in enumerate(later)]) if enough else None
    trend = None if line is None else 100 * line.slope
    return Memory(min(settled), max(settled), trend, len(settled))


def shown(summary: Summary, file: Path | None) -> int:
    """Prints the account of the run and writes it to the file; the exit code of the program."""
    print(table(summary))
    if file is not None:
        file.write_text(json.dumps(as_json(summary), indent=1) + "\n")
    return 1 if summary.tally.faults else 0


def table(summary: Summary) -> str:
    """The account of the run, for people."""
    tally = summary.tally
    rows: list[tuple[str, object]] = [
        ("seed", summary.seed),
        ("chains / rounds", f"{summary.lives} / {summary.rounds}"),
        ("seconds", f"{summary.seconds:.0f}"),
        ("messages at the client", f"{tally.messages:,}"),
        ("requests", f"{tally.requests:,}"),
        ("  answered ok", f"{tally.ok:,}"),
        ("  refused as asked", f"{tally.refused:,}"),
        *((f"  error: {cause}", f"{n:,}") for cause, n in sorted(tally.errors.items())),
        ("permissions asked", f"{tally.permissions:,}"),
        ("updates after a failed turn's answer", f"{tally.cut_updates:,}"),
        *((f"done: {what}", f"{n:,}") for what, n in sorted(summary.harms.items())),
        *((f"ended by: {what}", n) for what, n in sorted(summary.endings.items())),
        *((name, getattr(tally, name)) for name in FAULTS),
        ("memory of the conductor", _memory(summary.memory)),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return "\n".join([*lines, *tally.troubles])


def as_json(summary: Summary) -> dict[str, Any]:
    """The account of the run, for machines."""
    tally = summary.tally
    return {
        "seed": summary.seed,
        "lives": summary.lives,
        "rounds": summary.rounds,
        "seconds": summary.seconds,
        **{name: getattr(tally, name) for name in SUMMED},
        "errors": dict(tally.errors),
        "harms": summary.harms,
        "endings": summary.endings,
        "memory_mb": [
            {"min": one.least, "max": one.most, "per_100_rounds": one.trend, "rounds": one.rounds}
            for one in summary.memory
        ],
        "troubles": tally.troubles,
    }


def _memory(memory: Sequence[Memory]) -> str:
    if not memory:
        return "not seen"
    least, most = min(one.least for one in memory), max(one.most for one in memory)
    text = f"{least:.1f} to {most:.1f} MB"
    longest = max(memory, key=lambda one: one.rounds)
    if longest.trend is None:
        return f"{text}; no life was long enough for a trend"
    return (
        f"{text}; the longest life: {longest.least:.1f} to {longest.most:.1f} MB, "
        f"{longest.rounds} rounds, trend of the later half {longest.trend:+.2f} MB per 100 rounds"
    )
