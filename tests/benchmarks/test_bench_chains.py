"""Which chains are planned, their command lines, and the options that choose them."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chains import (
    ALONE,
    RELAY,
    Cast,
    Chain,
    Keeps,
    Kind,
    Runner,
    command,
    counterpart,
)
from benchmarks.goals import GOALS
from benchmarks.history import HISTORY
from benchmarks.measure import FULL, QUICK, environment
from benchmarks.metrics import METRICS, Step
from benchmarks.native import Programs
from benchmarks.options import find_reference, parse, parse_counts, parse_only
from benchmarks.plan import before, beside_before, for_goals, for_sizes
from tests.places import ROOT

PROGRAMS = Programs(
    Path("/b/my agent"), Path("/b/my proxy"), Path("/b/client"), Path("/b/c.wasm"), Path("/b/sdk")
)
CAST = Cast(PROGRAMS, ("py", "-m", "conductor"), ("ref",), ("old",), trace=Path("/t"))
EVERY = frozenset(Kind)
ALL = frozenset(Step)


def test_the_goals_chains_are_planned_with_the_steps_they_need_alone() -> None:
    plan = for_goals(CAST, EVERY, ALL)
    assert plan[ALONE] == ALL
    for goal in GOALS:
        assert goal.metric.step in plan[goal.chain]
        assert goal.metric.step in plan[goal.against]
    assert plan[Chain(Runner.CONDUCTOR, Kind.CHANGING, 4)] == {Step.TRIP}
    assert plan[Chain(Runner.REFERENCE, Kind.SDK, 16)] == {Step.TRIP}
    assert Runner.BEFORE not in {chain.runner for chain in plan}


def test_what_is_compared_stands_side_by_side() -> None:
    plan = list(for_goals(CAST, {Kind.NONE}, {Step.STREAM}))
    ours = Chain(Runner.CONDUCTOR, Kind.NONE)
    assert plan == [
        ours,
        Chain(Runner.REFERENCE, Kind.NONE),
        replace(ours, keeps=Keeps.NOTHING),
        replace(ours, keeps=Keeps.TRACE),
    ]


def test_the_relay_runs_between_conductor_and_the_reference_whoever_takes_part() -> None:
    ours, theirs = Chain(Runner.CONDUCTOR, Kind.NONE), Chain(Runner.REFERENCE, Kind.NONE)
    assert list(for_goals(CAST, {Kind.NONE}, {Step.TRIP})) == [ours, RELAY, theirs]
    without = replace(CAST, reference=None)
    assert list(for_goals(without, {Kind.NONE}, {Step.TRIP})) == [ours, RELAY]


def test_kinds_and_steps_choose_among_the_goals() -> None:
    ours, theirs = Chain(Runner.CONDUCTOR, Kind.CONTEXT, 4), Chain(Runner.REFERENCE, Kind.SDK, 4)
    assert for_goals(CAST, {Kind.CONTEXT}, ALL) == {ours: {Step.TURN}, theirs: {Step.TURN}}
    assert for_goals(CAST, {Kind.CONTEXT}, {Step.BIG}) == {}


def test_without_the_reference_conductor_is_measured_all_the_same() -> None:
    with_it = for_goals(CAST, EVERY, ALL)
    without = for_goals(replace(CAST, reference=None), EVERY, ALL)
    assert without == {c: s for c, s in with_it.items() if c.runner is not Runner.REFERENCE}


def test_sizes_are_planned_once_beside_the_reference() -> None:
    plan = for_sizes(CAST, EVERY, ALL, (0, 1, 4))
    assert len(plan) == 1 + (1 + 5 * 2) + (1 + 2 * 2)
    assert all((chain.proxies == 0) == (chain.kind in {Kind.ALONE, Kind.NONE}) for chain in plan)
    assert all(counterpart(chain) in plan for chain in plan if chain.runner is Runner.CONDUCTOR)
    assert set(plan.values()) == {ALL}


def test_the_other_revision_runs_right_behind_each_chain_of_conductor() -> None:
    plan = beside_before(for_sizes(CAST, EVERY, ALL, (0, 2)))
    chains = list(plan)
    ours = [chain for chain in chains if chain.runner is Runner.CONDUCTOR]
    for chain in ours:
        other = before(chain)
        assert other is not None
        assert chains[chains.index(chain) + 1] == other
        assert plan[other] == plan[chain]
        assert command(other, CAST)[1:] == command(chain, CAST)[3:]
    assert sum(chain.runner is Runner.BEFORE for chain in chains) == len(ours) > 0


def test_who_is_absent_is_left_out() -> None:
    assert list(for_sizes(Cast(PROGRAMS), EVERY, ALL, (0, 1))) == [ALONE]
    few = Programs(PROGRAMS.agent, PROGRAMS.proxy, PROGRAMS.client)
    kinds = {chain.kind for chain in for_goals(Cast(few, ("c",), ("r",)), EVERY, ALL)}
    assert kinds == EVERY - {Kind.SDK, Kind.CHANGING}


def test_only_ours_is_compared() -> None:
    assert counterpart(ALONE) is None
    assert counterpart(Chain(Runner.REFERENCE, Kind.SDK, 4)) is None
    assert counterpart(Chain(Runner.CONDUCTOR, Kind.NONE, keeps=Keeps.TRACE)) is None


PLAYED = ("py", "-m", "conductor", "agent")


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (ALONE, ["/b/my agent"]),
        (
            RELAY,
            [sys.executable, "-I", "-S", str(ROOT / "benchmarks" / "relay.py"), "/b/my agent"],
        ),
        (Chain(Runner.REFERENCE, Kind.NONE), ["ref", "agent", "'/b/my agent'"]),
        (
            Chain(Runner.CONDUCTOR, Kind.SANDBOXED, 2),
            [*PLAYED, *["passthrough,only=full"] * 2, "'/b/my agent'"],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.CONTEXT, 1),
            [*PLAYED, "passthrough,only=context", "'/b/my agent'"],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.CHANGING, 1),
            [*PLAYED, "/b/c.wasm,only=full", "'/b/my agent'"],
        ),
        (
            Chain(Runner.REFERENCE, Kind.SUBPROCESS, 2),
            ["ref", "agent", *["'/b/my proxy'"] * 2, "'/b/my agent'"],
        ),
        (Chain(Runner.REFERENCE, Kind.SDK, 1), ["ref", "agent", "/b/sdk", "'/b/my agent'"]),
        (
            Chain(Runner.CONDUCTOR, Kind.NONE, 0, Keeps.NOTHING),
            [*PLAYED, "-c", "ring=none", "'/b/my agent'"],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.SUBPROCESS, 1, Keeps.TRACE),
            [*PLAYED, "-c", "ring=none", "--trace", "/t", "'/b/my proxy'", "'/b/my agent'"],
        ),
    ],
)
def test_command_lines(chain: Chain, expected: list[str]) -> None:
    assert command(chain, CAST) == expected


def test_labels_tell_the_chains_apart() -> None:
    plan = beside_before(for_goals(CAST, EVERY, ALL) | for_sizes(CAST, EVERY, ALL, (0, 2)))
    assert len({chain.label for chain in plan}) == len(plan)


def test_only_names_metrics_and_kinds() -> None:
    assert parse_only("turn,sandboxed,stream") == (
        frozenset({Kind.SANDBOXED}),
        frozenset({Step.TURN, Step.STREAM}),
    )
    assert parse_only("") == (EVERY, ALL)


def test_only_refuses_the_unknown_and_lists_the_known() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"'ecko'; known: ready, .*sdk"):
        parse_only("ecko")


def test_no_name_is_both_metric_and_kind() -> None:
    assert not set(Step) & set(Kind)


def test_counts() -> None:
    assert parse_counts("4,0,4") == (0, 4)
    for wrong in ("", "a", "1,-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            parse_counts(wrong)


def test_defaults_and_quick() -> None:
    usual = parse([])
    assert (usual.load, usual.proxies, usual.kinds, usual.steps) == (FULL, (), EVERY, ALL)
    assert (usual.against, usual.history, usual.picture) == (None, None, None)
    quick = parse(["--quick", "--rounds", "7", "--reference", "none", "--record"])
    assert (quick.load.rounds, quick.load.turns) == (7, QUICK.turns)
    assert quick.reference is None
    assert quick.history == quick.source == HISTORY


def test_beside_another_revision_the_reference_runs_only_when_it_is_named() -> None:
    assert parse(["--against", "HEAD"]).reference is None
    assert parse(["--against", "HEAD", "--reference", "/r"]).reference == ("/r",)


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--proxies", "x"], ["--only", "x"]])
def test_a_wrong_option_ends_with_usage(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse(wrong)
    assert end.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_programs_by_command_line() -> None:
    assert parse(["--conductor", "'a b' -m c"]).conductor == ("a b", "-m", "c")
    assert find_reference("/r/ref") == ("/r/ref",)


def test_the_chain_has_its_own_bytecode_and_state_folder() -> None:
    env = environment(Path("/cache"), {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/h"})
    own = {"PYTHONPYCACHEPREFIX": "/cache/pycache", "XDG_STATE_HOME": "/cache/state"}
    assert env == {"HOME": "/h", **own}


def test_every_step_has_a_metric_and_every_metric_a_name_of_its_own() -> None:
    assert {metric.step for metric in METRICS} == set(Step)
    assert len({metric.key for metric in METRICS}) == len(METRICS)
