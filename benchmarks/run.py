"""A whole run: rounds over all chains, so that noise hits all of them alike."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from benchmarks.chains import Cast, Chain
from benchmarks.measure import Cell, Workload, measure, warm_up
from benchmarks.metrics import Step
from benchmarks.session import ChainError
from benchmarks.stats import median


@dataclass(slots=True)
class Results:
    """Per chain and metric one figure a round; a failed chain has none from then on."""

    rounds: dict[Chain, dict[str, list[float]]] = field(default_factory=dict)
    failures: dict[Chain, str] = field(default_factory=dict)
    remarks: dict[Chain, list[str]] = field(default_factory=dict)

    def median(self, chain: Chain, key: str) -> float | None:
        """The median over the rounds; None where nothing was measured."""
        return median(self.rounds.get(chain, {}).get(key, []))

    def add(self, chain: Chain, cell: Cell) -> None:
        """Takes a round's cell in: the median of each metric's samples of that round."""
        figures = self.rounds.setdefault(chain, {})
        for key, samples in cell.samples.items():
            middle = median(samples)
            assert middle is not None
            figures.setdefault(key, []).append(middle)
        known = self.remarks.setdefault(chain, [])
        known += [remark for remark in cell.remarks if remark not in known]


def order(chains: Sequence[Chain], number: int) -> list[Chain]:
    """The order of round ``number``: every second round backwards.

    So a machine that grows slower (or a cache that grows warmer) during a round does
    not always favour the same chains.
    """
    return list(chains) if number % 2 == 0 else list(reversed(chains))


def run(
    chains: Sequence[Chain],
    cast: Cast,
    load: Workload,
    *,
    steps: Collection[Step],
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

    for chain in chains:
        say(f"warm up: {chain.label}")
        attempt(chain, partial(warm_up, chain, cast, load, env))
    for number in range(load.rounds):
        for chain in order(chains, number):
            say(f"round {number + 1}/{load.rounds}: {chain.label}")
            attempt(chain, partial(measure, chain, cast, load, steps, env))
    return results
