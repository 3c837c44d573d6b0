"""The goals, one row each."""

from dataclasses import dataclass, replace
from typing import Final

from benchmarks.chains import ALONE, RELAY, Chain, Keeps, Kind, Runner, counterpart
from benchmarks.metrics import METRICS, Metric
from benchmarks.results import Results
from benchmarks.stats import ratio

BY_KEY: Final = {metric.key: metric for metric in METRICS}


@dataclass(frozen=True, slots=True)
class Finding:
    """A run's result for a goal; None for figures that the run has not measured."""

    value: float | None
    base: float | None
    met: bool | None

    @property
    def ratio(self) -> float | None:
        """The value divided by the value of the other chain."""
        return ratio(self.value, self.base)


@dataclass(frozen=True, slots=True)
class Goal:
    """A chain's figure beside that of another chain, and its bound.

    ``bound`` holds for the ratio of the two, or with ``absolute`` for the figure itself; None is a
    row that only shows. It is the least where more is better, else the most.
    """

    text: str
    key: str
    chain: Chain
    against: Chain
    bound: float | None = None
    absolute: bool = False
    base_key: str = ""
    """The metric of the other chain for the comparison, if it is another metric."""

    @property
    def metric(self) -> Metric:
        """The metric of the goal."""
        return BY_KEY[self.key]

    @property
    def wish(self) -> str:
        """The bound for people; empty for a row without one."""
        if self.bound is None:
            return ""
        sign = "≥" if self.metric.higher_is_better else "≤"
        return f"{sign} {self.bound:g} {self.metric.unit if self.absolute else 'x'}"

    def found(self, results: Results) -> Finding:
        """The finding of a run."""
        value = results.median(self.chain, self.key)
        base = results.median(self.against, self.base_key or self.key)
        return Finding(value, base, self.met(value if self.absolute else ratio(value, base)))

    def met(self, figure: float | None) -> bool | None:
        """Whether the figure that the bound holds for keeps to it; None if either is missing."""
        if figure is None or self.bound is None:
            return None
        return figure >= self.bound if self.metric.higher_is_better else figure <= self.bound


def _ours(kind: Kind, proxies: int = 4) -> Chain:
    return Chain(Runner.CONDUCTOR, kind, 0 if kind is Kind.NONE else proxies)


def _goal(
    text: str, key: str, chain: Chain, bound: float | None = None, *, absolute: bool = False
) -> Goal:
    against = counterpart(chain)
    assert against is not None
    return Goal(text, key, chain, against, bound, absolute)


def _kept(text: str, chain: Chain, keeps: Keeps, bound: float) -> Goal:
    nothing = replace(chain, keeps=Keeps.NOTHING)
    return Goal(text, "stream_per_s", replace(chain, keeps=keeps), nothing, bound)


def _starts(text: str, chain: Chain, bound: float) -> Goal:
    return Goal(text, "ready_ms", chain, ALONE, bound, base_key="python_ms")


_NONE: Final = _ours(Kind.NONE)
_FULL: Final = _ours(Kind.SANDBOXED)
_PROGRAMS: Final = _ours(Kind.SUBPROCESS)

GOALS: Final[tuple[Goal, ...]] = (
    Goal("round trip, no proxy, beside a relay", "trip_us", _NONE, RELAY, 1.25),
    _goal("round trip, no proxy", "trip_us", _NONE, 0.5),
    _goal("round trip, four sandboxed", "trip_us", _FULL, 0.10),
    _goal("whole turn, four sandboxed", "turn_us", _FULL, 0.15),
    _goal("whole turn, four sandboxed, `context`", "turn_us", _ours(Kind.CONTEXT), 0.15),
    _goal("round trip, four that change each prompt", "trip_us", _ours(Kind.CHANGING), 0.14),
    _goal("streamed, four sandboxed", "stream_per_s", _FULL, 12),
    _goal("streamed, no proxy", "stream_per_s", _NONE, 12),
    _goal("round trip, the same four programs in both", "trip_us", _PROGRAMS, 0.5),
    _goal("echo of 1 MB, four sandboxed", "big_ms", _FULL, 0.3),
    _goal("first other message, four sandboxed", "other_ms", _FULL, 1, absolute=True),
    _goal("200 updates a second, four sandboxed", "paced_cpu", _FULL, 4, absolute=True),
    _goal("memory, four sandboxed", "pss_mb", _FULL, 40, absolute=True),
    _goal("ready, no proxy", "ready_ms", _NONE, 40, absolute=True),
    _goal("ready, four sandboxed", "ready_ms", _FULL, 55, absolute=True),
    _starts("ready, no proxy, in starts of a bare Python", _NONE, 5),
    _starts("ready, four sandboxed, in starts of a bare Python", _FULL, 6.5),
    Goal("session of an agent that starts in 0.3 s, no proxy", "slow_ms", _NONE, ALONE, 1.05),
    Goal("the same, four sandboxed", "slow_ms", _FULL, ALONE, 1.05),
    _goal("memory, 300 MB unread by a slow client", "unread_mb", _NONE, 30, absolute=True),
    _goal("round trip, sixteen sandboxed", "trip_us", _ours(Kind.SANDBOXED, 16)),
    _goal("eight sessions at once, four sandboxed", "many_us", _FULL),
    _kept("streamed with the ring, no proxy", _NONE, Keeps.RING, 0.95),
    _kept("streamed with the ring, four programs", _PROGRAMS, Keeps.RING, 0.95),
    _kept("streamed with a trace, no proxy", _NONE, Keeps.TRACE, 0.7),
    _kept("streamed with a trace, four programs", _PROGRAMS, Keeps.TRACE, 0.7),
    _kept("streamed with a trace, four sandboxed", _FULL, Keeps.TRACE, 0.7),
)
"""The goals, as the tables have them: one table for each runner of the comparison."""
