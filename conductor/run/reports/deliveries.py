"""How the child that hosts guests tells what it delivers to them and what they say to that.

Lines go as text within JSON, since neither side may believe that they are JSON themselves. Loaded
only where a trace is written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from conductor.core.services import DELIVERED

_encode: Final = msgspec.json.Encoder().encode
_ROOM: Final = 1024
"""Bytes of a report besides the lines in it."""


class Delivered(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one instance was given and what it said; a large delivery takes several reports."""

    component: str
    number: int
    """Of the delivery, from 1; 0 is what it said when it was started, or started again."""
    at: float
    """When, by the machine's monotonic clock, in seconds."""
    given: list[str] = []
    said: list[str] = []
    """Whole lines, without newlines; what is no UTF-8 is written with backslashes."""
    left_out: int = 0
    """Lines that were too long to be reported."""
    failed: str = ""
    """Why the delivery was its last."""


class Reporter:
    """Reports deliveries: `send` takes whole lines, of `limit` bytes at most."""

    def __init__(self, send: Callable[[bytes], None], limit: int) -> None:
        self._send = send
        self._room = max(limit - _ROOM, 0)
        self._numbers: Counter[str] = Counter()

    def started(self, name: str, said: bytes) -> None:
        """A guest has been started, or started again."""
        self._numbers[name] = 0
        self._report(name, b"", said, "")

    def delivered(self, name: str, given: bytes, said: bytes, failed: str = "") -> None:
        """A guest was given lines, and said others; `failed`: it ended of them."""
        self._numbers[name] += 1
        self._report(name, given, said, failed)

    def _report(self, name: str, given: bytes, said: bytes, failed: str) -> None:
        whole = Delivered(name, self._numbers[name], time.monotonic(), failed=failed)
        parts: dict[str, list[bytes]] = {"given": [], "said": []}
        room, left_out = self._room, 0
        for kind, text in (("given", text_lines(given)), ("said", text_lines(said))):
            for line in text:
                encoded = _encode(line)
                if len(encoded) > self._room:
                    left_out += 1
                    continue
                if len(encoded) + 1 > room:
                    self._write(whole, parts)
                    parts, room = {"given": [], "said": []}, self._room
                parts[kind].append(encoded)
                room -= len(encoded) + 1
        self._write(msgspec.structs.replace(whole, left_out=left_out), parts)

    def _write(self, whole: Delivered, parts: dict[str, list[bytes]]) -> None:
        held = {kind: msgspec.Raw(b"[" + b",".join(some) + b"]") for kind, some in parts.items()}
        params = {**msgspec.to_builtins(whole), **held}
        body = {"jsonrpc": "2.0", "method": DELIVERED, "params": params}
        self._send(b"c" + _encode(body) + b"\n")


def text_lines(data: bytes) -> Iterable[str]:
    """The lines of what was delivered or said, as text."""
    if not data:
        return ()
    return (
        line.decode("utf-8", "backslashreplace") for line in data.removesuffix(b"\n").split(b"\n")
    )
