"""Panels and comments as text, for an editor that cannot show them: Markdown that reads well."""

from __future__ import annotations

import posixpath
from typing import Final
from urllib.parse import quote

from conductor.core.guards.paths import inside
from conductor.editor.html import markdown
from conductor.editor.messages import Position
from conductor.editor.urls import path_of
from conductor.errors import counted, one_line, visible

MOST: Final = 8192
"""The most characters of one text; further characters are counted."""
_MOST_HTML: Final = 8 * MOST
"""The most characters of HTML that are read for one text: most of them are then shown."""
_LONGEST_PLACE: Final = 256
"""Characters of a path in a prompt."""


def of_html(html: str) -> str:
    """HTML as Markdown."""
    return markdown(html[:_MOST_HTML])


def _of(name: str, text: str, more: int = 0) -> str:
    """A panel or comment of a component, as a text under its name.

    Each line is quoted: no line of it looks as if the agent, or another component, had said it.
    """
    more += max(0, len(text) - _MOST_HTML)
    text = visible(text[:_MOST_HTML]).strip("\n")
    more += max(0, len(text) - MOST)
    lines = [f"> {line}".rstrip() for line in text[:MOST].splitlines()]
    if more:
        lines.append(f"> … ({counted(more, 'more character')})")
    return "\n".join([f"{one_line(name)}:", "", *lines, "", ""])


def of_panel(name: str, label: str, contents: str, body: str | None = None) -> str:
    """A panel of the component `name`; `body`: its contents as Markdown, where that is known."""
    body = of_html(contents) if body is None else body
    more = max(0, len(contents) - _MOST_HTML)
    return _of(name, f"**{' '.join(label.split())}**\n\n{body}", more)


def place(url: str, start: Position, end: Position | None, folders: tuple[str, ...]) -> str:
    """A range in a file as a person writes it: `src/a.rs:3-5`."""
    path = path_of(url) or url
    return (_below(path, folders) or path) + _lines(start, end)


def _below(path: str, folders: tuple[str, ...]) -> str | None:
    """The rest of a path that begins with one of the folders."""
    homes = (folder.rstrip("/") + "/" for folder in folders)
    return next((path.removeprefix(home) for home in homes if path.startswith(home)), None)


def _lines(start: Position, end: Position | None) -> str:
    last = start.line if end is None else end.line
    if end is not None and end.column == 1 and end.line > start.line:
        last -= 1  # it ends before that line's first character
    return f":{start.line}" + (f"-{last}" if last > start.line else "")


def of_comment(name: str, at: str, text: str) -> str:
    """A comment of the component `name`, or its reply to a comment."""
    return _of(name, f"`{at}`: {text}")


def of_reply(
    url: str, start: Position, end: Position | None, folders: tuple[str, ...], reply: str
) -> str:
    """The prompt that takes a user's reply to the agent. The editor sends it as the user's, so no
    word of the comment is in it; of its place only a file inside the session's folders is."""
    file = _named(path_of(url) or url, folders)
    if file is None:
        return f"My reply to a comment:\n\n{reply}"
    return f"My reply to the comment at {file}{_lines(start, end)}:\n\n{reply}"


def _named(path: str, folders: tuple[str, ...]) -> str | None:
    """A file as a prompt names it: in the characters of a URL, which say nothing else to an agent.

    None: it lies in no folder of the session, is no file's name, or could be read as another place.
    A path that begins nowhere is plain, for it may be any text.
    """
    rest = _below(path, folders)
    quoted = quote(path if rest is None else rest, safe="/", errors="replace")
    fits = 0 < len(quoted) <= _LONGEST_PLACE and posixpath.normpath(quoted) == quoted
    plain = rest is not None or quoted == path
    return quoted if fits and plain and "~" not in path and inside(path, folders) else None
