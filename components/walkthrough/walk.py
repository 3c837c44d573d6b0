"""A walkthrough: Markdown, in which fenced blocks called `comment` are comments in files."""

import re
import shlex
from dataclasses import dataclass, field

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})[ \t]*(.*)$")
_NAMES = ("file", "symbol", "search", "nth")


class Wrong(ValueError):  # noqa: N818 - reads as what it is
    """A mistake in a walkthrough; the text tells its place and kind."""


@dataclass
class Note:
    """A comment, and the symbol or text beside which it is to stand."""

    number: int
    line: int
    """The line of the Markdown where the comment's fence begins."""
    file: str
    symbol: str
    search: str
    nth: int
    """Which of several; 0: there may be one only."""
    text: str

    def __str__(self) -> str:
        what = f"symbol={self.symbol}" if self.symbol else f'search="{self.search}"'
        return f"comment {self.number} ({what})"


@dataclass
class Walkthrough:
    """A walkthrough, in order: Markdown, and comments."""

    title: str
    """The first heading, which is in no part."""
    parts: list[str | Note] = field(default_factory=list)

    @property
    def notes(self) -> list[Note]:
        """The comments of the walkthrough."""
        return [one for one in self.parts if isinstance(one, Note)]


def parse(markdown: str) -> Walkthrough:
    """Reads a walkthrough. Raises `Wrong`."""
    found = Walkthrough("Walkthrough")
    text: list[str] = []
    lines = markdown.splitlines()
    at = 0
    titled = False
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            if not titled and lines[at].startswith("# "):
                found.title, titled = lines[at][2:].strip() or found.title, True
            else:
                text.append(lines[at])
            at += 1
            continue
        end = _end(lines, at, fence[1])
        if fence[2].split()[:1] != ["comment"]:
            text += lines[at : end + 1]
        else:
            found.parts.append("\n".join(text))
            text = []
            said = "\n".join(lines[at + 1 : end]).strip()
            found.parts.append(_note(len(found.notes) + 1, at + 1, fence[2], said))
        at = end + 1
    found.parts.append("\n".join(text))
    return found


def _end(lines: list[str], at: int, fence: str) -> int:
    """The line that closes a fence; behind the last one, if none does."""
    for end in range(at + 1, len(lines)):
        closed = lines[end].strip()
        if len(closed) >= len(fence) and set(closed) == {fence[0]}:
            return end
    return len(lines)


def _note(number: int, line: int, info: str, text: str) -> Note:
    where = f"line {line}, comment {number}"
    try:
        words = shlex.split(info)[1:]
    except ValueError as error:
        raise Wrong(f"{where}: {error}") from None
    given: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in _NAMES:
            name, value = "file", word
        if name in given:
            raise Wrong(f"{where}: `{name}` is given twice")
        given[name] = value
    symbol, search, nth = given.get("symbol", ""), given.get("search", ""), given.get("nth", "0")
    if bool(symbol) == bool(search):
        raise Wrong(f'{where}: it names either `symbol=NAME` or `search="WORDS"`')
    if search and not given.get("file"):
        raise Wrong(f'{where}: a search names its file, as in `comment src/a.rs search="…"`')
    if not nth.isdecimal():
        raise Wrong(f"{where}: `nth` is a number, not {nth[:20]}")
    if not text:
        raise Wrong(f"{where}: it says nothing")
    return Note(number, line, given.get("file", ""), symbol, search, int(nth), text)
