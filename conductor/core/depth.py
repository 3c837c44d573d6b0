"""How deep a frame nests and how many values are in it, told without parsing it: a deep text
overflows parsers' stacks, and many values take many times the memory of their text."""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterator
from typing import Final

# Possessive, with the closing quote optional: it never fails, so it never backtracks.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_PIECE: Final = re.compile(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"?){1,2048}+|[^"]++', re.DOTALL)
"""So many strings with what is between them: a list of all strings of a frame takes much memory."""
_OTHERS: Final = bytes(b for b in range(256) if b not in b"[]{}")
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # as signed bytes: 1, -1
_NO_SIGNS: Final = bytes(b for b in range(256) if b not in b",[{")
_SHORT: Final = 1 << 16
_CHUNK: Final = 256


def too_deep(frame: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; brackets inside strings do not count.

    Linear in the frame's length, and cheap for a frame with few brackets.
    """
    if not _opens_more(frame, limit):
        return False
    level = 0
    for bare in _bare(frame):
        steps = bare.translate(_STEPS, _OTHERS)
        for start in range(0, len(steps), _CHUNK):
            chunk = steps[start : start + _CHUNK]
            opens = chunk.count(1)
            if level + opens > limit:
                reached = max(itertools.accumulate(array("b", chunk)))
                if level + reached > limit:
                    return True
            level += 2 * opens - len(chunk)
    return False


def values(frame: bytes, most: int) -> int:
    """How many values are in a frame, or a few more; no longer exact where it is above `most`.

    Each comma and each opening bracket counts as one more, so an empty array counts as two.
    """
    found = 1 + len(frame.translate(None, _NO_SIGNS))
    if found <= most:
        return found
    found = 1
    for bare in _bare(frame):
        found += len(bare.translate(None, _NO_SIGNS))
        if found > most:
            break
    return found


def too_many_values(frame: bytes, limit: int) -> bool:
    """Whether there are more than `limit` values in a frame.

    Linear in the frame's length, without a Python object for each of them.
    """
    return len(frame) > limit and values(frame, limit) > limit


def _bare(frame: bytes) -> Iterator[bytes]:
    """A frame without its strings, piece by piece."""
    return (_STRING.sub(b"", found[0]) for found in _PIECE.finditer(frame))


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
