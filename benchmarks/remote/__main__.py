"""``python -m benchmarks.remote``: see ../README.md."""

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import history, proctree
from benchmarks.measure import environment
from benchmarks.native import BuildError, Programs, build_c, default_cache
from benchmarks.options import find_conductor
from benchmarks.remote import sessions, ways
from benchmarks.remote.load import QUICK, Load, Part
from benchmarks.remote.report import Found
from benchmarks.session import ChainError

RUST = "rust-peers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Performs the command line. Returns 0; 1 when something failed; 2 when nothing can run."""
    given = _parser().parse_args(arguments)
    load: Load = QUICK if given.quick else Load()
    if given.rounds is not None:
        load = dataclasses.replace(load, rounds=given.rounds)
    conductor = find_conductor(given.conductor)
    if conductor is None:
        say("error: there is no conductor beside this Python\n\nhint: pip install -e '.[remote]'")
        return 2
    rust = shutil.which(given.rust or RUST)
    if rust is None:
        say(f"note: no {given.rust or RUST} on PATH; there are no ratios to the Rust server")
    if not proctree.SUPPORTED:
        say("note: CPU time and memory are measured on Linux only")
    about = history.machine()
    try:
        programs = build_c(given.cache)
        with tempfile.TemporaryDirectory() as aside:
            found = _measured(given.only, programs, conductor, rust, load, given.cache, Path(aside))
    except BuildError as error:
        say(f"error: {error}\n\nhint: {error.hint}")
        return 2
    except ChainError as error:
        say(f"error: {error}")
        return 1
    print(f"medians of {load.rounds} rounds; load average at the start {about['load']}\n")
    print(found.text())
    if given.json is not None:
        given.json.write_text(json.dumps(found.as_json(about), indent=1) + "\n", "utf-8")
    return 0


def _measured(
    parts: frozenset[Part],
    programs: Programs,
    conductor: tuple[str, ...],
    rust: str | None,
    load: Load,
    cache: Path,
    folder: Path,
) -> Found:
    env = environment(cache)
    found = Found()
    if parts & {Part.TRIP, Part.TURN, Part.STREAM}:
        found.ways = ways.measure(programs, conductor, rust, load, parts, env, folder, say)
    if Part.MEMORY in parts and proctree.SUPPORTED:
        for share in (True, False):
            say(f"memory{', shared chains' * share}")
            found.weights[share] = sessions.weigh(
                programs, conductor, load, env, folder, share=share
            )
    if Part.MANY in parts:
        for scheme in ("ws", "http"):
            say(f"{load.sessions} sessions at once: {scheme}")
            found.crowds[scheme] = sessions.crowd(programs, conductor, load, env, scheme)
    return found


def _only(text: str) -> frozenset[Part]:
    try:
        return frozenset(Part(word) for word in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; known: {', '.join(Part)}") from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.remote",
        description="Measures chains at addresses beside stdio and the Rust SDK's server.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="one round, small sizes")
    add("--rounds", type=int, metavar="N", help=f"default {Load().rounds}")
    add("--only", type=_only, default=frozenset(Part), metavar="PARTS", help=", ".join(Part))
    add("--conductor", metavar="COMMAND", help="default: the one beside this Python")
    add("--rust", metavar="PATH", help=f"the Rust SDK's server; default: {RUST} on PATH")
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--cache", type=Path, default=default_cache(), help="where built programs are kept")
    return parser


def say(text: str) -> None:
    """Progress goes to stderr, so that stdout holds the tables only."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
