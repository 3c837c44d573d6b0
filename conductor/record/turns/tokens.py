"""How many tokens a text has, estimated: nobody here has the agent's tokenizer."""

from __future__ import annotations

from typing import Final

_LATIN: Final = 4
"""Characters of ASCII text that make a token, about. Any other character counts as a token."""


def estimated(text: str) -> int:
    """About how many tokens a text has: a quarter of its ASCII characters and all others."""
    if text.isascii():
        return -(-len(text) // _LATIN)
    others = len(text) - len(text.encode("ascii", "ignore"))
    return -(-(len(text) - others) // _LATIN) + others
