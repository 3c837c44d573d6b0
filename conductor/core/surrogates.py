"""Lone surrogate escapes: JSON allows them, editors send them (half an emoji), msgspec refuses.

A frame was checked to be UTF-8 before it comes here, so the bytes 0xFE and 0xFF stand nowhere in it
and can mark the escapes that the decoder must not look at; what is decoded as raw gets them back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_HIGH: Final = rb"[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE: Final = re.compile(
    rb"\\u(?:(?=%b(?!\\u%b))|(?<!\\u%b\\u)(?=%b))" % (_HIGH, _LOW, _HIGH, _LOW)
)
_high: Final = re.compile(rb"\\u" + _HIGH).match
_low: Final = re.compile(rb"\\u" + _LOW).match
_MARK: Final = b"\xff\xff"
_BACKSLASH: Final = b"\xfe\xfe"
"""Stands for an escaped backslash meanwhile: every backslash that is left begins another escape."""
_CHUNK: Final = 1 << 16
_ESCAPE: Final = 6
"""Bytes of a surrogate's escape."""


def hide(frame: bytes) -> bytes | None:
    """`frame` with every lone surrogate's backslash-u marked, or None where there is none."""
    text = frame.replace(rb"\\", _BACKSLASH)
    if _LONE.search(text) is None:
        return None
    return b"".join(_LONE.sub(_MARK, one) for one in _chunks(text)).replace(_BACKSLASH, rb"\\")


def show(raw: bytes) -> bytes:
    """What stood there before `hide`."""
    return raw.replace(_MARK, b"\\u")


def _chunks(text: bytes) -> Iterator[bytes]:
    """A text in pieces that part no escape, and no pair of surrogates: to mark one by one the
    millions that a text may hold takes many times its memory."""
    start = 0
    while start < len(text):
        end = text.find(b"\\", start + _CHUNK)
        if end < 0:
            end = len(text)
        elif _low(text, end) and _high(text, end - _ESCAPE):
            end += _ESCAPE
        yield text[start:end]
        start = end
