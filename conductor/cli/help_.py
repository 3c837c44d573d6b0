"""`conductor help`: the pages of commands and of what is about no single command."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from conductor.cli import pages, report, topics
from conductor.cli.meant import meant, nearly_meant
from conductor.cli.pages import Entry, Page, Section
from conductor.cli.typer_options import paragraphs
from conductor.errors import UsageError, did_you_mean

HELP: Final = paragraphs(
    "Explain a command, or what commands share.",
    "`conductor help` lists the topics; `conductor help COMMAND` is `conductor COMMAND --help`.",
)
EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor help component",
    "  conductor help log show",
    "  conductor help --man | man -l -",
)


def help_(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC|COMMAND]",
            help="What to explain. Default: the list of topics.",
            show_default=False,
        ),
    ] = None,
    man: Annotated[
        bool, typer.Option("--man", help="Print the man page of conductor, for `man -l -`.")
    ] = False,
) -> int:
    """Prints a page of help. Raises `UsageError`."""
    root: Any = context.find_root().command
    if man:
        from conductor.cli import man as manual

        report.page(manual.page(root))
    else:
        report.page(pages.laid_out(_page(words or [], root)))
    return 0


def _page(words: list[str], root: Any) -> Page:
    if not words:
        return _contents()
    command: Any = root
    for word in words:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return _topic(words, root)
    return pages.page_of(command, " ".join(["conductor", *words]))


def _topic(words: list[str], root: Any) -> Page:
    name = " ".join(words)
    found = topics.TOPICS.get(topics.OTHER_NAMES.get(name, name))
    if found is not None:
        return found.page()
    shown = [name for name, command in root.commands.items() if not command.hidden]
    listed = f"topics are: {', '.join(topics.TOPICS)}; `conductor --help` lists the commands"
    hint = did_you_mean(name, [*topics.TOPICS, *shown], listed, prefix="conductor help ")
    command = meant(name) or nearly_meant(name)
    if command is not None:
        page = command if "-" in command else f"{command} --help"
        hint = f"did you mean `conductor {page}`?"
    raise UsageError(f"no help on `{name}`", hint)


def _contents() -> Page:
    rows = tuple(Entry(name, topic.what) for name, topic in topics.TOPICS.items())
    return Page(
        "conductor help [TOPIC|COMMAND]",
        "",
        (Section("Topics", rows),),
        "`conductor --help` lists the commands.",
    )
