"""The tables of the simulation, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.fleet.simulation.findings import CHANGES, Row


def tables(steady: Sequence[Row], sudden: Sequence[Row], workers: int) -> str:
    """Both tables."""
    return "\n".join(
        [
            f"| steady | limit | {workers:,} workers use | breaks with | change | then | and |",
            "|---|--:|--:|--:|---|--:|--:|",
            *(
                f"| {row.name} ({row.words}) | {row.limit:.0%} | {_share(row.first)}"
                f" | {_workers(row.first_breaks)} | {CHANGES[row.name]}"
                f" | {_share(row.changed)} | {_workers(row.changed_breaks)} |"
                for row in steady
            ),
            "",
            f"| sudden: 99 of 100 | limit | {workers:,} workers | from | change | then | and |",
            "|---|--:|--:|--:|---|--:|--:|",
            *(
                f"| {row.name} | {row.limit:.0f} s | {row.first:.1f} s"
                f" | {_workers(row.first_breaks)} | {CHANGES[row.name]}"
                f" | {row.changed:.1f} s | {_workers(row.changed_breaks)} |"
                for row in sudden
            ),
        ]
    )


def _share(used: float) -> str:
    return f"{used:.1%}" if used < 0.1 else f"{used:.0%}"


def _workers(count: int | None) -> str:
    return "never" if count is None else f"{float(f'{count:.2g}'):,.0f}"
