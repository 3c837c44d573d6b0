"""One WebSocket, from its upgrade to its close: messages, pings, cookies.

The library `websockets` is used for the protocol, without its input and output: so a message costs
no task, and written bytes leave at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from websockets.client import ClientProtocol
from websockets.datastructures import MultipleValuesError
from websockets.exceptions import InvalidStatus, PayloadTooBig
from websockets.frames import Frame
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from conductor.transports.remote import failures, proxies, wire
from conductor.transports.remote.address import Address
from conductor.transports.remote.fragments import Fragments, Pieces

if TYPE_CHECKING:
    from ssl import SSLContext


_PING: Final = 15.0
"""Seconds between two pings. Where nothing has come for twice as long, the link is cut."""

_FAREWELL: Final = 2.0
"""Seconds in which the other end must close the socket after the last message of the protocol."""

_FRAGMENT: Final = 4 * 1024 * 1024
"""Bytes of a fragment: a longer message goes in several, since some servers take 16 MiB each."""

_CODES: Final = {
    1001: "is shutting down",
    1002: "says that the rules of WebSocket were broken",
    1003: "refuses the message",
    1006: "was cut",
    1007: "says that a message was no UTF-8",
    1008: "refuses this client: a limit, or a rule of its own",
    1009: "does not take a message of this size",
    1011: "has failed",
    1012: "is starting again",
    1013: "takes no more clients for now",
}
_RETURNS: Final = frozenset({1001, 1006, 1011, 1012, 1013})
"""Close codes after which it is worth coming back."""


class Gone(msgspec.Struct, frozen=True):
    """How a WebSocket ended: `text` follows the address. The other end may give a reason: this is
    text of a stranger, and shown nowhere."""

    text: str
    clean: bool = False
    may_return: bool = False
    hint: str = ""


class Ears(Protocol):
    """Takes the reports of a WebSocket."""

    def heard(self, texts: list[bytes]) -> None:
        """Whole messages, in order."""

    def drained(self) -> None:
        """The written messages have left."""

    def gone(self, how: Gone) -> None:
        """Nothing more comes. Reported once."""


class WebSocket(asyncio.Protocol):
    """One WebSocket. Made by `connect`."""

    def __init__(
        self,
        address: Address,
        headers: Mapping[str, str],
        subprotocols: Sequence[str],
        limit: int,
        ears: Ears,
    ) -> None:
        path, _, query = address.path.partition("?")
        uri = WebSocketURI(address.has_tls, address.host, address.port, path, query)
        offered = [Subprotocol(each) for each in subprotocols] or None
        self._protocol = ClientProtocol(uri, subprotocols=offered, max_size=limit)
        self._address, self._headers, self._limit = address, headers, limit
        self._ears = ears
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._upgraded: asyncio.Future[Response] = self._loop.create_future()
        self._input = Pieces(self._protocol)
        self._fragments = Fragments()
        self._turn: asyncio.Handle | None = None
        """Looks at more of the input in the next turn of the event loop."""
        self._has_ended = False
        """Whether nothing more comes than the input that is there."""
        self._is_over = False
        self._farewell: asyncio.TimerHandle | None = None
        self._heartbeat: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._paused = False
        self._waits = False
        """Whether nothing is read."""
        self._listening = False
        self._early: list[bytes] = []
        """The messages that came before anybody listened."""
        self._early_end: Gone | None = None
        """The end, if it came before anybody listened."""
        self._owed: list[bytes] = []
        """The answer to the last ping, as long as the other end does not read."""
        self.set_cookies: list[str] = []
        """The cookies that the server wants to get again, as `Set-Cookie` has them."""
        self.connection_id = ""

    @property
    def subprotocol(self) -> str:
        """The subprotocol that the server has chosen; empty: none."""
        return self._protocol.subprotocol or ""

    @property
    def buffered(self) -> int:
        """Bytes that have not left yet."""
        if self._is_over or self._transport is None:
            return 0
        return int(self._transport.get_write_buffer_size())

    async def upgraded(self) -> None:
        """Returns when messages can pass. Raises `LinkError`."""
        response = await self._upgraded
        self.set_cookies = response.headers.get_all("Set-Cookie")
        error = self._protocol.handshake_exc
        if isinstance(error, InvalidStatus):
            raise failures.refused(self._address, response.status_code)
        if error is not None:
            raise failures.no_protocol(self._address, str(error))
        with contextlib.suppress(KeyError, MultipleValuesError):
            self.connection_id = response.headers[wire.CONNECTION]
        self._heard_at = self._loop.time()
        self._heartbeat = self._loop.call_later(_PING, self._beat)

    def listen(self) -> None:
        """From now on messages are reported; first the messages that came with the upgrade."""
        self._listening = True
        texts, self._early = self._early, []
        if texts:
            self._ears.heard(texts)
        if self._early_end is not None:
            self._ears.gone(self._early_end)

    def send(self, text: bytes) -> None:
        """Writes a message; as much as possible leaves at once."""
        if self._is_over or self._protocol.state is not State.OPEN:
            return
        if len(text) <= _FRAGMENT:
            self._protocol.send_text(text)
        else:
            view = memoryview(text)
            self._protocol.send_text(view[:_FRAGMENT], fin=False)
            for start in range(_FRAGMENT, len(text), _FRAGMENT):
                end = start + _FRAGMENT
                self._protocol.send_continuation(view[start:end], fin=end >= len(text))
        self._flush()

    def pause(self) -> None:
        """Stops reading."""
        self._paused = True
        self._flow()

    def resume(self) -> None:
        """Reads on."""
        if self._paused:
            self._paused = False
            self._heard_at = self._loop.time()
            self._flow()

    def finish(self) -> None:
        """Says that all is done; the other end then closes, and the close is reported."""
        if not self._is_over and self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            self._flush()

    def abort(self) -> None:
        """Ends the socket now; nothing is reported any more."""
        self._stop()
        if self._transport is not None:
            self._transport.abort()

    # -- calls of the event loop ---------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Asks for the upgrade."""
        self._transport = transport
        # Each write leaves at once, or is reported when all has left.
        transport.set_write_buffer_limits(high=1, low=0)
        request = self._protocol.connect()
        for name, value in self._headers.items():
            request.headers[name] = value
        self._protocol.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Something came."""
        self._heard_at = self._loop.time()
        self._input.unread += data
        self._look()

    def eof_received(self) -> bool:
        """The other end writes nothing more."""
        self._has_ended = True
        self._look()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        del exc
        for timer in (self._farewell, self._heartbeat):
            if timer is not None:
                timer.cancel()
        self._transport = None
        self._has_ended = True
        self._look()

    def resume_writing(self) -> None:
        """All that was written has left."""
        owed, self._owed = self._owed, []
        self._write(owed)
        if not self._is_over and self._listening:
            self._ears.drained()

    # -- messages ------------------------------------------------------------------------------

    def _look(self) -> None:
        """Looks at a piece of the input, unless a later turn of the event loop does."""
        if self._turn is not None or (self._paused and self._input.unread):
            return
        events = self._input.read() if self._input.unread else []
        is_last = self._has_ended and not self._input.unread
        if is_last:
            self._protocol.receive_eof()
        if self._protocol.state is State.OPEN and self.buffered:
            # Answers to pings would pile up: the last one does for all.
            self._owed = self._protocol.data_to_send()[-1:] or self._owed
        else:
            self._flush()
        texts: list[bytes] = []
        for event in events:
            if isinstance(event, Response):
                if not self._upgraded.done():
                    self._upgraded.set_result(event)
            elif isinstance(event, Frame) and (text := self._fragments.text(event)) is not None:
                texts.append(text)
        if texts and not self._is_over:
            if self._listening:
                self._ears.heard(texts)
            else:
                self._early += texts
        wrong = self._protocol.handshake_exc or self._protocol.parser_exc
        if wrong is not None and not self._upgraded.done():
            is_cut = isinstance(wrong.__cause__, EOFError)
            error = failures.no_protocol(self._address, str(wrong))
            self._upgraded.set_exception(failures.broken_off(self._address) if is_cut else error)
        if is_last and not self._upgraded.done():
            self._upgraded.set_exception(failures.broken_off(self._address))
        is_closed = self._protocol.close_rcvd is not None or self._protocol.parser_exc is not None
        if is_closed or is_last:
            self._report(self._how_closed())
        is_leaving = self._protocol.close_expected() and self._transport is not None
        if is_leaving and self._farewell is None:
            self._farewell = self._loop.call_later(_FAREWELL, self._transport.abort)
        self._flow()

    def _look_on(self) -> None:
        self._turn = None
        self._look()

    def _flow(self) -> None:
        """Reads on, or waits for its owner, or for the next turn of the event loop."""
        has_more = bool(self._input.unread)
        if has_more and not self._paused and self._turn is None:
            self._turn = self._loop.call_soon(self._look_on)
        if (has_more or self._paused) is not self._waits and self._transport is not None:
            self._waits = not self._waits
            (self._transport.pause_reading if self._waits else self._transport.resume_reading)()

    def _flush(self) -> None:
        self._write(self._protocol.data_to_send())

    def _write(self, written: Sequence[bytes]) -> None:
        if self._transport is None:
            return
        if data := b"".join(written):
            self._transport.write(data)
        if b"" in written:  # nothing follows
            can_end = self._transport.can_write_eof()
            (self._transport.write_eof if can_end else self._transport.close)()

    def _beat(self) -> None:
        """Asks whether the other end lives: it is paused, has sent something, or is dead."""
        if self._is_over or self._transport is None:
            return
        if not self._paused and self._loop.time() - self._heard_at > 2 * _PING:
            text = f"has said nothing for {2 * _PING:g} s"
            self._transport.abort()
            self._report(Gone(text, may_return=True, hint="check the network"))
            return
        if self._protocol.state is State.OPEN:
            self._protocol.send_ping(b"")
            self._flush()
        self._heartbeat = self._loop.call_later(_PING, self._beat)

    # -- the end -------------------------------------------------------------------------------

    def _how_closed(self) -> Gone:
        wrong = self._protocol.parser_exc
        if isinstance(wrong, PayloadTooBig):
            return Gone(
                f"sent a message of more than {self._limit:,} bytes",
                hint="raise `line-limit`, or have it send less at once",
            )
        received, sent = self._protocol.close_rcvd, self._protocol.close_sent
        if wrong is not None and received is None and not isinstance(wrong, EOFError):
            return Gone("broke the rules of WebSocket", hint="check the server there")
        if received is None:
            finished = sent is not None and sent.code == 1000
            if finished:
                return Gone("closed the connection", clean=True)
            return Gone("was cut off", may_return=True, hint="check the network")
        if received.code in (1000, 1005):
            return Gone("closed the connection", clean=True)
        what = _CODES.get(received.code, "closed the connection")
        return Gone(
            f"{what} (close code {received.code})",
            may_return=received.code in _RETURNS,
            hint="its server may have a log",
        )

    def _report(self, how: Gone) -> None:
        if not self._is_over:
            self._stop()
            if self._listening:
                self._ears.gone(how)
            else:
                self._early_end = how

    def _stop(self) -> None:
        self._is_over = True
        if self._heartbeat is not None:
            self._heartbeat.cancel()


async def connect(
    address: Address,
    headers: Mapping[str, str],
    subprotocols: Sequence[str],
    tls: SSLContext | None,
    limit: int,
    ears: Ears,
) -> WebSocket:
    """A WebSocket to an address, through which messages can pass.

    Args:
        address: Of the scheme `ws` or `wss`.
        headers: For the upgrade.
        subprotocols: The offered subprotocols, in order.
        tls: For `wss`.
        limit: The most bytes of a message that is taken.
        ears: Takes the reports.

    Raises:
        LinkError: Nobody listens there, or the server refuses.
    """
    socket = WebSocket(address, headers, subprotocols, limit, ears)
    try:
        async with asyncio.timeout(failures.CONNECT):
            await asyncio.get_running_loop().create_connection(
                lambda: socket,
                sock=await proxies.connected(address),
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
            await socket.upgraded()
    except (OSError, TimeoutError) as error:
        socket.abort()
        raise failures.unreachable(address, error) from None
    except BaseException:
        socket.abort()
        raise
    return socket
