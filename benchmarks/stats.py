"""The little statistics the benchmarks need."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A least-squares line; ``r2`` is the share of variance it explains (0 … 1)."""

    base: float
    slope: float
    r2: float


def percentile(samples: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest sample that ``share`` of all do not exceed.

    ``share`` lies in (0, 1]. Raises ValueError for no samples or another share.
    """
    if not samples:
        raise ValueError("no samples")
    if not 0 < share <= 1:
        raise ValueError(f"a share lies in (0, 1], not {share}")
    # The product is rounded first: 0.07 * 100 is 7.000000000000001 and would be rank 8.
    rank = math.ceil(round(share * len(samples), 9))
    return sorted(samples)[rank - 1]


def median(samples: Sequence[float]) -> float | None:
    """The median, or None where nothing was measured."""
    return statistics.median(samples) if samples else None


def ratio(value: float | None, base: float | None) -> float | None:
    """``value / base``, or None where a value is missing or the base is 0."""
    if value is None or base is None or base == 0:
        return None
    return value / base


def fit(points: Sequence[tuple[float, float]]) -> Line | None:
    """The line through ``(x, y)`` points; None for fewer than three (two always fit)."""
    if len(points) < 3 or len({x for x, _ in points}) < 2:
        return None
    xs = [x for x, _ in points]
    ys = [y for _, y in points]
    slope, base = statistics.linear_regression(xs, ys)
    mean = statistics.fmean(ys)
    spread = sum((y - mean) ** 2 for y in ys)
    missed = sum((y - base - slope * x) ** 2 for x, y in points)
    return Line(base, slope, 1.0 if spread == 0 else 1 - missed / spread)
