"""Guests in WebAssembly text, assembled for the tests beside."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import wasmtime

import wasm_host

HERE = Path(__file__).parent
GUESTS = HERE / "guests"


@functools.cache
def assemble(text: str) -> bytes:
    """WebAssembly binary of a text."""
    return bytes(wasmtime.wat2wasm(text))


def wasm(path: Path) -> bytes:
    """WebAssembly binary of a text file."""
    return assemble(path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Carrier:
    """A way to run the pass-through guest.

    ``answer`` is the result that the guest must return for given lines, ``side`` the beginning of a
    line.
    """

    name: str
    file: str
    side: bytes
    answer: Callable[[bytes], bytes]

    def load(self, limits: wasm_host.Limits | None = None) -> wasm_host.Module:
        """The pass-through guest of this carrier."""
        return _loaded(self.file, limits)

    def start(self, limits: wasm_host.Limits | None = None, config: bytes = b"") -> Running:
        """An instance of it, started with ``config``."""
        guest = self.load(limits).instantiate("it")
        return Running(guest, guest.start(config))

    def line(self, json: bytes) -> bytes:
        """A line as this carrier frames it."""
        return self.side + json + b"\n"


@functools.cache
def _loaded(file: str, limits: wasm_host.Limits | None) -> wasm_host.Module:
    """A component is compiled by another process, which takes a moment."""
    return wasm_host.load(wasm(GUESTS / file), limits=limits)


@dataclass(frozen=True, slots=True)
class Running:
    """A started guest and what it said first."""

    guest: wasm_host.Guest
    first: bytes


def flip(lines: bytes) -> bytes:
    """The lines as the pass-through guest returns them."""
    sides = {b"p": b"s", b"s": b"p"}
    return b"".join(
        sides[line[:1]] + line[1:] for line in lines.splitlines(True) if line[:1] in sides
    )


def unchanged(lines: bytes) -> bytes:
    """The lines as the pass-through program returns them."""
    return lines


CARRIERS = (
    Carrier("core", "flip.wat", b"p", flip),
    Carrier("component", "flip_component.wat", b"p", flip),
    Carrier("wasi", "echo_wasi.wat", b"", unchanged),
)

#: A core guest around the body of its deliver function.
CORE = """
(module
  (memory (export "memory") 2)
  {data}
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) {reserve})
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64) {deliver}))
"""


def core(
    deliver: str = "(i64.const 0)", *, reserve: str = "(i32.const 65536)", data: str = ""
) -> bytes:
    """A core guest with these function bodies."""
    return assemble(CORE.format(deliver=deliver, reserve=reserve, data=data))


def saying(outbox: bytes) -> bytes:
    """A core guest that answers every delivery with the same bytes, at most 64 KiB."""
    text = "".join(f"\\{byte:02x}" for byte in outbox)
    return core(f"(i64.const {1024 << 32 | len(outbox)})", data=f'(data (i32.const 1024) "{text}")')
