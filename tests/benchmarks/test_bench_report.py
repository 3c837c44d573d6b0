"""Tables, aims and JSON over results made up here; order and failures of a run."""

import json

import pytest

from benchmarks import report
from benchmarks.aims import AIMS, Aim
from benchmarks.chains import ALONE, Chain, Kind, Runner
from benchmarks.measure import FULL, Cell
from benchmarks.metrics import Step
from benchmarks.run import Results, order

OURS = [Chain(Runner.CONDUCTOR, Kind.NONE)] + [
    Chain(Runner.CONDUCTOR, Kind.SANDBOXED, n) for n in (1, 2, 4)
]
THEIRS = [Chain(Runner.REFERENCE, Kind.NONE), Chain(Runner.REFERENCE, Kind.SDK, 4)]


def made_up() -> Results:
    """Ours: 100 µs and 10 more a proxy; theirs: 200 and 2000."""
    results = Results()
    for chain in OURS:
        trip = 100.0 + 10 * chain.proxies
        for noise in (-1.0, 0.0, 5.0):
            results.add(chain, Cell({"echo_p50_us": [trip + noise], "pss_mb": [50.0]}))
    results.add(THEIRS[0], Cell({"echo_p50_us": [200.0]}))
    results.add(THEIRS[1], Cell({"echo_p50_us": [2000.0]}, ["left processes behind"]))
    return results


def test_results_are_medians_of_the_rounds_medians() -> None:
    results = Results()
    results.add(ALONE, Cell({"ready_ms": [1.0, 2.0, 90.0]}))
    results.add(ALONE, Cell({"ready_ms": [4.0]}))
    results.add(ALONE, Cell({"ready_ms": [3.0]}))
    assert results.rounds[ALONE]["ready_ms"] == [2.0, 4.0, 3.0]
    assert results.median(ALONE, "ready_ms") == 3.0
    assert results.median(ALONE, "big_ms") is None


def test_a_remark_is_kept_once() -> None:
    results = Results()
    for _ in range(3):
        results.add(ALONE, Cell(remarks=["ended with 1 when its client left"]))
    assert results.remarks[ALONE] == ["ended with 1 when its client left"]


def test_every_second_round_runs_backwards() -> None:
    assert order(OURS, 0) == OURS
    assert order(OURS, 1) == OURS[::-1]


def test_columns_are_aligned() -> None:
    assert report.table(["a", "n"], [["long", "1"], ["b", "22"]]).splitlines() == [
        "a      n",
        "----  --",
        "long   1",
        "b     22",
    ]


def test_figures_leave_open_what_was_not_measured() -> None:
    lines = report.figures(made_up(), [*OURS, *THEIRS], {Step.ECHO}).splitlines()
    assert lines[0].split() == ["chain", "p50", "µs", "p99", "µs"]
    assert len(lines) == 2 + len(OURS) + len(THEIRS)
    row = next(line for line in lines if line.startswith("conductor 4 sandboxed"))
    assert row.split()[3:] == ["140", "-"]


def test_ratios_are_to_the_same_run_and_name_their_base() -> None:
    lines = report.ratios(made_up(), [*OURS, *THEIRS], {Step.ECHO, Step.MEMORY}).splitlines()
    assert lines[0].split() == ["ratio", "to", "p50", "p99", "pss"]
    assert [line.split() for line in lines[2:]] == [
        ["conductor", "0", "reference", "0", "0.50", "-", "-"],
        ["conductor", "4", "sandboxed", "reference", "4", "sdk", "0.07", "-", "-"],
    ]
    assert report.ratios(made_up(), [ALONE, *THEIRS], {Step.ECHO}) == ""


def test_cost_of_one_more_proxy() -> None:
    text = report.per_proxy(made_up(), [*OURS, *THEIRS], {Step.ECHO})
    head, _, row = text.splitlines()
    assert "p50 µs" in head
    assert row.split() == ["conductor", "sandboxed", "10.0", "(1.00)"]
    assert report.per_proxy(made_up(), OURS[:2], {Step.ECHO}) == ""


def test_acceptance_says_ok_not_met_and_not_measured() -> None:
    text = report.acceptance(made_up())
    verdicts = {line.split("  ")[0]: line for line in text.splitlines()}
    assert verdicts["round trip, no proxy"].endswith("0.50 x            ok")
    assert verdicts["round trip, 4 sandboxed : 4 SDK"].endswith("ok")
    assert "50.00 MB" in verdicts["memory, 4 sandboxed, agent aside"]
    assert verdicts["ready, 4 sandboxed"].endswith("not measured")
    slow = made_up()
    slow.rounds[OURS[0]]["echo_p50_us"] = [130.0]
    assert "0.65 x       NOT MET" in report.acceptance(slow)


@pytest.mark.parametrize(
    ("sign", "value", "met"),
    [("≤", 8.0, True), ("≤", 8.1, False), ("≥", 8.0, True), ("≥", 7.9, False)],
)
def test_bounds_include_themselves(sign: str, value: float, met: bool) -> None:
    aim = next(aim for aim in AIMS if aim.sign == sign)
    bound = Aim(aim.text, aim.metric, aim.chain, aim.against, aim.sign, 8, aim.unit)
    assert bound.met(value) is met


def test_troubles_are_told() -> None:
    results = made_up()
    assert report.troubles(results) == "reference 4 sdk: left processes behind"
    results.failures[OURS[0]] = "the chain ended (exit code 3)\noops"
    assert report.troubles(results).startswith(
        "conductor 0 FAILED: the chain ended (exit code 3)\noops\n"
    )


def test_json_holds_medians_rounds_ratios_and_aims() -> None:
    data = json.loads(json.dumps(report.as_json(made_up(), [*OURS, *THEIRS], FULL, "process")))
    first = data["chains"][0]
    assert (first["runner"], first["kind"], first["proxies"]) == ("conductor", "none", 0)
    assert first["medians"] == {"echo_p50_us": 100.0, "pss_mb": 50.0}
    assert first["rounds"]["echo_p50_us"] == [99.0, 100.0, 105.0]
    assert first["to_reference"] == {"echo_p50_us": 0.5}
    assert data["chains"][-1]["remarks"] == ["left processes behind"]
    assert data["units"]["pss_mb"] == "MB"
    met = {aim["aim"]: aim["met"] for aim in data["aims"]}
    assert met["round trip, no proxy"] is True
    assert met["ready, no proxy"] is None


def test_the_legend_names_what_is_shown_only() -> None:
    assert "round trip" in report.legend({Step.ECHO})
    assert "memory" not in report.legend({Step.ECHO})
