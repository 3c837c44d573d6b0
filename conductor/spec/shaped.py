"""Whether a text may hold a secret that its shape gives away (`conductor.secret_shapes`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from conductor.secret_shapes import HINTS, WORDS

_RARE: Final = "_-:/KSIYJHAPkjxzbgwvc"
"""Letters and signs that are rare in messages, the rarest first."""


def _sought(hint: str) -> str:
    """A pattern that finds a hint by its rarest letter: most text is then passed over quickly."""
    at = min(range(len(hint)), key=lambda at: f"{_RARE}{hint[at]}".index(hint[at]))
    before, behind = re.escape(hint[: at + 1]), re.escape(hint[at + 1 :])
    return f"{re.escape(hint[at])}(?<={before}){behind}"


def finder(hints: Iterable[str]) -> Callable[[bytes], re.Match[bytes] | None]:
    """Finds any of some hints in a text."""
    return re.compile("|".join(map(_sought, hints)).encode()).search


hinted: Final = finder((*HINTS, r":\/"))
"""Whether a JSON text may hold a secret of known shape, apart from what follows a word or is
written with escapes: a match, or None."""

_WORDS: Final = tuple(word.encode() for word in WORDS)


def may_hold(text: bytes) -> bool:
    """Whether a JSON text may hold a secret of known shape."""
    if hinted(text) or b"\\u00" in text:
        return True
    lower = text.lower()
    return any(word in lower for word in _WORDS)
