"""The table for people, JSON for machines."""

from collections.abc import Mapping
from typing import Any, Final

from benchmarks.languages.measure import FIGURES, Found

AIM_US: Final = 150
AIM: Final = f"a message of 300 bytes through sandboxed Python in at most {AIM_US} µs"


def table(found: Mapping[str, Found]) -> str:
    """A row for each language by its label, a column for each figure; then the meanings."""
    shown = [one for one in FIGURES if any(one.key in each.samples for each in found.values())]
    lines = [
        f"| | {' | '.join(f'{one.title} {one.unit}' for one in shown)} |",
        f"|---|{'--:|' * len(shown)}",
    ]
    for label, each in found.items():
        if each.problem:
            lines.append(f"| {label} | {each.problem} {'|' * len(shown)}")
            continue
        cells = [_number(each.median(one.key), one.decimals) for one in shown]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    meanings = [f"  {one.title:13} {one.unit:2} {one.meaning}" for one in shown]
    return "\n".join([*lines, "", *meanings])


def aim(python: Found | None) -> str:
    """The aim, and whether this run met it."""
    said = worst(python)
    if said is None:
        return f"aim: {AIM}: not measured"
    return f"aim: {AIM}: {said:.0f} µs, {'met' if said <= AIM_US else 'missed'}"


def worst(found: Found | None) -> float | None:
    """Microseconds of the slowest kind of small message; None: not measured."""
    keys = ("prompt_us", "update_us", "answer_us")
    each = [found.median(key) for key in keys] if found is not None else []
    measured = [value for value in each if value is not None]
    return max(measured) if measured else None


def as_json(found: Mapping[str, Found]) -> dict[str, Any]:
    """Medians, the rounds behind them, and why rows are missing, by label."""
    return {
        label: {
            "problem": each.problem,
            "medians": {key: each.median(key) for key in each.samples},
            "rounds": each.samples,
        }
        for label, each in found.items()
    }


def _number(value: float | None, decimals: int) -> str:
    return "" if value is None else f"{value:,.{decimals}f}"
