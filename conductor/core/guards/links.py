"""Links to files, and `@path` mentions, that a component adds to a prompt.

Agents read files that are linked or mentioned, without a question to the user. So those that a
component adds lie inside the session's folders; those that the prompt held before may stay.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from conductor.core.guards.names import squash
from conductor.core.guards.paths import climbs, decoded, inside
from conductor.core.guards.prompts import UNSEEN, blob_text, blocks
from conductor.core.guards.reading import Json, as_object, pairs
from conductor.core.guards.rules import Attempt, Breaches
from conductor.patterns import lazy_pattern

_REFERENCES: Final = frozenset(
    {"uri", "url", "path", "href", "src", "file", "filepath", "filename", "location"}
)
"""Members, without case and punctuation, with a text that names something to be read."""

_SCHEMES: Final = frozenset({"http", "https", "data", "acp", "mcp"})
"""Schemes of things that are not on this machine, are in the link itself, or come from a server."""
_opened = lazy_pattern(
    r"(?:files?|localfile|filesystem|path|dir|folder|local|vscode|vscodium|code|cursor|windsurf|zed"
    r"|idea|jetbrains|emacs|n?vim|mvim|txmt|subl|atom|editor|open|shell|cmd|javascript|jar|view|ms"
    r"|resource|content|blob|about|chrome|ssh|sftp|scp|ftps?|smb|cifs|nfs|afp|davs?|rsync|git|svn"
    r"|s3)(?![a-z0-9])"
)
"""The prefixes of schemes by which programs open things on this machine, or fetch them."""

_scheme = lazy_pattern(r"([A-Za-z][A-Za-z0-9+.-]+):")
_file = lazy_pattern(r"file:", re.IGNORECASE)
_file_within = lazy_pattern(r"(?<![a-z])file:", re.IGNORECASE)
_host = lazy_pattern(r"//(?:[^/?#\\\s@]*@)?[\w\[]")
_control = lazy_pattern(r"[\x00-\x1f\x7f]")
_blanks = lazy_pattern(r"\s+")
_breaks = lazy_pattern(r"[\t\n\v\f\r]+")

_MOST_MARKS: Final = 10_000
"""Signs that may begin a mention: a prompt with more is too much to look through."""
_ESCAPES: Final = 20
"""Backslashes that cost as much as one such sign."""
_LONGEST: Final = 4096
"""Characters of a name: no path is longer."""
# Greedy, for Python before 3.11.5 matches possessive groups of alternatives wrongly.
_data = lazy_pattern(r"data:(?:[\w+/=;,-]++|\.(?!\.))*", re.ASCII | re.IGNORECASE)
"""A link that holds its data may be longer."""

_QUOTES: Final = "\"'`"
_BRACKETS: Final = (("<", ">"), (r"\(", r"\)"), (r"\[", r"\]"), (r"\{", r"\}"))
_MENTIONS: Final = tuple(
    lazy_pattern(text)
    for text in (
        *(f"@+(?=([^{ends}@]*@?))" for ends in (r"\s", r" \t\r\n")),
        *(f"@{quote}(?=([^{quote}\n]*))" for quote in _QUOTES),
        *(f"@{quote}(?=([^{quote}]*){quote})" for quote in _QUOTES),
        *(f"@{start}(?=((?:[^{end}@]|@(?!{start}))*)(?:{end}|@))" for start, end in _BRACKETS),
    )
)
"""An `@` and the name behind it: up to white space, as different languages have it, or the next
`@`; or a name in quotes or brackets, up to the end of the line or to their close."""
_LABELS: Final = tuple(
    lazy_pattern(rf"\[@[^\[\]]*\]\((?=((?:(?!\]\(){inner})*))") for inner in (r"[^)]", r"\S")
)
"""A link as Markdown has it, up to a bracket or a blank, if not to the next."""
_variable = lazy_pattern(r"(?<=\w)@(?=\$(?:\w+|\{\w+\})(?:[\s:,;)\"'`]|$))")
"""As in `user@$HOST`: no program reads that as a path."""
_escape = lazy_pattern(r"\\(.)", re.DOTALL)
_ESCAPED: Final = str.maketrans(dict.fromkeys(" \t\n\r\v\f\"'`<>()[]{}", "\u2800"))
"""The signs that end a name unless a backslash stands before them; replaced by a sign that is not
special and cannot be seen."""
_AT: Final = "@\uff20\ufe6b"
_open = lazy_pattern(rf"[{UNSEEN}\"'`<(\[{{]*")
_close = lazy_pattern(rf"(?:[{UNSEEN}\"'`>)\]}},;:!?*]|\.(?![./\\]|$))*")
"""The signs that may stand around a name, those at its end backwards; a full stop only behind a
letter."""
_harmless = lazy_pattern(r"(?!file:|[a-z]:)[\w-]+(?:[./:][\w-]+)*/?", re.ASCII | re.IGNORECASE)
_HINTS: Final = {
    "mention": "the agent may read the word after `@` as a file; write a blank after `@`",
    "link": (
        "beside paths inside, http, https, data, acp, mcp and schemes with a dot may stand, and"
        " of an embedded resource with its own text one that nobody opens, as in context://today"
    ),
}


class _Reference(msgspec.Struct, frozen=True):
    """A thing that a prompt refers to: by a mention or by a link."""

    what: str
    """`mention` or `link`."""
    name: str
    embedded: bool = False
    """Whether the prompt holds the text of the linked thing."""

    def fits(self, folders: tuple[str, ...]) -> bool:
        """Whether a component may add this reference."""
        if len(self.name) > _LONGEST:
            return self.what == "link" and _data.fullmatch(self.name) is not None
        if self.what == "mention" and not _names_file(self.name):
            return inside(self.name, folders)
        if _control.search(self.name):
            return False
        spellings = (self.name, unicodedata.normalize("NFKC", self.name))
        forms = {strip(name) for name in spellings for strip in (_bare, _begun)}
        return all(_leads_inside(form, folders, embedded=self.embedded) for form in forms)


def of_server(uri: str, folders: tuple[str, ...]) -> bool:
    """Whether an MCP server of a component's may name this link: under schemes that nobody opens,
    the server itself has the things that it names."""
    return _Reference("link", uri, embedded=True).fits(folders)


def added(attempt: Attempt) -> Breaches:
    """No link and no mention is added to a prompt that leads outside of the session's folders."""
    before, after = blocks(attempt)
    had, has = [*_strings(before)], [*_strings(after)]
    if max(map(_marks, (had, has))) > _MOST_MARKS:
        text = f"a prompt with more than {_MOST_MARKS:,} `@` may not be changed or made"
        yield f"{text}\nhint: send fewer, or leave the prompt as it was", "/prompt"
    elif new := [*_references(after, has)]:  # most refer to nothing
        known = {(old.what, old.name) for _, old in _references(before, had)}
        for at, reference in new:
            what, name = reference.what, reference.name
            if (what, name) in known:
                continue
            known.add((what, name))
            if not reference.fits(attempt.context.folders):
                text = f"{what} {name!a:.80} may not be added: it is not in the session's folders"
                yield f"{text}\nhint: {_HINTS[what]}", at


_String: TypeAlias = tuple[int, str, str, Json]
"""A text in a prompt: the index of its block, the name of its member, the text itself, and the
object that holds the member."""


def _strings(prompt: list[Json]) -> Iterator[_String]:
    """Every text in a prompt's blocks; of blobs only those that hold text."""
    for at, block in enumerate(prompt):
        found: list[tuple[str, Json, Json]] = [("text", block, None)]
        for name, value, holder in found:  # which grows: deep blocks take no deep calls
            if isinstance(value, str):
                if name == "blob":
                    yield at, "text", blob_text(value, holder), holder
                elif name != "data":
                    yield at, name, value, holder
            elif isinstance(value, list):
                found += [(name, element, None) for element in value]
            else:
                found += [(inner, held, value) for inner, held in pairs(value)]


def _marks(strings: list[_String]) -> int:
    """About how many signs of a prompt may begin mentions."""
    texts = [text for _, _, text, _ in strings if _holds_mark(text)]
    ats = sum(text.count(sign) for text in texts for sign in _AT)
    return ats + (sum(text.count("\\") for _, _, text, _ in strings) // _ESCAPES if ats else 0)


def _holds_mark(text: str) -> bool:
    return "@" in text or (not text.isascii() and any(sign in text for sign in _AT))


def _references(prompt: list[Json], strings: list[_String]) -> Iterator[tuple[str, _Reference]]:
    """All references of a prompt, and where each stands: in its blocks, and in its texts joined."""
    for at, name, value, holder in strings:
        # An agent may write any of these into the prompt's text.
        for mention in _mentions(value):
            yield f"/prompt/{at}", _Reference("mention", mention)
        for label in _labels(value):
            yield f"/prompt/{at}", _Reference("link", label)
        if name != "text" and (squash(name) in _REFERENCES or _names_file(value)):
            resource = as_object(prompt[at]).get("resource")
            has_text = isinstance(as_object(resource).get("text"), str)
            embedded = has_text and holder is resource and name == "uri"
            yield f"/prompt/{at}", _Reference("link", value, embedded)
    plain = [block.get("text") for block in map(as_object, prompt) if block.get("type") == "text"]
    texts = [text for text in plain if isinstance(text, str)]
    for name in _mentions("".join(texts) if len(texts) > 1 else ""):
        yield "/prompt", _Reference("mention", name)


def _names_file(text: str) -> bool:
    if text.isascii() and ":" not in text and "%" not in text:
        return False
    rounds = decoded(text[:200])
    return not rounds or any(
        _file.match(_begun(unicodedata.normalize("NFKC", name))) for name in rounds
    )


def _begun(name: str) -> str:
    """A name without the invisible characters and the punctuation before it."""
    match = _open.match(name)
    return name[match.end() :] if match else name


def _bare(name: str) -> str:
    """A name without the invisible characters and the punctuation before and behind it."""
    start = _begun(name)
    match = _close.match(start[::-1])
    return start[: len(start) - match.end()] if match else start


def _mentions(text: str) -> Iterator[str]:
    """The names behind the `@`s of a text, without the punctuation around them."""
    if not _holds_mark(text):
        return
    for sign in _AT[1:]:
        text = text.replace(sign, "@")
    texts = [_variable.sub("", text)]
    if "\\" in text:
        texts.append(_escape.sub(lambda match: match[1].translate(_ESCAPED), texts[0]))
    spelled = (
        match[1] for each in texts for pattern in _MENTIONS for match in pattern.finditer(each)
    )
    for name in dict.fromkeys(map(_bare, dict.fromkeys(spelled))):
        # Some programs drop line breaks from names, to others they are letters.
        for plain in dict.fromkeys((_breaks.sub("_", name), _breaks.sub("", name))):
            if plain and _harmless.fullmatch(plain) is None:
                yield plain


def _labels(text: str) -> Iterator[str]:
    """The targets of the links of a text, if their words begin with an `@`."""
    for pattern in _LABELS if "@" in text else ():
        for match in pattern.finditer(text):
            words = _bare(match[1]).split()
            yield from {"_".join(words), words[0]} if words else ()


def _leads_inside(uri: str, folders: tuple[str, ...], *, embedded: bool) -> bool:
    match = _scheme.match(uri)
    if match is None:
        return not _names_file(uri) and inside(uri, folders)
    scheme, rest = match[1].casefold(), uri[match.end() :]
    if scheme == "file":
        return _file_inside(rest.replace("\\", "/"), folders)
    if _blanks.search(uri) or climbs(uri):
        return False
    if scheme in ("http", "https"):
        return _host.match(rest) is not None
    own = embedded and _opened.match(scheme) is None
    return (scheme in _SCHEMES or "." in scheme or own) and not any(
        map(_file_within.search, decoded(uri))
    )


def _file_inside(rest: str, folders: tuple[str, ...]) -> bool:
    """Whether the part behind `file:` is a path on this machine, inside the folders."""
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        return host.casefold() in ("", "localhost") and inside(slash + path, folders)
    return rest.startswith("/") and inside(rest, folders)
