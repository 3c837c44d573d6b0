"""Who has come in by the socket of the stdio shim."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from conductor.mcp.doors.secret_socket import shut_down
from conductor.transports.fds import FdReader, FdWriter

if TYPE_CHECKING:
    from conductor.mcp.doors.stdio import Door, StdioShell

KEY_LENGTH: Final = 8
TOKEN_LENGTH: Final = KEY_LENGTH + 64
MOST_CLIENTS: Final = 256
"""Clients at a time; who comes then is sent away."""

_HIGH_WATER: Final = 4 * 1024 * 1024
"""Unsent bytes above which a client that does not read is not read from either."""

MOST_UNSENT: Final = 256 * 1024 * 1024
"""Unsent bytes, of all clients together, at which the one that has read least is given up."""

MOST_HELD: Final = 256 * 1024 * 1024
"""Bytes of lines without an end, of all clients together; then the one with most of them is given
up. The longest line there may be always has room."""

LINGER: Final = 10.0
"""Seconds a closed client has to take what is queued for it."""

_SMALL: Final = 64 * 1024


class Client:
    """A connection that has been let in."""

    def __init__(
        self, shell: StdioShell, name: str, door: Door, fd: int, second: int, limit: int
    ) -> None:
        """`fd` and `second`: descriptors of the connection, to read and to write. `limit`: bytes of
        one line."""
        self._shell = shell
        self._name = name
        self.door = door
        self._holds: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self.writer = FdWriter(second, self._drained, self._later, shut_down)
        self._reader = FdReader(
            fd,
            limit,
            lambda frames: shell.received(name, frames),
            lambda head, limit: shell.oversized(self, head, limit),
            lambda _: shell.lost(name),
            shell.half_lines,
        )

    def send(self, frame: bytes) -> None:
        """Queues a line; a large one is not copied for its newline."""
        if len(frame) < _SMALL:
            self.writer.write(frame + b"\n")
        else:
            self.writer.write(frame)
            self.writer.write(b"\n")
        if self.writer.buffered > _HIGH_WATER:
            self.hold("full", True)
            self._shell.unread()

    @property
    def held(self) -> int:
        """Bytes of a line it has not ended."""
        return self._reader.held

    def hold(self, reason: str, wait: bool) -> None:
        """Reads nothing while there is any reason to wait."""
        (self._holds.add if wait else self._holds.discard)(reason)
        (self._reader.pause if self._holds else self._reader.resume)()

    def finish(self) -> bool:
        """Ends the connection when everything queued has left; whether something has not yet."""
        self._reader.close()
        self.writer.finish()
        return self.writer.buffered > 0

    def close(self) -> None:
        """Ends the connection now."""
        self._reader.close()
        self.writer.close()

    def _drained(self) -> None:
        if self.writer.buffered <= _HIGH_WATER:
            self.hold("full", False)
        self._shell.drained(self._name, self.writer)

    def _later(self, _: OSError) -> None:
        """Writing failed, possibly within a call of the owner's."""
        self._loop.call_soon(self._shell.lost, self._name)
