"""Lone surrogate escapes: JSON allows them, editors send them (half an emoji), msgspec refuses.

A frame was checked to be UTF-8 before it comes here, so the byte 0xFF stands nowhere in it and can
mark the escapes that the decoder must not look at; what is decoded as raw gets them back.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(rb"\\(?:u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_MARK: Final = b"\xff\xff"


def hide(frame: bytes) -> bytes | None:
    """`frame` with every lone surrogate's backslash-u marked, or None where there is none."""
    lone = _lone(frame)
    if not lone:
        return None
    marked = bytearray(frame)
    for at in lone:
        marked[at : at + 2] = _MARK
    return bytes(marked)


def show(raw: bytes) -> bytes:
    """What stood there before `hide`."""
    return raw.replace(_MARK, b"\\u")


def _lone(frame: bytes) -> list[int]:
    """Offsets of surrogate escapes that do not form a pair."""
    lone: list[int] = []
    high: int | None = None
    for match in _ESCAPE.finditer(frame):
        digits, at = match.group(1), match.start()
        is_low = digits is not None and digits[1:2].lower() in b"cdef"
        if high is not None:
            if is_low and at == high + 6:
                high = None
                continue
            lone.append(high)
            high = None
        if is_low:
            lone.append(at)
        elif digits is not None:
            high = at
    if high is not None:
        lone.append(high)
    return lone
