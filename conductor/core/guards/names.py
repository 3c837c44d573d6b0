"""Names of MCP servers, compared as people and lenient programs read them."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_LIKE: Final = str.maketrans(
    {
        # Cyrillic
        **dict(zip("абвгезикмнорстухѕіјԁԛԝһӏ", "abbreeukmhopctyxsijdqwhl", strict=True)),
        # Greek
        **dict(zip("αβγεζηικνορτυχωϲϳ", "abyeznlkvoptuxwcj", strict=True)),
        # Armenian, Latin letters that are none of ASCII, signs
        **dict(zip("օսոցɑɡıɩʟꜱᴏᴄᴠᴡᴢ", "ounqagiilsocvwz", strict=True)),
        # what looks alike within ASCII
        **dict(zip("012345789i|!$@", "olzeastbglllsa", strict=True)),
    }
)
"""What a folded letter looks like. No two digits look alike: servers are numbered."""

_parts: Final = re.compile(r"[:/.]|(?:_|[^\w-]){2}").split
"""Agents call a server's tool `SERVER__TOOL`, with `_` for most of what is no letter."""


def folded(name: str) -> str:
    """What is left of a name without case, marks, punctuation, space and look-alike letters."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    bare = unicodedata.normalize("NFKD", plain.translate(_LIKE)).translate(_LIKE)
    return "".join(char for char in bare if char.isalnum())


def head(name: str) -> str:
    """What a name or an id begins with, folded: `fs` of `fs:1`, `fs/x` and `fs__x`."""
    parts = map(folded, _parts(unicodedata.normalize("NFKC", name)))
    return next(filter(None, parts), "")
