"""Reads the output of rustc and cargo: as text, in short, or as JSON."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from guest_sdk.python import read_json

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_HEAD = re.compile(r"(error|warning)(?:\[([\w:]+)\])?: (\S.*)")
_SHORT = re.compile(r"(\S[^:]*):(\d+):(\d+): (error|warning)(?:\[([\w:]+)\])?: (\S.*)")
_PLACE = re.compile(r"\s*(?:-->|:::) (\S.*?):(\d+):(\d+)\s*")
_BESIDE = re.compile(r"\s*= (note|help): (\S.*)")
_NOTE = re.compile(r"(note|help): (\S.*)")
_SOURCE = re.compile(r"\s*(\d+)\s*\|")
_LABEL = re.compile(r"[\s|]*\|[\s|_]*[-^~+]+[\s\-^]* ([^\s|+^-].*)")
_MORE = re.compile(r"[\s|]+\|\s+([^\s|].*)")
_SUMMARY = re.compile(r"aborting due to|could not compile|\d+ warnings? emitted|build failed")
_MOST = 2000
"""Characters of one line that are looked at."""


class Place(NamedTuple):
    """A place in a file; lines and columns count from 1."""

    file: str
    line: int
    column: int


class Note(NamedTuple):
    """A note or help, and where it points to."""

    kind: str
    said: str
    place: Place | None = None


class Label(NamedTuple):
    """Words beside a line of code."""

    line: int
    said: str


@dataclass
class Diagnostic:
    """An error or a warning."""

    level: str
    code: str
    said: str
    place: Place | None = None
    notes: list[Note] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)

    @property
    def words(self) -> str:
        """All that it says, as one text to look for names in."""
        return "\n".join([self.said, *(one.said for one in self.labels + self.notes)])


def read(output: str) -> list[Diagnostic]:
    """All errors and warnings of an output, in order; summaries are left out."""
    reader = _Reader()
    for line in _lines(output):
        reader.take(line[:_MOST])
    return [one for one in reader.found if not _SUMMARY.match(one.said)]


def _lines(output: str) -> Iterator[str]:
    """The lines of an output, with those of JSON messages as rustc would print them."""
    for line in _COLOUR.sub("", output).splitlines():
        if not line.startswith("{"):
            yield line
            continue
        try:
            held = read_json(line)
        except ValueError:
            continue
        if isinstance(held, dict) and isinstance(held.get("message"), dict):
            held = held["message"]  # of cargo, around rustc's
        rendered = held.get("rendered") if isinstance(held, dict) else None
        if isinstance(rendered, str):
            yield from _COLOUR.sub("", rendered).splitlines()


class _Reader:
    """Takes one line after another."""

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self._line = 0
        """The line of code that was shown last."""

    def take(self, line: str) -> None:
        """Reads one line."""
        if head := _HEAD.fullmatch(line):
            self.found.append(Diagnostic(head[1], head[2] or "", head[3]))
            self._line = 0
        elif short := _SHORT.fullmatch(line):
            place = Place(short[1], int(short[2]), int(short[3]))
            self.found.append(Diagnostic(short[4], short[5] or "", short[6], place))
        elif self.found:
            self._inside(self.found[-1], line)

    def _inside(self, one: Diagnostic, line: str) -> None:
        if place := _PLACE.fullmatch(line):
            at = Place(place[1], int(place[2]), int(place[3]))
            if one.place is None:
                one.place = at
            elif one.notes and one.notes[-1].place is None:
                one.notes[-1] = one.notes[-1]._replace(place=at)
        elif note := (_BESIDE.fullmatch(line) or _NOTE.fullmatch(line)):
            one.notes.append(Note(note[1], note[2].strip()))
        elif source := _SOURCE.match(line):
            self._line = int(source[1])
        elif self._line and not one.notes:  # what stands below a note is about the note
            label = _LABEL.fullmatch(line) or _MORE.fullmatch(line)
            if label is not None:
                one.labels.append(Label(self._line, label[1].strip()))
