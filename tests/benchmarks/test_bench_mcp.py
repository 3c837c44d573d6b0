"""``python -m benchmarks.mcp`` runs every way, and says how they compare."""

import json
from pathlib import Path

import pytest

from benchmarks.mcp import __main__ as bench
from benchmarks.mcp.ways import WAYS, Http, Native, Plain, Shim, Way


def test_a_run_of_every_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert bench.main(["--calls", "20", "--rounds", "1", "--json", str(out)]) == 0
    held = json.loads(out.read_text("utf-8"))
    assert list(held) == [way.label for way in WAYS]
    assert all(len(figures["p50"]) == 1 for figures in held.values())
    said = capsys.readouterr()
    assert said.err == ""
    assert "aim: through the shim at most 1.5 times the plain server's: " in said.out


def test_the_table_compares_with_the_plain_server() -> None:
    found: dict[type[Way], bench.Figures] = {
        Plain: bench.Figures([100.0], [200.0], [10.0]),
        Shim: bench.Figures([150.0, 150.0], [300.0], [20.0]),
    }
    lines = bench.table(found).splitlines()
    assert lines[2].endswith("| 100 | 200 | 10 | 1.00 |")
    assert lines[3].endswith("| 150 | 300 | 20 | 1.50 |")
    assert lines[-1].endswith(": met")
    found[Shim].p50.append(152.0)
    found[Shim].p50.append(152.0)
    assert bench.table(found).endswith(": missed")
    assert "aim" not in bench.table({Http: found[Shim], Native: found[Shim]})
