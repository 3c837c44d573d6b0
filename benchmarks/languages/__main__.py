"""``python -m benchmarks.languages``: see README.md."""

import argparse
import dataclasses
import gc
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import wasm_host
from benchmarks.languages import measure, report, rows, trips
from benchmarks.languages.measure import Found, Load
from benchmarks.languages.rows import ROWS, NotBuiltError, Row
from benchmarks.languages.ways import WayError
from benchmarks.mcp.ways import WayError as ChainError
from benchmarks.native import default_cache
from benchmarks.options import find_conductor
from conductor.errors import ConductorError

_NONE: Final = "no proxy"
_FAILURES: Final = (WayError, ChainError, ConductorError, wasm_host.GuestError, OSError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit code: 0, or 1 if a proxy that was built failed."""
    parser = _parser()
    given = parser.parse_args(arguments)
    conductor = find_conductor(given.conductor)
    if conductor is None:
        parser.error("conductor is not installed; hint: pip install -e .")
    run = _Run(conductor, given.cache / "languages", _load(given))
    run.build([row for row in ROWS if row.key in given.only])
    run.measure()
    found = run.by_label()
    python = run.found.get("python")
    sys.stdout.write(f"{report.table(found)}\n\n{report.aim(python)}\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report.as_json(found), indent=2) + "\n", "utf-8")
    return 1 if run.failed else 0


class _Run:
    """The rows of one run, and the figures of each so far, by key."""

    def __init__(self, conductor: Sequence[str], cache: Path, load: Load) -> None:
        self.found: dict[str, Found] = {}
        self.failed = False
        self._conductor = conductor
        self._cache = cache
        self._load = load
        self._rows: list[tuple[Row, Path]] = []

    def build(self, wanted: Sequence[Row]) -> None:
        """Builds every proxy; proxies whose tools are missing are only named."""
        for row in wanted:
            self.found[row.key] = Found()
            try:
                self._rows.append((row, rows.make(row, self._cache, self._conductor)))
            except NotBuiltError as error:
                self.found[row.key].problem = str(error)
                sys.stderr.write(f"{row.label}: {error}\n{error.said}")

    def measure(self) -> None:
        """Plays all rounds: all rows in each round, every second round backwards."""
        for row, folder in self._rows:  # fills the caches of compiled code
            self._try(row, folder, Load(1, 2, 2, min(self._load.trips, 1)), Found())
        # As in the process that hosts guests: existing objects live as long as the process.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 50, 50)
        for number in range(self._load.rounds):
            if self._load.trips:
                self._without()
            for row, folder in self._rows if number % 2 == 0 else reversed(self._rows):
                self._try(row, folder, self._load, self.found[row.key])
        for row, folder in self._rows:
            if not self.found[row.key].problem:
                measure.sizes(row, folder, self.found[row.key])

    def by_label(self) -> dict[str, Found]:
        """The figures, for people."""
        labels = {_NONE: _NONE, **{row.key: row.label for row in ROWS}}
        return {labels[key]: found for key, found in self.found.items()}

    def _try(self, row: Row, folder: Path, load: Load, found: Found) -> None:
        if self.found[row.key].problem:
            return
        try:
            measure.messages(row, folder, load, found)
            proxy = trips.component(row, folder)
            measure.turns(self._conductor, proxy, self._cache / "state", load, found)
        except _FAILURES as error:
            self.found[row.key].problem = f"failed: {error}"
            self.failed = True

    def _without(self) -> None:
        found = self.found.setdefault(_NONE, Found())
        measure.turns(self._conductor, None, self._cache / "state", self._load, found)


def _load(given: argparse.Namespace) -> Load:
    load = measure.QUICK if given.quick else measure.FULL
    wanted = {
        "rounds": given.rounds,
        "small": given.messages,
        "large": None if given.messages is None else max(given.messages // 10, 2),
        "trips": given.turns,
    }
    return dataclasses.replace(load, **{k: v for k, v in wanted.items() if v is not None})


def _keys(text: str) -> frozenset[str]:
    keys = frozenset(text.split(","))
    known = [row.key for row in ROWS]
    if unknown := keys.difference(known):
        raise argparse.ArgumentTypeError(f"no {min(unknown)}; known: {', '.join(known)}")
    return keys


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.languages", description=__doc__)
    add = parser.add_argument
    every = ",".join(row.key for row in ROWS)
    add("--only", type=_keys, default=_keys(every), metavar="LIST", help=f"of {every}")
    add("--quick", action="store_true", help="a first impression")
    add("--rounds", type=int, metavar="N")
    add("--messages", type=int, metavar="N", help="small ones a round; a tenth as many large ones")
    add("--turns", type=int, metavar="N", help="through a whole chain, a round; 0: none")
    add("--conductor", metavar="COMMAND", help="default: the one beside this Python")
    add("--json", type=Path, metavar="FILE", help="write all rounds there")
    add("--cache", type=Path, default=default_cache(), help="where the proxies are built")
    return parser


if __name__ == "__main__":
    sys.exit(main())
