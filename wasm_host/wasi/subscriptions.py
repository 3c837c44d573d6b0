"""What a WASI program may wait for: a moment, or its input."""

from __future__ import annotations

import struct

SUCCESS, BADF = 0, 8

STDIN, STDOUT, STDERR = 0, 1, 2
STREAMS = (STDIN, STDOUT, STDERR)
"""Files a guest has besides these: none."""

SUB_CLOCK, SUB_READ = 0, 1
ABSOLUTE = 1


class Subscription:
    """One entry of `poll_oneoff`: wait for a clock, or for a stream."""

    __slots__ = ("clock", "fd", "flags", "kind", "start", "timeout", "user")

    def __init__(self, raw: bytes) -> None:
        self.user, self.kind = struct.unpack_from("<QB", raw)
        (self.fd,) = struct.unpack_from("<I", raw, 16)
        self.clock = self.fd
        self.timeout, _, self.flags = struct.unpack_from("<QQH", raw, 24)
        self.start = -1

    def due(self, now: int) -> int:
        """Nanoseconds until a clock subscription fires; relative ones count from the first call."""
        if self.flags & ABSOLUTE:
            return int(self.timeout - now)
        if self.start < 0:
            self.start = now
        return int(self.start + self.timeout - now)

    def event(self) -> bytes:
        """The event that reports this subscription as ready, or as refused."""
        error = BADF if self.kind != SUB_CLOCK and self.fd not in STREAMS else SUCCESS
        return struct.pack("<QHB5xQH6x", self.user, error, self.kind, 1, 0)
