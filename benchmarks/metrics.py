"""What is measured: one table, read by the runner, the report and the options."""

from dataclasses import dataclass
from enum import StrEnum


class Step(StrEnum):
    """A part of a cell's scenario that can be chosen with ``--only``."""

    READY = "ready"
    SLOW = "slow"
    ECHO = "echo"
    STREAM = "stream"
    BIG = "big"
    MEMORY = "memory"


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
    Metric("slow_ms", Step.SLOW, "slow", "ms", 1, "the same when the agent takes 300 ms to start"),
    Metric("lag_ms", Step.SLOW, "lag", "ms", 2, "of that, after the agent itself was ready"),
    Metric("echo_p50_us", Step.ECHO, "p50", "µs", 0, "echo round trip, median"),
    Metric("echo_p99_us", Step.ECHO, "p99", "µs", 0, "echo round trip, 99th percentile"),
    Metric("stream_per_s", Step.STREAM, "stream", "/s", 0, "streamed messages a second", True),
    Metric("cpu_us", Step.STREAM, "cpu", "µs", 2, "CPU per streamed message, agent aside"),
    Metric("agent_cpu_us", Step.STREAM, "agent", "µs", 2, "the agent's CPU per streamed message"),
    Metric("big_ms", Step.BIG, "1 MB", "ms", 2, "round trip of a prompt of 1 MB, echoed"),
    Metric(
        "pss_mb",
        Step.MEMORY,
        "pss",
        "MB",
        1,
        "memory of the tree half a second after all that, agent aside",
    ),
    Metric("pss_all_mb", Step.MEMORY, "+agent", "MB", 1, "the same with the agent"),
)
