"""A whole run: rounds over all chains, so that noise hits all of them alike."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks.chains import Cast, Chain
from benchmarks.measure import Cell, Workload, measure, warm_up
from benchmarks.plan import Plan
from benchmarks.results import Results
from benchmarks.session import ChainError


def order(chains: Sequence[Chain], number: int) -> list[Chain]:
    """The order of round ``number``: every second round backwards.

    So a machine that grows slower (or a cache that grows warmer) during a round does
    not always favour the same chains.
    """
    return list(chains) if number % 2 == 0 else list(reversed(chains))


def run(
    plan: Plan,
    cast: Cast,
    load: Workload,
    *,
    env: Mapping[str, str],
    say: Callable[[str], None],
) -> Results:
    """Measures all chains ``load.rounds`` times. Failing chains are noted and left out."""
    results = Results()

    def attempt(chain: Chain, action: Callable[[], Cell | None]) -> None:
        if chain in results.failures:
            return
        try:
            cell = action()
        except ChainError as error:
            results.failures[chain] = str(error)
            say(f"{chain.label} failed: {error}")
            return
        if cell is not None:
            results.add(chain, cell)

    for chain in plan:
        say(f"warm up: {chain.label}")
        attempt(chain, partial(warm_up, chain, cast, load, env))
    for number in range(load.rounds):
        for chain in order(list(plan), number):
            say(f"round {number + 1}/{load.rounds}: {chain.label}")
            attempt(chain, partial(measure, chain, cast, load, plan[chain], env))
    return results
