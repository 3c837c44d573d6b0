"""The man page, from the same pages as the help (`conductor help --man`).

The wheel installs it as share/man/man1/conductor.1, from docs/conductor.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from conductor.cli import pages, topics
from conductor.cli.pages import Page, Section

_NO_WRAP: Final = "  "


def page(root: Any) -> str:
    """The man page. `root`: the command `conductor` as typer has made it."""
    front = pages.page_of(root, "conductor", whole=True)
    lines = [
        '.TH CONDUCTOR 1 "" conductor "conductor"',
        ".SH NAME",
        f"conductor \\- {_text(pages.gist(front.text))}",
        ".SH SYNOPSIS",
        f".B {_text('conductor [OPTIONS] COMMAND')}",
        ".SH DESCRIPTION",
        *_body(front._replace(usage="")),
    ]
    for name, command in _commands(root, ""):
        of_command = pages.page_of(command, f"conductor {name}")
        lines += [f".SH {_text(f'conductor {name}'.upper())}", *_body(of_command)]
    for topic in topics.TOPICS.values():
        lines += [f".SH {_text(pages.gist(topic.what).upper())}", *_body(topic.page())]
    return "\n".join(lines)


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        yield f"{before}{name}", command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{before}{name} ")


def _body(page: Page) -> Iterator[str]:
    if page.usage:
        yield from (".PP", f".B {_text(page.usage)}")
    yield from _paragraphs(page.text)
    for section in page.sections:
        yield from _section(section)
    yield from _paragraphs(page.end)


def _section(section: Section) -> Iterator[str]:
    if section.heading:
        yield f".SS {_text(section.heading)}"
    for word, meaning in section.entries:
        yield from (".TP", f".B {_text(word)}", _text(meaning))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(str.strip, text.split("\n\n")):
        if paragraph.startswith(_NO_WRAP):
            yield from (".PP", ".nf", *(_text(line) for line in paragraph.split("\n")), ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _text(text: str) -> str:
    """Text that `man` shows as it is: nothing in it is a request, a quote or a hyphen."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")
    text = text.replace("'", "\\(aq").replace('"', "\\(dq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti").replace("•", "\\(bu")
    return re.sub(r"^(?=\.)", r"\\&", text)
