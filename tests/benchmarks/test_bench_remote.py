"""``python -m benchmarks.remote`` as a user runs it: counts, no times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import native
from benchmarks.remote.report import Goal
from tests.places import ROOT

needs_compiler = pytest.mark.skipif(
    native.compiler() is None, reason="needs a C compiler: cc, or the ziglang package"
)


@needs_compiler
def test_each_way_is_measured_and_nothing_is_lost(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.remote", "--quick", "--only", "stream,many"),
            *("--rust", "no-such-program", "--cache", str(built), "--json", str(out)),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert "note: no no-such-program on PATH" in done.stderr
    found = json.loads(out.read_text())
    assert list(found["ways"]) == ["stdio", "unix", "tcp", "ws", "http"]
    assert all(len(way["stream_per_s"]) == 1 for way in found["ways"].values())
    for crowd in found["sessions"].values():
        assert crowd["updates"] == 8 * 300
        assert crowd["tally"] == {"lost": 0, "doubled": 0, "disordered": 0}
    assert done.stdout.count("| pass |") == 6
    assert str(built) not in out.read_text()


def test_a_goal_holds_for_the_ratio_or_the_figure() -> None:
    assert Goal("a trip", 99.0, 100.0, 1.0).row().endswith("| 0.99 | ≤ 1 x | pass |")
    assert Goal("a trip", 101.0, 100.0, 1.0).row().endswith("| 1.01 | ≤ 1 x | MISS |")
    assert Goal("memory", 3.5, None, 3.0, "MB").row().endswith("|  | ≤ 3 MB | MISS |")
    assert Goal("a trip", 101.0, None, 1.0).row().endswith("| - | ≤ 1 x |  |")
    assert Goal("it only shows", 101.0, 100.0).row().endswith("| 1.01 |  |  |")
