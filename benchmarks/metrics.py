"""The metrics: one table, read by the runner, the report and the options."""

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    """A part of a cell's scenario that can be chosen with ``--only``."""

    READY = "ready"
    SLOW = "slow"
    TRIP = "trip"
    OTHER = "other"
    TURN = "turn"
    MANY = "many"
    STREAM = "stream"
    PACED = "paced"
    BIG = "big"
    MEMORY = "memory"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a chain. ``unit`` is the unit of the stored number."""

    key: str
    step: Step
    title: str
    unit: str
    decimals: int
    meaning: str
    higher_is_better: bool = False


METRICS: tuple[Metric, ...] = (
    Metric("ready_ms", Step.READY, "ready", "ms", 1, "spawn to `initialize` answered, warm cache"),
    Metric("python_ms", Step.READY, "python", "ms", 1, "start of a bare Python, beside the agent"),
    Metric("slow_ms", Step.SLOW, "slow", "ms", 0, "`session/new` of an agent that starts in 0.3 s"),
    Metric("trip_us", Step.TRIP, "trip", "µs", 0, "round trip: prompt and answer"),
    Metric("other_ms", Step.OTHER, "other", "ms", 2, "`session/list` after 1,000 prompts"),
    Metric("turn_us", Step.TURN, "turn", "µs", 0, "whole turn: prompt, one update, answer"),
    Metric("turn_p99_us", Step.TURN, "p99", "µs", 0, "the same, 99th percentile"),
    Metric("turn_cpu_us", Step.TURN, "t cpu", "µs", 0, "CPU per whole turn, agent aside"),
    Metric("many_us", Step.MANY, "many", "µs", 0, "time per turn while 8 sessions have turns"),
    Metric("stream_per_s", Step.STREAM, "stream", "/s", 0, "streamed updates a second", True),
    Metric("stream_cpu_us", Step.STREAM, "s cpu", "µs", 2, "CPU per streamed update, agent aside"),
    Metric(
        "paced_cpu", Step.PACED, "paced", "%", 1, "of a core: 200 updates a second, agent aside"
    ),
    Metric("big_ms", Step.BIG, "1 MB", "ms", 2, "whole turn with a prompt of 1 MB, echoed"),
    Metric("pss_mb", Step.MEMORY, "pss", "MB", 1, "memory half a second after all that"),
    Metric("unread_mb", Step.UNREAD, "unread", "MB", 1, "memory while the client reads nothing"),
)
"""Memory is the proportional set size of all processes but client and agent."""
