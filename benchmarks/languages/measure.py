"""The measures of each language: one round of it, and the medians of all rounds."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import proctree
from benchmarks.languages import trips, ways
from benchmarks.languages.rows import Row

SMALL: Final = 300
LARGE: Final = 100_000
_INSTANCES: Final = 8


@dataclass(frozen=True, slots=True)
class Figure:
    """One column: its key in the JSON, title, unit, and decimals."""

    key: str
    title: str
    unit: str
    decimals: int
    meaning: str


FIGURES: Final = (
    Figure("prompt_us", "prompt", "µs", 0, "a prompt of 300 bytes, from the client's side"),
    Figure("update_us", "update", "µs", 0, "an update of 300 bytes, which is passed on"),
    Figure("answer_us", "answer", "µs", 0, "the answer that ends the turn, passed on"),
    Figure("large_prompt_us", "prompt 100 KB", "µs", 0, "a prompt of 100,000 bytes"),
    Figure("large_update_us", "update 100 KB", "µs", 0, "an update of 100,000 bytes"),
    Figure("load_ms", "load", "ms", 1, "from the compiled module on disk to `initialize` passed"),
    Figure("memory_kb", "memory", "KB", 0, "of one more instance, after a turn"),
    Figure("module_kb", "module", "KB", 1, "the file; compiled it is some two to four times that"),
    Figure("trip_us", "turn", "µs", 0, "a whole turn of 300 bytes through a chain with it"),
)


@dataclass(frozen=True, slots=True)
class Load:
    """How much of everything."""

    rounds: int
    small: int
    large: int
    trips: int


FULL: Final = Load(rounds=7, small=300, large=30, trips=200)
QUICK: Final = Load(rounds=2, small=100, large=8, trips=50)

Samples = dict[str, list[float]]


@dataclass(slots=True)
class Found:
    """The result of one row: a figure for each round by key, or why there is none."""

    samples: Samples = field(default_factory=dict)
    problem: str = ""

    def add(self, key: str, value: float) -> None:
        """One round's figure."""
        self.samples.setdefault(key, []).append(value)

    def median(self, key: str) -> float | None:
        """The median of all rounds; None: not measured."""
        samples = self.samples.get(key)
        return median(samples) if samples else None


def messages(row: Row, folder: Path, load: Load, found: Found) -> None:
    """One round: a fresh instance, and messages of both sizes through it. Raises `WayError`."""
    begun = time.perf_counter()
    with ways.opened(folder, sandboxed=row.sandboxed) as way:
        found.add("load_ms", (time.perf_counter() - begun) * 1e3)
        for size, count, prefix in ((SMALL, load.small, ""), (LARGE, load.large, "large_")):
            for _ in range(max(count // 10, 2)):
                way.turn(size, adds=row.adds)
            turns = [way.turn(size, adds=row.adds) for _ in range(count)]
            names = ("prompt_us", "update_us", "answer_us")
            for name, each in zip(names, zip(*turns, strict=True), strict=True):
                if not prefix or name != "answer_us":
                    found.add(f"{prefix}{name}", median(each) * 1e6)


def turns(
    conductor: Sequence[str], proxy: str | None, state: Path, load: Load, found: Found
) -> None:
    """One round in a real chain. Raises `benchmarks.mcp.ways.WayError`."""
    if load.trips:
        each = trips.trips(conductor, proxy, state, load.trips, SMALL)
        found.add("trip_us", median(each) * 1e6)


def sizes(row: Row, folder: Path, found: Found) -> None:
    """Measures once: the memory of a further instance, and the module's size."""
    if not row.sandboxed:
        with ways.Piped(ways.program(), folder) as way:
            way.turn(SMALL)
            if proctree.SUPPORTED:
                found.add("memory_kb", _kb(way.pid, "Pss"))
        return
    module = ways.spec(folder).wasm
    assert module is not None
    found.add("module_kb", Path(module).stat().st_size / 1e3)
    if proctree.SUPPORTED:
        found.add("memory_kb", _grown(lambda: ways.Hosted(ways.spec(folder)), row))


def _grown(make: Callable[[], ways.Way], row: Row) -> float:
    """Private memory of a further instance, in KB: the growth by several instances, divided."""
    with ExitStack() as stack:
        for number in range(_INSTANCES + 1):
            stack.enter_context(make()).turn(SMALL, adds=row.adds)
            if number == 0:  # all shared memory has been made
                before = _kb("self", "Private_Dirty")
        return max(_kb("self", "Private_Dirty") - before, 0) / _INSTANCES


def _kb(pid: int | str, name: str) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1.024
    return 0.0
