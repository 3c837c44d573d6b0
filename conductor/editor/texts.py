"""Panels and comments as text, for an editor that cannot show them: Markdown that reads well."""

from __future__ import annotations

from typing import Final

from conductor.editor.html import markdown
from conductor.editor.messages import Position
from conductor.editor.ranges import path_of
from conductor.errors import visible

MOST: Final = 8192
"""Characters of one text; what is beyond is counted."""
_MOST_HTML: Final = 8 * MOST
"""Characters that are read for one text: most of what is read of HTML is then shown."""


def of_html(html: str) -> str:
    """HTML as Markdown."""
    return markdown(html[:_MOST_HTML])


def _bounded(text: str, more: int = 0) -> str:
    more += max(0, len(text) - _MOST_HTML)
    text = visible(text[:_MOST_HTML])
    left = max(0, len(text) - MOST) + more
    return f"{text[:MOST]}\n… ({left} more characters)" if left else text


def of_panel(label: str, contents: str, body: str | None = None) -> str:
    """A panel as a text of the agent's; `body`: its contents as Markdown, where that is known."""
    body = of_html(contents) if body is None else body
    more = max(0, len(contents) - _MOST_HTML)
    return _bounded(f"**{' '.join(label.split())}**\n\n{body}\n\n", more)


def place(url: str, start: Position, end: Position | None, folders: tuple[str, ...]) -> str:
    """A range in a file as a person writes it: `src/a.rs:3-5`."""
    path = path_of(url) or url
    for folder in folders:
        inside = folder.rstrip("/") + "/"
        if path.startswith(inside):
            path = path.removeprefix(inside)
            break
    last = start.line if end is None else end.line
    if end is not None and end.column == 1 and end.line > start.line:
        last -= 1  # it ends before that line's first character
    return f"{path}:{start.line}" + (f"-{last}" if last > start.line else "")


def of_comment(at: str, text: str) -> str:
    """A comment, or a reply to it, as a text of the agent's."""
    return _bounded(f"`{at}`: {text}\n\n")


def of_reply(at: str, comment: str, reply: str) -> str:
    """The prompt that takes a user's reply to the agent."""
    quoted = "\n".join(f"> {line}" for line in _bounded(comment).splitlines())
    return f"At {at} stands this comment:\n\n{quoted}\n\nMy reply to it:\n\n{reply}"
