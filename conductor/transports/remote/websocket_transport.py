"""`ws://` and `wss://`: a connection over WebSockets, which outlives each of them where the server
can resume it (`conductor.link`).

The upgrade offers two subprotocols, `acp` and `conductor.link.1`. A server that knows neither, or
takes the first as some do blindly, gets one JSON text in each message; when its WebSocket is cut,
the connection is over. A conductor takes the second: messages are then packets of a link, whose
epoch is the connection's id. After a cut the client comes back with this id in the header
`Acp-Connection-Id`, and nothing is lost or doubled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from conductor.errors import ConductorError
from conductor.link import Limits, Link, LinkError, State
from conductor.transports import backoff
from conductor.transports.base import Ended, Owner
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.remote import failures, websocket, wire
from conductor.transports.remote.address import Address
from conductor.transports.remote.cookies import Cookies
from conductor.transports.remote.framed import Framed
from conductor.transports.remote.websocket import Gone, WebSocket

if TYPE_CHECKING:
    from ssl import SSLContext

_ACK: Final = 0.02
"""Seconds after which the other end hears which packets have come, if nothing is sent before."""


class WebSocketTransport(Framed):
    """One connection to an address."""

    def __init__(
        self,
        address: Address,
        *,
        token: Callable[[], str] | None = None,
        tls: SSLContext | None = None,
        line_limit: int = LINE_LIMIT,
        log: Callable[[str], None] = lambda _: None,
        patience: float = backoff.PATIENCE,
    ) -> None:
        """`token` is asked at each upgrade, for it may be another by then. `log` takes sentences
        about links that are cut, and are there again."""
        super().__init__()
        self._address, self._token, self._tls = address, token, tls
        self._limit, self._log, self._patience = line_limit, log, patience
        self._socket: WebSocket | None = None
        self._link: Link | None = None
        self._connection_id = ""
        self._cookies = Cookies()
        self._returning: asyncio.Task[None] | None = None
        self._cut_since: float | None = None
        """The time since which no frames flow."""
        self._tries = 0
        """The number of tries since then; it sets the time before the next try."""
        self._ack: asyncio.TimerHandle | None = None

    # -- the contract of transports ------------------------------------------------------------

    async def open(self, events: Owner) -> None:
        """Connects. Raises `ComponentError`."""
        self._events = events
        socket = await self._upgraded()
        if socket.subprotocol == wire.RESUMED:
            try:
                self._link = Link(socket.connection_id, Limits(frame=self._limit))
            except ValueError:
                socket.abort()
                why = f"its {wire.CONNECTION} is no id of a link"
                raise failures.no_protocol(self._address, why) from None
            self._connection_id = socket.connection_id
        self._put(socket)

    @property
    def buffered(self) -> int:
        """Bytes written that have not left yet; over a link, that have not arrived."""
        kept = self._link.kept if self._link is not None else 0
        left = self._socket.buffered if self._socket is not None and self._link is None else 0
        return self._waiting_bytes + kept + left

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        if self._link is not None:
            self._link.pause()
        elif self._socket is not None:
            self._socket.pause()

    def resume(self) -> None:
        """Reads on."""
        if not self._go_on():
            return
        if self._link is not None:
            self._link.go_on()
            self._flush()
        elif self._socket is not None:
            self._socket.resume()

    def finish(self) -> None:
        """Says that nothing more will be written, once everything has left."""
        self._finishing = True
        self._finish_if_done()

    async def close(self, grace: float) -> None:
        """Closes the connection, after queued frames had `grace` seconds to leave."""
        self._ended = True
        self._finishing = True
        if self._returning is not None:
            self._returning.cancel()
        if self._ack is not None:
            self._ack.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace
        while self._socket is not None and self.buffered and loop.time() < deadline:
            await asyncio.sleep(0.005)
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.finish()
            while socket.buffered and loop.time() < deadline:
                await asyncio.sleep(0.005)
            socket.abort()

    # -- reports of a WebSocket ----------------------------------------------------------------

    def heard(self, texts: list[bytes]) -> None:
        """Messages came."""
        frames = texts
        if self._link is not None:
            frames, before = [], self.buffered
            for text in texts:
                try:
                    frames += self._link.received(text)
                except LinkError as error:
                    self._over(error.text, error.hint)
                    return
            if self._link.state is State.OPEN:
                self._cut_since, self._tries = None, 0
            self._owe()
            self._pass_on()
            if self.buffered < before:
                self._has_drained()
        self._deliver([frame for frame in frames if frame])

    def drained(self) -> None:
        """The written messages have left."""
        self._pass_on()
        self._has_drained()

    def gone(self, how: Gone) -> None:
        """The WebSocket is gone."""
        self._socket = None
        if self._ended:
            return
        if self._link is not None and how.may_return:
            self._link.cut()
            self._log(f"the link to {self._address} was cut: it {how.text}; trying again")
            assert self._events is not None
            self._returning = self._events.carry(self._return(how))
        elif how.clean or self._finishing:
            self._report(Ended("closed the connection", clean=True))
        else:
            self._over(how.text, how.hint)

    # -- links ---------------------------------------------------------------------------------

    async def _upgraded(self) -> WebSocket:
        """A WebSocket of this connection. Raises `LinkError`."""
        headers: dict[str, str] = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token()}"
        headers |= self._cookies.header()
        if self._connection_id:
            headers[wire.CONNECTION] = self._connection_id
        offered = [wire.RESUMED] if self._link is not None else [wire.PLAIN, wire.RESUMED]
        socket = await websocket.connect(
            self._address, headers, offered, self._tls, self._limit, self
        )
        self._cookies.take(socket.set_cookies)
        return socket

    def _put(self, socket: WebSocket) -> None:
        self._socket = socket
        if self._link is not None:
            self._link.linked()
        elif self._paused:
            socket.pause()
        socket.listen()
        self._pass_on()
        self._finish_if_done()

    async def _return(self, how: Gone) -> None:
        """Comes back with the same connection, or reports why that is impossible."""
        loop = asyncio.get_running_loop()
        if self._cut_since is None:
            self._cut_since = loop.time()
        error = ConductorError(f"it {how.text}", how.hint)
        while True:
            late = loop.time() + backoff.seconds(self._tries) > self._cut_since + self._patience
            if late and self._tries:  # once it is tried, also where this process stood still
                for_long = f"for {self._patience:g} s nobody could come back"
                self._over(f"is lost: {for_long} ({error.text})", error.hint)
                return
            await backoff.wait(self._tries)
            self._tries += 1
            try:
                socket = await self._upgraded()
            except ConductorError as raised:
                error = raised
                if error.data.get("status") == 404:
                    self._over(f"is lost: {failures.FORGOTTEN}", failures.FORGOTTEN_HINT)
                    return
                if getattr(error, "is_final", True):
                    self._over(f"is lost: {error.text}", error.hint)
                    return
                continue
            self._returning = None
            if socket.subprotocol != wire.RESUMED:
                socket.abort()
                self._over("cannot be resumed: its server is another one now", "start again")
                return
            self._log(f"linked to {self._address} again")
            self._put(socket)
            return

    def _pass_on(self) -> None:
        """Gives the waiting frames to the link, or to the socket, as far as there is room."""
        if self._link is None:
            if self._socket is None:
                return
            while self._waiting:
                self._socket.send(self._next())
            return
        if self._link.failure is None:
            self._fill(self._link)
        self._flush()
        self._finish_if_done()

    def _flush(self) -> None:
        """Writes the packets of the link that may go, while there is room to write."""
        while self._link is not None and self._socket is not None and not self._socket.buffered:
            packet = self._link.take()
            if packet is None:
                return
            self._socket.send(packet)

    def _owe(self) -> None:
        """The other end is to hear soon which packets have come."""
        if self._ack is None:
            self._ack = asyncio.get_running_loop().call_later(_ACK, self._acknowledge)

    def _acknowledge(self) -> None:
        self._ack = None
        if self._link is not None and self._link.failure is None:
            self._link.ack()
            self._flush()

    def _finish_if_done(self) -> None:
        kept = self._link.kept if self._link is not None else 0
        if self._finishing and self._socket is not None and not self._waiting and not kept:
            self._socket.finish()

    # -- the end -------------------------------------------------------------------------------

    def _over(self, text: str, hint: str) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.abort()
        self._report(Ended(text, hint=hint, data={"address": str(self._address)}))
