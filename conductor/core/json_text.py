"""JSON texts read without parsing all of them: nesting, number of values, lone surrogates, members.

Parsers fail on some valid frames, and peers send them: deep nesting overflows the parser's stack,
many small values take many times the memory of their text, and msgspec refuses lone surrogates.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from conductor.patterns import lazy_pattern

# -- nesting and number of values ------------------------------------------------------------------

# Possessive, with the closing quote optional: it never fails, so it never backtracks.
_STRING: Final = lazy_pattern(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# At most 2,048 strings at a time: a list of all strings of a frame takes much memory.
_PIECE: Final = lazy_pattern(rb'(?:[^"]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"?){1,2048}+|[^"]++', re.DOTALL)
_NOT_SIGNS: Final = bytes(b for b in range(256) if b not in b'"[]{}')
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")  # as signed bytes: 1, -1
_NOT_SEPARATORS: Final = bytes(b for b in range(256) if b not in b",[{")
_SEPARATORS: Final = (b",", b"[", b"{")
_OPENERS: Final = (b"[", b"{")
_SHORT: Final = 1 << 16
_FEW: Final = 256
_CHUNK: Final = 256


def too_deep(frame: bytes, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; brackets inside strings do not count.

    Linear in the frame's length, and cheap for a frame with few brackets.
    """
    if not _opens_more(frame, limit):
        return False
    level = 0
    for brackets in _brackets(frame):
        steps = brackets.translate(_STEPS)
        for start in range(0, len(steps), _CHUNK):
            chunk = steps[start : start + _CHUNK]
            opens = chunk.count(1)
            # Only a chunk that opens enough brackets is walked bracket by bracket.
            if (
                level + opens > limit
                and level + max(itertools.accumulate(array("b", chunk))) > limit
            ):
                return True
            level += 2 * opens - len(chunk)
    return False


def count_values(frame: bytes, most: int) -> int:
    """How many values are in a frame, or a few more; no longer exact where it is above `most`.

    Each comma and each opening bracket counts as one more, so an empty array counts as two.
    """
    number = 1 + _found(frame, _SEPARATORS, _FEW) if len(frame) >= _SHORT else _FEW
    if number >= _FEW:
        number = 1 + len(frame.translate(None, _NOT_SEPARATORS))
    if number <= most:  # even with the separators inside strings, so those need not be looked for
        return number
    number = 1
    for bare in _without_strings(frame):
        number += len(bare.translate(None, _NOT_SEPARATORS))
        if number > most:
            break
    return number


def too_many_values(frame: bytes, limit: int) -> bool:
    """Whether there are more than `limit` values in a frame.

    Linear in the frame's length, without a Python object for each value.
    """
    return len(frame) > limit and count_values(frame, limit) > limit


def _brackets(frame: bytes) -> Iterator[bytes]:
    """The brackets of a frame that are outside its strings, in pieces.

    Source code in a string holds thousands of brackets and escaped quotes, so no step looks at them
    one by one.
    """
    if b"\\" in frame:
        frame = frame.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each quote that is left begins or ends a string.
    signs = frame.translate(None, _NOT_SIGNS)
    outside = 0
    for start in range(0, len(signs), _SHORT):
        parts = signs[start : start + _SHORT].split(b'"')
        yield b"".join(parts[outside::2])
        outside = (outside + len(parts) - 1) % 2


def _without_strings(frame: bytes) -> Iterator[bytes]:
    """The pieces of a frame between its strings."""
    return (_STRING.sub(b"", piece[0]) for piece in _PIECE.finditer(frame))


def _opens_more(frame: bytes, limit: int) -> bool:
    """Whether there are more than `limit` opening brackets, inside strings or not."""
    if len(frame) < _SHORT:
        return frame.count(b"{") + frame.count(b"[") > limit
    return _found(frame, _OPENERS, limit + 1) > limit


def _found(frame: bytes, signs: tuple[bytes, ...], most: int) -> int:
    """How many of the signs are in a frame, inside strings or not; `most` if there are more.

    Counting looks at each byte, searching skips over long strings: this stops early or is rare.
    """
    found = 0
    for sign in signs:
        at = frame.find(sign)
        while at >= 0 and found < most:
            found += 1
            at = frame.find(sign, at + 1)
    return found


def holds(text: bytes, word: bytes) -> bool:
    """`word in text`; fast where a long text seldom has the first byte of the word."""
    if len(text) < _SHORT:
        return text.find(word) >= 0  # `in` takes twice as long: it tries the word as a number first
    first = word[:1]
    at = text.find(first)
    for _ in range(_FEW):
        if at < 0 or text.startswith(word, at):
            return at >= 0
        at = text.find(first, at + 1)
    return at >= 0 and text.find(word, at) >= 0


# -- lone surrogates -------------------------------------------------------------------------------

# JSON allows a lone surrogate escape, and editors send them (half an emoji). A frame was checked to
# be UTF-8 before it comes here, so the bytes 0xFE and 0xFF stand nowhere in it and can mark the
# escapes that the decoder must not look at.
_HIGH: Final = rb"[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE: Final = lazy_pattern(
    rb"\\u(?:(?=%b(?!\\u%b))|(?<!\\u%b\\u)(?=%b))" % (_HIGH, _LOW, _HIGH, _LOW)
)
_high: Final = lazy_pattern(rb"\\u" + _HIGH)
_low: Final = lazy_pattern(rb"\\u" + _LOW)
_MARK: Final = b"\xff\xff"
# Stands for an escaped backslash meanwhile: every backslash that is left begins another escape.
_BACKSLASH: Final = b"\xfe\xfe"
_PIECE_BYTES: Final = 1 << 16
_ESCAPE: Final = 6
"""Bytes of a surrogate's escape."""


def hide_surrogates(frame: bytes) -> bytes | None:
    """`frame` with the backslash-u of every lone surrogate marked, or None if it has none."""
    text = frame.replace(rb"\\", _BACKSLASH)
    if _LONE.search(text) is None:
        return None
    return b"".join(_LONE.sub(_MARK, piece) for piece in _pieces(text)).replace(_BACKSLASH, rb"\\")


def show_surrogates(raw: bytes) -> bytes:
    """Undoes `hide_surrogates`."""
    return raw.replace(_MARK, b"\\u")


def _pieces(text: bytes) -> Iterator[bytes]:
    """Splits a text without splitting an escape or a pair of surrogates.

    A text may hold millions of lone surrogates; to substitute all in one call takes many times the
    memory of the text.
    """
    start = 0
    while start < len(text):
        end = text.find(b"\\", start + _PIECE_BYTES)
        if end < 0:
            end = len(text)
        elif _low.match(text, end) and _high.match(text, end - _ESCAPE):
            end += _ESCAPE
        yield text[start:end]
        start = end


# -- the members of one object ---------------------------------------------------------------------

_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_encode = msgspec.json.Encoder().encode


def read_members(raw: Raw | bytes | UnsetType | None) -> dict[str, Raw] | None:
    """The members of a JSON object, or None if `raw` is no object; of equal names the last counts.

    Values stay raw, so a member that is not touched is written back byte for byte.
    """
    if raw is None or isinstance(raw, UnsetType):
        return None
    try:
        return _decode(raw)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        members = _decode(hide_surrogates(bytes(raw)) or raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # not JSON, or a name that is no text
    return {name: Raw(show_surrogates(bytes(value))) for name, value in members.items()}


def write_members(members: dict[str, Raw]) -> Raw:
    """The object with these members."""
    return Raw(_encode(members))
