"""JSON texts read without parsing all of them: nesting, number of values, lone surrogates, members.

Parsers fail on some valid frames, and peers send them: deep nesting overflows the parser's stack,
many small values take many times the memory of their text, and msgspec refuses lone surrogates.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Literal, TypeVar, cast, overload

import msgspec
from msgspec import UNSET, Raw, UnsetType

from conductor.patterns import lazy_pattern

T = TypeVar("T")

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


# -- values whose texts may hold lone surrogates ---------------------------------------------------

# Stands in a text for a lone surrogate: the writer of the text cannot know the number.
_SIGN: Final = f"\ufdd0{hash(('sign', id(_PIECE))) & (1 << 40) - 1:010x}"
_SIGN_BYTES: Final = _SIGN.encode()
_signed: Final = lazy_pattern(_SIGN + "([0-9a-fA-F]{4})")
_half: Final = lazy_pattern("[\ud800-\udfff]")
_plain_encode: Final = msgspec.json.Encoder().encode


def _sign(text: str) -> str:
    return _half.sub(lambda half: f"{_SIGN}{ord(half[0]):04x}", text)


def _unsign(text: str) -> str:
    return _signed.sub(lambda sign: chr(int(sign[1], 16)), text) if _SIGN in text else text


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value with all its texts changed. One frame of Python a level: values nest deeply."""
    if type(value) is str:
        return change(value)
    if isinstance(value, dict):
        changed = {}
        for key, one in value.items():
            changed[change(key) if type(key) is str else key] = _each_text(one, change)
        return changed
    if isinstance(value, list | tuple | set | frozenset):
        several = []
        for one in value:
            several.append(_each_text(one, change))  # noqa: PERF401 - a comprehension is a frame
        return type(value)(*several) if hasattr(value, "_fields") else type(value)(several)
    if isinstance(value, Raw):
        return Raw(bytes(value).replace(_SIGN_BYTES, b"\\u"))
    if isinstance(value, msgspec.Struct):
        made = msgspec.structs.replace(value)
        for name in made.__struct_fields__:
            msgspec.structs.force_setattr(made, name, _each_text(getattr(made, name), change))
        return made
    return value


def utf8(text: str) -> bytes:
    """The bytes of a text outside JSON, such as a file. UTF-8 holds no lone surrogate, so U+FFFD
    stands for it, as editors write it. The halves of a pair become the character."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


class Decoder(Generic[T]):
    """As `msgspec.json.Decoder`, but texts may hold lone surrogates."""

    @overload
    def __init__(self: Decoder[Any]) -> None: ...

    @overload
    def __init__(self: Decoder[T], type: type[T]) -> None: ...

    @overload
    def __init__(self: Decoder[Any], type: Any) -> None: ...

    def __init__(self, type: Any = Any) -> None:  # noqa: A002
        self._decode: Callable[[Any], T] = msgspec.json.Decoder(type).decode

    def decode(self, raw: Raw | bytes | memoryview | str) -> T:
        """The value of a JSON text.

        Raises:
            msgspec.DecodeError: it is no JSON, or (`ValidationError`) not of the type.
            UnicodeDecodeError: it is not UTF-8.
        """
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            data = raw.encode() if isinstance(raw, str) else bytes(raw)
            data.decode()
            hidden = hide_surrogates(data)
            if hidden is None:
                raise
        whole = self._decode(hidden.replace(_MARK, _SIGN_BYTES))
        return cast("T", _each_text(whole, _unsign))

    def find(self, raw: Raw | bytes | UnsetType | None) -> T | None:
        """The value of a JSON text; None: there is none, or none that can be read as the type."""
        if raw is None or raw is UNSET:
            return None
        try:
            return self._decode(raw)
        except (msgspec.ValidationError, RecursionError):
            return None
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            return self.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


@overload
def decode(raw: Raw | bytes | memoryview | str) -> Any: ...


@overload
def decode(raw: Raw | bytes | memoryview | str, *, type: type[T]) -> T: ...


@overload
def decode(raw: Raw | bytes | memoryview | str, *, type: Any) -> Any: ...


def decode(raw: Raw | bytes | memoryview | str, *, type: Any = Any) -> Any:  # noqa: A002
    """As `msgspec.json.decode`, but texts may hold lone surrogates. Raises as `Decoder.decode`, and
    for what nests too deeply."""
    try:
        return _decoded(raw, type)
    except RecursionError:
        raise msgspec.DecodeError("JSON nests too deeply") from None


def _decoded(raw: Raw | bytes | memoryview | str, type_: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        return Decoder(type_).decode(raw)


_any_text: Final = Decoder(Raw)


def check(text: Raw | bytes) -> None:
    """Raises as `Decoder.decode` where this is no JSON text."""
    bytes(text).decode()  # msgspec does not check the encoding of text that it skips
    _any_text.decode(text)


def encode(value: Any, *, order: Literal["sorted", "deterministic"] | None = None) -> bytes:
    """As `msgspec.json.encode`, but texts may hold lone surrogates: those become escapes."""
    try:
        return msgspec.json.encode(value, order=order) if order else _plain_encode(value)
    except UnicodeEncodeError:
        whole = msgspec.json.encode(_each_text(value, _sign), order=order)
        return whole.replace(_SIGN_BYTES, b"\\u")


def encode_sorted(value: Any) -> bytes:
    """`encode`, with the members of objects in order."""
    return encode(value, order="sorted")


def formatted(data: bytes, indent: int = 2) -> bytes:
    """As `msgspec.json.format`, but texts may hold lone surrogates."""
    try:
        return msgspec.json.format(data, indent=indent)
    except msgspec.DecodeError:
        hidden = hide_surrogates(data)
        if hidden is None:
            raise
    whole = msgspec.json.format(hidden.replace(_MARK, _SIGN_BYTES), indent=indent)
    return whole.replace(_SIGN_BYTES, b"\\u")


# -- the members of one object, the elements of one array ------------------------------------------

_object: Final = Decoder(dict[str, Raw])
_array: Final = Decoder(list[Raw])
_text: Final = Decoder(str)


def read_members(raw: Raw | bytes | UnsetType | None) -> dict[str, Raw] | None:
    """The members of a JSON object, or None if `raw` is no object; of equal names the last counts.

    Values stay raw, so a member that is not touched is written back byte for byte.
    """
    return _object.find(raw)


def member_at(whole: Raw | bytes | UnsetType | None, name: str, *names: str) -> Raw | None:
    """The value to which names of members lead, from object to object; None: there is none."""
    found = (read_members(whole) or {}).get(name)
    return member_at(found, *names) if names else found


def has_object(whole: Raw | bytes | UnsetType | None, name: str, *names: str) -> bool:
    """Whether the value there is an object: capabilities are declared as objects."""
    return read_members(member_at(whole, name, *names)) is not None


def elements(raw: Raw | None) -> list[Raw]:
    """The elements of a JSON array; none of anything else."""
    return _array.find(raw) or []


def text_of(raw: Raw | bytes | None) -> str:
    """The text of a JSON string; empty: it is none."""
    return _text.find(raw) or ""


def write_members(members: dict[str, Raw]) -> Raw:
    """The object with these members."""
    try:
        return Raw(_plain_encode(members))
    except UnicodeEncodeError:
        return Raw(encode(members))
