"""Names of methods, members and MCP servers: which are known, and which only look like these."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache
from typing import Final

from conductor.core.policy.key_table import LIST, ROWS
from conductor.patterns import lazy_pattern

CANCEL: Final = "$/cancel_request"
"""The router decides whether a component may send this: it is about one hop's request."""

INITIALIZE: Final = ("initialize", "proxy/initialize", "_proxy/initialize")
SCP_MCP: Final = "_scp/mcp"
LISTS: Final = (LIST, "session/status")
CONVERSATIONS: Final = ("_conversation/summarize", "_conversation/augment")
"""The requests that are answered with a conversation as data."""
CONDUCTORS: Final = (*INITIALIZE, "_scp/proxy")
CONDUCTOR_PREFIXES: Final = ("proxy/", "_proxy/", "_conductor/")

MCP: Final = ("mcp/", "_mcp/")
FAMILIES: Final = ("fs/", "terminal/", "elicitation/", "auth/", "providers/", *MCP)
"""Every method with such a prefix, known or not, falls under one guard."""

_IN_FAMILIES: Final = (
    "fs/read_text_file",
    "fs/write_text_file",
    "terminal/create",
    "terminal/output",
    "terminal/release",
    "terminal/wait_for_exit",
    "terminal/kill",
    "terminal/cancel",
    "elicitation/create",
    "elicitation/complete",
    "auth/login",
    "auth/logout",
    "auth/status",
    "auth/status_update",
    "providers/list",
    "providers/set",
    "providers/disable",
    "mcp/connect",
    "mcp/message",
    "mcp/disconnect",
    "_mcp/connect",
    "_mcp/message",
    "_mcp/disconnect",
    "_mcp/request",
    "_mcp/notification",
    "_mcp/client_to_server/request",
    "_mcp/client_to_server/notification",
    "_mcp/server_to_client/request",
    "_mcp/server_to_client/notification",
)
_OF_ROWS: Final = {key for row in ROWS for key in row.keys if key[0] != "_" and key[-1] not in "*]"}
KNOWN: Final = frozenset({CANCEL, *CONDUCTORS, SCP_MCP, *_OF_ROWS, *_IN_FAMILIES})
"""The methods of ACP v1 and v2 (schema 1.20.0, of November 2026) and of all generations of MCP over
ACP."""

_LONGEST: Final = 200
_SHORT: Final = 64
_printable = lazy_pattern(r"[!-~]+")
_nothing_but_names = lazy_pattern(r"[^a-z0-9]+")


def squash(name: str) -> str:
    """A name without case, punctuation, space and compatibility forms."""
    return _squash_short(name) if len(name) <= _SHORT else _squash(name)


def _squash(name: str) -> str:
    return _nothing_but_names.sub("", unicodedata.normalize("NFKC", name).casefold())


# Member names come again with every message; long ones are not worth their memory.
_squash_short = lru_cache(maxsize=2048)(_squash)


# Reversed: `mcp/connect` and `_mcp/connect` share one squashed name, which means the former.
_SQUASHED: Final = {squash(name): name for name in sorted(KNOWN, reverse=True)}


@lru_cache(maxsize=1024)
def _recognised(method: str) -> str:
    known = _SQUASHED.get(squash(method))
    if known is not None:
        return known
    lowered = unicodedata.normalize("NFKC", method).casefold()
    return lowered if lowered.startswith(FAMILIES) else method


def recognised(method: str) -> str:
    """The method a lenient peer could take `method` for; itself where it is only itself."""
    if method in KNOWN or method.startswith(FAMILIES) or len(method) > _LONGEST:
        return method
    return _recognised(method)


def is_mcp(method: str) -> bool:
    """Whether a method belongs to MCP over ACP."""
    return method.startswith(MCP) or method == SCP_MCP


def is_conductors(method: str) -> bool:
    """Whether only a conductor sends this method."""
    return method in CONDUCTORS or method.startswith(CONDUCTOR_PREFIXES)


def is_misspelled(method: str) -> bool:
    """Whether a name cannot be one of the protocol, but may be taken for one.

    Anything but printable ASCII counts: no method needs it, and look-alikes are made of it.
    """
    if len(method) > _LONGEST or _printable.fullmatch(method) is None:
        return True
    if recognised(method) != method:
        return True
    lowered = method.casefold()
    return lowered != method and is_conductors(lowered)


def is_unknown(method: str) -> bool:
    """Whether a method is neither known nor an extension's.

    No unknown method of MCP over ACP counts as an extension: nobody has judged its use of a
    server's address.
    """
    if method in KNOWN:
        return False
    return method.startswith(MCP) or not method.startswith((*FAMILIES, "_"))


def lookalike(
    members: Iterable[str], names: tuple[str, ...], known: Container[str] = ()
) -> str | None:
    """The first member beyond `known` that a lenient parser could take for one of `names`, though
    it is spelled differently.

    Some parsers match names regardless of case, or of underscores.
    """
    squashed = _all_squashed(names)
    for name in members:
        if name not in names and name not in known and squash(name) in squashed:
            return name
    return None


@lru_cache(maxsize=64)
def _all_squashed(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(squash, names))


# -- names of MCP servers, compared as people and lenient programs read them ----------------------

_LIKE: Final = str.maketrans(
    {
        # Cyrillic
        **dict(zip("абвгезикмнорстухѕіјԁԛԝһӏ", "abbreeukmhopctyxsijdqwhl", strict=True)),
        # Greek
        **dict(zip("αβγεζηικνορτυχωϲϳ", "abyeznlkvoptuxwcj", strict=True)),
        # Armenian, Latin letters that are none of ASCII, signs
        **dict(zip("օսոցɑɡıɩᴀʙᴄᴅᴇꜰɢʜɪᴊᴋ", "ounqagiiabcdefghijk", strict=True)),
        **dict(zip("ʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ", "lmnoprstuvwyz", strict=True)),
        # Cherokee
        **dict(zip("ᎪᏴᏟᎠᎬᎶᎻᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃ", "abcdeghklmprstvwz", strict=True)),
        # letters that nobody sees
        **dict.fromkeys("\u115f\u1160", ""),
        # look-alikes within ASCII
        **dict(zip("012345789i|!$@", "olzeastbglllsa", strict=True)),
    }
)
"""The letter that a folded letter looks like. Digits stay different: servers are numbered."""

_parts: Final = lazy_pattern(r"[:/.]|(?:_|[^\w-]){2}")
"""Agents call a server's tool `SERVER__TOOL`, with `_` for most signs that are no letters."""


def folded(name: str) -> str:
    """A name without case, marks, punctuation, space and look-alike letters."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    bare = unicodedata.normalize("NFKD", plain.translate(_LIKE)).translate(_LIKE)
    return "".join(char for char in bare if char.isalnum())


def head(name: str) -> str:
    """The first part of a name or an id, folded: `fs` of `fs:1`, `fs/x` and `fs__x`."""
    parts = map(folded, _parts.split(unicodedata.normalize("NFKC", name)))
    return next(filter(None, parts), "")


# -- texts that people read beside the agent's -----------------------------------------------------

_ALIKE: Final = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN")
"""Alphabets with letters that look alike: a word has letters of one of them."""
_ALPHABETS: Final = frozenset(
    {
        *_ALIKE,
        *("ARABIC", "BENGALI", "CJK", "DEVANAGARI", "ETHIOPIC", "GEORGIAN", "GUJARATI"),
        *("GURMUKHI", "HANGUL", "HEBREW", "HIRAGANA", "KANNADA", "KATAKANA", "KHMER", "LAO"),
        *("MALAYALAM", "MYANMAR", "ORIYA", "SINHALA", "TAMIL", "TELUGU", "THAI", "TIBETAN"),
        *("KATAKANA-HIRAGANA", "IDEOGRAPHIC"),
    }
)
"""Alphabets that people write in today, by the first word of the names of their letters. In others
there are letters that look like Latin ones."""
_word = lazy_pattern(r"\w+")


def is_plain(text: str) -> bool:
    """Whether every letter of a text is what it looks like: of an alphabet that people write in,
    with no two alphabets in one word that look alike, and no picture of a letter."""
    if text.isascii() or not text.isprintable():
        return text.isprintable()
    shown = unicodedata.normalize("NFKC", text)
    return all(map(_is_letter, shown)) and not any(map(_is_mixed, _word.findall(shown)))


def _is_letter(char: str) -> bool:
    if char.isascii():
        return True
    name = unicodedata.name(char, "")
    if char.isalpha():
        first = name.partition(" ")[0]
        # Latin letters of phonetics are Latin letters that are turned or small.
        phonetic = first == "LATIN" and not (char < "\u0250" or "\u1e00" <= char <= "\u1eff")
        return first in _ALPHABETS and not phonetic
    return "LETTER" not in name and "SQUARED" not in name and unicodedata.category(char) != "Cn"


def _is_mixed(word: str) -> bool:
    if word.isascii():
        return False
    firsts = {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()}
    return len(firsts.intersection(_ALIKE)) > 1
