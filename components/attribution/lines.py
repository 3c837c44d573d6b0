"""Whose the lines of a file are: its lines as digests, each with the edit that made it.

Pure, and without anything of the sandbox: `conductor log blame` reads records by this file, too.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

FOLDER: Final = ".conductor/attribution"
"""Where the records of a project are, below its folder."""
SHARDS: Final = "0123456789abcdef"
"""A project has a file of records for each of these: files are written whole, so they are small."""
WIDTH: Final = 8
"""Characters of a digest."""
_SMALL: Final = 4_000
"""So many pairs of lines are compared one by one where no line stands out."""
_WORK: Final = 500_000
"""So many lines are looked at again and again until those that are left count as different."""

Owners = list[str | None]
"""By line, the edit that made it; None: unknown."""
Run = list[str | None]
"""`[EDIT, DIGESTS]`: neighbouring lines of one edit, their digests without a space."""


def shard(path: str) -> str:
    """The file of records, below the project's folder, for a path below it."""
    return f"{FOLDER}/lines-{hashlib.sha256(path.encode()).hexdigest()[0]}.json"


def split(text: str) -> list[str]:
    """The lines of a text, without their ends."""
    lines = text.replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def digest(line: str) -> str:
    """The digest that stands for a line in a record."""
    said = line.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(said, digest_size=WIDTH // 2).hexdigest()


def digests(text: str) -> list[str]:
    """The digests of the lines of a text."""
    return [digest(line) for line in split(text)]


def packed(lines: Sequence[str], owners: Owners) -> list[Run]:
    """Lines and their owners, as a record has them."""
    runs: list[Run] = []
    for line, owner in zip(lines, owners, strict=True):
        if runs and runs[-1][0] == owner:
            runs[-1][1] = f"{runs[-1][1]}{line}"
        else:
            runs.append([owner, line])
    return runs


def unpacked(runs: Sequence[Sequence[str | None]]) -> tuple[list[str], Owners]:
    """The lines and owners in a record."""
    lines: list[str] = []
    owners: Owners = []
    for owner, held in runs:
        found = [held[at : at + WIDTH] for at in range(0, len(held), WIDTH)] if held else []
        lines += found
        owners += [owner] * len(found)
    return lines, owners


def moved(runs: Sequence[Sequence[str | None]], now: Sequence[str]) -> tuple[Owners, list[bool]]:
    """The owners of a file's lines as they are now, and which of these lines the record lacks."""
    lines, owners = unpacked(runs)
    places = matches(lines, now)
    return [None if at < 0 else owners[at] for at in places], [at < 0 for at in places]


def ranges(owners: Owners) -> Iterator[tuple[int, int, str | None]]:
    """Neighbouring lines of one owner: the first and the last, counted from 1, and the owner."""
    start = 0
    for at in range(1, len(owners) + 1):
        if at == len(owners) or owners[at] != owners[start]:
            yield start + 1, at, owners[start]
            start = at


# -- which lines are the same ----------------------------------------------------------------------


def matches(old: Sequence[str], new: Sequence[str]) -> list[int]:
    """For each new line its place among the old ones; -1: there is none.

    Places ascend. The time grows little faster than the lines: lines that stand once on both sides
    divide them (patience diff), and where there are none, only a few lines are compared in pairs.
    """
    found = [-1] * len(new)
    spans = [(0, len(old), 0, len(new))]
    left = _WORK
    while spans:
        start, end, first, last = _trimmed(old, new, found, spans.pop())
        left -= end - start + last - first
        if start == end or first == last or left < 0:
            continue
        anchors = _anchors(old, new, (start, end, first, last))
        if not anchors and (end - start) * (last - first) <= _SMALL:
            anchors = _common(old, new, (start, end, first, last))
            for at, place in anchors:
                found[place] = at
            continue
        for at, place in anchors:
            found[place] = at
            spans.append((start, at, first, place))
            start, first = at + 1, place + 1
        if anchors:
            spans.append((start, end, first, last))
    return found


Span = tuple[int, int, int, int]
"""Old lines from, up to; new lines from, up to."""


def _trimmed(old: Sequence[str], new: Sequence[str], found: list[int], span: Span) -> Span:
    """A span without the equal lines at its ends; `found` takes their places."""
    start, end, first, last = span
    while start < end and first < last and old[start] == new[first]:
        found[first] = start
        start, first = start + 1, first + 1
    while start < end and first < last and old[end - 1] == new[last - 1]:
        end, last = end - 1, last - 1
        found[last] = end
    return start, end, first, last


def _anchors(old: Sequence[str], new: Sequence[str], span: Span) -> list[tuple[int, int]]:
    """Lines that stand once on both sides, as many as keep their order."""
    start, end, first, last = span
    mine, theirs = Counter(old[start:end]), Counter(new[first:last])
    once = {old[at]: at for at in range(start, end) if mine[old[at]] == 1}
    pairs = [
        (once[new[at]], at) for at in range(first, last) if theirs[new[at]] == 1 and new[at] in once
    ]
    return _ascending(pairs)


def _ascending(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest part of pairs whose first numbers ascend."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (at, _) in enumerate(pairs):
        place = bisect.bisect_left(tails, at)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1] = [at]
        ends[place : place + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _common(old: Sequence[str], new: Sequence[str], span: Span) -> list[tuple[int, int]]:
    """The longest common lines of a small span, by their table."""
    start, end, first, last = span
    table = [[0] * (last - first + 1) for _ in range(end - start + 1)]
    for row in range(end - start - 1, -1, -1):
        for column in range(last - first - 1, -1, -1):
            same = old[start + row] == new[first + column]
            below = table[row + 1][column + 1] + 1 if same else 0
            table[row][column] = max(below, table[row + 1][column], table[row][column + 1])
    chosen: list[tuple[int, int]] = []
    row = column = 0
    while row < end - start and column < last - first:
        if old[start + row] == new[first + column]:
            chosen.append((start + row, first + column))
            row, column = row + 1, column + 1
        elif table[row + 1][column] >= table[row][column + 1]:
            row += 1
        else:
            column += 1
    return chosen


# -- what an edit has made -------------------------------------------------------------------------


def holds(text: str, part: str) -> bool:
    """Whether a text holds another, whatever its lines end with."""
    return part.replace("\r\n", "\n") in text.replace("\r\n", "\n")


_PLACES: Final = 64
"""Places of a text in a file that are looked at."""


def made(text: str, fresh: list[bool], old: str | None, new: str) -> list[int]:
    """The lines of a file, counted from 0, that an edit of `old` to `new` has made, by where `new`
    stands in the file's text.

    Args:
        text: The file after the edit.
        fresh: By line, whether the file did not have it before.
        old: What the edit has replaced; None: nobody says.
        new: What it has put there: a part of the text, or all of it.
    """
    text, new = text.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = digests(old or ""), digests(new)
    added = [at for at, place in enumerate(matches(before, after)) if place < 0]
    if not added:
        return []
    best: list[int] = []
    most = -1
    at = text.find(new)
    for _ in range(_PLACES):
        if at < 0:
            break
        first = text.count("\n", 0, at)
        lines = [first + one for one in added if first + one < len(fresh)]
        count = sum(fresh[one] for one in lines)
        if count > most:
            best, most = lines, count
        if count == len(added):
            break
        at = text.find(new, at + 1)
    if most >= 0:
        return best
    wanted = set(added)
    return [at for at, place in enumerate(matches(after, digests(text))) if place in wanted]


# -- the file of records ---------------------------------------------------------------------------

LARGEST: Final = 1_000_000
"""Bytes of a file of records."""
MOST_LINES: Final = 20_000
"""Lines of a file that has a record."""

Book = dict[str, Any]
"""A file of records: `edits` by id, `files` by path."""


def book(text: str | None) -> Book:
    """A file of records; an empty one where there is none. Raises `ValueError` for another file."""
    held = {"version": 1, "edits": {}, "files": {}} if text is None else json.loads(text)
    if not isinstance(held, dict) or held.get("version") != 1:
        raise ValueError("it is no file of records, or of another version")
    if not all(isinstance(held.get(name), dict) for name in ("edits", "files")):
        raise ValueError("it has no `edits` or no `files`")
    for one in held["files"].values():
        runs = one.get("lines") if isinstance(one, dict) else None
        if not isinstance(runs, list) or not all(map(_is_run, runs)):
            raise ValueError("the lines of a file are no list of edits and digests")
    return held


def _is_run(run: Any) -> bool:
    if not isinstance(run, list) or len(run) != 2:
        return False
    return (run[0] is None or isinstance(run[0], str)) and isinstance(run[1], str)


def written(held: Book) -> str:
    """The text of a file of records: without edits that no line is left of, and, where it is too
    large, without the files that were edited longest ago."""
    files = held["files"]
    while True:
        used = {run[0] for one in files.values() for run in one["lines"]}
        edits = {name: one for name, one in held["edits"].items() if name in used}
        text = json.dumps({**held, "edits": edits}, separators=(",", ":"), ensure_ascii=True)
        if len(text) <= LARGEST or not files:
            return text
        ages = sorted(files, key=lambda path: str(files[path].get("at")))
        size, over = 0, len(text) - LARGEST
        for path in ages:
            size += len(json.dumps(files.pop(path)))
            if size >= over:
                break
