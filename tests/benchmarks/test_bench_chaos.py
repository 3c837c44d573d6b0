"""``python -m benchmarks.chaos`` as a user runs it, and the checker against faults made up here."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import native
from benchmarks.chaos import victims
from benchmarks.chaos.expected import Arrival, Expected, Numbered, Text
from benchmarks.chaos.ledger import FAULTS, Entry, Ledger, Tally
from benchmarks.chaos.report import Summary, memory_of, table
from tests.places import ROOT

OK = {"result": {"stopReason": "end_turn"}}


def nobody(name: str) -> bool:
    """Nothing was done to the chain."""
    return False


def turn(ledger: Ledger, expected: Expected, *, partial: bool = False) -> Entry:
    """A prompt that has been sent."""
    entry = Entry(1, "turn", "s", expected, partial=partial)
    ledger.sent(entry)
    return entry


@pytest.mark.skipif(
    not victims.SUPPORTED or native.compiler() is None, reason="needs Linux and a C compiler"
)
@pytest.mark.parametrize("more", [(), ("--links",)], ids=("processes", "links"))
def test_a_short_run_loses_nothing(built: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "benchmarks.chaos", "--minutes", "0.05", "--seed", "5", *more]
    done = subprocess.run(
        [*command, "--cache", str(built), "--json", str(out)],
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(out.read_text())
    assert {name: data[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0)
    assert data["requests"] == data["ok"] + data["refused"] + sum(data["errors"].values())
    assert data["lives"] >= 1
    assert data["rounds"] >= 1
    assert sum(data["endings"].values()) == data["lives"]
    assert "unanswered" in done.stdout


def test_what_each_update_is() -> None:
    text = Text("one two three")
    assert [text.take(part) for part in ("one ", "three", "two", "four")] == [
        *(Arrival.NEXT, Arrival.GAP, Arrival.AGAIN, Arrival.FOREIGN),
    ]
    assert text.complete
    stream = Numbered(3, 10)
    numbers = ("00000000..", "00000002..", "00000001..", "00000003..", "00000002.")
    assert [stream.take(part) for part in numbers] == [
        *(Arrival.NEXT, Arrival.GAP, Arrival.AGAIN, Arrival.FOREIGN, Arrival.FOREIGN),
    ]


@pytest.mark.parametrize(
    ("texts", "fault"),
    [
        (["a", "b", "c"], None),
        (["a", "c"], "lost"),
        (["a", "b"], "lost"),
        (["a", "a", "b", "c"], "doubled"),
        (["a", "b", "c", "?"], "altered"),
    ],
)
def test_updates_of_a_turn_that_ends_well(texts: list[str], fault: str | None) -> None:
    ledger = Ledger(Tally())
    turn(ledger, Text("abc"))
    for text in texts:
        ledger.updated("s", text)
    ledger.answered(1, OK, nobody)
    assert {name: getattr(ledger.tally, name) for name in FAULTS if name != fault} == (
        dict.fromkeys([name for name in FAULTS if name != fault], 0)
    )
    assert ledger.tally.faults == (0 if fault is None else 1)


def test_an_update_after_the_answer_is_lost_to_the_turn() -> None:
    ledger = Ledger(Tally())
    turn(ledger, Text("ab"), partial=True)
    ledger.updated("s", "a")
    ledger.answered(1, OK, nobody)
    assert ledger.tally.faults == 0
    ledger.updated("s", "b")
    assert ledger.tally.lost == 1


def test_a_killed_component_accounts_for_its_turns_only() -> None:
    error = {"error": {"code": -32603, "data": {"component": "p"}}}
    ledger = Ledger(Tally())
    turn(ledger, Text("abc"))
    ledger.updated("s", "c")
    ledger.answered(1, error, lambda name: name == "p")
    ledger.updated("s", "news of the failure")
    assert ledger.tally.errors == {"p killed": 1}
    assert ledger.tally.faults == 0
    other = Ledger(Tally())
    turn(other, Text("abc"))
    other.answered(1, error, nobody)
    assert other.tally.unexplained == 1


def test_answers_are_counted() -> None:
    ledger = Ledger(Tally())
    turn(ledger, Text(""))
    ledger.answered(1, OK, nobody)
    ledger.answered(1, OK, nobody)
    ledger.answered(2, OK, nobody)
    ledger.sent(Entry(3, "open"))
    ledger.asked("x", "s")
    ledger.asked("x", "other")
    ledger.close()
    tally = ledger.tally
    assert (tally.doubled, tally.altered, tally.unanswered) == (2, 1, 1)
    assert tally.troubles[-1] == "unanswered: open: no answer"
    assert "unanswered: open" in table(Summary(7, tally=tally))


def test_memory_has_a_trend_only_where_it_was_followed_long() -> None:
    assert memory_of([9.0, 9.0, 9.0]) is None
    short = memory_of([9.0] * 3 + [1.0, 2.0])
    assert short is not None
    assert (short.least, short.most, short.trend) == (1.0, 2.0, None)
    grown = memory_of([0.0] * 3 + [float(at) for at in range(1, 41)])
    assert grown is not None
    assert grown.trend == pytest.approx(100.0)
