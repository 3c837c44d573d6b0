"""A WebSocket of a client: all that comes is taken once and in order, however the bytes fall."""

import asyncio
import base64
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Opcode

from conductor.http.headers import Headers
from conductor.http.request import Refused
from conductor.http.websocket import WebSocket, handshake
from conductor.transports.remote import fragments

MASK = b"\x01\x82\x33\xf4"
LIMIT = 100_000


def frame(data: bytes, opcode: int = Opcode.TEXT, *, fin: bool = True, mask: bytes = MASK) -> bytes:
    """A frame of a client."""
    head = bytes([opcode | (0x80 if fin else 0)])
    size, bit = len(data), 0x80 if mask else 0
    if size < 126:
        head += bytes([bit | size])
    elif size < 65536:
        head += bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + size.to_bytes(8, "big")
    if mask:
        data = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))
    return head + mask + data


class Wire:
    """A connection by hand, and the messages that its WebSocket has taken."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_full = False
        self.written = b""
        self.cut = self.finished = False
        self.got: list[bytes] = []
        self.started: list[asyncio.Task[None]] = []
        self.takes = True
        self._roomy = asyncio.Event()
        connection: Any = self
        self.socket = WebSocket(connection, LIMIT, "")
        self.socket.listen(self.take)

    def take(self, text: bytes) -> bool:
        if self.takes:
            self.got.append(text)
        return self.takes

    def feed(self, *chunks: bytes) -> None:
        """Bytes come, and all is looked at."""
        for chunk in chunks:
            self.socket.came(chunk)
            while self.socket.look():
                pass

    # -- as a connection -----------------------------------------------------------------------

    def write_raw(self, data: bytes) -> None:
        self.written += data

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self.started.append(asyncio.get_running_loop().create_task(work))
        return self.started[-1]

    def look_soon(self) -> None:
        while self.socket.look():
            pass

    async def drain(self) -> None:
        await self._roomy.wait()

    def empty(self) -> None:
        """All that was written has left."""
        self.is_full = False
        self.socket.roomy()
        self._roomy.set()

    def finish(self) -> None:
        self.finished = True

    def turn_away(self) -> None:
        self.cut = True
        self.socket.lost()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 1000])
def test_texts_come_whole_in_pieces_of_any_size(size: int) -> None:
    wire = Wire()
    data = frame(b"a text " * 30) + frame(b"") + frame(b"x" * 70_000)
    wire.feed(*(data[at : at + size] for at in range(0, len(data), size)))
    assert wire.got == [b"a text " * 30, b"", b"x" * 70_000]
    assert wire.socket.held == 0


def test_what_is_not_taken_waits_and_much_of_it_holds_up_the_rest() -> None:
    wire = Wire()
    wire.takes = False
    wire.feed(frame(b"one" * 10_000), frame(b"two" * 20_000), frame(b"three"))
    assert (wire.got, wire.socket.is_much) == ([], True)
    assert wire.socket.held > 90_000
    wire.takes = True
    wire.socket.go_on()
    assert wire.got == [b"one" * 10_000, b"two" * 20_000, b"three"]
    assert (wire.socket.held, wire.socket.is_much) == (0, False)


def test_a_ping_between_fragments_is_answered_and_binary_messages_are_ignored() -> None:
    wire = Wire()
    wire.feed(frame(b"be", fin=False), frame(b"hi", Opcode.PING), frame(b"gun", Opcode.CONT))
    wire.feed(frame(b"\0\1", Opcode.BINARY), frame(b"next"))
    assert wire.got == [b"begun", b"next"]
    assert wire.written == b"\x8a\x02hi"


def test_of_pings_of_a_client_that_does_not_read_the_last_is_answered() -> None:
    wire = Wire()
    wire.is_full = True
    wire.feed(*(frame(b"%d" % number, Opcode.PING) for number in range(1000)), frame(b"text"))
    assert (wire.got, wire.written) == ([b"text"], b"")
    wire.empty()
    wire.feed(frame(b"more", Opcode.PING))
    assert wire.written == b"\x8a\x03999\x8a\x04more"


def test_what_is_held_is_what_nobody_has_taken() -> None:
    wire = Wire()
    wire.feed(frame(b"sign", Opcode.PONG) * 1000)
    assert wire.socket.held == 0
    wire.feed(frame(b"be" * 50, fin=False), frame(b"sign", Opcode.PING))
    assert wire.socket.held == 100
    wire.feed(frame(b"gun" * 10, Opcode.CONT)[:-1])
    assert 120 <= wire.socket.held <= 136


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(b"be", fin=False) + frame(b"whole"), 1002),
        (b"\xf1\x80" + MASK, 1002),
        (b"\x83\x80" + MASK, 1002),
        (frame(b"y", mask=b""), 1002),
        (b"\x81\xff" + b"\x7f" * 8 + MASK, 1009),
        (frame(b"x" * (LIMIT + 1)), 1009),
        (frame(b"x" * LIMIT, fin=False) + frame(b"x", Opcode.CONT), 1009),
    ],
)
def test_what_is_no_message_ends_the_socket(sent: bytes, code: int) -> None:
    wire = Wire()
    wire.feed(frame(b"one") + sent + frame(b"two"))
    assert wire.got == [b"one"]
    assert wire.written[2:4] == code.to_bytes(2, "big")
    assert wire.finished
    assert wire.socket.code is None
    assert not wire.socket.send([b"late"])


def test_a_client_that_closes_says_why_and_gets_an_answer() -> None:
    wire = Wire()
    wire.feed(frame(b"last") + frame(b"\x03\xe9bye", Opcode.CLOSE) + frame(b"never"))
    assert (wire.got, wire.socket.code, wire.finished) == ([b"last"], 1001, True)
    assert wire.written.startswith(b"\x88")


async def test_texts_that_wait_are_taken_before_a_close_counts() -> None:
    wire = Wire()
    wire.takes = False
    wire.feed(frame(b"one") + frame(b"\x03\xe8", Opcode.CLOSE) + frame(b"never"))
    ended = asyncio.ensure_future(wire.socket.ended())
    await asyncio.sleep(0)
    assert not ended.done()
    wire.takes = True
    wire.socket.go_on()
    await ended
    assert (wire.got, wire.socket.code) == ([b"one"], 1000)


def test_nothing_is_taken_behind_a_text_that_is_refused() -> None:
    wire = Wire()

    def take(text: bytes) -> bool:
        if text == b"bad":
            wire.socket.refuse(1007)
        return wire.take(text)

    wire.socket.listen(take)
    wire.takes = False
    wire.feed(frame(b"one") + frame(b"bad") + frame(b"two"))
    wire.takes = True
    wire.socket.go_on()
    assert wire.got == [b"one", b"bad"]
    assert wire.finished
    wire = Wire()
    wire.socket.listen(take)
    wire.feed(frame(b"bad") + frame(b"two"))
    assert wire.got == [b"bad"]


async def test_what_waits_leaves_before_a_socket_closes_and_a_deaf_client_is_cut_off() -> None:
    wire = Wire()
    wire.is_full = True

    def ready() -> None:
        wire.socket.send([b"rest"])

    wire.socket.ready = ready
    wire.socket.close(1001, "bye", 0.05)
    await asyncio.sleep(0)
    assert wire.written == b""
    wire.empty()
    await wire.started[0]
    assert wire.written == b"\x81\x04rest" + b"\x88\x05\x03\xe9bye"
    assert wire.cut
    deaf = Wire()
    deaf.is_full = True
    deaf.socket.close(1008, "", 0.001)
    await deaf.started[0]
    assert (deaf.written, deaf.cut) == (b"\x88\x02\x03\xf0", True)


messages = st.lists(
    st.tuples(
        st.sampled_from([Opcode.TEXT, Opcode.TEXT, Opcode.BINARY, Opcode.PING]),
        st.binary(max_size=20) | st.sampled_from([b"y" * 125, b"z" * 126, b"w" * 4000]),
        st.integers(1, 3),
    ),
    max_size=12,
)


@given(
    messages=messages,
    cuts=st.lists(st.integers(1, 2000), max_size=60),
    takes=st.lists(st.booleans(), max_size=60),
)
@settings(max_examples=100, deadline=None)
def test_all_arrive_once_and_in_order(
    messages: list[tuple[int, bytes, int]], cuts: list[int], takes: list[bool]
) -> None:
    wire, data, sent = Wire(), b"", []
    for opcode, payload, pieces in messages:
        if opcode == Opcode.PING:
            data += frame(payload[:125], opcode)
            continue
        if opcode == Opcode.TEXT:
            sent.append(payload)
        step = max(1, -(-len(payload) // pieces))
        parts = [payload[at : at + step] for at in range(0, len(payload), step)] or [b""]
        for number, part in enumerate(parts):
            first = opcode if number == 0 else Opcode.CONT
            data += frame(part, first, fin=number == len(parts) - 1)
    at = number = 0
    while at < len(data):
        size = cuts[number] if number < len(cuts) else len(data)
        wire.takes = takes[number] if number < len(takes) else True
        wire.feed(data[at : at + size])
        at += size
        number += 1
    wire.takes = True
    wire.socket.go_on()
    assert wire.got == sent


def test_short_frames_are_looked_at_in_small_pieces() -> None:
    wire = Wire()
    data = frame(b"") * 20_000
    wire.socket.came(data)
    goes = 1
    while wire.socket.look():
        goes += 1
    assert goes >= len(data) // fragments._LEAST - 8
    assert len(wire.got) == 20_000


KEY = base64.b64encode(b"0123456789abcdef").decode()
ASKED = {
    "connection": "keep-alive, Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": KEY,
}


def headers(**changed: str) -> Headers:
    """The headers of a request, with other values."""
    given = {**ASKED, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return Headers((name.encode(), value.encode()) for name, value in given.items() if value)


def test_the_first_subprotocol_that_both_speak_is_agreed_on() -> None:
    offer = headers(sec_websocket_protocol="acp.bearer.x, two, one")
    agreed, lines = handshake(offer, ["one", "two"])
    assert agreed == "one"
    assert dict(lines)["sec-websocket-protocol"] == "one"
    assert handshake(headers(), ["one"])[0] == ""


@pytest.mark.parametrize(
    "wrong",
    [
        {"connection": "close"},
        {"content_length": "5"},
        {"transfer_encoding": "chunked"},
        {"sec_websocket_version": "8"},
        {"sec_websocket_version": ""},
        {"sec_websocket_key": ""},
        {"sec_websocket_key": "!"},
        {"sec_websocket_key": base64.b64encode(b"short").decode()},
    ],
)
def test_what_does_not_ask_as_it_should_is_no_websocket(wrong: dict[str, str]) -> None:
    with pytest.raises(Refused):
        handshake(headers(**wrong), [])
