"""Plays of two revisions, compared; a play in which they differ, made short and readable."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tests.differential.playing import Made, Play
from tests.differential.revisions import Player

_DIGITS: Final = re.compile(r"\d+")


class Difference(msgspec.Struct, frozen=True):
    """A play of which two revisions make different things."""

    play: Play
    ours: Made
    theirs: Made

    @property
    def at(self) -> int:
        """The first step after which they differ."""
        pairs = zip(self.ours.steps, self.theirs.steps, strict=False)
        same = [one == other for one, other in pairs]
        return same.index(False) if False in same else len(same) - 1

    @property
    def kind(self) -> str:
        """The first difference, without its numbers: differences of one kind mostly have one
        cause."""
        ours, theirs = self.ours.steps[self.at], self.theirs.steps[self.at]
        for stream in sorted({*ours, *theirs}, key=_rank):
            one, other = ours.get(stream, []), theirs.get(stream, [])
            if one != other:
                both = zip([*one, "nothing"], [*other, "nothing"], strict=False)
                lines = next(pair for pair in both if pair[0] != pair[1])
                return " | ".join(_DIGITS.sub("0", f"{stream}: {line}"[:160]) for line in lines)
        return ""

    def transcript(self) -> str:
        """The play until then, and the outcome of the last step in each revision."""
        before = [line for lines in self.ours.lines[: self.at] for line in lines]
        ours, theirs = self.ours.lines[self.at], self.theirs.lines[self.at]
        diff = difflib.ndiff(theirs, ours)
        last = [line.rstrip("\n") for line in diff if not line.startswith("?")]
        return "\n".join([*before, f"-- step {self.at}: `-` as it was, `+` as it is", *last])


def _rank(stream: str) -> tuple[bool, str]:
    """The lines to peers count most."""
    return not stream.startswith("to "), stream


def differences(ours: Player, theirs: Player, plays: Sequence[Play]) -> Iterator[Difference]:
    """The plays of which two revisions make different things."""
    mine, others = ours.digests(plays), theirs.digests(plays)
    unlike = [play for play, one, two in zip(plays, mine, others, strict=True) if one != two]
    for play in unlike:
        found = difference(ours, theirs, play)
        if found is not None:
            yield found


def difference(ours: Player, theirs: Player, play: Play) -> Difference | None:
    """The difference in a play; None: there is none."""
    mine, others = ours.made(play), theirs.made(play)
    return None if mine.steps == others.steps else Difference(play, mine, others)


def shrunk(ours: Player, theirs: Player, found: Difference) -> Difference:
    """A shorter play with a difference of the same kind."""
    kind = found.kind

    def still(play: Play) -> bool:
        nonlocal found
        one = difference(ours, theirs, play)
        if one is None or one.kind != kind:
            return False
        found = one
        return True

    still(msgspec.structs.replace(found.play, steps=found.play.steps[: found.at]))
    before: Play | None = None
    while before != found.play:
        before = found.play
        for field in ("cast", "steps"):
            _without(found.play, field, still)
    return found


def _without(play: Play, field: str, still: Callable[[Play], bool]) -> None:
    """Leaves out parts of a field, large ones first, as long as the difference is still there."""
    seeds = list(getattr(play, field))
    size = max(1, len(seeds) // 2)
    while size:
        at = 0
        while at < len(seeds):
            fewer = seeds[:at] + seeds[at + size :]
            play = msgspec.structs.replace(play, **{field: tuple(fewer)})
            if still(play):
                seeds = fewer
            else:
                play = msgspec.structs.replace(play, **{field: tuple(seeds)})
                at += size
        size //= 2
