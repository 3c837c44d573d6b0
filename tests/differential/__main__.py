"""Plays storms with two revisions, and shows the shortest play of each kind of difference."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

from tests.differential.comparing import Difference, differences, shrunk
from tests.differential.playing import KINDS, Play, drawn
from tests.differential.revisions import Player, unpacked
from tests.places import ROOT

_AT_ONCE: Final = 50


def main() -> int:
    """The command; 1: something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--against", required=True, help="a revision, or a folder with one")
    parser.add_argument("--with", dest="ours", default=str(ROOT), help="instead of this tree")
    parser.add_argument("--plays", type=int, default=700, help="how many, of all kinds together")
    parser.add_argument("--seed", type=int, default=1, help="of the first play of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only plays of these kinds")
    parser.add_argument("--most", type=int, default=5, help="kinds of differences that are shown")
    parser.add_argument("--known", default="(?!)", help="a pattern: such kinds are not shown")
    given = parser.parse_args()
    kinds = given.kind or KINDS
    seeds = range(given.seed, given.seed + -(-given.plays // len(kinds)))
    with tempfile.TemporaryDirectory() as aside:
        folders = [unpacked(one, Path(aside)) for one in (given.ours, given.against)]
        with Player(folders[0]) as ours, Player(folders[1]) as theirs:
            found: dict[str, list[Difference]] = {}
            for kind in kinds:
                plays = [drawn(kind, seed) for seed in seeds]
                _compare(ours, theirs, kind, plays, found)
            known = [kind for kind in found if re.search(given.known, kind)]
            print(f"{sum(len(found.pop(kind)) for kind in known)} plays differ as is known")
            ranked = sorted(found.values(), key=len, reverse=True)
            for same in ranked[: given.most]:
                shortest = min(same, key=lambda one: one.at)
                short = shrunk(ours, theirs, shortest)
                print(f"\n== {len(same)} plays: {short.kind}\n{short.play}\n{short.transcript()}")
    return 1 if found else 0


def _compare(
    ours: Player, theirs: Player, kind: str, plays: list[Play], found: dict[str, list[Difference]]
) -> None:
    """Plays the drawn storms of one kind, and tells the outcome."""
    unlike, ends = 0, Counter[str]()
    for at in range(0, len(plays), _AT_ONCE):
        some = plays[at : at + _AT_ONCE]
        ends.update(end for _, end in ours.digests(some) if end)
        for one in differences(ours, theirs, some):
            found.setdefault(one.kind, []).append(one)
            unlike += 1
    print(f"{kind}: {len(plays)} plays, {unlike} differ", flush=True)
    for end, count in ends.most_common(5):
        print(f"    {count} end early: {end[:300]}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
