"""Finds in the project's sources where an element of a page may be written."""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

ENDINGS = (
    *("html", "jsx", "tsx", "js", "vue", "svelte"),
    *("astro", "hbs", "ejs", "erb", "php", "twig"),
)
"""Endings of files in which elements are written."""

BUILT = frozenset({"node_modules", "vendor", "target", "dist", "build", "out", "coverage"})
"""Folders of files that nobody writes by hand."""

_OPENING = re.compile(r"<([a-zA-Z][\w-]*)([^<>]*)>?([^<]*)")
_ATTRIBUTE = re.compile(r"""([\w:@.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_HASHED = re.compile(r"[.-][0-9a-zA-Z_]{8,}(?=\.\w+$)")
_STRONG = re.compile(
    "id|name|for|href|src|alt|title|placeholder|aria-label|aria-labelledby|data-test|data-testid|"
    "data-cy|action|value"
)
"""Attributes by whose values an element is known again."""

_WINDOW = 8
"""Lines that an opening tag may take."""


class Clue(NamedTuple):
    """A text by which an element can be known again, and how much it says."""

    text: str
    weight: int


class Wanted(NamedTuple):
    """The tag and the clues by which an element is looked for in the files."""

    tag: str
    clues: tuple[Clue, ...]


class Match(NamedTuple):
    """A place that may be meant."""

    weight: int
    file: str
    line: int


def wanted(html: str) -> Wanted | None:
    """The tag and the clues of an element; None if too few clues tell the element from others."""
    opening = _OPENING.match(html)
    if opening is None:
        return None
    clues = [*_clues(opening[2][:1000])]
    if len(text := " ".join(opening[3].split())) > 2:
        clues.append(Clue(text[:80], 2))
    strong = sum(clue.weight for clue in clues)
    return Wanted(opening[1].lower(), tuple(clues[:12])) if strong > 1 else None


def _clues(attributes: str) -> Iterator[Clue]:
    for one in _ATTRIBUTE.finditer(attributes):
        name, value = one[1].lower(), (one[2] or one[3] or one[4] or "").strip()
        if name in ("class", "classname"):
            yield from (Clue(each, 1) for each in value.split()[:4] if len(each) > 2)
        elif _STRONG.fullmatch(name) and value and value != "#":
            # A bundler puts a digest into names of files, and a server a folder before them.
            file = _HASHED.sub("", value.rpartition("/")[2]) if name == "src" else value
            yield Clue(file.partition(".")[0] if file != value else file, 3)
        elif name == "role" and value:
            yield Clue(value, 2)


def matches(held: str, file: str, one: Wanted) -> Iterator[Match]:
    """Places in a file where the element may be written."""
    if not any(clue.weight > 1 and clue.text in held for clue in one.clues):
        return
    lines = held.split("\n")
    opening = re.compile(f"<{one.tag}\\b", re.IGNORECASE)
    for number, line in enumerate(lines, 1):
        begins = [found.start() for found in itertools.islice(opening.finditer(line), 50)]
        if not begins:
            continue
        window = "\n".join(lines[number - 1 : number - 1 + _WINDOW])
        weight = max(_weight(_element(window, start), one) for start in begins)
        if weight > 1:
            yield Match(weight, file, number)


def _element(text: str, start: int) -> str:
    """The element that begins there, up to the next within or behind it."""
    end = text.find("<", start + 1)
    return text[start : end if end > 0 else None][:4000]


def _weight(element: str, one: Wanted) -> int:
    return sum(clue.weight for clue in one.clues if clue.text in element)


def best(found: list[Match]) -> list[Match]:
    """The matches of most weight; none if more than three have the same weight."""
    most = max((one.weight for one in found), default=0)
    first = sorted(one for one in found if one.weight == most)
    return first if len(first) <= 3 else []
