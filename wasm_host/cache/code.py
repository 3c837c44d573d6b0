"""The bodies of a module's functions, walked through without being understood.

What a function costs to compile grows faster than its size where blocks nest or locals are many,
so both are counted before a compiler sees them. One pattern skips runs of instructions that open
and close nothing, so only blocks and branch tables are looked at one by one.
"""

from __future__ import annotations

import re
from typing import Final

_LEB: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_MEMARG: Final = (
    rb"(?:[\x00-\x3f]|[\x80-\xbf]\x80*+\x00)" + _LEB
    + rb"|(?:[\x40-\x7f]|[\xc0-\xff]\x80*+\x00)" + _LEB + _LEB
)  # fmt: skip
"""Alignment; the memory, where bit 6 of the alignment says that it follows; offset."""
_BLOCK_TYPE: Final = rb"(?:[\x63\x64]" + _LEB + rb"|" + _LEB + rb")"

_ORDINARY: Final = (
    # Locals, globals, tables, constants, branches, calls, references: one number.
    rb"[\x20-\x26\x41\x42\x0c\x0d\x10\x12\x3f\x40\x08\x14\x15\xd0\xd2\xd5\xd6]" + _LEB,
    # Arithmetic, and whatever else takes nothing.
    rb"[\x45-\xc4\x1a\x1b\x0f\x00\x01\x05\x0a\xd1\xd3\xd4]++",
    rb"[\x28-\x3e](?:" + _MEMARG + rb")",
    rb"[\x11\x13]" + _LEB + _LEB,
    rb"\x43.{4}",
    rb"\x44.{8}",
    rb"\x1c\x01" + _BLOCK_TYPE,
    rb"\xfc(?:[\x00-\x07]|[\x08\x0a\x0c\x0e]" + _LEB + _LEB + rb"|[\x09\x0b\x0d\x0f-\x11]"
    + _LEB + rb")",
    rb"\xfd(?:[\x00-\x0b\x5c\x5d](?:" + _MEMARG + rb")|[\x0c\x0d].{16}|[\x15-\x22]."
    rb"|[\x54-\x5b](?:" + _MEMARG + rb").|[\x0e-\x14\x23-\x53\x5e-\x7f]"
    rb"|[\x80-\xff]\x01|[\x80-\x9f]\x02)",
)  # fmt: skip

_NEXT: Final = re.compile(
    rb"(?>" + rb"|".join(_ORDINARY) + rb")*+"
    rb"(?:([\x02-\x04]" + _BLOCK_TYPE + rb")|(\x0b++)|(\x0e)|(\x1f" + _BLOCK_TYPE + rb"))",
    re.DOTALL,
)  # fmt: skip
"""Ordinary instructions, then one of: block, loop or if; ends; a branch table; try_table."""
_CATCH: Final = re.compile(rb"[\x00\x01]" + _LEB + _LEB + rb"|[\x02\x03]" + _LEB)
_OPENS, _ENDS, _TABLE = 1, 2, 3

_CONTINUED: Final = bytes(range(0x80, 0x100))


class BodyReader:
    """Reads function bodies of one file."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = self._end = 0

    def measure(self, start: int, end: int) -> tuple[int, int]:
        """How many locals a body has, and how deep its blocks nest.

        Raises:
            ValueError: it is damaged, or has an instruction that this host does not know.
            IndexError: it ends early.
        """
        self._at, self._end = start, end
        count = 0
        for _ in range(self._number()):
            count += self._number()
            code = self._data[self._at]
            self._at += 1
            if code in (0x63, 0x64):
                self._number()
        return count, self._nesting()

    def _nesting(self) -> int:
        data, at, end = self._data, self._at, self._end
        find = _NEXT.match
        depth = deepest = 0
        while at < end:
            found = find(data, at, end)
            if found is None:
                raise ValueError("a function has an instruction that this host does not know")
            at = found.end()
            what = found.lastindex
            if what == _ENDS:
                depth -= at - found.start(_ENDS)
                # The last one ends the function itself.
                if depth < 0 and (depth < -1 or at < end):
                    raise ValueError("a function ends more blocks than it begins")
            elif what == _TABLE:
                self._at = at
                self._skip(self._number() + 1)
                at = self._at
            else:
                depth += 1
                deepest = max(deepest, depth)
                if what != _OPENS:
                    self._at = at
                    self._catches(self._number())
                    at = self._at
        return deepest

    def _number(self) -> int:
        result = shift = 0
        while True:
            if self._at >= self._end:
                raise IndexError("a function ends early")
            byte = self._data[self._at]
            self._at += 1
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 28:
                raise ValueError("a number is longer than five bytes")

    def _skip(self, count: int) -> None:
        """Skip numbers: as many bytes are looked at as numbers are missing, until none is."""
        while count:
            some = self._data[self._at : min(self._at + count, self._end)]
            if not some:
                raise IndexError("a branch table ends early")
            self._at += len(some)
            count -= len(some.translate(None, _CONTINUED))

    def _catches(self, count: int) -> None:
        for _ in range(count):
            found = _CATCH.match(self._data, self._at, self._end)
            if found is None:
                raise IndexError("a try_table ends early")
            self._at = found.end()
