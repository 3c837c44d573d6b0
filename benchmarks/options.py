"""The command line, and who takes part in the run."""

import argparse
import dataclasses
import importlib.util
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.chains import Kind
from benchmarks.history import HISTORY
from benchmarks.measure import FULL, QUICK, Workload
from benchmarks.metrics import Step
from benchmarks.native import default_cache

REFERENCE_NAME = "agent-client-protocol-conductor"


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line; ``conductor`` and ``reference`` are commands or None.

    ``proxies`` is empty for the chains of the goals. With ``picture`` nothing is measured: the
    picture is drawn from the run in ``source``.
    """

    load: Workload
    proxies: tuple[int, ...]
    kinds: frozenset[Kind]
    steps: frozenset[Step]
    conductor: tuple[str, ...] | None
    reference: tuple[str, ...] | None
    against: str | None
    cache: Path
    json: Path | None
    history: Path | None
    picture: Path | None
    source: Path


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Reads the command line; ends the program with usage and code 2 if it is wrong."""
    given = _parser().parse_args(arguments)
    load = QUICK if given.quick else FULL
    if given.rounds is not None:
        load = dataclasses.replace(load, rounds=given.rounds)
    kinds, steps = given.only
    # The cost of a change shows without the reference, which takes most of a run's time.
    wants_reference = given.reference != "none" and not (given.against and not given.reference)
    return Options(
        load=load,
        proxies=given.proxies or (),
        kinds=kinds,
        steps=steps,
        conductor=find_conductor(given.conductor),
        reference=find_reference(given.reference) if wants_reference else None,
        against=given.against,
        cache=given.cache,
        json=given.json,
        history=given.record,
        picture=given.picture,
        source=given.source,
    )


def find_conductor(given: str | None) -> tuple[str, ...] | None:
    """The product's command: as given, the script beside this Python, or ``-m conductor``."""
    if given is not None:
        return tuple(shlex.split(given))
    script = Path(sys.executable).parent / "conductor"
    if script.exists():
        return (str(script),)
    # An empty folder of that name is a namespace package too, but none that can be run.
    if not importlib.util.find_spec("conductor") or not importlib.util.find_spec(
        "conductor.__main__"
    ):
        return None
    return (sys.executable, "-m", "conductor")


def find_reference(given: str | None) -> tuple[str, ...] | None:
    """The reference's command: the path given, or the program on PATH."""
    found = given if given is not None else shutil.which(REFERENCE_NAME)
    return (found,) if found is not None else None


def parse_only(text: str) -> tuple[frozenset[Kind], frozenset[Step]]:
    """Metrics and kinds by name, separated by commas; all where none of a sort is named."""
    kinds: set[Kind] = set()
    steps: set[Step] = set()
    for name in filter(None, text.split(",")):
        if name in set(Kind):
            kinds.add(Kind(name))
        elif name in set(Step):
            steps.add(Step(name))
        else:
            known = ", ".join([*Step, *Kind])
            raise argparse.ArgumentTypeError(f"no metric or kind '{name}'; known: {known}")
    return frozenset(kinds or Kind), frozenset(steps or Step)


def parse_counts(text: str) -> tuple[int, ...]:
    """Numbers of proxies, separated by commas: sorted, each once."""
    try:
        counts = {int(word) for word in text.split(",")}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no list such as 0,1,4") from error
    if min(counts) < 0:
        raise argparse.ArgumentTypeError("a chain has no negative number of proxies")
    return tuple(sorted(counts))


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures chains of proxies beside the Rust reference, and prints the goals.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer rounds, smaller sizes")
    add("--rounds", type=_positive, metavar="N", help=f"default {FULL.rounds}")
    add(
        "--only",
        type=parse_only,
        default=parse_only(""),
        metavar="NAMES",
        help=f"metrics ({','.join(Step)}) and kinds ({','.join(Kind)}), separated by commas",
    )
    add(
        "--proxies",
        type=parse_counts,
        metavar="LIST",
        help="chains of so many proxies, as 0,1,2,4,8, instead of those of the goals",
    )
    add("--against", metavar="REV", help="beside another revision, which is built in the cache")
    add("--conductor", metavar="COMMAND", help="default: the one beside this Python")
    add(
        "--reference",
        metavar="PATH",
        help=f"default: {REFERENCE_NAME} on PATH; 'none' leaves it out, as --against does",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add(
        "--record",
        type=Path,
        nargs="?",
        const=HISTORY,
        metavar="FILE",
        help=f"append the run to the history (default {HISTORY.name} beside the benchmarks)",
    )
    add("--picture", type=Path, metavar="SVG", help="measure nothing; draw the goals of a run")
    add(
        "--from",
        dest="source",
        type=Path,
        default=HISTORY,
        metavar="FILE",
        help="the run to draw: what --json wrote, or the last line of a history (default)",
    )
    add("--cache", type=Path, default=default_cache(), help="where built programs are kept")
    return parser
