"""Which chains a run measures, and which steps of each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from benchmarks.chains import (
    ALONE,
    KINDS,
    Cast,
    Chain,
    Kind,
    Runner,
    counterpart,
    playable,
    takes_part,
)
from benchmarks.goals import GOALS, Goal
from benchmarks.metrics import Step

Plan = dict[Chain, frozenset[Step]]
"""In the order in which a round runs them."""


def wanted(cast: Cast, kinds: Collection[Kind], steps: Collection[Step]) -> list[Goal]:
    """The goals of these kinds and steps, without goals that need a runner who takes no part."""
    return [
        goal
        for goal in _chosen(kinds, steps)
        if takes_part(goal.chain, cast) and (goal.absolute or takes_part(goal.against, cast))
    ]


def for_goals(cast: Cast, kinds: Collection[Kind], steps: Collection[Step]) -> Plan:
    """The chains and steps for the goals of these kinds and steps, and the agent alone with all
    steps.

    A chain of conductor is there also without its counterpart: for its own figures.
    """
    found: dict[Chain, set[Step]] = {ALONE: set(steps)} if Kind.ALONE in kinds else {}
    # Compared chains stand side by side, so that a round measures them under like conditions.
    for goal in sorted(_chosen(kinds, steps), key=_place):
        for chain in (goal.chain, goal.against):
            found.setdefault(chain, set()).add(goal.metric.step)
    return _playable(found, cast)


def for_sizes(
    cast: Cast, kinds: Collection[Kind], steps: Collection[Step], proxies: Sequence[int]
) -> Plan:
    """Chains of these kinds with so many proxies, and the reference's; all steps of each."""
    ours = [
        Chain(Runner.CONDUCTOR, kind, number)
        for kind in KINDS[Runner.CONDUCTOR]
        for number in proxies
        if kind in kinds and (number == 0) == (kind is Kind.NONE)
    ]
    theirs = [chain for chain in map(counterpart, ours) if chain is not None]
    alone = [ALONE] if Kind.ALONE in kinds else []
    return _playable(dict.fromkeys([*alone, *ours, *theirs], steps), cast)


def before(chain: Chain) -> Chain | None:
    """The same chain under the other revision; None if ``chain`` is not the conductor's."""
    return replace(chain, runner=Runner.BEFORE) if chain.runner is Runner.CONDUCTOR else None


def beside_before(plan: Plan) -> Plan:
    """The plan with each chain of the conductor followed by its twin of the other revision."""
    found: Plan = {}
    for chain, steps in plan.items():
        found[chain] = steps
        if (other := before(chain)) is not None:
            found[other] = steps
    return found


def _chosen(kinds: Collection[Kind], steps: Collection[Step]) -> list[Goal]:
    return [goal for goal in GOALS if goal.chain.kind in kinds and goal.metric.step in steps]


def _place(goal: Goal) -> tuple[int, int]:
    return list(Kind).index(goal.chain.kind), goal.chain.proxies


def _playable(chains: Mapping[Chain, Collection[Step]], cast: Cast) -> Plan:
    return {chain: frozenset(steps) for chain, steps in chains.items() if playable(chain, cast)}
