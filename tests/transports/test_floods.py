"""Programs that write without end: they wait, or are cut short; nobody else is."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

import pytest

from conductor.transports import fds, process
from conductor.transports.buffers import CHUNK, enlarge_pipe
from conductor.transports.fds import FdReader
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.process import ProcessTransport
from tests.places import DEADLINE
from tests.transports.ends import Recorder


def run(
    code: str, body: Callable[[ProcessTransport, Recorder, list[str]], Awaitable[None]]
) -> None:
    """Runs `body` beside a program."""

    async def main() -> None:
        said: list[str] = []
        transport = ProcessTransport([sys.executable, "-c", code], on_stderr=said.append)
        events = Recorder()
        async with asyncio.timeout(DEADLINE):
            await transport.open(events)
            try:
                await body(transport, events, said)
            finally:
                await transport.close(1)

    asyncio.run(main())


FORKS = """
import os
if os.fork() == 0:
    os.write(2, b"up\\n")
    while True:
        os.write({fd}, b"x\\n" * 30000)
os.read(0, 1)
os._exit(3)
"""


@pytest.mark.proves("a program that ends, while a")
def test_what_a_child_writes_on_does_not_hide_the_end_of_a_program() -> None:
    for fd in (1, 2):

        async def body(transport: ProcessTransport, events: Recorder, said: list[str]) -> None:
            while not said:
                await asyncio.sleep(0)
            transport.write(b"\n")
            await events.until(lambda: bool(events.ends))
            assert events.ends[0].text == "exited with code 3"

        run(FORKS.format(fd=fd), body)


@pytest.mark.proves("a flood on standard error; blank")
def test_a_flood_on_standard_error_is_cut_short_and_counted() -> None:
    code = f"""
import os, time
for n in range({process._LINES * 20}):
    os.write(2, b"line %d\\n" % n)
os.read(0, 1)
time.sleep(0.05)
os.write(2, b"last\\n")
os.read(0, 1)
"""

    async def body(transport: ProcessTransport, events: Recorder, said: list[str]) -> None:
        last = f"line {process._LINES * 20 - 1}"
        while transport.stderr.tail()[-1:] != [last]:
            await asyncio.sleep(0.01)
        assert len(said) < process._LINES * 20
        assert said[: process._LINES] == [f"line {n}" for n in range(process._LINES)]
        transport.write(b"\n")
        while "last" not in said:
            await asyncio.sleep(0.01)
        assert any("lines were left out" in line for line in said)

    run(code, body)


@pytest.mark.proves("a flood on standard error; blank")
async def test_blank_lines_without_end_make_their_writer_wait() -> None:
    read, write = os.pipe()
    frames: list[bytes] = []
    reader = FdReader(read, 1 << 20, frames.extend, lambda *_: None, lambda _: None)
    os.write(write, b"\n" * (fds._BLANK + 1))
    assert reader.read()
    os.write(write, b"{}\n")
    await asyncio.sleep(0)
    assert frames == []  # nothing is read for the moment, whatever else happens
    reader.pause()
    reader.resume()
    async with asyncio.timeout(DEADLINE):
        while not frames:
            await asyncio.sleep(0.005)
    assert frames == [b"{}"]
    os.write(write, b"\n" * (fds._BLANK + 1))
    assert reader.read()
    reader.close()
    os.close(write)


async def test_short_lines_are_reported_in_several_turns_and_wait_while_paused() -> None:
    read, write = os.pipe()
    turns: list[list[bytes]] = []
    ended = asyncio.Event()
    reader = FdReader(read, 1 << 20, turns.append, lambda *_: None, lambda _: ended.set())
    lines = [b"%d" % n for n in range(3 * fds._MANY + 1)]
    os.write(write, b"\n".join([*lines, b""]))
    os.close(write)
    assert reader.read()
    reader.pause()
    for _ in range(3):
        await asyncio.sleep(0)
    assert turns == [lines[: fds._MANY]]
    reader.resume()
    assert len(turns) == 1
    await ended.wait()
    assert [len(turn) for turn in turns] == [fds._MANY, fds._MANY, fds._MANY, 1]
    assert [line for turn in turns for line in turn] == lines


@pytest.mark.proves("a program that ends, while a")
async def test_the_last_lines_of_a_program_are_taken_in_turns() -> None:
    lines, turns = 20 * fds._MANY, 0

    async def others() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    code = f"import os; os.write(1, b'1\\n' * {lines})"
    transport = ProcessTransport([sys.executable, "-c", code])
    events = Recorder()
    await transport.open(events)
    transport.pause()
    other = asyncio.create_task(others())
    await events.until(lambda: bool(events.frames))
    before = turns
    await events.until(lambda: bool(events.ends))
    other.cancel()
    assert len(events.frames) == lines
    assert turns - before >= lines // fds._MANY - 1
    await transport.close(1)


async def test_a_long_line_is_read_in_large_chunks_and_many_short_ones_in_small() -> None:
    source, sink = os.pipe()
    enlarge_pipe(sink)
    chunks: list[int] = []
    ended = asyncio.Event()
    reader = FdReader(
        source,
        LINE_LIMIT,
        lambda lines: chunks.append(sum(map(len, lines)) + len(lines)),
        lambda head, limit: None,
        lambda error: ended.set(),
    )
    os.write(sink, (b"x" * 399 + b"\n") * 1000)
    while reader.read():
        pass
    assert max(chunks) <= 2 * CHUNK
    long = 8 * CHUNK
    os.write(sink, b"x" * (long - 1) + b"\n")
    chunks.clear()
    assert [reader.read(), reader.read(), reader.read()] == [True, True, False]
    assert chunks == [long]
    os.close(sink)
    await ended.wait()
