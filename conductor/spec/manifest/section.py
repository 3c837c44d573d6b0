"""The manifest within a module: a custom section, so that one file describes itself.

Modules and components have the same outer form: eight bytes, then sections, each with a kind and a
size. The start path loads this module, so it reads the heads of the sections and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from conductor.errors import UsageError
from conductor.spec import private_files, untrusted_files

SECTION: Final = "conductor.manifest"
"""The section's name."""

_NAME: Final = bytes([len(SECTION)]) + SECTION.encode()
_HEAD: Final = 8
_CUSTOM: Final = 0
_SECTIONS: Final = 20_000
"""Sections that are looked at: twice as many as a module may have by default."""
_MOST: Final = 64 * 1024 + 1
"""Bytes of a manifest that are read: one more than it may have, so that its reader refuses it."""


class _Place(NamedTuple):
    """The begin of a section, the begin of its text, and the end of both."""

    begin: int
    text: int
    end: int


def find(path: str) -> bytes | None:
    """The text of the manifest in a module; None if it has none. Raises `OSError`."""
    with untrusted_files.ordinary(path) as file:
        for place in _places(path, file):
            file.seek(place.text)
            return file.read(min(place.end - place.text, _MOST))
    return None


def embed(path: str, text: bytes) -> None:
    """Puts a manifest into a module, in place of a former manifest. Raises `OSError`."""
    with untrusted_files.ordinary(path) as file:
        module = file.read()
        places = list(_places(path, file))
    kept, at = [], 0
    for place in places:
        kept.append(module[at : place.begin])
        at = place.end
    body = _NAME + text
    section = bytes([_CUSTOM]) + _leb128(len(body)) + body
    private_files.replace(path, b"".join([*kept, module[at:], section]), mode=0o666)


def _places(path: str, file: BinaryIO) -> Iterator[_Place]:
    """The sections with a manifest. Stops at unreadable bytes: the host reports them better.

    Raises `UsageError` for a module of too many sections.
    """
    size = os.fstat(file.fileno()).st_size
    begin = _HEAD
    for _ in range(_SECTIONS):
        if begin >= size:
            return
        file.seek(begin)
        kind = file.read(1)
        length = _read_leb128(file)
        start = file.tell()
        if length is None or start + length > size:
            return
        if kind[0] == _CUSTOM and length >= len(_NAME) and file.read(len(_NAME)) == _NAME:
            yield _Place(begin, start + len(_NAME), start + length)
        begin = start + length
    raise UsageError(
        f"`{path}` has more than {_SECTIONS:,} sections", "no tool writes a module like that"
    )


def _read_leb128(file: BinaryIO) -> int | None:
    """An unsigned number of up to 35 bits; None if the file holds none here."""
    number = 0
    for shift in range(0, 35, 7):
        byte = file.read(1)
        if not byte:
            return None
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return number
    return None


def _leb128(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
