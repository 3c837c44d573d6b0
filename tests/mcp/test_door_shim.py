"""`conductor mcp ADDRESS`, started as an agent starts it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conductor.mcp.bridge.declarations import StdioDeclaration
from conductor.mcp.doors import shim
from tests.harness.bridge.doors import Json, running
from tests.places import checkout_environment

COMMAND = (sys.executable, "-m", "conductor", "mcp")
LIMIT = 64 * 1024 * 1024


class Shim:
    """The running command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout = process.stdout
        self.stderr = process.stderr

    def ask(self, number: object, method: str) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.stdin.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> Json:
        line = await self.stdout.readline()
        assert line.endswith(b"\n"), await self.stderr.read()
        answer: Json = json.loads(line)
        return answer

    async def end(self) -> int:
        """Ends its input; the exit code."""
        self.stdin.close()
        return await self.process.wait()


@asynccontextmanager
async def shim_for(
    address: str, token: str = "", command: tuple[str, ...] = COMMAND
) -> AsyncIterator[Shim]:
    """The command, run until the end of the block at the latest."""
    env = checkout_environment()
    if token:
        env[shim.TOKEN_VARIABLE] = token
    process = await asyncio.create_subprocess_exec(
        *command,
        address,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env,
        limit=LIMIT,
    )
    running_shim = Shim(process)
    try:
        yield running_shim
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        running_shim.stdin.close()


def declared(declaration: object) -> tuple[str, str]:
    """The address and the secret of a declaration."""
    assert isinstance(declaration, StdioDeclaration)
    return declaration.args[-1], declaration.env[0][1]


class Listener:
    """A plain server, in place of a conductor that demands no secret."""

    def __init__(self, server: asyncio.Server) -> None:
        self.server = server
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.came = asyncio.Event()


@asynccontextmanager
async def listening(path: str) -> AsyncIterator[Listener]:
    """A listener that takes one connection."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.reader, held.writer = reader, writer
        held.came.set()

    held = Listener(await asyncio.start_unix_server(accept, path, limit=LIMIT))
    try:
        yield held
    finally:
        held.server.close()
        if held.came.is_set():
            held.writer.close()
        await held.server.wait_closed()


async def test_lines_pass_byte_by_byte_and_the_end_of_input_ends_it(tmp_path: Path) -> None:
    where = str(tmp_path / "socket")
    line = b'{"jsonrpc": "2.0", "id":1.0, "method":"\\u0061", "x":1e400, "y":"\xc3\xa9"}\n'
    async with listening(where) as listener, shim_for(where) as started:
        started.stdin.write(line + b"not JSON\n\n[1]\n")
        await listener.came.wait()
        assert await listener.reader.readexactly(len(line)) == line
        assert await listener.reader.readexactly(14) == b"not JSON\n\n[1]\n"
        listener.writer.write(line + b"junk\n")
        assert await started.stdout.readline() == line
        assert await started.stdout.readline() == b"junk\n"
        listener.writer.write(b'{"id":1.0,"result":{}}\n')
        await started.stdout.readline()
        assert await started.end() == 0
        assert await listener.reader.read() == b""
        assert await started.stderr.read() == b""


async def test_a_socket_nobody_listens_on_is_named(tmp_path: Path) -> None:
    where = str(tmp_path / "socket")
    async with shim_for(where) as started:
        assert await started.end() == 1
        said = (await started.stderr.read()).decode()
        assert said.startswith(f"error: cannot reach the conductor at `{where}`: ")
        assert "\n\nhint: " in said


async def test_without_a_conductor_every_request_is_answered(tmp_path: Path) -> None:
    where = str(tmp_path / "socket")
    async with shim_for(where) as started:
        for number in (1, "1", 2):
            started.ask(number, "initialize")
            answer = await started.read()
            assert answer["id"] == number
            assert f"cannot reach the conductor at `{where}`" in answer["error"]["message"]
            assert answer["error"]["data"]["hint"]
        started.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        assert await started.end() == 1
        assert await started.stdout.read() == b""


async def test_the_secret_opens_the_door_and_is_not_in_the_command_line() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        async with shim_for(address, token) as started:
            started.ask("a", "hello")
            assert (await started.read())["result"]["listener"] == "7:tools"
            assert bridge.messages()[0]["id"] == "a"
            assert await started.end() == 0
            await bridge.until(lambda: bool(bridge.closes))


async def test_a_wrong_secret_is_told_to_whoever_asks() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        async with shim_for(address, "0" * len(token)) as started:
            started.ask(1, "initialize")
            answer = await started.read()
            assert answer["id"] == 1
            assert str(answer["error"]["message"]).startswith("the conductor at ")
            assert await started.end() == 1
        assert bridge.opens == []


async def test_a_conductor_that_goes_leaves_no_request_unanswered() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        async with shim_for(address, token) as started:
            started.ask(0, "hello")
            await started.read()
            for number in (1, "1", "two"):
                started.ask(number, "wait")
            await bridge.until(lambda: len(bridge.waiting) == 3)
            bridge.answer(*bridge.waiting[1])
            assert (await started.read())["id"] == "1"
            bridge.close_listener("7:tools")
            answers = [await started.read() for _ in range(2)]
            assert {answer["id"] for answer in answers} == {1, "two"}
            assert {a["error"]["message"] for a in answers} == {
                f"the conductor at `{address}` is gone"
            }
            started.ask(3, "late")
            late = await started.read()
            assert (late["id"], late["error"]["code"]) == (3, -32603)
            assert await started.end() == 1
            said = (await started.stderr.read()).decode()
            assert said.startswith(f"error: the conductor at `{address}` is gone\n\nhint: ")


async def test_what_is_open_when_input_ends_is_still_answered() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        done = await asyncio.to_thread(
            subprocess.run,
            [*COMMAND, address],
            input=b'{"id":1,"method":"big 500000"}\n{"id":2,"method":"last"}',
            capture_output=True,
            env=checkout_environment(**{shim.TOKEN_VARIABLE: token}),
            check=True,
        )
        assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1, 2]


IMPATIENT = """
import sys
from conductor.mcp.doors import shim
shim.GRACE = 0.01
sys.exit(shim.main(sys.argv[1:]))
"""


async def test_a_request_that_is_never_answered_does_not_keep_it() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        impatient = (sys.executable, "-c", IMPATIENT)
        async with shim_for(address, token, impatient) as started:
            started.ask(1, "wait")
            await bridge.until(lambda: bool(bridge.waiting))
            assert await started.end() == 0
            await bridge.until(lambda: bool(bridge.closes))


async def test_twenty_megabytes_pass_both_ways_while_nobody_reads() -> None:
    size = 20 * 1024 * 1024
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        async with shim_for(address, token) as started:
            message = {"id": 1, "method": "large", "params": {"x": "y" * size}}
            started.stdin.write(json.dumps(message).encode() + b"\n")
            started.ask(2, "hello")
            # All of it has to get there although the answer is not being read.
            await bridge.until(lambda: len(bridge.frames) == 2)
            assert (await started.read())["result"]["params"]["x"] == "y" * size
            assert (await started.read())["id"] == 2


async def test_an_agent_that_stops_reading_ends_it() -> None:
    async with running() as bridge:
        address, token = declared(await bridge.doors.listen("7:tools", "stdio"))
        reading, writing = os.pipe()
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            address,
            stdin=asyncio.subprocess.PIPE,
            stdout=writing,
            env=checkout_environment(**{shim.TOKEN_VARIABLE: token}),
        )
        os.close(writing)
        os.close(reading)
        assert process.stdin is not None
        process.stdin.write(b'{"id":1,"method":"hello"}\n')
        assert await process.wait() == 0
        await bridge.until(lambda: bool(bridge.closes))
        process.stdin.close()


def test_it_imports_next_to_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "/nowhere/at/all"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=checkout_environment(),
        check=False,
    )
    loaded = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()
    }
    assert "socket" in loaded
    heavy = {"asyncio", "typer", "msgspec", "argparse", "typing", "subprocess", "logging", "uvloop"}
    assert loaded & heavy == set()


def test_open_requests_are_refused_once(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    lost = shim.Shim("nowhere", "")
    lost.open = {str(n): n for n in range(100)}
    lost.gone = "gone"
    lost.refuse_open()
    lost.refuse_open()
    refused = [json.loads(line)["id"] for line in capfdbinary.readouterr().out.splitlines()]
    assert sorted(refused) == list(range(100))
