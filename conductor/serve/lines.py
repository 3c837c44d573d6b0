"""Lines on a socket as a link: `unix:PATH` and `tcp://HOST:PORT`.

The first line must be `initialize`: a page that makes a browser send something here is turned
away at its first line.
"""

from __future__ import annotations

import asyncio
import functools
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Raw

from conductor.core import jsonrpc
from conductor.errors import ConductorError
from conductor.serve.access.gate import LOCAL
from conductor.serve.connections import Connection, Farewell
from conductor.serve.hub import frames
from conductor.transports.entrance import Entrance, shut_down
from conductor.transports.fds import FdReader, FdWriter

if TYPE_CHECKING:
    from conductor.serve.server import Server

_PARTING: Final = 2.0
_LINES: Final = 8
"""The most lines that are taken in one go."""


class LinesOutlet:
    """Frames that leave as lines."""

    def __init__(self, fd: int) -> None:
        self.drained: Callable[[], None] = lambda: None
        half_close = functools.partial(shut_down, how=socket.SHUT_WR)
        self._fd = fd
        self._writer = FdWriter(fd, self._on_drained, self._broken, half_close)
        self.ended: Callable[[], object] = lambda: None
        """Called when the caller must give the link back."""
        self.broken: Callable[[], object] = lambda: None
        """Called when the client takes no more."""
        self.going_on: Callable[[], object] = lambda: None
        """Called when the client may send again."""
        self._taken: list[bytes] = []

    @property
    def waiting(self) -> int:
        """Bytes that have not left yet."""
        return self._writer.buffered

    def send(self, frame: bytes, session: str | None) -> None:
        """Takes a line."""
        del session
        self._taken.append(frame)

    def flush(self) -> None:
        """Sends all lines at once."""
        if self._taken:
            self._taken.append(b"")
            data = b"\n".join(self._taken)
            self._taken.clear()
            self._writer.write(data)

    def hold(self, held: bool) -> None:
        """`held` says whether the client must stop sending for now; the socket's reader obeys."""
        if not held:
            self.going_on()

    def _on_drained(self) -> None:
        self.drained()

    def _broken(self, error: OSError) -> None:
        del error
        self.drained()
        self.broken()

    @property
    def is_hung_up(self) -> bool:
        """Whether the client is gone, as far as the system knows: it never takes an answer."""
        poll = select.poll()
        poll.register(self._fd, 0)
        return bool(poll.poll(0))

    def drop(self) -> None:
        """The link is gone."""
        self._writer.close()

    def close(self, why: Farewell) -> None:
        """Ends the link, once the waiting frames have left."""
        del why
        self.flush()
        self._writer.finish()
        asyncio.get_running_loop().call_later(_PARTING if self.waiting else 0.0, self.ended)


class LinesLink:
    """One client at a socket: a stranger until it has sent `initialize`."""

    def __init__(
        self, taken: socket.socket, server: Server, left: Callable[[LinesLink], None]
    ) -> None:
        """`left` is called when it is no stranger any more."""
        self._server = server
        self._left = left
        self._connection: Connection | None = None
        fd = taken.detach()
        self._outlet = LinesOutlet(os.dup(fd))
        self._outlet.ended = self._give_back
        # Soon: who says so may be in the middle of something.
        self._outlet.going_on = lambda: self._loop.call_soon(self._look)
        self._holds = server.received.entry(LOCAL, self)
        self._held_up = False
        """Whether too much of its principal waits to be taken."""
        self._turns = server.turns
        self._lines: deque[bytes] = deque()
        """The lines that wait for their turn."""
        self._over: tuple[OSError | None] | None = None
        """How the client's lines have ended; None: they have not."""
        most = server.settings.message
        self._reader = FdReader(fd, most, self._received, self._oversized, self._end, self._count)
        self._loop = asyncio.get_running_loop()
        self._late = self._loop.call_later(server.settings.login, self.turn_away)

    def turn_away(self) -> None:
        """Ends the link now."""
        self._known()
        self._give_back()

    def _known(self) -> None:
        self._late.cancel()
        self._left(self)

    def _give_back(self) -> None:
        self._lines.clear()
        self._holds.close()
        self._reader.close()
        self._outlet.drop()

    def _received(self, frames: list[bytes]) -> None:
        self._count()
        waits = bool(self._lines)
        self._lines += frames
        if not waits:
            self._look()

    def _look(self) -> None:
        """Takes lines as far as it is the turn of their principal."""
        while self._lines and not self._is_paused:
            if not self._turns.may(self._holds.principal):
                self._reader.pause()
                self._turns.later(self._holds.principal, self._look)
                return
            for _ in range(min(_LINES, len(self._lines))):
                if not self._take(self._lines.popleft()):
                    self._lines.clear()
                    return
        self._flow()
        if self._over is not None and not self._lines:
            over, self._over = self._over, None
            self._end(*over)

    def _take(self, frame: bytes) -> bool:
        """Takes a line; whether more may be taken."""
        if self._connection is None:
            if not is_initialize(frame):
                self.turn_away()
                return False
            self._known()
            try:
                self._connection = self._server.join(None, self._outlet, "")
            except ConductorError as error:
                self._refuse(frame, error)
                return False
        self._connection.received(frame)
        return True

    def _refuse(self, frame: bytes, error: ConductorError) -> None:
        """Answers `initialize` with why there is no connection, and ends the link."""
        message = jsonrpc.message_of(frame)
        asked = None if message is None else message.id
        id_ = jsonrpc.canonical_id(asked) if isinstance(asked, Raw) else None
        refusal = frames.error(id_ or b"null", jsonrpc.INTERNAL_ERROR, error.text, error.hint)
        self._outlet.send(refusal, None)
        self._reader.close()
        self._outlet.close(Farewell.LIMIT)

    @property
    def _is_paused(self) -> bool:
        return self._connection is not None and self._connection.paused

    def _flow(self) -> None:
        """Reads on, or waits."""
        if self._held_up or self._lines or self._is_paused:
            self._reader.pause()
        else:
            self._reader.resume()

    # -- how its lines count (`conductor.transports.received.Reader`) ----------------------------

    def _count(self) -> None:
        self._holds.set(self._reader.held)

    def wait(self) -> None:
        """Stops reading for now."""
        self._held_up = True
        self._flow()

    def go_on(self) -> None:
        """There is room again."""
        self._held_up = False
        self._flow()

    def go(self) -> None:
        """The client has kept others waiting for too long."""
        if self._connection is None:
            self.turn_away()
        else:
            self._connection.close(Farewell.LIMIT)

    def _oversized(self, head: bytes, limit: int) -> None:
        text = f"a message is longer than {limit} bytes"
        self._outlet.send(frames.error(b"null", jsonrpc.INVALID_REQUEST, text), None)
        self._outlet.flush()

    def _end(self, error: OSError | None) -> None:
        if self._lines:
            self._over = (error,)
            return
        self._late.cancel()
        self._holds.close()
        if self._connection is None:
            self.turn_away()
        elif error is None and not self._outlet.is_hung_up:
            # The client sends no more, and may still read: `printf … | nc -U` does that.
            self._outlet.broken = self._connection.close
            self._connection.finish()
        elif error is None:
            self._connection.close()
        else:
            self._connection.lost()


def is_initialize(frame: bytes) -> bool:
    """Whether a line is the first message of a client."""
    message = jsonrpc.message_of(frame)
    return message is not None and message.method == "initialize"


def listen(listening: socket.socket, server: Server) -> Entrance:
    """Lets clients in at a socket, whom its address shows to be the user."""

    def greet(taken: socket.socket) -> LinesLink:
        return LinesLink(taken, server, leave)

    def leave(link: LinesLink) -> None:
        entrance.leave(link)

    entrance = Entrance(listening, greet, server.complain)
    return entrance
