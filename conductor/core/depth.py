"""How deep a frame nests, told without parsing it: a deep enough text overflows parsers' stacks."""

from __future__ import annotations

import array
import itertools
import re
from typing import Final

# Possessive, with the closing quote optional: it never fails, so it never backtracks.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_OTHERS: Final = bytes(b for b in range(256) if b not in b"[]{}")
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # as signed bytes: 1, -1
_SHORT: Final = 1 << 16
_CHUNK: Final = 1 << 14


def too_deep(frame: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; brackets inside strings do not count.

    Linear in the frame's length, and cheap for a frame with few brackets.
    """
    if not _opens_more(frame, limit):
        return False
    steps = _STRING.sub(b"", frame).translate(_STEPS, _OTHERS)
    level = 0
    for start in range(0, len(steps), _CHUNK):
        levels = itertools.accumulate(
            array.array("b", steps[start : start + _CHUNK]), initial=level
        )
        reached = list(levels)
        if max(reached) > limit:
            return True
        level = reached[-1]
    return False


def _opens_more(frame: bytes, limit: int) -> bool:
    """Whether there are more than `limit` opening brackets, wherever they stand."""
    if len(frame) < _SHORT:
        return frame.count(b"{") + frame.count(b"[") > limit
    # Counting looks at each byte, finding skips over long strings: this stops early or is rare.
    left = limit
    for bracket in (b"{", b"["):
        at = frame.find(bracket)
        while at >= 0:
            if left == 0:
                return True
            left -= 1
            at = frame.find(bracket, at + 1)
    return False
