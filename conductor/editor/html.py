"""HTML of components as Markdown.

Each part is looked at once, whatever a stranger has written: so the time is in proportion to the
length, and no HTML fails.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

_HEADINGS: Final = {f"h{n}": "#" * n + " " for n in range(1, 7)}
_BLOCKS: Final = frozenset(
    (
        *("p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "hr"),
        *("table", "thead", "tbody", "dl", "dt", "dd", "blockquote", "figure", "figcaption"),
        *("form", "fieldset", "details", "summary"),
    )
)
_RAW: Final = frozenset({"script", "style"})
"""Nothing inside these is HTML."""
_UNSEEN: Final = frozenset({*_RAW, "head", "template", "noscript", "svg"})
_MARKS: Final = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`"}
_DEEPEST: Final = 8
"""Lists within each other that are indented."""

_TAG: Final = re.compile(
    r"<(?P<end>/?)(?P<name>[a-zA-Z][^\s/>]*)(?=[\s/>])"
    r"""(?P<rest>(?:[^=>]|=\s*"[^"]*"|=\s*'[^']*'|=(?!\s*["']))*)>"""
)
"""At each place at most one branch of it fits, so that the pattern never tries twice."""
_ATTRIBUTE: Final = re.compile(r"""([^\s=/>]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_REFERENCE: Final = re.compile(
    r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,31});?"
)
_SPACE: Final = re.compile(r"\s+")


def markdown(text: str) -> str:
    """HTML as Markdown."""
    writer = _Writer()
    for part in _parts(text):
        if isinstance(part, str):
            writer.text(_REFERENCE.sub(lambda found: html.unescape(found[0]), part))
        elif part["end"]:
            writer.end(part["name"].lower())
        else:
            writer.start(part["name"].lower(), part["rest"])
    lines = "".join(writer.out).split("\n")
    return _few_empty([line.rstrip(" \t") for line in lines]).strip()


def _few_empty(lines: list[str]) -> str:
    """The lines, with one empty line in place of several."""
    kept = [line for at, line in enumerate(lines) if line or at == 0 or lines[at - 1]]
    return "\n".join(kept)


def _parts(text: str) -> Iterator[str | re.Match[str]]:
    """The tags of HTML and the text between them. A tag without an end is left out, and all
    behind."""
    at = 0
    while at < len(text):
        begin = text.find("<", at)
        if begin < 0:
            yield text[at:]
            return
        if begin > at:
            yield text[at:begin]
        behind = text[begin + 1 : begin + 3].lstrip("/")[:1]
        if behind.isascii() and behind.isalpha():
            tag = _TAG.match(text, begin)
            if tag is None:
                return
            yield tag
            at = tag.end()
            name = tag["name"].lower()
            if name in _RAW and not tag["end"]:
                closing = re.compile(f"</{name}", re.IGNORECASE).search(text, at)
                at = len(text) if closing is None else closing.start()
            continue
        if text.startswith(("<!", "<?", "</"), begin):
            mark = "-->" if text.startswith("<!--", begin) else ">"
            end = text.find(mark, begin)
            if end < 0:
                return
            at = end + len(mark)
        else:
            yield "<"
            at = begin + 1


class _Writer:
    """Writes Markdown for the parts of HTML."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self._unseen: list[str] = []
        self._lists: list[int] = []
        """Of each list around: the number of its next entry; 0: it has no numbers."""
        self._links: list[str] = []
        self._plain = 0
        """How many `pre` are around."""

    def start(self, tag: str, rest: str) -> None:
        """An element begins."""
        if self._unseen or tag in _UNSEEN:
            if tag in _UNSEEN and (tag in _RAW or not rest.endswith("/")):
                self._unseen.append(tag)
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
            self._links.append(_attribute(rest, "href"))
        elif tag == "img":
            self.out.append(f"[{_attribute(rest, 'alt') or 'image'}]")
        elif tag in ("input", "button"):
            self.out.append(f" {_attribute(rest, 'value')}")

    def _entry(self) -> None:
        depth = "  " * min(_DEEPEST, max(0, len(self._lists) - 1))
        number = self._lists[-1] if self._lists else 0
        if number:
            self._lists[-1] += 1
        self.out.append(f"\n{depth}{f'{number}.' if number else '-'} ")

    def end(self, tag: str) -> None:
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

    def text(self, data: str) -> None:
        """Text."""
        if self._unseen:
            return
        if self._plain:
            self.out.append(data)
            return
        text = _SPACE.sub(" ", data)
        last = self.out[-1] if self.out else "\n"
        self.out.append(text.lstrip() if last[-1:] in ("\n", " ", "") else text)


def _attribute(rest: str, name: str) -> str:
    """An attribute of an element; empty: it has none. Of several the first counts."""
    for found in _ATTRIBUTE.finditer(rest):
        if found[1].lower() == name:
            value = found[2] or found[3] or found[4] or ""
            return _REFERENCE.sub(lambda one: html.unescape(one[0]), value)
    return ""
