"""Texts that go on at once: in order with all that aiohttp reads, however the bytes fall."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import WSMsgType
from aiohttp._websocket.reader import WebSocketDataQueue
from aiohttp.http_websocket import WebSocketReader
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.serve.texts import Texts

Kind = WSMsgType
MASK = b"\x01\x82\x33\xf4"
LIMIT = 100_000


def frame(data: bytes, opcode: int = Kind.TEXT, *, fin: bool = True, mask: bytes = MASK) -> bytes:
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


class Link:
    """A WebSocket whose messages a task takes when the test says so."""

    def __init__(self, most: int = LIMIT) -> None:
        protocol: Any = SimpleNamespace(
            _reading_paused=False, pause_reading=lambda: None, resume_reading=lambda: None
        )
        self.loop = asyncio.new_event_loop()
        self.queue = WebSocketDataQueue(protocol, 1 << 20, loop=self.loop)
        reader = WebSocketReader(self.queue, LIMIT, compress=False, decode_text=False)
        self.texts = Texts(reader, lambda _: None)
        self.got: list[bytes] = []
        self.direct = 0
        self.takes = True
        self.texts.begin(self.take, most)

    def take(self, text: bytes) -> bool:
        if self.takes:
            self.got.append(text)
            self.direct += 1
        return self.takes

    def drain(self) -> None:
        """The task takes what waits."""
        while self.queue._buffer:
            message, _ = self.queue._buffer.popleft()
            if message.type in (Kind.TEXT, Kind.BINARY):
                self.got.append(bytes(message.data))
                self.texts.taken()

    def feed(self, *chunks: bytes) -> None:
        for chunk in chunks:
            assert self.texts.feed_data(chunk) == (False, b"")
            while self.texts.rest:
                rest, self.texts.rest = self.texts.rest, b""
                assert self.texts.feed_data(rest) == (False, b"")


@pytest.fixture
def link() -> Any:
    made = Link()
    yield made
    made.loop.close()


def test_a_whole_text_goes_on_at_once(link: Link) -> None:
    link.feed(frame(b"one") + frame(b"two" * 100))
    assert (link.got, link.direct) == ([b"one", b"two" * 100], 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_a_text_in_pieces_is_read_by_aiohttp(link: Link, size: int) -> None:
    data = frame(b"a text " * 30) + frame(b"x")
    link.feed(*(data[at : at + size] for at in range(0, len(data), size)))
    link.drain()
    assert link.got == [b"a text " * 30, b"x"]
    link.feed(frame(b"next"))
    assert link.direct >= 1
    assert link.got[-1] == b"next"


def test_nothing_overtakes_what_waits_for_the_task(link: Link) -> None:
    link.takes = False
    link.feed(frame(b"one"))
    link.takes = True
    link.feed(frame(b"two"))
    assert link.direct == 0
    link.drain()
    link.feed(frame(b"three"))
    assert (link.got, link.direct) == ([b"one", b"two", b"three"], 1)


def test_nothing_comes_between_fragments(link: Link) -> None:
    link.feed(frame(b"be", fin=False), frame(b"", Kind.PING), frame(b"gun", Kind.CONTINUATION))
    link.drain()
    link.feed(frame(b"next"))
    assert (link.got, link.direct) == ([b"begun", b"next"], 1)


def test_a_text_within_a_message_ends_the_link(link: Link) -> None:
    link.feed(frame(b"be", fin=False))
    assert link.texts.feed_data(frame(b"whole"))[0]
    assert link.direct == 0


@pytest.mark.parametrize(
    "bad", [b"\xf1\x80" + MASK, b"\x83\x80" + MASK, b"\x81\xff" + b"\x7f" * 8 + MASK]
)
def test_what_is_no_frame_ends_the_link(link: Link, bad: bytes) -> None:
    assert link.texts.feed_data(frame(b"one") + bad + frame(b"two"))[0]
    assert link.got == [b"one"]


def test_long_texts_and_unmasked_ones_are_aiohttps() -> None:
    link = Link(most=10)
    link.feed(frame(b"x" * 10), frame(b"x" * 11))
    assert link.direct == 1
    link.drain()
    link.feed(frame(b"y", mask=b""))
    assert link.direct == 1
    link.texts.end()
    link.feed(frame(b"z"))
    assert link.direct == 1
    link.texts.feed_eof()
    assert link.queue.is_eof()
    link.loop.close()


messages = st.lists(
    st.tuples(
        st.sampled_from([Kind.TEXT, Kind.TEXT, Kind.BINARY, Kind.PING]),
        st.binary(max_size=20) | st.sampled_from([b"y" * 125, b"z" * 126, b"w" * 400]),
        st.integers(1, 3),
    ),
    max_size=12,
)


@given(
    messages=messages,
    cuts=st.lists(st.integers(1, 60), max_size=60),
    drains=st.lists(st.booleans(), max_size=60),
    takes=st.lists(st.booleans(), max_size=60),
)
@settings(max_examples=150, deadline=None)
def test_all_arrive_once_and_in_order(
    messages: list[tuple[int, bytes, int]],
    cuts: list[int],
    drains: list[bool],
    takes: list[bool],
) -> None:
    link, data, sent = Link(most=300), b"", []
    for opcode, payload, pieces in messages:
        if opcode == Kind.PING:
            data += frame(payload[:125], opcode)
            continue
        sent.append(payload)
        step = max(1, -(-len(payload) // pieces))
        parts = [payload[at : at + step] for at in range(0, len(payload), step)] or [b""]
        for number, part in enumerate(parts):
            first = opcode if number == 0 else Kind.CONTINUATION
            data += frame(part, first, fin=number == len(parts) - 1)
    at = number = 0
    while at < len(data):
        size = cuts[number] if number < len(cuts) else len(data)
        link.takes = takes[number] if number < len(takes) else True
        link.feed(data[at : at + size])
        at += size
        if number >= len(drains) or drains[number]:
            link.drain()
        number += 1
    link.drain()
    assert link.got == sent
    link.loop.close()
