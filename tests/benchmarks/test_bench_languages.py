"""``python -m benchmarks.languages`` runs the rows that need no toolchain, and names the others."""

import json
import sys
from pathlib import Path
from typing import Final

import pytest

from benchmarks.languages import __main__ as bench
from benchmarks.languages import report, rows, ways
from benchmarks.languages.measure import Found
from conductor.author import project
from conductor.spec.paths import compiled_modules

pytestmark = pytest.mark.timeout(600)

CONDUCTOR: Final = (sys.executable, "-m", "conductor")
TINY: Final = ("--rounds", "1", "--messages", "3", "--turns", "2")


@pytest.mark.usefixtures("python_guest")
def test_a_run_of_what_needs_no_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    only = ("--only", "wat,python,process", "--cache", compiled_modules())
    assert bench.main([*only, *TINY, "--json", str(out)]) == 0
    held = json.loads(out.read_text("utf-8"))
    assert list(held) == ["WAT, passes all", "Python", "Python, a program", "no proxy"]
    assert held["no proxy"]["rounds"].keys() == {"trip_us"}
    for label in list(held)[:-1]:
        assert held[label]["problem"] == ""
        assert {"prompt_us", "large_update_us", "load_ms"} <= held[label]["medians"].keys()
        assert all(len(figures) == 1 for figures in held[label]["rounds"].values())
    said = capsys.readouterr().out
    assert "| WAT, passes all | " in said
    assert f"aim: {report.AIM}: " in said


def test_a_language_without_its_tools_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rows.Row("go", "Go", "go", "go", install=("no-such-program-anywhere",))
    monkeypatch.setattr(bench, "ROWS", (row,))
    only = ("--only", "go", "--cache", str(tmp_path), "--conductor", " ".join(CONDUCTOR))
    assert bench.main([*only, "--rounds", "1", "--messages", "1", "--turns", "0"]) == 0
    said = capsys.readouterr().out
    assert "| Go | not built; it needs: Go 1.24 or later " in said
    assert said.endswith("not measured\n")
    assert list(tmp_path.rglob("*.wasm")) == []


def test_a_module_that_lies_there_stands_in_for_missing_tools(tmp_path: Path) -> None:
    row = rows.Row("x", "X", "go", install=("no-such-program-anywhere",), built="c/message.h")
    assert rows.make(row, tmp_path, CONDUCTOR).name == "message.h"
    with pytest.raises(rows.NotBuiltError, match="needs: a template of `conductor new --lang x`"):
        rows.make(rows.Row("x", "X", "x"), tmp_path, CONDUCTOR)


def test_every_language_there_is_a_template_for_has_a_row() -> None:
    assert {row.template for row in rows.ROWS} == set(project.languages())


def test_a_proxy_that_does_something_else_is_an_error(tmp_path: Path) -> None:
    row = rows.ROWS[0]
    assert (row.key, row.adds) == ("wat", False)
    with (
        ways.opened(rows.make(row, tmp_path, CONDUCTOR), sandboxed=True) as way,
        pytest.raises(ways.WayError, match="a prompt came out as"),
    ):
        way.turn(300)


@pytest.mark.parametrize("size", [0, 1, 300, 100_000])
def test_texts_are_as_long_as_they_should_be_and_json(size: int) -> None:
    text = ways.text(size)
    assert len(text) == size
    assert json.loads(b'"%s"' % text).isascii()


def test_the_aim_is_held_to_the_slowest_kind_of_message() -> None:
    found = Found({"prompt_us": [100.0, 140.0, 500.0], "update_us": [150.0], "answer_us": [1.0]})
    assert report.aim(found).endswith(": 150 µs, met")
    found.add("update_us", 153.0)
    assert report.aim(found).endswith(": 152 µs, missed")
    assert report.aim(None).endswith(": not measured")


def test_the_table_leaves_out_what_nobody_measured() -> None:
    found = {"A": Found({"prompt_us": [1.4, 1.6, 9.0]}), "B": Found(problem="not built")}
    lines = report.table(found).splitlines()
    assert lines[:4] == [
        "| | prompt µs |",
        "|---|--:|",
        "| A | 2 |",
        "| B | not built |",
    ]
