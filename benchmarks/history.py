"""The history of the figures: one line of JSON a run, in ``history.jsonl``."""

import datetime
import json
import os
import platform
from pathlib import Path
from typing import Any, Final

from benchmarks.goals import GOALS
from benchmarks.measure import Workload
from benchmarks.results import Results
from benchmarks.revision import present

HISTORY: Final = Path(__file__).parent / "history.jsonl"


class HistoryError(Exception):
    """A file has no figures: which, and why."""


def machine() -> dict[str, Any]:
    """The facts that the figures depend on; no name of the machine, and no path."""
    return {
        "system": platform.system(),
        "arch": platform.machine(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def entry(results: Results, load: Workload, about: dict[str, Any]) -> dict[str, Any]:
    """A run as a line of the history; ``about`` is the machine as it was when the run began.

    Medians and ratios are those of the goals, by their texts, as far as they were measured.
    """
    found = {goal.text: goal.found(results) for goal in GOALS}
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "revision": present(),
        "machine": about,
        "rounds": load.rounds,
        "medians": {text: _short(each.value) for text, each in found.items() if each.value},
        "ratios": {text: _short(each.ratio) for text, each in found.items() if each.ratio},
    }


def append(path: Path, run: dict[str, Any]) -> None:
    """Writes one more line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(run, ensure_ascii=False) + "\n")


def last(path: Path) -> dict[str, Any]:
    """The last run of a history, or the run of a file that ``--json`` wrote.

    Raises HistoryError.
    """
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise HistoryError(f"cannot read {path}: {error.strerror}") from error
    for candidate in (text, text.rpartition("\n")[2]):
        try:
            run = json.loads(candidate)
        except ValueError:
            continue
        if isinstance(run, dict) and {"date", "medians", "ratios"} <= run.keys():
            return run
    raise HistoryError(f"{path} holds no run")


def _short(figure: float | None) -> float | None:
    """Four digits: more would be noise."""
    return None if figure is None else float(f"{figure:.4g}")


def _processor() -> str:
    """The processor's name as Linux has it, or else as Python has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
