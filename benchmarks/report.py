"""Tables for people, JSON for machines."""

import os
import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.aims import AIMS
from benchmarks.chains import Chain, Keeps, Runner, counterpart
from benchmarks.measure import Workload
from benchmarks.metrics import METRICS, Metric, Step
from benchmarks.run import Results
from benchmarks.stats import Line, fit, ratio

_ABSENT = "-"
_GROWING = ("echo_p50_us", "cpu_us", "big_ms", "pss_mb")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they must be; the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join([first, *rest]).rstrip()

    return "\n".join([line(head), "  ".join("-" * width for width in widths), *map(line, rows)])


def figures(results: Results, chains: Sequence[Chain], steps: Collection[Step]) -> str:
    """One row a chain, one column a metric."""
    metrics = [metric for metric in METRICS if metric.step in steps]
    rows = []
    for chain in chains:
        values = [results.median(chain, metric.key) for metric in metrics]
        cells = [_number(v, m.decimals) for v, m in zip(values, metrics, strict=True)]
        rows.append([chain.label, *cells])
    return table(["chain", *(f"{metric.title} {metric.unit}" for metric in metrics)], rows)


def ratios(
    results: Results,
    chains: Sequence[Chain],
    steps: Collection[Step],
    other: Callable[[Chain], Chain | None] = counterpart,
) -> str:
    """One row for each chain that has an ``other``, by default the reference's: divided by that.

    Empty when there is none.
    """
    # The agent is the same program in both; its share is no merit of the conductor.
    aside = {"agent_cpu_us", "pss_all_mb"}
    metrics = [metric for metric in METRICS if metric.step in steps and metric.key not in aside]
    rows = []
    for chain in chains:
        against = other(chain)
        values = [_divided(results, chain, against, metric.key) for metric in metrics]
        if against is not None and any(value is not None for value in values):
            rows.append([chain.label, against.label, *(_number(value, 2) for value in values)])
    head = ["ratio", "to", *(metric.title for metric in metrics)]
    return table(head, rows) if rows else ""


def per_proxy(results: Results, chains: Sequence[Chain], steps: Collection[Step]) -> str:
    """What one more proxy costs: slope and fit of the line through each row of chains.

    Empty when no row has three chains.
    """
    metrics = [m for m in METRICS if m.key in _GROWING and m.step in steps]
    rows = []
    for row in dict.fromkeys((chain.runner, chain.kind) for chain in chains if chain.proxies):
        lines = [_line(results, chains, row, metric) for metric in metrics]
        if any(lines):
            cells = [
                _ABSENT if line is None else f"{line.slope:.{m.decimals + 1}f} ({line.r2:.2f})"
                for line, m in zip(lines, metrics, strict=True)
            ]
            rows.append([f"{row[0]} {row[1]}", *cells])
    head = ["one more proxy (fit)", *(f"{metric.title} {metric.unit}" for metric in metrics)]
    return table(head, rows) if rows else ""


def acceptance(results: Results) -> str:
    """The aims: bound, figure of this run, verdict."""
    rows = []
    for aim in AIMS:
        value = aim.measured(results)
        verdict = "not measured" if value is None else "ok" if aim.met(value) else "NOT MET"
        bound = f"{aim.sign} {aim.bound:g} {aim.unit}"
        measured = _ABSENT if value is None else f"{value:.2f} {aim.unit}"
        rows.append([aim.text, bound, measured, verdict])
    return table(["aim", "bound", "measured", "verdict"], rows)


def troubles(results: Results) -> str:
    """Failures and remarks, a line or more each; empty when all went well."""
    lines = [f"{chain.label} FAILED: {text}" for chain, text in results.failures.items()]
    for chain, remarks in results.remarks.items():
        lines += [f"{chain.label}: {remark}" for remark in remarks]
    return "\n".join(lines)


def legend(steps: Collection[Step]) -> str:
    """What the columns mean."""
    shown = [metric for metric in METRICS if metric.step in steps]
    return "\n".join(f"  {m.title:7} {m.unit:3} {m.meaning}" for m in shown)


def as_json(
    results: Results, chains: Sequence[Chain], load: Workload, isolation: str
) -> dict[str, Any]:
    """The run as plain data: medians, the rounds behind them, ratios, aims.

    No path, host name or time: two runs on one machine differ in figures only.
    """
    aims = []
    for aim in AIMS:
        value = aim.measured(results)
        aims.append(
            {
                "aim": aim.text,
                "bound": f"{aim.sign} {aim.bound:g} {aim.unit}",
                "measured": value,
                "met": None if value is None else aim.met(value),
            }
        )
    return {
        "machine": {
            "system": platform.system(),
            "arch": platform.machine(),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
        },
        "workload": asdict(load),
        "isolation": isolation,
        "units": {metric.key: metric.unit for metric in METRICS},
        "chains": [_chain_json(results, chain) for chain in chains],
        "aims": aims,
    }


def _chain_json(results: Results, chain: Chain) -> dict[str, Any]:
    keys = [metric.key for metric in METRICS if metric.key in results.rounds.get(chain, {})]
    against = counterpart(chain)
    relative = {key: _divided(results, chain, against, key) for key in keys}
    return {
        "runner": chain.runner.value,
        "kind": chain.kind.value,
        "proxies": chain.proxies,
        "keeps": chain.keeps.value,
        "medians": {key: results.median(chain, key) for key in keys},
        "rounds": {key: results.rounds[chain][key] for key in keys},
        "to_reference": {key: value for key, value in relative.items() if value is not None},
        "failure": results.failures.get(chain),
        "remarks": results.remarks.get(chain, []),
    }


def _divided(results: Results, chain: Chain, other: Chain | None, key: str) -> float | None:
    if other is None:
        return None
    return ratio(results.median(chain, key), results.median(other, key))


def _line(
    results: Results, chains: Sequence[Chain], row: tuple[Runner, str], metric: Metric
) -> Line | None:
    points = []
    for chain in chains:
        # The chain without a proxy starts the row of every kind of the same runner.
        ours = chain.runner is row[0] and chain.keeps is Keeps.RING
        if ours and (chain.proxies == 0 or chain.kind == row[1]):
            value = results.median(chain, metric.key)
            if value is not None:
                points.append((float(chain.proxies), value))
    return fit(points)


def _number(value: float | None, decimals: int) -> str:
    return _ABSENT if value is None else f"{value:,.{decimals}f}"
