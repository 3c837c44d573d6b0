"""Tables, goals and JSON over results made up here; order and failures of a run."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.chains import ALONE, RELAY, Cast, Chain, Keeps, Kind, Runner
from benchmarks.goals import GOALS, Goal
from benchmarks.measure import FULL, Cell
from benchmarks.metrics import Step
from benchmarks.native import Programs
from benchmarks.plan import Plan, before, for_goals, wanted
from benchmarks.results import Results
from benchmarks.run import order

OURS = [Chain(Runner.CONDUCTOR, Kind.NONE)] + [
    Chain(Runner.CONDUCTOR, Kind.SANDBOXED, n) for n in (1, 2, 4)
]
THEIRS = [Chain(Runner.REFERENCE, Kind.NONE), Chain(Runner.REFERENCE, Kind.SDK, 4)]
TRIPS: Plan = dict.fromkeys([*OURS, *THEIRS], frozenset({Step.TRIP}))


def made_up() -> Results:
    """Ours: 100 µs and 10 more a proxy; theirs: 200 and 2000."""
    results = Results()
    for chain in OURS:
        trip = 100.0 + 10 * chain.proxies
        for noise in (-1.0, 0.0, 5.0):
            results.add(chain, Cell({"trip_us": [trip + noise], "pss_mb": [50.0]}))
    results.add(THEIRS[0], Cell({"trip_us": [200.0]}))
    results.add(THEIRS[1], Cell({"trip_us": [2000.0]}, ["left processes behind"]))
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
    assert report.table(["a", "n"], []) == ""


def test_figures_leave_open_what_was_not_measured() -> None:
    plan = TRIPS | {OURS[3]: frozenset({Step.TRIP, Step.BIG})}
    lines = report.figures(made_up(), plan).splitlines()
    assert lines[0].split() == ["chain", "trip", "µs", "1", "MB", "ms"]
    assert len(lines) == 2 + len(plan)
    row = next(line for line in lines if line.startswith("conductor 4 sandboxed"))
    assert row.split()[3:] == ["140", "-"]


def test_ratios_are_to_the_same_run_and_name_their_base() -> None:
    lines = report.ratios(made_up(), TRIPS).splitlines()
    assert lines[0].split() == ["ratio", "to", "trip"]
    assert [line.split() for line in lines[2:]] == [
        ["conductor", "0", "reference", "0", "0.50"],
        ["conductor", "4", "sandboxed", "reference", "4", "sdk", "0.07"],
    ]
    assert report.ratios(made_up(), dict.fromkeys([ALONE, *THEIRS], frozenset(Step))) == ""


def test_cost_of_one_more_proxy() -> None:
    head, _, row = report.per_proxy(made_up(), TRIPS).splitlines()
    assert "trip µs" in head
    assert row.split() == ["conductor", "sandboxed", "10.0", "(1.00)"]
    assert report.per_proxy(made_up(), dict.fromkeys(OURS[:2], frozenset(Step))) == ""


def test_a_change_shows_as_the_median_of_the_rounds_ratios_with_their_range() -> None:
    chain, other = OURS[0], before(OURS[0])
    assert other is not None
    results = Results()
    for now, then in ((110.0, 100.0), (90.0, 100.0), (240.0, 200.0)):
        results.add(chain, Cell({"trip_us": [now]}))
        results.add(other, Cell({"trip_us": [then], "big_ms": [1.0]}))
    plan: Plan = dict.fromkeys([chain, other, *THEIRS], frozenset({Step.TRIP, Step.BIG}))
    head, _, row = report.changes(results, plan, "v1").splitlines()
    assert head.split() == ["change", "v1", "now", "now", ":", "v1", "of", "single", "rounds"]
    assert row.split("µs")[1].split() == ["100", "110", "1.10", "0.90", "…", "1.20"]
    assert report.changes(results, TRIPS, "v1") == ""


def rows(results: Results, shown: Sequence[Goal] = GOALS) -> dict[str, list[str]]:
    """The words of each goal's row behind its text."""
    lines = report.goals(results, shown).splitlines()
    return {
        goal.text: line.removeprefix(goal.text).split()
        for goal in GOALS
        for line in lines
        if line.startswith(f"{goal.text}  ")
    }


def test_goals_pass_or_miss() -> None:
    found = rows(made_up())
    assert list(found) == [goal.text for goal in GOALS]
    words = ["200", "µs", "100", "µs", "0.50", "x", "≤", "0.5", "x", "pass"]
    assert found["round trip, no proxy"] == words
    assert found["memory, four sandboxed"] == ["-", "50.0", "MB", "-", "≤", "40", "MB", "MISS"]
    assert found["ready, four sandboxed"][-2:] == ["not", "measured"]
    slow = made_up()
    slow.rounds[OURS[0]]["trip_us"] = [130.0]
    assert rows(slow)["round trip, no proxy"][4:] == ["0.65", "x", "≤", "0.5", "x", "MISS"]


def test_a_row_without_a_goal_has_no_verdict() -> None:
    results = Results()
    results.add(Chain(Runner.CONDUCTOR, Kind.SANDBOXED, 16), Cell({"trip_us": [1.0]}))
    assert rows(results)["round trip, sixteen sandboxed"] == ["-", "1", "µs", "-"]


def test_what_the_records_cost_is_a_table_of_its_own() -> None:
    results = Results()
    for keeps, pace in ((Keeps.TRACE, 80.0), (Keeps.NOTHING, 100.0)):
        chain = Chain(Runner.CONDUCTOR, Kind.NONE, keeps=keeps)
        results.add(chain, Cell({"stream_per_s": [pace]}))
    _, first, _, second = report.goals(results, GOALS).split("\n\n")
    assert first.split()[:2] == ["against", "reference"]
    assert second.split()[:3] == ["against", "nothing", "kept"]
    assert "0.80 x   ≥ 0.7 x          pass" in second


def test_conductor_stands_beside_a_relay_without_the_reference_too() -> None:
    results = made_up()
    results.add(RELAY, Cell({"trip_us": [80.0]}))
    found = rows(results)["round trip, no proxy, beside a relay"]
    assert found == ["80", "µs", "100", "µs", "1.25", "x", "≤", "1.25", "x", "pass"]
    shown = wanted(Cast(Programs(*[Path("/p")] * 3), ("c",)), {Kind.NONE}, {Step.TRIP})
    assert report.goals(results, shown).split()[:3] == ["against", "bare", "relay"]


def test_goals_are_shown_of_those_who_take_part() -> None:
    programs = Programs(*[Path("/p")] * 3)
    every = (frozenset(Kind), frozenset(Step))
    assert wanted(Cast(programs, ("c",), ("r",)), *every) == list(GOALS)
    alone = wanted(Cast(programs, ("c",)), *every)
    assert {goal.text for goal in alone if goal.against.runner is Runner.REFERENCE} == {
        goal.text for goal in GOALS if goal.absolute
    }
    assert wanted(Cast(programs, None, ("r",)), *every) == []
    assert [
        goal.text for goal in wanted(Cast(programs, ("c",), ("r",)), {Kind.CONTEXT}, every[1])
    ] == ["whole turn, four sandboxed, `context`"]
    # Without the compiler of the guest its row stands there, not measured.
    assert rows(Results())["round trip, four that change each prompt"][-2:] == ["not", "measured"]


@pytest.mark.parametrize(("higher", "beside"), [(False, 1.01), (True, 0.99)])
def test_bounds_include_themselves(higher: bool, beside: float) -> None:
    goal = next(g for g in GOALS if g.bound and g.metric.higher_is_better is higher)
    assert goal.bound is not None
    assert goal.met(goal.bound) is True
    assert goal.met(goal.bound * beside) is False
    assert goal.met(None) is None


def test_each_goal_has_a_name_of_its_own_and_its_chains_can_run() -> None:
    assert len({goal.text for goal in GOALS}) == len(GOALS)
    here = Programs(*[Path("/p")] * 5)
    plan = for_goals(Cast(here, ("c",), ("r",)), frozenset(Kind), frozenset(Step))
    assert all({goal.chain, goal.against} <= plan.keys() for goal in GOALS)


def test_troubles_are_listed() -> None:
    results = made_up()
    assert report.troubles(results) == "reference 4 sdk: left processes behind"
    results.failures[OURS[0]] = "the chain ended (exit code 3)\noops"
    assert report.troubles(results).startswith(
        "conductor 0 FAILED: the chain ended (exit code 3)\noops\n"
    )


def test_json_holds_medians_rounds_and_verdicts() -> None:
    data = json.loads(json.dumps(report.as_json(made_up(), TRIPS, FULL, {"date": "today"})))
    assert data["date"] == "today"
    first = data["chains"][0]
    assert (first["runner"], first["kind"], first["proxies"]) == ("conductor", "none", 0)
    assert first["medians"] == {"trip_us": 100.0, "pss_mb": 50.0}
    assert first["rounds"]["trip_us"] == [99.0, 100.0, 105.0]
    assert data["chains"][-1]["remarks"] == ["left processes behind"]
    assert data["units"]["pss_mb"] == "MB"
    assert data["met"]["round trip, no proxy"] is True
    assert data["met"]["ready, no proxy"] is None


def test_the_legend_names_what_is_shown_only() -> None:
    assert "round trip" in report.legend(TRIPS)
    assert "memory" not in report.legend(TRIPS)
