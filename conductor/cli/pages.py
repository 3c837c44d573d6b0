"""Pages for people: words with their meanings, below headings, and how a terminal shows them.

`conductor.cli.manual` makes pages of help, and writes them for `man` too.
"""

from __future__ import annotations

import datetime
import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from conductor.cli import report

WIDEST: Final = 100
"""Columns of a text: longer lines are hard to read."""
_NARROWEST: Final = 20
_ROOM: Final = 36
"""Columns that an explanation needs beside its word. With less it stands below."""
_MOST_WORD: Final = 28
"""Columns of the words. A longer word has its explanation below."""

_SENTENCE: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
_PAUSE: Final = re.compile("[:;] ")
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")


class Entry(NamedTuple):
    """A word and its meaning."""

    word: str
    meaning: str


class Section(NamedTuple):
    """A heading, which may be empty, and entries."""

    heading: str
    entries: tuple[Entry, ...] = ()
    commands: bool = False
    """Whether the entries are commands. Such sections are not apart."""


class Page(NamedTuple):
    """A page of help. Blank lines separate paragraphs; an indented paragraph is not wrapped."""

    usage: str
    text: str
    sections: tuple[Section, ...] = ()
    end: str = ""


def plain(markdown: str) -> str:
    """A sentence of the documents without its links."""
    return _LINK.sub(r"\1", markdown)


def gist(text: str) -> str:
    """The first sentence without its full stop, up to a colon or semicolon."""
    first = _SENTENCE.split(" ".join(text.split()), maxsplit=1)[0]
    return _PAUSE.split(first, maxsplit=1)[0].rstrip(".")


def moment(since: int) -> str:
    """A Unix time as a person reads it here."""
    here = datetime.datetime.fromtimestamp(since).astimezone()
    return here.isoformat(sep=" ", timespec="minutes")


def columns() -> int:
    """The columns for a text for people: the columns of the terminal, within bounds."""
    return max(_NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def laid_out(page: Page) -> str:
    """The page for standard output: in its width, with colours if it shows colours."""
    width = columns()
    blocks = [wrapped(f"Usage: {page.usage}", width, "  ")] if page.usage else []
    blocks += _paragraphs(page.text, width)
    size = max((len(e.word) for s in page.sections for e in s.entries if _fits(e)), default=0)
    for before, section in zip((None, *page.sections), page.sections, strict=False):
        block = _section(section, width, size)
        if before is not None and before.commands and section.commands:
            blocks[-1] += f"\n{block}"
        else:
            blocks.append(block)
    return "\n\n".join([*blocks, *_paragraphs(page.end, width)])


def _section(section: Section, width: int, size: int) -> str:
    heading = wrapped(f"{section.heading}:", width) if section.heading else ""
    lines = [report.heading(line) for line in heading.splitlines()]
    beside = width - size - 4 >= _ROOM
    for word, meaning in section.entries:
        if beside and len(word) <= size:
            head = f"  {word:<{size}}  "
            lines.append(wrapped(head + meaning, width, " " * len(head)))
        else:
            indent = " " * (size + 4 if beside else 6)
            lines.append(wrapped(f"  {word}", width, "    "))
            lines.append(wrapped(indent + meaning, width, indent))
    return "\n".join(lines)


def _fits(entry: Entry) -> bool:
    return len(entry.word) <= _MOST_WORD


def _paragraphs(text: str, width: int) -> list[str]:
    """Paragraphs; indented paragraphs that follow each other are one block."""
    blocks: list[str] = []
    indented = False
    for paragraph in filter(str.strip, text.split("\n\n")):
        was, indented = indented, paragraph.startswith("  ")
        if (was and indented) or (indented and blocks and blocks[-1].endswith(":")):
            blocks[-1] += f"\n{paragraph}"
        else:
            blocks.append(paragraph if indented else wrapped(" ".join(paragraph.split()), width))
    return blocks


def aligned(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Rows in columns that are as wide as their widest cell. `left`: how many columns begin at
    their left, the others end at their right; None: all."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if left is None or at < left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def fitting(rows: Sequence[Mapping[str, str]], width: int, dropped: Iterable[str]) -> list[str]:
    """The columns of rows that fit a width, in their order; `dropped`: those that a narrow terminal
    does not show, the least important first."""
    sizes = {name: max(len(row[name]) for row in rows) for name in rows[0]}
    for name in dropped:
        if sum(sizes.values()) + 2 * (len(sizes) - 1) <= width:
            break
        del sizes[name]
    return [*sizes]


def wrapped(text: str, width: int, indent: str = "") -> str:
    """A paragraph on lines of so many columns; the further ones begin with `indent`."""
    return textwrap.fill(
        text,
        width,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
        drop_whitespace=True,
    )


def hanging(head: str, text: str, width: int, indent: str | None = None) -> list[str]:
    """The lines of a text behind its head; the further ones begin with `indent`, or where the text
    does. No word is broken: users copy paths, digests and commands."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head) if indent is None else indent,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [head.rstrip()]


def labelled(label: str, values: Iterable[str], size: int) -> Iterator[tuple[str, str]]:
    """Values below each other, each with its head: the first head is the label."""
    for at, value in enumerate(values):
        yield f"  {'' if at else label:<{size}}", value


def entries(rows: Iterable[tuple[str, str]]) -> tuple[Entry, ...]:
    """Entries of words and sentences of the documents."""
    return tuple(Entry(word, plain(meaning)) for word, meaning in rows)
