"""The figures of a run so far."""

from dataclasses import dataclass, field

from benchmarks.chains import Chain
from benchmarks.measure import Cell
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
