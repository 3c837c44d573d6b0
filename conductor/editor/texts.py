"""Panels and comments as text, for an editor that cannot show them: Markdown that reads well."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final
from urllib.parse import unquote, urlsplit

from conductor.editor.messages import Position
from conductor.errors import visible

MOST: Final = 8192
"""Characters of one text; what is beyond is counted."""

_HEADINGS: Final = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_BLOCKS: Final = frozenset(
    (
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "hr"),
        *("table", "thead", "tbody", "dl", "dt", "dd", "blockquote", "figure", "figcaption"),
        *("form", "fieldset", "details", "summary"),
    )
)
_UNSEEN: Final = frozenset({"script", "style", "head", "template", "noscript", "svg"})
_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`"}


class _Reader(HTMLParser):
    """Writes HTML as Markdown."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._unseen: list[str] = []
        self._lists: list[int] = []
        """Of each list around: the number of its next entry; 0: it has no numbers."""
        self._links: list[str] = []
        self._plain = 0
        """How many `pre` are around."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        if self._unseen or tag in _UNSEEN:
            self._unseen += [tag] if tag in _UNSEEN else []
        elif tag in _HEADINGS:
            self.out.append("\n\n" + _HEADINGS[tag])
        elif tag in ("ul", "ol"):
            self.out.append("\n" if self._lists else "\n\n")
            self._lists.append(1 if tag == "ol" else 0)
        elif tag == "li":
            self._entry()
        elif tag == "pre":
            self._plain += 1
            self.out.append("\n\n```\n")
        elif tag in ("td", "th"):
            self.out.append(" | ")
        elif tag in ("br", "tr"):
            self.out.append("\n")
        elif tag in _BLOCKS:
            self.out.append("\n\n")
        elif tag in _MARKS:
            self.out.append("" if self._plain else _MARKS[tag])
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag == "img":
            self.out.append(f"[{dict(attrs).get('alt') or 'image'}]")
        elif tag in ("input", "button"):
            self.out.append(f" {dict(attrs).get('value') or ''}")

    def _entry(self) -> None:
        depth = "  " * max(0, len(self._lists) - 1)
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self.out.append(f"\n{depth}{f'{number}.' if number else '-'} ")

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if self._unseen:
            if tag == self._unseen[-1]:
                self._unseen.pop()
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
            self.out.append("" if self._lists else "\n\n")
        elif tag == "pre" and self._plain:
            self._plain -= 1
            self.out.append("\n```\n\n")
        elif tag in _HEADINGS or tag in _BLOCKS:
            self.out.append("\n\n")
        elif tag in _MARKS:
            self.out.append("" if self._plain else _MARKS[tag])
        elif tag == "a" and self._links:
            url = self._links.pop()
            if url and not url.startswith("#"):
                self.out.append(f" ({url})")

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._unseen:
            return
        if self._plain:
            self.out.append(data)
            return
        text = re.sub(r"\s+", " ", data)
        last = self.out[-1] if self.out else "\n"
        self.out.append(text.lstrip() if last[-1:] in ("\n", " ", "") else text)


def of_html(html: str) -> str:
    """HTML as Markdown."""
    reader = _Reader()
    reader.feed(html[: 8 * MOST])  # most of what is read is then shown
    reader.close()
    text = re.sub(r"[ \t]+\n", "\n", "".join(reader.out))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _bounded(text: str, more: int = 0) -> str:
    text = visible(text)
    left = max(0, len(text) - MOST) + more
    return f"{text[:MOST]}\n… ({left} more characters)" if left else text


def of_panel(label: str, contents: str) -> str:
    """A panel as a text of the agent's."""
    said = f"**{' '.join(label.split())}**\n\n{of_html(contents)}\n\n"
    return _bounded(said, max(0, len(contents) - 8 * MOST))


def place(url: str, start: Position, end: Position | None, folders: tuple[str, ...]) -> str:
    """A range in a file as a person writes it: `src/a.rs:3-5`."""
    parts = urlsplit(url)
    path = unquote(parts.path) if parts.scheme == "file" else url
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
