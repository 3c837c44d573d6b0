"""A connection that comes in on a private Unix socket, let in by a secret only.

An `scp` proxy launches its successor itself: it launches `conductor join PATH`, which
connects here and carries the proxy's successor traffic.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import sys

import msgspec

from conductor.transports.base import LINGER, Ended, Events
from conductor.transports.connected import ConnectedPiped
from conductor.transports.entrance import LOGIN, Entrance, Login
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.private import JOIN, private_socket

TOKEN_VARIABLE = "CONDUCTOR_JOIN_TOKEN"  # noqa: S105 - the variable's name, not a secret


class ListeningTransport(ConnectedPiped):
    """Waits for one connection; lines that are written before it comes are kept."""

    def __init__(self, *, line_limit: int = LINE_LIMIT, linger: float = LINGER) -> None:
        """`linger`: seconds from the connection's end to its report."""
        super().__init__(line_limit)
        self._linger = linger
        self._end_timer: asyncio.TimerHandle | None = None
        self._listening, self._folder = private_socket(JOIN)
        self._token = secrets.token_hex(32)
        self._entrance: Entrance | None = None

    def server(self, name: str) -> bytes:
        """The stdio server entry (raw JSON) by which a proxy launches its successor."""
        return msgspec.json.encode(
            {
                "name": name,
                "command": sys.executable,
                # -P: its current folder may be a stranger's, with a `conductor` of its own.
                "args": ["-P", "-m", "conductor", "join", self._folder.socket],
                "env": [{"name": TOKEN_VARIABLE, "value": self._token}],
            }
        )

    async def open(self, events: Events) -> None:
        """Starts listening."""
        self._events = events
        length = len(self._token)
        self._entrance = Entrance(
            self._listening,
            lambda connection: Login(connection, length, LOGIN, self._shown),
            lambda text: None,  # a proxy that cannot join reports that itself
        )

    async def close(self, grace: float) -> None:
        """Closes the connection and removes the socket."""
        del grace
        if self._entrance is not None:
            self._entrance.close()
        self._listening.close()
        if self._end_timer is not None:
            self._end_timer.cancel()
        await super().close(0.0)
        self._folder.remove()

    def _shown(self, login: Login, secret: bytes | None) -> None:
        """A connection has shown something: the first with the secret is ours (compared in constant
        time), and nobody else is let in."""
        assert self._entrance is not None
        assert self._events is not None
        self._entrance.leave(login)
        if secret is None:
            return
        if not hmac.compare_digest(secret, self._token.encode()):
            login.connection.close()
            return
        self._entrance.close()
        self._connected_by(login.connection, self._events, lambda _: self._end(None), self._end)

    def _end(self, error: OSError | None) -> None:
        """The connection is gone: normally because the proxy that launched it is about to end."""
        if self._end_timer is None:
            loop = asyncio.get_running_loop()
            self._end_timer = loop.call_later(self._linger, self._report, error is None)

    def _report(self, clean: bool) -> None:
        hint = "a proxy keeps this connection until its own input ends; tell its author"
        self._has_ended(Ended("closed its successor connection", clean, hint))
