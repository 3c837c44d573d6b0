"""The binary format of WebAssembly: its numbers, texts and sections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wasm_host.errors import over

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wasm_host.limits import Limits

MAGIC = b"\0asm"
CORE_VERSION = b"\x01\0\0\0"
COMPONENT_VERSION = b"\x0d\0\x01\0"

_VALUES = {0x7F: "i32", 0x7E: "i64", 0x7D: "f32", 0x7C: "f64", 0x7B: "v128", 0x70: "funcref",
           0x6F: "externref"}  # fmt: skip

_NESTED: Final = (1, 4)
"""Sections of a component that hold a core module, or a component."""
_CUSTOM: Final = 0

_MOST_NAME: Final = 1000
"""Bytes of a name; names of interfaces and functions are far shorter."""


class Reader:
    """A cursor over bytes; running off the end raises `IndexError`."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        if end > len(data):
            raise IndexError("a section reaches beyond the end of the file")
        self.data = data
        self.at = at
        self.end = end

    def byte(self) -> int:
        if self.at >= self.end:
            raise IndexError("the file ends early")
        self.at += 1
        return self.data[self.at - 1]

    def number(self, signed: bool = False) -> int:
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift > 70:
                raise ValueError("a number is longer than ten bytes")
        if signed and byte & 0x40:
            result -= 1 << shift
        return result

    def take(self, count: int) -> bytes:
        at = self.skip(count)
        return self.data[at : self.at]

    def skip(self, count: int) -> int:
        """Go on behind `count` bytes; where they begin."""
        if self.at + count > self.end:
            raise IndexError("the file ends early")
        self.at += count
        return self.at - count

    def text(self) -> str:
        size = self.number()
        if size > _MOST_NAME:
            raise ValueError(f"a name of {size} bytes")
        return self.take(size).decode("utf-8", "backslashreplace")

    def limits(self) -> tuple[int, int | None]:
        flags = self.byte()
        low = self.number()
        return low, self.number() if flags & 1 else None

    def value_type(self) -> str:
        code = self.byte()
        if code in (0x63, 0x64):
            self.number(signed=True)
            return "ref"
        return _VALUES.get(code, f"type 0x{code:02x}")


Sections = list[tuple[int, Reader]]
"""Codes and contents."""


def parts(data: bytes, limits: Limits) -> Iterator[tuple[bool, Sections]]:
    """A module or component, then those in it: whether it is a component, and its sections.

    Raises:
        LoadError: there are more sections than the limit.
        IndexError: it ends early.
        ValueError: it is damaged.
    """
    room = limits.sections
    waiting = [Reader(data, 0, len(data))]
    while waiting:
        part = waiting.pop()
        component = part.take(8)[4:] == COMPONENT_VERSION
        sections: Sections = []
        while part.at < part.end:
            room -= 1
            # Counted over all parts: thousands of nested modules cost as much as one large one.
            if room < 0:
                raise over("sections", "it has too many sections", limits.sections)
            code, size = part.byte(), part.number()
            if part.at + size > part.end:
                raise IndexError("a section reaches beyond the end of the file")
            sections.append((code, Reader(data, part.at, part.at + size)))
            if component and code in _NESTED:
                waiting.append(Reader(data, part.at, part.at + size))
            part.at += size
        yield component, sections


def bare(data: bytes) -> bytes:
    """A module or component without custom sections, also without those of the modules in it.

    Their names of functions would reach the engine, which demangles each name in a trap;
    a hostile name doubles with each level of mangling.

    Raises:
        IndexError: it ends early.
        ValueError: it is damaged.
        RecursionError: components nest too deep.
    """
    return _bare(Reader(data, 0, len(data)))


def _bare(part: Reader) -> bytes:
    kept = [part.take(8)]
    component = kept[0][4:] == COMPONENT_VERSION
    while part.at < part.end:
        start = part.at
        code, size = part.byte(), part.number()
        if part.at + size > part.end:
            raise IndexError("a section reaches beyond the end of the file")
        inside = Reader(part.data, part.at, part.at + size)
        part.at += size
        if component and code in _NESTED:
            nested = _bare(inside)
            kept += [bytes((code,)), _number(len(nested)), nested]
        elif code != _CUSTOM:
            kept.append(part.data[start : part.at])
    return b"".join(kept)


def _number(value: int) -> bytes:
    """A number as the format writes it."""
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
