"""Pages of help: what typer knows of a command, laid out for a terminal or as a man page.

`page_of` reads a command, `conductor.cli.topics` makes pages of tables, `laid_out` writes either
for a terminal of any width, and `conductor.cli.man` for `man`. Nobody else lays help out.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from conductor.cli import options, report

Foreign: TypeAlias = Any
"""An object of typer's parser. Its classes have no public names."""

WIDEST: Final = 100
"""Columns of a text: longer lines are hard to read."""
_NARROWEST: Final = 20
_ROOM: Final = 36
"""Columns that an explanation needs beside its word. With less it stands below."""
_MOST_WORD: Final = 28
"""Columns of the words. A longer one has its explanation below."""

HEADINGS: Final = ("Run a chain", "Set up", "Look", "Make components")
"""The headings of conductor's commands, in their order on a page."""
RARE: Final = frozenset(
    {
        "attach", "completion", "connect", "fleet", "help",
        "proxy", "ps", "publish", "remove", "test",
    }
)  # fmt: skip
"""Commands that the first page only names: it must fit a terminal."""

_SENTENCE: Final = re.compile(r"(?<=\.)\s+(?=[A-Z`])")
_PAUSE: Final = re.compile("[:;] ")
_LINK: Final = re.compile(r"\[([^]]+)\]\([^)]*\)")


class Entry(NamedTuple):
    """A word and what it means."""

    word: str
    meaning: str


class Section(NamedTuple):
    """A heading, which may be empty, and entries."""

    heading: str
    entries: tuple[Entry, ...] = ()
    commands: bool = False
    """Whether the entries are commands. Such sections are not apart."""


class Page(NamedTuple):
    """A page of help. Paragraphs are apart by blank lines; one that is indented is not wrapped."""

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


# -- from typer ------------------------------------------------------------------------------------


def dress(app: typer.Typer) -> None:
    """Gives every command of `app`, and of what is added to it, this module's help."""
    for command in app.registered_commands:
        command.cls = _Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.typer_instance.info.cls = _Group
            dress(group.typer_instance)
    app.info.cls = _Group


class _Command(TyperCommand):
    def get_help(self, ctx: Foreign) -> str:
        _show(self, ctx)


class _Group(TyperGroup):
    def get_help(self, ctx: Foreign) -> str:
        _show(self, ctx)


def _show(command: Foreign, context: Foreign) -> NoReturn:
    """Shows the page instead of returning it: typer would print it past `report`."""
    report.page(laid_out(page_of(command, str(context.command_path))))
    raise typer.Exit


def page_of(command: Foreign, path: str, *, whole: bool = False) -> Page:
    """The page of a command.

    Args:
        command: What typer has made of the command.
        path: How it is called: `conductor log show`.
        whole: With every command. Else the rare ones have only their names, and the options of a
            command that runs a chain a sentence each.
    """
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    pieces = [path, "[OPTIONS]", *map(_usage, arguments)]
    commands = getattr(command, "commands", {})
    if commands:
        pieces.append("[COMMAND]" if command.invoke_without_command else "COMMAND")
    rare = () if whole or command.name != "conductor" else sorted(RARE & commands.keys())
    sections = [
        Section("", tuple(Entry(_metavar(p), p.help or "") for p in arguments)),
        *headed({name: each for name, each in commands.items() if name not in rare}),
        *_options(command, path.removeprefix("conductor "), whole=whole),
    ]
    more = f"More: {', '.join(rare)}; see `conductor help commands`.\n\n" if rare else ""
    return Page(
        " ".join(pieces),
        command.help or "",
        tuple(section for section in sections if section.entries),
        more + (command.epilog or ""),
    )


def _metavar(argument: Foreign) -> str:
    return str(argument.metavar or argument.name.upper())


def _usage(argument: Foreign) -> str:
    word = _metavar(argument)
    word += "…" if argument.nargs == -1 and not word.startswith("[") else ""
    return word if argument.required or word.startswith("[") else f"[{word}]"


def headed(commands: dict[str, Foreign]) -> Iterator[Section]:
    """The commands of a group, below the headings that they name."""
    headings: dict[str, list[Entry]] = {name: [] for name in HEADINGS}
    for name, command in commands.items():
        if not command.hidden:
            heading = command.rich_help_panel or "Commands"
            entry = Entry(name, command.short_help or gist(command.help or ""))
            headings.setdefault(str(heading), []).append(entry)
    for heading, entries in headings.items():
        if entries:
            yield Section(heading, tuple(entries), commands=True)


def _options(command: Foreign, name: str, *, whole: bool) -> Iterator[Section]:
    rows = {row.flags.split()[0]: row for row in options.of(name)}
    short = not whole and name in options.LISTED
    panels: dict[str, list[Entry]] = {}
    for parameter in command.params:
        flag = parameter.opts[0]
        if not flag.startswith("-") or parameter.hidden:
            continue
        row = rows.get(flag)
        panel = row.panel if row is not None and whole else "Options"
        panels.setdefault(panel, []).append(_option(parameter, short=short))
    more = "; more: `conductor help options`" if short else ""
    meaning = f"Show this page{more}."
    panels.setdefault("Options", []).append(Entry("-h, --help", meaning))
    for panel, entries in panels.items():
        yield Section(panel, tuple(entries))


def in_order(*flags: str) -> list[str]:
    """Flags with the short ones first."""
    return sorted(flags, key=lambda flag: flag.startswith("--"))


def _option(parameter: Foreign, *, short: bool) -> Entry:
    flags = in_order(*parameter.opts, *parameter.secondary_opts)
    word = ", ".join(flags) + ("" if parameter.is_flag else f" {parameter.metavar}")
    what, _, default = str(parameter.help or "").partition(" Default: ")
    if not default and parameter.show_default and parameter.default and not parameter.is_flag:
        default = f"{parameter.default}."
    if short:
        what = f"{gist(what)}."
    return Entry(word, f"{what} Default: {default}" if default else what)


# -- for a terminal --------------------------------------------------------------------------------


def columns() -> int:
    """The columns that a text for people has: those of the terminal, within bounds."""
    return max(_NARROWEST, min(WIDEST, shutil.get_terminal_size().columns))


def laid_out(page: Page) -> str:
    """The page for standard output: as wide as it is, with colours where it shows them."""
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
    """Paragraphs; indented ones that follow each other are one block."""
    blocks: list[str] = []
    indented = False
    for paragraph in filter(str.strip, text.split("\n\n")):
        was, indented = indented, paragraph.startswith("  ")
        if (was and indented) or (indented and blocks and blocks[-1].endswith(":")):
            blocks[-1] += f"\n{paragraph}"
        else:
            blocks.append(paragraph if indented else wrapped(" ".join(paragraph.split()), width))
    return blocks


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


def entries(rows: Iterable[tuple[str, str]]) -> tuple[Entry, ...]:
    """Entries of words and sentences of the documents."""
    return tuple(Entry(word, plain(meaning)) for word, meaning in rows)
