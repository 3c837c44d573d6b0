"""The acceptance ratios, one row each."""

from dataclasses import dataclass
from typing import Literal

from benchmarks.chains import Chain, Keeps, Kind, Runner
from benchmarks.run import Results
from benchmarks.stats import ratio

_OURS, _THEIRS = Runner.CONDUCTOR, Runner.REFERENCE
RATIO = "x"


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on one chain's metric, or on its ratio to ``against``.

    ``unit`` is ``RATIO`` for ratios. The bound is met when measured ``sign`` bound.
    """

    text: str
    metric: str
    chain: Chain
    against: Chain | None
    sign: Literal["≤", "≥"]
    bound: float
    unit: str

    def measured(self, results: Results) -> float | None:
        """The figure of this run; None when a chain it needs was not measured."""
        value = results.median(self.chain, self.metric)
        if self.against is None:
            return value
        return ratio(value, results.median(self.against, self.metric))

    def met(self, value: float) -> bool:
        """Whether ``value`` keeps to the bound."""
        return value <= self.bound if self.sign == "≤" else value >= self.bound


#: 'Not after the agent is' needs a figure: 10 ms is a round of `initialize` through a
#: chain on a busy machine, and far below the start-up that must hide behind the agent's.
LAG_MS = 10.0

_Pair = tuple[Chain, Chain]
_NO_PROXY: _Pair = (Chain(_OURS, Kind.NONE), Chain(_THEIRS, Kind.NONE))
_NATIVE: _Pair = (Chain(_OURS, Kind.SUBPROCESS, 4), Chain(_THEIRS, Kind.SUBPROCESS, 4))
_UNCONCERNED: _Pair = (Chain(_OURS, Kind.UNCONCERNED, 4), Chain(_OURS, Kind.NONE))
_POLICED: _Pair = (Chain(_OURS, Kind.SANDBOXED, 4), Chain(_OURS, Kind.TRUSTED, 4))
_SANDBOXED: _Pair = (Chain(_OURS, Kind.SANDBOXED, 4), Chain(_THEIRS, Kind.SDK, 4))


_RING: _Pair = (Chain(_OURS, Kind.NONE), Chain(_OURS, Kind.NONE, 0, Keeps.NOTHING))
_RING_4: _Pair = (Chain(_OURS, Kind.SUBPROCESS, 4), Chain(_OURS, Kind.SUBPROCESS, 4, Keeps.NOTHING))
_TRACE: _Pair = (Chain(_OURS, Kind.NONE, 0, Keeps.TRACE), _RING[1])
_TRACE_GUESTS: _Pair = (
    Chain(_OURS, Kind.SANDBOXED, 4, Keeps.TRACE),
    Chain(_OURS, Kind.SANDBOXED, 4, Keeps.NOTHING),
)
_TRACE_4: _Pair = (Chain(_OURS, Kind.SUBPROCESS, 4, Keeps.TRACE), _RING_4[1])


def _at_most(text: str, metric: str, pair: _Pair, bound: float) -> Aim:
    return Aim(text, metric, *pair, "≤", bound, RATIO)


def _at_least(text: str, metric: str, pair: _Pair, bound: float) -> Aim:
    return Aim(text, metric, *pair, "≥", bound, RATIO)


def _absolute(text: str, metric: str, pair: _Pair, bound: float, unit: str) -> Aim:
    return Aim(text, metric, pair[0], None, "≤", bound, unit)


AIMS: tuple[Aim, ...] = (
    _at_most("round trip, no proxy", "echo_p50_us", _NO_PROXY, 0.6),
    _at_most("round trip, 4 sandboxed : 4 SDK", "echo_p50_us", _SANDBOXED, 0.15),
    _at_least("streamed/s, no proxy", "stream_per_s", _NO_PROXY, 8),
    _at_least("streamed/s, 4 sandboxed : 4 SDK", "stream_per_s", _SANDBOXED, 8),
    _at_least("streamed/s, 4 unconcerned : no proxy", "stream_per_s", _UNCONCERNED, 0.8),
    _at_least("streamed/s, 4 policed : 4 trusted", "stream_per_s", _POLICED, 0.85),
    _at_most("round trip, 4 native in both", "echo_p50_us", _NATIVE, 0.7),
    _at_most("1 MB echo, 4 sandboxed : 4 SDK", "big_ms", _SANDBOXED, 0.5),
    _at_least("streamed/s, the ring : nothing kept, no proxy", "stream_per_s", _RING, 0.95),
    _at_least("streamed/s, the ring : nothing kept, 4 native", "stream_per_s", _RING_4, 0.95),
    _at_least("streamed/s, a trace : nothing kept, no proxy", "stream_per_s", _TRACE, 0.7),
    _at_least("streamed/s, a trace : nothing kept, 4 native", "stream_per_s", _TRACE_4, 0.7),
    _at_least(
        "streamed/s, a trace : nothing kept, 4 sandboxed", "stream_per_s", _TRACE_GUESTS, 0.7
    ),
    _absolute("memory, 4 sandboxed, agent aside", "pss_mb", _SANDBOXED, 60, "MB"),
    _absolute("ready, no proxy", "ready_ms", _NO_PROXY, 100, "ms"),
    _absolute("ready, 4 sandboxed", "ready_ms", _SANDBOXED, 100, "ms"),
    _absolute("ready after a 300 ms agent is, no proxy", "lag_ms", _NO_PROXY, LAG_MS, "ms"),
    _absolute("ready after a 300 ms agent is, 4 sandboxed", "lag_ms", _SANDBOXED, LAG_MS, "ms"),
)
