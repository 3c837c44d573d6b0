"""A listening socket, and its strangers: connections that have not shown a secret yet.

Strangers compete with strangers only: when there are too many, or when descriptors run short, the
oldest of them is closed. A stranger that shows the secret is none from then on, so no
number of strangers keeps out a client that has the secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final, Protocol

from conductor.transports import descriptors

STRANGERS: Final = 256
"""Connections at one entrance that have not shown a secret, at most an eighth of all descriptors;
then the oldest is closed."""

LOGIN: Final = 10.0
"""Seconds a connection has to show its secret."""

SPARE: Final = 64
"""Descriptors that no entrance takes: they are the chain's (at most a quarter of all there are)."""

_BACKLOG: Final = 1024
"""Connections that wait to be accepted: with few, strangers fill the queue before the entrance."""

_AT_ONCE: Final = 16
"""Connections taken in one turn of the event loop; the bytes of strangers are read in between."""

REST: Final = 0.5
"""Seconds without new connections when there is no descriptor for one."""

_QUIET: Final = 10.0
"""Seconds before the same complaint is made again."""


class Stranger(Protocol):
    """A connection that has not shown a secret."""

    def turn_away(self) -> None:
        """Ends the connection now."""


def is_spare(fd: int) -> bool:
    """Whether a new descriptor is among the last, which entrances leave to the chain.

    A system hands out the lowest number that is free, so a high one says how many are taken.
    """
    most = descriptors.most()
    return fd >= most - min(SPARE, most // 4)


def strangers() -> int:
    """The most strangers at one entrance. These descriptors are theirs, whatever clients with a
    secret hold, so that `/health` is answered."""
    return min(STRANGERS, descriptors.most() // 8)


def free(heard: int) -> int:
    """Descriptors that clients with a secret may still take. `heard`: strangers that are there."""
    most = descriptors.most()
    return most - min(SPARE, most // 4) - strangers() - (descriptors.taken() - heard)


class Entrance:
    """Accepts connections at a listening socket, which it owns."""

    def __init__(
        self,
        listening: socket.socket,
        greet: Callable[[socket.socket], Stranger],
        complain: Callable[[str], None],
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        """`greet` takes a new connection, and calls `leave` when it has shown a secret or ended.
        `complain` logs a sentence. `make_room` closes an idle connection that has shown a secret,
        for when no stranger is left to be closed; False if there is none."""
        self._listening = listening
        self._greet = greet
        self._log = complain
        self._others = make_room
        self._strangers: dict[Stranger, None] = {}
        self._complaints: dict[str, float] = {}
        """When each complaint was last logged."""
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._watch()

    def __len__(self) -> int:
        """The number of strangers."""
        return len(self._strangers)

    def leave(self, stranger: Stranger) -> None:
        """A stranger has shown a secret, or its connection has ended."""
        self._strangers.pop(stranger, None)

    def make_room(self) -> bool:
        """Closes the oldest stranger, or else an idle connection; False if there is neither."""
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return self._others()
        del self._strangers[oldest]
        oldest.turn_away()
        return True

    def complain(self, text: str) -> None:
        """Logs a sentence, unless the log had it a moment ago."""
        now = self._loop.time()
        if now - self._complaints.get(text, -_QUIET) >= _QUIET:
            self._complaints[text] = now
            self._log(text)

    def close(self) -> None:
        """Stops listening, and closes all strangers."""
        if self._closed:
            return
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
        else:
            self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        while self._strangers:
            self.make_room()

    def _watch(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        for taken in range(_AT_ONCE):
            if self._closed:
                return
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                # No descriptor is left. Only in the first round this means that somebody waits. A
                # descriptor that is given back is free in the next turn of the event loop.
                if not taken:
                    self.complain(f"cannot let a client in: {error.strerror or error}")
                    if not self.make_room():
                        self._rest()
                return
            self._let_in(connection)

    def _let_in(self, connection: socket.socket) -> None:
        if is_spare(connection.fileno()) and not self.make_room():
            connection.close()
            self.complain("a client was sent away: too few descriptors are left for the chain")
            return
        if len(self._strangers) >= strangers():
            self.make_room()
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            # A message in two pieces must not wait for the client's delayed acknowledgement.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._strangers[self._greet(connection)] = None

    def _rest(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._retry = self._loop.call_later(REST, self._watch)


def shut_down(fd: int, how: int = socket.SHUT_RDWR) -> None:
    """Ends a connection, or one direction of it; another descriptor of it may still be open."""
    with contextlib.suppress(OSError), socket.socket(fileno=fd) as connection:
        connection.shutdown(how)


class Login:
    """A stranger whose first line must have `length` bytes: its secret."""

    def __init__(
        self,
        connection: socket.socket,
        length: int,
        patience: float,
        ended: Callable[[Login, bytes | None], None],
    ) -> None:
        """`ended` takes the bytes and then owns `connection`, or takes None if the client has left
        or needed more than `patience` seconds."""
        self.connection = connection
        self._wanted = length + 1
        self._ended = ended
        self._received = b""
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(patience, self._leave)
        self._loop.add_reader(connection.fileno(), self._read)

    def _read(self) -> None:
        try:
            more = self.connection.recv(self._wanted - len(self._received))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            more = b""
        self._received += more
        if not more:
            self._leave()
        elif len(self._received) == self._wanted:
            self._detach()
            self._ended(self, self._received[:-1])

    def _leave(self) -> None:
        self.turn_away()
        self._ended(self, None)

    def _detach(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self.connection.fileno())

    def turn_away(self) -> None:
        """Ends the connection now."""
        self._detach()
        self.connection.close()
