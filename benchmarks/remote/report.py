"""The tables of a run, and its goals."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.remote.sessions import Crowd, Weight
from benchmarks.remote.ways import RUST_HTTP, RUST_WS, STDIO, Way
from benchmarks.stats import ratio

_KEYS = ("trip_us", "trip_cpu_us", "turn_us", "stream_per_s", "stream_cpu_us")


@dataclass(frozen=True, slots=True)
class Goal:
    """The bound of a figure, or of its ratio to another figure; without a bound a mere figure."""

    text: str
    ours: float | None
    other: float | None = None
    bound: float | None = None
    unit: str = ""

    @property
    def figure(self) -> float | None:
        """The figure that the bound holds for."""
        return self.ours if self.unit else ratio(self.ours, self.other)

    def row(self) -> str:
        """A row of the table."""
        verdict = ""
        if self.bound is not None and self.figure is not None:
            verdict = "pass" if self.figure <= self.bound else "MISS"
        wish = "" if self.bound is None else f"≤ {self.bound:g} {self.unit or 'x'}"
        times = "" if self.unit else _shown(self.figure)
        return (
            f"| {self.text} | {_shown(self.other)} | {_shown(self.ours)} | {times} "
            f"| {wish} | {verdict} |"
        )


@dataclass(slots=True)
class Found:
    """The findings of a run; by way, by whether chains are shared, by scheme."""

    ways: dict[str, Way] = field(default_factory=dict)
    weights: dict[bool, Weight] = field(default_factory=dict)
    crowds: dict[str, Crowd] = field(default_factory=dict)

    def text(self) -> str:
        """All tables."""
        parts = [self._ways(), self._weights(), self._crowds(), self._goals()]
        return "\n\n".join(part for part in parts if part)

    def goals(self) -> Iterator[Goal]:
        """The goals that this run says something about."""
        if self.ways:
            yield self._beside("round trip, ws against the Rust server's", "trip_us", RUST_WS, 1.0)
            yield self._beside("round trip, unix against stdio", "trip_us", STDIO, 1.05, "unix")
            yield self._beside("whole turn, ws against the Rust server's", "turn_us", RUST_WS)
            yield self._beside("round trip, http: Rust's", "trip_us", RUST_HTTP, None, "http")
        for share, weight in self.weights.items():
            how = "shared chain" if share else "chain of its own"
            bounds = (3.0, 20.0) if share else (None, None)
            text = f"one more idle session, four sandboxed, {how}"
            yield Goal(text, weight.session, None, bounds[0], "MB")
            yield Goal(f"one more user with one, {how}", weight.user, None, bounds[1], "MB")
        for scheme, crowd in self.crowds.items():
            text = f"{crowd.sessions} sessions streaming at once, {scheme}"
            for what, count in asdict(crowd.tally).items():
                yield Goal(f"{text}: {what}", count, None, 0, "updates")

    def as_json(self, about: dict[str, Any]) -> dict[str, Any]:
        """All figures, for programs."""
        return {
            **about,
            "ways": {name: way.samples for name, way in self.ways.items()},
            "memory": {
                "shared" if share else "own": asdict(weight)
                for share, weight in self.weights.items()
            },
            "sessions": {scheme: asdict(crowd) for scheme, crowd in self.crowds.items()},
            "goals": [
                {"text": goal.text, "figure": goal.figure, "bound": goal.bound}
                for goal in self.goals()
            ],
        }

    def _beside(
        self, text: str, key: str, other: str, bound: float | None = None, ours: str = "ws"
    ) -> Goal:
        figure = self.ways[ours].measured(key)
        base = self.ways[other].measured(key) if other in self.ways else None
        return Goal(text, figure, base, bound)

    def _ways(self) -> str:
        if not self.ways:
            return ""
        base = self.ways[STDIO]
        lines = [
            "| way | trip µs | : stdio | t cpu µs | turn µs | updates/s | : stdio | s cpu µs |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for name, way in self.ways.items():
            trip, trip_cpu, turn, stream, stream_cpu = (way.measured(key) for key in _KEYS)
            cells = [
                *(trip, ratio(trip, base.measured("trip_us")), trip_cpu, turn),
                *(stream, ratio(stream, base.measured("stream_per_s")), stream_cpu),
            ]
            lines.append(f"| {name} | " + " | ".join(_shown(cell) for cell in cells) + " |")
        return "\n".join(lines)

    def _weights(self) -> str:
        if not self.weights:
            return ""
        lines = [
            "| four sandboxed proxies, idle: MB | one session | one more of them | one more user |",
            "|---|--:|--:|--:|",
        ]
        for share, weight in self.weights.items():
            cells = (weight.first, weight.session, weight.user)
            how = "`--share`" if share else "each client a chain of its own"
            lines.append(f"| {how} | " + " | ".join(_shown(cell) for cell in cells) + " |")
        return "\n".join(lines)

    def _crowds(self) -> str:
        if not self.crowds:
            return ""
        lines = [
            "| at once | updates | lost | doubled | disordered | updates/s | cpu µs | MB each |",
            "|---|--:|--:|--:|--:|--:|--:|--:|",
        ]
        for scheme, crowd in self.crowds.items():
            counts = crowd.tally
            lines.append(
                f"| {crowd.sessions}, {scheme} | {crowd.updates} | {counts.lost} "
                f"| {counts.doubled} | {counts.disordered} | {crowd.updates / crowd.seconds:.0f} "
                f"| {_shown(crowd.cpu_us)} | {_shown(crowd.session_mb)} |"
            )
        return "\n".join(lines)

    def _goals(self) -> str:
        lines = ["| goal | other | ours | ratio | should be | |", "|---|--:|--:|--:|--:|---|"]
        return "\n".join([*lines, *(goal.row() for goal in self.goals())])


def _shown(figure: float | None) -> str:
    if figure is None:
        return "-"
    return f"{figure:.0f}" if figure >= 1000 or figure == int(figure) else f"{figure:.3g}"
