"""``python -m benchmarks`` as a user runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import native
from tests.places import ROOT

needs_compiler = pytest.mark.skipif(
    native.compiler() is None, reason="needs a C compiler: cc, or the ziglang package"
)


def benchmarks(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        timeout=110,
    )


def sources() -> set[Path]:
    """The folder's files without bytecode, which whoever imports it may cache there."""
    files = (ROOT / "benchmarks").rglob("*")
    return {path for path in files if "__pycache__" not in path.parts}


@needs_compiler
def test_quick_over_the_agent_alone(built: Path, tmp_path: Path) -> None:
    before = sources()
    out = tmp_path / "out.json"
    done = benchmarks("--quick", "--only", "alone", "--cache", str(built), "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert "round 2/2: client + agent alone" in done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("client + agent"))
    assert "-" not in row.split()[4:]
    data = json.loads(out.read_text())
    (chain,) = data["chains"]
    assert chain["medians"]["stream_per_s"] > 0
    assert len(chain["rounds"]["trip_us"]) == data["workload"]["rounds"] == data["rounds"] == 2
    assert str(built) not in out.read_text()
    assert sources() == before


@needs_compiler
def test_a_chain_that_fails_is_told_and_ends_with_1(built: Path) -> None:
    done = benchmarks(
        *("--quick", "--only", "none,trip", "--cache", str(built), "--reference", "none"),
        *("--conductor", f"{sys.executable} -c \"import sys; sys.exit('not today')\""),
    )
    assert done.returncode == 1
    assert "conductor 0 FAILED: " in done.stdout
    assert "not today" in done.stdout


def test_without_a_working_compiler_there_is_a_hint(tmp_path: Path) -> None:
    done = benchmarks("--quick", "--cache", str(tmp_path), CC=f"{sys.executable} -c exit(9)")
    assert done.returncode == 2
    assert "ended with 9" in done.stderr
    assert "hint: run `" in done.stderr
    assert "Traceback" not in done.stderr


@needs_compiler
def test_nothing_to_measure_is_an_error(built: Path) -> None:
    done = benchmarks(
        *("--only", "sandboxed", "--proxies", "0", "--reference", "none"),
        *("--cache", str(built)),
    )
    assert done.returncode == 2
    assert "no chain to measure" in done.stderr
    assert "hint: " in done.stderr


@needs_compiler
def test_a_run_of_conductor_prints_its_goals_is_recorded_and_drawn(
    built: Path, tmp_path: Path
) -> None:
    line, drawn = tmp_path / "history.jsonl", tmp_path / "speed.svg"
    done = benchmarks(
        *("--quick", "--rounds", "1", "--only", "none,trip,ready", "--reference", "none"),
        *("--cache", str(built), "--record", str(line)),
    )
    assert done.returncode == 0, done.stderr
    (row,) = (each for each in done.stdout.splitlines() if each.startswith("ready, no proxy "))
    assert row.split()[-1] in {"pass", "MISS"}
    assert row.split()[-5:-1] == ["-", "≤", "40", "ms"]
    run = json.loads(line.read_text("utf-8"))
    beside = "round trip, no proxy, beside a relay"
    starts = "ready, no proxy, in starts of a bare Python"
    assert list(run["medians"]) == [beside, "round trip, no proxy", "ready, no proxy", starts]
    assert list(run["ratios"]) == [beside, starts]
    (row,) = (each for each in done.stdout.splitlines() if each.startswith(beside))
    assert row.split()[-4:-1] == ["≤", "1.25", "x"]
    assert row.split()[-1] in {"pass", "MISS"}
    assert benchmarks("--picture", str(drawn), "--from", str(line)).returncode == 0
    assert "ready, no proxy" in drawn.read_text("utf-8")


def test_a_picture_of_nothing_is_an_error(tmp_path: Path) -> None:
    done = benchmarks("--picture", str(tmp_path / "x.svg"), "--from", str(tmp_path / "no.json"))
    assert done.returncode == 2
    assert "cannot read" in done.stderr
    assert "hint: `python -m benchmarks --record`" in done.stderr


def test_an_unknown_revision_is_an_error(tmp_path: Path) -> None:
    done = benchmarks("--against", "no-such-revision", "--cache", str(tmp_path))
    assert done.returncode == 2
    assert "no revision 'no-such-revision'" in done.stderr


def test_the_benchmarks_need_nothing_but_python_and_what_they_measure() -> None:
    """The benchmarks run in the checkout of a wheel that is installed elsewhere."""
    code = (
        "import sys; import benchmarks.__main__; "
        "known = sys.stdlib_module_names | {'benchmarks', 'components'}; "
        "sys.exit(str({name.split('.')[0] for name in sys.modules} - known - {'__main__'}))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr.strip() == "set()"
