"""Names of MCP servers, compared as people and lenient programs read them."""

from __future__ import annotations

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
        **dict(zip("01i|", "olll", strict=True)),
    }
)
"""What a folded letter looks like."""


def folded(name: str) -> str:
    """What is left of a name without case, marks, punctuation, space and look-alike letters."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    bare = unicodedata.normalize("NFKD", plain.translate(_LIKE)).translate(_LIKE)
    return "".join(char for char in bare if char.isalnum())
