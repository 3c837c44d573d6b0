"""The manifest within a module: a custom section, so that one file describes itself.

Modules and components begin alike: eight bytes, then sections, each with a kind and a size. Loaded
where an editor waits: reads the heads of the sections and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from conductor.errors import UsageError
from conductor.spec import untrusted_files

SECTION: Final = "conductor.manifest"
"""What the section is called."""

_NAME: Final = SECTION.encode()
_HEAD: Final = 8
_CUSTOM: Final = 0
_SECTIONS: Final = 20_000
"""Sections that are looked at: twice as many as a module may have by default."""
_MOST: Final = 64 * 1024 + 1
"""Bytes of a manifest that are read: one more than it may have."""


class _Place(NamedTuple):
    """Where a section begins, where its text does, and where both end."""

    begin: int
    text: int
    end: int


def find(path: str) -> bytes | None:
    """The text of the manifest in a module; None if there is none. Raises `OSError`."""
    with untrusted_files.ordinary(path) as file:
        for place in _places(file):
            file.seek(place.text)
            return file.read(min(place.end - place.text, _MOST))
    return None


def embed(path: str, text: bytes) -> None:
    """Puts a manifest into a module, in place of one that is there. Raises `OSError`."""
    with untrusted_files.ordinary(path) as file:
        module = file.read()
        places = list(_places(file))
    kept, at = [], 0
    for place in places:
        kept.append(module[at : place.begin])
        at = place.end
    body = bytes([len(_NAME)]) + _NAME + text
    beside = f"{path}.new"
    with open(beside, "wb") as file:
        file.write(b"".join([*kept, module[at:], bytes([_CUSTOM]), _written(len(body)), body]))
    os.replace(beside, path)


def _places(file: BinaryIO) -> Iterator[_Place]:
    """The sections with a manifest. What cannot be read ends it: the host says what is wrong.

    Raises `UsageError` for a module of too many.
    """
    size = os.fstat(file.fileno()).st_size
    begin = _HEAD
    for _ in range(_SECTIONS):
        if begin >= size:
            return
        file.seek(begin)
        kind = file.read(1)
        length = _number(file)
        start = file.tell()
        if length is None or start + length > size:
            return
        if kind[0] == _CUSTOM and length > len(_NAME):
            named = file.read(1 + len(_NAME))
            if named == bytes([len(_NAME)]) + _NAME:
                yield _Place(begin, start + len(named), start + length)
        begin = start + length
    raise UsageError(
        f"`{file.name}` has more than {_SECTIONS:,} sections", "no tool writes a module like that"
    )


def _number(file: BinaryIO) -> int | None:
    """An unsigned number as modules have it; None if it is none."""
    found = 0
    for shift in range(0, 35, 7):
        byte = file.read(1)
        if not byte:
            return None
        found |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return found
    return None


def _written(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
