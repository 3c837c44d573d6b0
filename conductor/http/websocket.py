"""A WebSocket of a client. The protocol is that of `websockets`, which does no input and output."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from websockets.frames import Frame
from websockets.protocol import Protocol, Side, State
from websockets.utils import accept_key

from conductor.http import limits
from conductor.http.headers import Headers
from conductor.http.request import Refused
from conductor.transports.remote.fragments import Fragments, Pieces

if TYPE_CHECKING:
    from conductor.http.connection import Connection

_KEY: Final = 16


def handshake(headers: Headers, protocols: Sequence[str]) -> tuple[str, list[tuple[str, str]]]:
    """The subprotocol that is agreed on, empty for none, and the headers of the answer.

    Raises:
        Refused: The request is none for a WebSocket.
    """
    words = (headers.get("connection") or "").lower().split(",")
    if "upgrade" not in (word.strip() for word in words):
        raise Refused(400, "this is no WebSocket: `Connection` does not say `Upgrade`")
    if headers.get("sec-websocket-version") != "13":
        raise Refused(400, "this is no WebSocket: the version of a WebSocket is 13")
    if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
        raise Refused(400, "this is no WebSocket: its request has a body")
    key = headers.get("sec-websocket-key") or ""
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise Refused(400, "this is no WebSocket: `Sec-WebSocket-Key` has 16 bytes")
    offered = [word.strip() for word in (headers.get("sec-websocket-protocol") or "").split(",")]
    protocol = next((each for each in protocols if each in offered), "")
    answer = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-accept", accept_key(key)),
    ]
    if protocol:
        answer.append(("sec-websocket-protocol", protocol))
    return protocol, answer


class WebSocket:
    """One WebSocket, from its upgrade to its end.

    Attributes:
        protocol: The subprotocol that was agreed on; empty: none.
        ready: Called when more can be sent, after `is_full`.
    """

    def __init__(self, connection: Connection, most: int, protocol: str) -> None:
        """`most`: bytes of the longest message that is taken."""
        self.protocol = protocol
        self.ready: Callable[[], None] = lambda: None
        self._connection = connection
        self._frames = Protocol(Side.SERVER, state=State.OPEN, max_size=most)
        self._input = Pieces(self._frames)
        self._fragments = Fragments()
        self._texts: deque[bytes] = deque()
        """Messages that nobody has taken."""
        self._size = 0
        self._owed: list[bytes] = []
        """The answer to the last ping, as long as the client does not read."""
        self._take: Callable[[bytes], bool] = lambda text: False
        self._is_over = False
        """Whether nothing more is taken but the texts that wait."""
        self._thrown = 0
        """Bytes that have come since then."""
        self._ended = asyncio.Event()
        self._parted = asyncio.Event()

    # -- input ---------------------------------------------------------------------------------

    def listen(self, take: Callable[[bytes], bool]) -> None:
        """From now on each text goes to `take`, which says whether it takes it; if not, the text
        waits until `go_on`."""
        self._take = take
        self.go_on()

    def go_on(self) -> None:
        """Texts that wait are taken soon: who says so may be in the middle of something."""
        self._connection.look_soon()

    @property
    def held(self) -> int:
        """Bytes that have come and that nobody has taken."""
        half_a_frame = len(self._frames.reader.buffer)
        return len(self._input.unread) + half_a_frame + self._fragments.size + self._size

    @property
    def is_much(self) -> bool:
        """Whether so many bytes wait to be taken that no more are read."""
        return self._size > limits.AHEAD

    @property
    def code(self) -> int | None:
        """With which code the client has closed it; None: it has not."""
        closed = self._frames.close_rcvd
        return None if closed is None else int(closed.code)

    async def ended(self) -> None:
        """Returns once nothing more is taken: the client has closed it, has broken a rule, or is
        gone."""
        await self._ended.wait()

    async def parted(self, seconds: float) -> None:
        """Returns once the client has closed it or is gone, at the latest after so many seconds:
        a client that still sends would not read why it is closed otherwise."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._parted.wait()

    # -- output --------------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the next text must wait."""
        return self._connection.is_full

    def send(self, texts: Iterable[bytes]) -> bool:
        """Sends texts; whether it is there to do so."""
        if not self._connection.is_open or self._frames.state is not State.OPEN:
            return False
        for text in texts:
            self._frames.send_text(text)
        self._flush()
        return True

    def ping(self) -> None:
        """Asks the client for a sign."""
        if self._frames.state is State.OPEN:
            self._frames.send_ping(b"")
            self._flush()

    def close(self, code: int, text: str, seconds: float) -> None:
        """Closes the WebSocket, once all output up to then has left. A client that does not read,
        or does not answer, gets so many seconds for each."""
        if not self._parted.is_set():
            self._connection.start(self._close(code, text, seconds))

    async def _close(self, code: int, text: str, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.is_full:
                    await self._connection.drain()
        self._say_close(code, text)
        try:
            async with asyncio.timeout(seconds):
                await self._parted.wait()
        except TimeoutError:
            self._connection.turn_away()

    def refuse(self, code: int) -> None:
        """Closes it at once: the client has broken a rule, whatever it answers."""
        self._say_close(code, "")
        self._is_over = True
        self._end()

    def _say_close(self, code: int, text: str) -> None:
        if self._frames.state is State.OPEN:
            self._frames.send_close(code, text)
            self._flush()

    def _flush(self) -> None:
        if written := self._frames.data_to_send():
            self._connection.write_raw(b"".join(written))

    # -- for its connection --------------------------------------------------------------------

    def came(self, data: bytes) -> None:
        """Bytes have come."""
        self._input.unread += data

    def look(self) -> bool:
        """Looks at some of the input. Returns whether there is more."""
        while self._texts and not self._ended.is_set() and self._take(self._texts[0]):
            self._size -= len(self._texts.popleft())
        if self._is_over and not self._texts:
            self._end()
        if self._is_over:
            self._throw_away()
        if not self._input.unread or self.is_much:
            return False
        protocol = self._frames
        for frame in self._input.read():
            if isinstance(frame, Frame) and not self._is_over:
                self._add(frame)
        if protocol.close_rcvd is not None or protocol.parser_exc is not None:
            self._flush()
            self._is_over = True
            return True  # the WebSocket ends once earlier texts are taken
        self._answer_pings()
        return bool(self._input.unread)

    def _throw_away(self) -> None:
        """Looks only for the client's close, in the input that still comes for a moment."""
        data, self._input.unread = self._input.unread, b""
        self._thrown += len(data)
        if self._thrown > limits.LINGER_BYTES:
            self._connection.turn_away()
            return
        if self._frames.close_rcvd is None and self._frames.parser_exc is None:
            self._frames.receive_data(data)
            self._frames.events_received()
        if self._frames.close_rcvd is not None:
            self._parted.set()

    def _answer_pings(self) -> None:
        """Answers all pings that have come, or later the last: answers would pile up otherwise."""
        answers = self._frames.data_to_send()
        if self.is_full:
            self._owed = answers[-1:] or self._owed
        elif answers:
            self._connection.write_raw(b"".join(answers))

    def _end(self) -> None:
        self._ended.set()
        if self._frames.close_rcvd is not None:
            self._parted.set()
        self._connection.finish()

    def _add(self, frame: Frame) -> None:
        text = self._fragments.text(frame)
        if text is not None and (self._texts or not self._take(text)):
            self._texts.append(text)
            self._size += len(text)

    def roomy(self) -> None:
        """More can be sent."""
        owed, self._owed = self._owed, []
        self._connection.write_raw(b"".join(owed))
        self.ready()

    def lost(self) -> None:
        """The connection is gone. The parts of a message go now: they are in a cycle of objects,
        which only the collector would free."""
        self._frames.reader.discard()
        self._fragments.discard()
        self._input.unread = b""
        self._ended.set()
        self._parted.set()
