"""Tables for people, JSON for machines."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmarks.chains import Chain, Keeps, Runner, counterpart
from benchmarks.goals import GOALS, Goal
from benchmarks.measure import Workload
from benchmarks.metrics import METRICS, Metric, Step
from benchmarks.plan import Plan, before
from benchmarks.results import Results
from benchmarks.stats import Line, fit, median, ratio

_ABSENT: Final = "-"
_GROWING: Final = ("trip_us", "stream_cpu_us", "big_ms", "pss_mb")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as needed; the first to the left, the others to the right.

    Empty without rows.
    """
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join([first, *rest]).rstrip()

    whole = [line(head), "  ".join("-" * width for width in widths), *map(line, rows)]
    return "\n".join(whole) if rows else ""


def goals(results: Results, shown: Sequence[Goal]) -> str:
    """The goals of a run: figures, ratio, goal, verdict."""
    bases = {
        Runner.RELAY: "bare relay",
        Runner.REFERENCE: "reference",
        Runner.ALONE: "alone",
    }
    by_base: dict[str, list[list[str]]] = {}
    for goal in shown:
        base = bases.get(goal.against.runner, "nothing kept")
        by_base.setdefault(base, []).append(_row(goal, results))
    parts = [
        table(["against", base, "measured", "ratio", "goal", ""], rows)
        for base, rows in by_base.items()
    ]
    return "\n\n".join(part for part in parts if part)


def figures(results: Results, plan: Plan) -> str:
    """One row a chain, one column a metric."""
    metrics = _metrics(plan)
    rows = []
    for chain in plan:
        values = [results.median(chain, metric.key) for metric in metrics]
        cells = [_number(v, m.decimals) for v, m in zip(values, metrics, strict=True)]
        rows.append([chain.label, *cells])
    return table(["chain", *(f"{metric.title} {metric.unit}" for metric in metrics)], rows)


def ratios(results: Results, plan: Plan) -> str:
    """One row for each chain with a counterpart of the reference: the figures divided by the
    counterpart's."""
    metrics = _metrics(plan)
    rows = []
    for chain in plan:
        against = counterpart(chain)
        if against is not None and against in plan:
            values = [_divided(results, chain, against, metric.key) for metric in metrics]
            rows.append([chain.label, against.label, *(_number(value, 2) for value in values)])
    return table(["ratio", "to", *(metric.title for metric in metrics)], rows)


def changes(results: Results, plan: Plan, revision: str) -> str:
    """One row for each figure that both revisions have: now divided by before.

    The ratio is the median of the rounds' ratios; behind it the lowest and the highest of a round.
    """
    rows = []
    for chain in plan:
        other = before(chain)
        for metric in METRICS if other in plan else ():
            now = results.rounds.get(chain, {}).get(metric.key, [])
            then = results.rounds.get(other, {}).get(metric.key, []) if other else []
            pairs = [ratio(a, b) for a, b in zip(now, then, strict=False)]
            found = sorted(each for each in pairs if each is not None)
            if found:
                rows.append(
                    [
                        f"{chain.label}: {metric.title} {metric.unit}",
                        _number(median(then), metric.decimals),
                        _number(median(now), metric.decimals),
                        _number(median(found), 2),
                        f"{found[0]:.2f} … {found[-1]:.2f}",
                    ]
                )
    return table(["change", revision, "now", f"now : {revision}", "of single rounds"], rows)


def per_proxy(results: Results, plan: Plan) -> str:
    """The cost of a further proxy: slope and fit of the line through each row of chains.

    Empty when no row has three chains.
    """
    metrics = [m for m in _metrics(plan) if m.key in _GROWING]
    rows = []
    for row in dict.fromkeys((chain.runner, chain.kind) for chain in plan if chain.proxies):
        lines = [_line(results, plan, row, metric) for metric in metrics]
        if any(lines):
            cells = [
                _ABSENT if line is None else f"{line.slope:.{m.decimals + 1}f} ({line.r2:.2f})"
                for line, m in zip(lines, metrics, strict=True)
            ]
            rows.append([f"{row[0]} {row[1]}", *cells])
    head = ["one more proxy (fit)", *(f"{metric.title} {metric.unit}" for metric in metrics)]
    return table(head, rows)


def troubles(results: Results) -> str:
    """Failures and remarks, a line or more each; empty when all went well."""
    lines = [f"{chain.label} FAILED: {text}" for chain, text in results.failures.items()]
    for chain, remarks in results.remarks.items():
        lines += [f"{chain.label}: {remark}" for remark in remarks]
    return "\n".join(lines)


def legend(plan: Plan) -> str:
    """The meaning of each column."""
    return "\n".join(f"  {m.title:7} {m.unit:3} {m.meaning}" for m in _metrics(plan))


def as_json(results: Results, plan: Plan, load: Workload, run: Mapping[str, Any]) -> dict[str, Any]:
    """The run as plain data: its line of the history, verdicts, and of each chain all figures."""
    return {
        **run,
        "met": {goal.text: goal.found(results).met for goal in GOALS},
        "workload": asdict(load),
        "units": {metric.key: metric.unit for metric in METRICS},
        "chains": [_chain_json(results, chain) for chain in plan],
    }


def _row(goal: Goal, results: Results) -> list[str]:
    found = goal.found(results)
    verdict = {True: "pass", False: "MISS", None: "not measured" if goal.wish else ""}[found.met]
    return [
        goal.text,
        *(_figure(figure, goal.metric) for figure in (found.base, found.value)),
        _ABSENT if found.ratio is None else f"{found.ratio:.2f} x",
        goal.wish,
        verdict,
    ]


def _figure(figure: float | None, metric: Metric) -> str:
    return _ABSENT if figure is None else f"{_number(figure, metric.decimals)} {metric.unit}"


def _metrics(plan: Plan) -> list[Metric]:
    """The metrics of at least one chain of the plan."""
    steps: set[Step] = set().union(*plan.values())
    return [metric for metric in METRICS if metric.step in steps]


def _chain_json(results: Results, chain: Chain) -> dict[str, Any]:
    rounds = results.rounds.get(chain, {})
    return {
        "runner": chain.runner.value,
        "kind": chain.kind.value,
        "proxies": chain.proxies,
        "keeps": chain.keeps.value,
        "medians": {key: results.median(chain, key) for key in rounds},
        "rounds": rounds,
        "failure": results.failures.get(chain),
        "remarks": results.remarks.get(chain, []),
    }


def _divided(results: Results, chain: Chain, other: Chain, key: str) -> float | None:
    return ratio(results.median(chain, key), results.median(other, key))


def _line(
    results: Results, chains: Collection[Chain], row: tuple[Runner, str], metric: Metric
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
