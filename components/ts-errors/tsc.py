"""Reads the output of tsc: plain, pretty, and as bundlers pass it on."""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_SAID = r"(error|warning|message|suggestion) TS(\d{1,6}): (\S.*)"
_PLAIN = re.compile(rf"(\S.*?)\((\d+),(\d+)\): {_SAID}")
_PRETTY = re.compile(rf"(\S.*?):(\d+):(\d+) - {_SAID}")
_NOWHERE = re.compile(_SAID)
_IN = re.compile(r"(?:ERROR|WARNING) in (\S.*?)(?::(\d+):(\d+)|\((\d+),(\d+)\))\s*")
_BARE = re.compile(r"TS(\d{1,6}): (\S.*)")
_RELATED = re.compile(r" {2,4}(\S.*?):(\d+):(\d+)(?: - (\S.*))?")
_FRAME = re.compile(r"[\s>]*(?:\d+(?:\s.*)?|\.\.\.\s*|[~^]+\s*)")
_MOST = 2000
"""Characters of one line that are looked at."""


class Place(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int


class Related(NamedTuple):
    """Another place that the compiler points at, and why."""

    place: Place
    said: str


@dataclass
class Diagnostic:
    """An error or a warning."""

    level: str
    code: int
    said: str
    place: Place | None = None
    reasons: list[str] = field(default_factory=list)
    """The reasons, from the outside in; each is two blanks deeper than the line that it
    explains."""
    related: list[Related] = field(default_factory=list)

    @property
    def words(self) -> str:
        """All that it says, as one text to look for names in."""
        return "\n".join([self.said, *self.reasons])


def read(output: str) -> list[Diagnostic]:
    """All errors and warnings of an output, in order."""
    reader = _Reader()
    for line in _COLOUR.sub("", output).splitlines():
        reader.take(line[:_MOST].rstrip())
    return reader.found


class _Reader:
    """Takes one line after another."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self._chain = False
        """Whether the reasons of the last one go on."""
        self._at: Place | None = None
        """Where a bundler says that the next one is."""
        self._beside: Place | None = None
        """A related place whose words are still to come."""

    def take(self, line: str) -> None:
        """Reads one line."""
        one = _diagnostic(line)
        if one is None and (bare := _BARE.fullmatch(line)) and self._at is not None:
            one = Diagnostic("error", int(bare[1]), bare[2], self._at)
        if one is not None:
            self.found.append(one)
            self._chain, self._beside, self._at = True, None, None
        elif within := _IN.fullmatch(line):
            self._at = Place(within[1], int(within[2] or within[4]), int(within[3] or within[5]))
            self._chain = False
        elif self.found:
            self._inside(self.found[-1], line)

    def _inside(self, one: Diagnostic, line: str) -> None:
        frame = _FRAME.fullmatch(line) is not None
        if not line.startswith("  ") or (self._chain and frame):
            self._chain = False
        elif self._chain:
            one.reasons.append(line[2:])
        elif beside := _RELATED.fullmatch(line):
            place = Place(beside[1], int(beside[2]), int(beside[3]))
            self._beside = None if beside[4] else place
            if beside[4]:
                one.related.append(Related(place, beside[4]))
        elif self._beside is not None and not frame:
            one.related.append(Related(self._beside, line.strip()))
            self._beside = None


def _diagnostic(line: str) -> Diagnostic | None:
    """The error or warning that begins with this line."""
    if head := (_PLAIN.fullmatch(line) or _PRETTY.fullmatch(line)):
        place = Place(head[1], int(head[2]), int(head[3]))
        return Diagnostic(head[4], int(head[5]), head[6], place)
    if head := _NOWHERE.fullmatch(line):
        return Diagnostic(head[1], int(head[2]), head[3])
    return None
