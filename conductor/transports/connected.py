"""A transport over a socket that is connected later than the transport is made."""

from __future__ import annotations

import functools
import os
import socket
from collections.abc import Callable

from conductor.transports.base import Events, Piped
from conductor.transports.entrance import shut_down
from conductor.transports.fds import FdReader, FdWriter


class ConnectedPiped(Piped):
    """Keeps lines and calls that come before the connection is there."""

    def __init__(self, line_limit: int) -> None:
        super().__init__()
        self._limit = line_limit
        self._paused = False
        self._finished = False

    def _connected_by(
        self,
        connection: socket.socket,
        events: Events,
        broken: Callable[[OSError], None],
        end: Callable[[OSError | None], None],
    ) -> None:
        """The connection is there; it belongs to this transport now."""
        fd = connection.detach()
        # Only our direction: the reader's descriptor still takes lines from the other side.
        half_close = functools.partial(shut_down, how=socket.SHUT_WR)
        writer = FdWriter(os.dup(fd), events.drained, broken, half_close)
        reader = FdReader(fd, self._limit, events.received, events.oversized, end)
        if self._paused:
            reader.pause()
        self._carry(reader, writer)
        if self._finished:
            writer.finish()

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet."""
        return sum(map(len, self._early)) if self._writer is None else super().buffered

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        super().pause()

    def resume(self) -> None:
        """Reads on."""
        self._paused = False
        super().resume()

    def finish(self) -> None:
        """Closes our direction once everything queued has left."""
        self._finished = True
        super().finish()
