"""The contract of every transport: whole lines, in order, nothing lost, one end."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager

import pytest

from conductor.transports.base import Transport
from tests.transports.ends import ENDS, Recorder


@pytest.fixture(params=sorted(ENDS))
def kind(request: pytest.FixtureRequest) -> str:
    """Each transport's name."""
    return str(request.param)


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[tuple[Transport, Recorder]]:
    """Opens a transport of this kind, and closes it whatever happens."""
    transport, events = ENDS[kind](), Recorder()
    try:
        await transport.open(events)
        yield transport, events
    finally:
        await transport.close(5)


def line(kind: str, text: bytes) -> bytes:
    """A line as this transport's echo understands it: guests want a side byte."""
    return (b"p" if kind == "guest" else b"") + text + b"\n"


def echoed(kind: str, text: bytes) -> bytes:
    """The frame that comes back for `line(kind, text)`."""
    return (b"s" if kind == "guest" else b"") + text


async def test_a_line_comes_back_without_its_newline(kind: str) -> None:
    async with opened(kind) as (transport, events):
        transport.write(line(kind, b'{"a":1}'))
        await events.until(lambda: bool(events.frames))
        assert events.frames == [echoed(kind, b'{"a":1}')]


async def test_order_is_kept_and_nothing_is_lost(kind: str) -> None:
    texts = [b'{"n":%d,"pad":"%s"}' % (n, b"x" * (n % 700)) for n in range(3000)]
    if kind == "http":
        texts = texts[::10]  # each is a request of its own
    async with opened(kind) as (transport, events):
        for start in range(0, len(texts), 7):
            transport.write(b"".join(line(kind, text) for text in texts[start : start + 7]))
        await events.until(lambda: len(events.frames) >= len(texts))
        assert events.frames == [echoed(kind, text) for text in texts]


async def test_a_line_of_ten_megabytes_passes(kind: str) -> None:
    text = b'{"big":"' + b"0123456789" * 1_000_000 + b'"}'
    async with opened(kind) as (transport, events):
        transport.write(line(kind, text))
        await events.until(lambda: bool(events.frames))
        assert events.frames == [echoed(kind, text)]
        await events.until(lambda: transport.buffered == 0)


async def test_what_is_written_is_counted_until_it_has_left(kind: str) -> None:
    text = b'{"x":"' + b"y" * 5_000_000 + b'"}'
    async with opened(kind) as (transport, events):
        transport.write(line(kind, text))
        transport.write(line(kind, text))
        assert transport.buffered > 0
        await events.until(lambda: transport.buffered == 0)
        await events.until(lambda: len(events.frames) == 2)
        assert events.drains > 0


async def test_nothing_arrives_while_paused_and_everything_after(kind: str) -> None:
    async with opened(kind) as (transport, events):
        transport.write(line(kind, b'{"n":0}'))
        await events.until(lambda: len(events.frames) == 1)
        transport.pause()
        transport.write(line(kind, b'{"n":1}'))
        transport.write(line(kind, b'{"n":2}'))
        for _ in range(50):  # turns of the loop, not time: nothing may be reported in them
            await asyncio.sleep(0)
        assert len(events.frames) == 1
        transport.resume()
        await events.until(lambda: len(events.frames) == 3)
        assert events.frames == [echoed(kind, b'{"n":%d}' % n) for n in range(3)]


async def test_finish_ends_it_once_and_cleanly(kind: str) -> None:
    async with opened(kind) as (transport, events):
        transport.write(line(kind, b'{"last":1}'))
        await events.until(lambda: len(events.frames) == 1)
        transport.finish()
        await events.until(lambda: bool(events.ends))
        assert [end.clean for end in events.ends] == [True]


async def test_close_reports_nothing_and_may_come_early(kind: str) -> None:
    async with opened(kind) as (transport, events):
        await transport.close(5)
        assert events.ends == []


def test_lines_written_before_opening_are_not_lost() -> None:
    async def main(kind: str) -> None:
        transport, events = ENDS[kind](), Recorder()
        transport.write(line(kind, b'{"early":1}'))
        try:
            await transport.open(events)
            await events.until(lambda: bool(events.frames))
            assert events.frames == [echoed(kind, b'{"early":1}')]
        finally:
            await transport.close(5)

    each: list[Coroutine[None, None, None]] = [
        main(kind)
        for kind in ("process", "guest", "memory", "socket", "unix", "tcp", "ws", "link", "http")
    ]
    for one in each:
        asyncio.run(one)
