"""Which chains are planned, their command lines, and the options that choose them."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chains import (
    ALONE,
    Cast,
    Chain,
    Keeps,
    Kind,
    Runner,
    bare,
    command,
    counterpart,
    plan,
)
from benchmarks.measure import FULL, QUICK, environment
from benchmarks.metrics import METRICS, Step
from benchmarks.native import Programs
from benchmarks.options import find_reference, parse, parse_counts, parse_only

PROGRAMS = Programs(Path("/b/agent"), Path("/b/my proxy"), Path("/b/client"), Path("/b/sdk"))
CAST = Cast(PROGRAMS, ("py", "-m", "conductor"), ("ref",), trace=Path("/t"))
EVERY = frozenset(Kind)


def test_everything_is_planned_once() -> None:
    chains = plan(CAST, (0, 1, 4), EVERY)
    assert len(chains) == len(set(chains)) == 1 + (1 + 6 * 2) + (1 + 2 * 2)
    assert chains[0] == ALONE
    assert all((chain.proxies == 0) == (chain.kind in {Kind.ALONE, Kind.NONE}) for chain in chains)


def test_each_chain_has_its_counterpart_in_the_plan() -> None:
    chains = plan(CAST, (0, 2), EVERY)
    ours = [chain for chain in chains if chain.runner is Runner.CONDUCTOR]
    assert ours
    assert all(counterpart(chain) in chains for chain in ours)


def test_a_kind_brings_what_it_is_compared_with() -> None:
    assert plan(CAST, (0, 4), {Kind.SANDBOXED}) == [
        Chain(Runner.CONDUCTOR, Kind.SANDBOXED, 4),
        Chain(Runner.REFERENCE, Kind.SDK, 4),
    ]


def test_what_records_cost_is_compared_with_a_chain_that_keeps_nothing() -> None:
    keeps = parse(["--records"]).keeps
    chains = plan(CAST, (0, 2), {Kind.SUBPROCESS}, keeps)
    ours = [chain for chain in chains if chain.runner is Runner.CONDUCTOR]
    assert {chain.keeps for chain in ours} == set(Keeps)
    assert len({chain.label for chain in chains}) == len(chains) == len(Keeps) + 1
    assert {bare(chain) for chain in chains} == {None, replace(ours[0], keeps=Keeps.NOTHING)}
    assert [chain for chain in ours if counterpart(chain)] == plan(CAST, (2,), {Kind.SUBPROCESS})[
        :1
    ]
    assert parse([]).keeps == (Keeps.RING,)


def test_who_is_absent_is_left_out() -> None:
    assert plan(Cast(PROGRAMS), (0, 1), EVERY) == [ALONE]
    without_sdk = Cast(Programs(PROGRAMS.agent, PROGRAMS.proxy, PROGRAMS.client), ("c",), ("r",))
    assert Kind.SDK not in {chain.kind for chain in plan(without_sdk, (0, 1), EVERY)}


def test_only_ours_is_compared() -> None:
    assert counterpart(ALONE) is None
    assert counterpart(Chain(Runner.REFERENCE, Kind.SDK, 4)) is None


@pytest.mark.parametrize(
    ("chain", "expected"),
    [
        (ALONE, ["/b/agent"]),
        (Chain(Runner.REFERENCE, Kind.NONE), ["ref", "agent", "/b/agent"]),
        (
            Chain(Runner.CONDUCTOR, Kind.SANDBOXED, 2),
            [
                *("py", "-m", "conductor", "agent", "--isolation", "process"),
                *("passthrough,profile=full", "passthrough,profile=full", "/b/agent"),
            ],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.UNCONCERNED, 1),
            [
                *("py", "-m", "conductor", "agent", "--isolation", "process"),
                *("passthrough,profile=context", "/b/agent"),
            ],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.TRUSTED, 1),
            [
                *("py", "-m", "conductor", "agent", "--isolation", "process"),
                *("passthrough,profile=trusted", "/b/agent"),
            ],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.INLINE, 1),
            [
                *("py", "-m", "conductor", "agent", "--isolation", "inline"),
                *("passthrough", "/b/agent"),
            ],
        ),
        (
            Chain(Runner.REFERENCE, Kind.SUBPROCESS, 2),
            ["ref", "agent", "'/b/my proxy'", "'/b/my proxy'", "/b/agent"],
        ),
        (Chain(Runner.REFERENCE, Kind.SDK, 1), ["ref", "agent", "/b/sdk", "/b/agent"]),
        (
            Chain(Runner.CONDUCTOR, Kind.NONE, 0, Keeps.NOTHING),
            ["py", "-m", "conductor", "agent", "--ring", "none", "/b/agent"],
        ),
        (
            Chain(Runner.CONDUCTOR, Kind.SUBPROCESS, 1, Keeps.TRACE_ALL),
            [
                *("py", "-m", "conductor", "agent", "--ring", "none", "--trace", "/t"),
                *("--trace-content", "all", "'/b/my proxy'", "/b/agent"),
            ],
        ),
    ],
    ids=lambda value: value.label if isinstance(value, Chain) else "",
)
def test_command(chain: Chain, expected: list[str]) -> None:
    assert command(chain, CAST) == expected


def test_the_slow_agent_is_one_component_in_a_chain_and_words_alone() -> None:
    assert command(Chain(Runner.REFERENCE, Kind.NONE), CAST, 300)[-1] == "/b/agent --start-ms 300"
    assert command(ALONE, CAST, 300) == ["/b/agent", "--start-ms", "300"]


def test_only_names_metrics_and_kinds() -> None:
    assert parse_only("echo,sandboxed,stream") == (
        frozenset({Kind.SANDBOXED}),
        frozenset({Step.ECHO, Step.STREAM}),
    )
    assert parse_only("") == (frozenset(Kind), frozenset(Step))


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
    assert parse([]).load == FULL
    assert parse([]).proxies == (0, 1, 2, 4, 8)
    quick = parse(["--quick", "--rounds", "7", "--reference", "none"])
    assert (quick.load.rounds, quick.load.echoes) == (7, QUICK.echoes)
    assert quick.proxies == (0, 1, 4)
    assert quick.reference is None


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--isolation", "none"], ["--only", "x"]])
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


def test_the_chain_caches_bytecode_outside_the_tree() -> None:
    env = environment(Path("/cache"), {"PYTHONDONTWRITEBYTECODE": "1", "HOME": "/h"})
    assert env == {"HOME": "/h", "PYTHONPYCACHEPREFIX": "/cache/pycache"}


def test_every_step_has_a_metric_and_every_metric_a_name_of_its_own() -> None:
    assert {metric.step for metric in METRICS} == set(Step)
    assert len({metric.key for metric in METRICS}) == len(METRICS)
