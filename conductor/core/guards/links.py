"""Links to files, and `@path` mentions, that a component adds to a prompt.

Agents read what is linked or mentioned unasked. So what a component adds of that lies inside the
session's folders; what the prompt held before may stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from conductor.core.guards.context import Context, Violation
from conductor.core.guards.methods import squash
from conductor.core.guards.paths import decoded, inside
from conductor.core.guards.reading import Json, pairs
from conductor.core.guards.rules import Found
from conductor.core.guards.table import LINKS

_REFERENCES: Final = frozenset(
    {"uri", "url", "path", "href", "src", "file", "filepath", "filename", "location"}
)
"""Members, without case and punctuation, whose text names something to be read."""

_DATA: Final = frozenset({"data", "blob"})
_SCHEMES: Final = frozenset({"http", "https", "data", "acp", "mcp"})
"""Schemes of what is not on this machine, is held by the link itself, or is asked of a server."""

_scheme = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):").match
_file = re.compile(r"\s*file:", re.IGNORECASE).match
_control = re.compile(r"[\x00-\x1f\x7f]").search

_MENTIONS: Final = (
    re.compile(r"@+([^\s@]*)(?=(@?))"),
    re.compile(r'@"(?=([^"\n]*))'),
    re.compile(r"@'(?=([^'\n]*))"),
    re.compile(r"@`(?=([^`\n]*))"),
)
"""An `@` and what it names: up to white space or the next `@`, or what stands in quotes."""
_escaped = re.compile(r"@+((?:\\.|[^\s@\\])*)")
_label = re.compile(r"\[@[^\[\]\n]*\]\(([^\s()]*)")
_LIKE_AT: Final = str.maketrans("\uff20\ufe6b", "@@")
_OPENS: Final = "\"'`<([{"
_CLOSES: Final = "\"'`>)]},;:!?*"
_harmless = re.compile(
    r"(?!file:|[a-z]:)[\w-]+(?:[./:][\w-]+)*/?", re.ASCII | re.IGNORECASE
).fullmatch


def added(context: Context, before: list[Json], after: list[Json]) -> Found:
    """Rule for the blocks of a prompt: no link and no mention is added that leads outside."""
    known = {key for block in before for key in _named(block)}
    for at, block in enumerate(after):
        for what, name in _named(block):
            if (what, name) in known:
                continue
            known.add((what, name))
            if not _FITS[what](name, context.folders):
                text = f"{what} {name!a:.80} may not be added: it is not in the session's folders"
                yield Violation(LINKS, text, f"/prompt/{at}")


def _named(block: Json) -> Iterator[tuple[str, str]]:
    """All that a block names: what it is, and the name."""
    for name, value in _strings("text", block):
        if name == "text":
            yield from (("mention", one) for one in _mentions(value))
            yield from (("link", found[1]) for found in _label.finditer(value) if found[1])
        elif squash(name) in _REFERENCES or _names_file(value):
            yield "link", value
        else:  # an agent may write the name of a link into the prompt's text
            yield from (("mention", one) for one in _mentions(value))


def _strings(name: str, value: Json) -> Iterator[tuple[str, str]]:
    """Every text in a block, with the member that holds it; without what is encoded."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, list):
        for one in value:
            yield from _strings(name, one)
    else:
        for inner, one in pairs(value):
            if inner not in _DATA or not isinstance(one, str):
                yield from _strings(inner, one)


def _names_file(text: str) -> bool:
    rounds = decoded(text[:200])
    return not rounds or any(_file(unicodedata.normalize("NFKC", one)) for one in rounds)


def _mentions(text: str) -> Iterator[str]:
    """What the `@`s of a text name, without the punctuation around it."""
    text = text.translate(_LIKE_AT)
    if "@" not in text:
        return
    for pattern in _MENTIONS:
        for found in pattern.finditer(text):
            yield from _trimmed("".join(found.groups()))
    if "\\" in text:
        for found in _escaped.finditer(text):
            yield from _trimmed(re.sub(r"\\(.)", r"\1", found[1]))


def _trimmed(name: str) -> Iterator[str]:
    bare = name.lstrip(_OPENS).rstrip(_CLOSES)
    if bare.endswith(".") and not bare.endswith(("..", "/.", "\\.")):
        bare = bare[:-1]
    if bare and _harmless(bare) is None:
        yield bare


def _mention_fits(name: str, folders: tuple[str, ...]) -> bool:
    return _link_fits(name, folders) if _names_file(name) else inside(name, folders)


def _link_fits(uri: str, folders: tuple[str, ...]) -> bool:
    """Whether a component may add a link to this."""
    if _control(uri):
        return False
    forms = {uri.strip(), unicodedata.normalize("NFKC", uri).strip()}
    return all(_leads_inside(one, folders) for one in forms)


def _leads_inside(uri: str, folders: tuple[str, ...]) -> bool:
    found = _scheme(uri)
    if found is None:
        return not _names_file(uri) and inside(uri, folders)
    scheme = found[1].casefold()
    if scheme == "file":
        return _file_inside(uri[found.end() :].replace("\\", "/"), folders)
    return scheme in _SCHEMES or "." in scheme


def _file_inside(rest: str, folders: tuple[str, ...]) -> bool:
    """Whether what stands behind `file:` is a path on this machine, inside the folders."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        return host.casefold() in ("", "localhost") and inside(slash + path, folders)
    return rest.startswith("/") and inside(rest, folders)


_FITS: Final = {"mention": _mention_fits, "link": _link_fits}
