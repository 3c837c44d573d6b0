"""`unix:` and `tcp://`: lines on a socket, by the same descriptors as pipes."""

from __future__ import annotations

import asyncio
import socket

from conductor.transports.base import Ended, Events
from conductor.transports.connected import ConnectedPiped
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.remote import failures, sockets
from conductor.transports.remote.address import Address


class LinesTransport(ConnectedPiped):
    """One connection to an address; lines that are written before it stands are kept."""

    def __init__(self, address: Address, *, line_limit: int = LINE_LIMIT) -> None:
        super().__init__(line_limit)
        self._address = address

    async def open(self, events: Events) -> None:
        """Connects. Raises `ComponentError`."""
        self._events = events
        try:
            async with asyncio.timeout(failures.CONNECT):
                connection = await self._connected()
        except (OSError, TimeoutError) as error:
            raise failures.unreachable(self._address, error) from None
        self._connected_by(connection, events, self._broken, self._end)

    async def _connected(self) -> socket.socket:
        if self._address.scheme == "unix":
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            return await sockets.joined(connection, self._address.path)
        return await sockets.connected(self._address.host, self._address.port)

    def _end(self, error: OSError | None) -> None:
        if error is None:
            self._has_ended(Ended("closed the connection", clean=True))
        else:
            self._broken(error)

    def _broken(self, error: OSError) -> None:
        text = f"was lost: the connection to {self._address} broke ({error.strerror})"
        hint = "check the network; `,on_failure=restart` connects again"
        self._has_ended(Ended(text, hint=hint, data={"address": str(self._address)}))
