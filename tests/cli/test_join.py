"""`conductor join`: the far end of a `ListeningTransport`."""

import asyncio
import hashlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conductor.cli.join import TOKEN_VARIABLE
from conductor.transports import socket as transport
from conductor.transports.base import Ended
from conductor.transports.socket import ListeningTransport
from tests.harness.process.command import conductor, environment
from tests.places import DEADLINE


class Heard:
    """The reports of the conductor's end."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.how: Ended | None = None
        self._news = asyncio.Event()

    def received(self, frames: list[bytes]) -> None:
        self.lines += frames
        self._news.set()

    def oversized(self, head: bytes, limit: int) -> None:
        raise AssertionError(head)

    def undeliverable(self, frame: bytes, why: str) -> None:
        raise AssertionError(why)

    def drained(self) -> None:
        self._news.set()

    def ended(self, how: Ended) -> None:
        self.how = how
        self._news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Waits until something is so."""
        async with asyncio.timeout(DEADLINE):
            while not true():
                await self._news.wait()
                self._news.clear()


Joined = asyncio.subprocess.Process


async def join(listening: ListeningTransport, token: str | None = None) -> Joined:
    """Starts the program of the server entry."""
    entry = json.loads(listening.server("agent"))
    extra = {one["name"]: one["value"] for one in entry["env"]}
    assert set(extra) == {TOKEN_VARIABLE} == {transport.TOKEN_VARIABLE}
    if token is not None:
        extra[TOKEN_VARIABLE] = token
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        entry["command"],
        *entry["args"],
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env=environment(**extra),
    )


@asynccontextmanager
async def listen() -> AsyncIterator[tuple[ListeningTransport, Heard]]:
    """A listening transport."""
    listening = ListeningTransport()
    heard = Heard()
    await listening.open(heard)
    try:
        yield listening, heard
    finally:
        await listening.close(1)


async def test_both_directions_byte_for_byte() -> None:
    async with listen() as (listening, heard):
        listening.write(b"early\n")
        joined = await join(listening)
        assert joined.stdin is not None
        assert joined.stdout is not None
        assert await joined.stdout.readline() == b"early\n"
        joined.stdin.write(b"\xff\x00 up\r\nsecond\n")
        await heard.until(lambda: len(heard.lines) == 2)
        assert heard.lines == [b"\xff\x00 up\r", b"second"]
        listening.write(b"\xfe down\n")
        assert await joined.stdout.readline() == b"\xfe down\n"
        joined.stdin.close()
        await heard.until(lambda: heard.how is not None)
        assert heard.how is not None
        assert heard.how.clean
        await listening.close(1)
        out, err = await joined.communicate()
        assert (out, err, joined.returncode) == (b"", b"", 0)


async def test_megabytes_arrive_whole() -> None:
    async with listen() as (listening, heard):
        line = os.urandom(3_000_000).replace(b"\n", b"x") + b"\n"
        joined = await join(listening)
        assert joined.stdin is not None
        assert joined.stdout is not None
        listening.write(line)
        joined.stdin.write(line)
        assert await joined.stdout.readexactly(len(line)) == line
        await heard.until(lambda: bool(heard.lines))
        assert hashlib.sha256(heard.lines[0] + b"\n").digest() == hashlib.sha256(line).digest()
        joined.stdin.close()
        await heard.until(lambda: heard.how is not None)
        await listening.close(1)
        assert await joined.wait() == 0


async def test_what_is_still_to_come_is_written_after_the_input_ended() -> None:
    async with listen() as (listening, heard):
        joined = await join(listening)
        assert joined.stdin is not None
        assert joined.stdout is not None
        joined.stdin.write(b"last\n")
        joined.stdin.close()
        await heard.until(lambda: heard.how is not None)
        assert heard.lines == [b"last"]
        listening.write(b"an answer\n")
        listening.finish()
        assert await joined.stdout.read() == b"an answer\n"
        await listening.close(1)
        assert await joined.wait() == 0


async def test_the_conductor_ends_it() -> None:
    async with listen() as (listening, heard):
        joined = await join(listening)
        assert joined.stdout is not None
        listening.write(b"hello\n")
        assert await joined.stdout.readline() == b"hello\n"
        await listening.close(1)
        assert await joined.wait() == 0  # though its input is still open
        assert heard.lines == []


async def test_a_wrong_token_is_refused_and_the_right_one_still_let_in() -> None:
    async with listen() as (listening, heard):
        wrong = await join(listening, token="0" * 64)
        assert wrong.stderr is not None
        err = (await wrong.stderr.read()).decode()
        assert await wrong.wait() == 1
        assert err.startswith("error: the conductor at ")
        assert f"\n\nhint: either {TOKEN_VARIABLE} is not" in err
        right = await join(listening)
        assert right.stdin is not None
        right.stdin.write(b"let in\n")
        await heard.until(lambda: bool(heard.lines))
        assert heard.lines == [b"let in"]
        right.stdin.close()
        await heard.until(lambda: heard.how is not None)
        await listening.close(1)
        assert await right.wait() == 0


def test_nobody_listens(tmp_path: Path) -> None:
    env = environment(**{TOKEN_VARIABLE: "x"})
    missing = conductor("join", str(tmp_path / "no"), env=env)
    missing.assert_error(1, "cannot join the conductor", "No such file", "is running")
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(stale))
    conductor("join", str(stale), env=env).assert_error(1, "Connection refused")
    conductor("join", str(tmp_path / ("x" * 200)), env=env).assert_error(1, "cannot join")


@pytest.mark.parametrize("variable", [{}, {TOKEN_VARIABLE: ""}])
def test_without_a_token(tmp_path: Path, variable: dict[str, str]) -> None:
    ran = conductor("join", str(tmp_path / "socket"), env=environment(**variable))
    ran.assert_error(1, f"{TOKEN_VARIABLE} is not set", "proxies start this command")


def test_it_loads_the_standard_library_alone() -> None:
    import subprocess

    code = (
        "import sys; from conductor.cli import main; main(['join', '/no/such']);"
        "print([m for m in ('typer', 'msgspec', 'asyncio', 'conductor.core') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=environment(**{TOKEN_VARIABLE: "x"}),
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"
