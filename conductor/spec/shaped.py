"""Whether a text may hold a secret that its shape gives away (`conductor.secret_shapes`)."""

from __future__ import annotations

import re
from typing import Final

from conductor.secret_shapes import HINTS, WORDS

_RARE: Final = "_-:/KSIYJHAPkjxzbg"
"""Letters and signs that are rare in messages, the rarest first."""


def _sought(hint: str) -> str:
    """A pattern that finds a hint by its rarest letter: most text is then passed over quickly."""
    at = min(range(len(hint)), key=lambda at: f"{_RARE}{hint[at]}".index(hint[at]))
    return f"{hint[at]}(?<={re.escape(hint[: at + 1])}){re.escape(hint[at + 1 :])}"


hinted: Final = re.compile("|".join(map(_sought, (*HINTS, r":\\/"))).encode()).search
"""Whether a JSON text may hold a secret of known shape, apart from what follows a word or is
written with escapes: a match, or None."""

_WORDS: Final = tuple(word.encode() for word in WORDS)


def may_hold(text: bytes) -> bool:
    """Whether a JSON text may hold a secret of known shape."""
    if hinted(text) or b"\\u00" in text:
        return True
    lower = text.lower()
    return any(word in lower for word in _WORDS)
