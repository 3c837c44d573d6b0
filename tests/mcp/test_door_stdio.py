"""The socket that the stdio shim connects to: who gets in, lines that pass, things left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from conductor.mcp import limits
from conductor.mcp.bridge.declarations import StdioDeclaration
from conductor.mcp.doors import stdio
from conductor.mcp.doors.shim import TOKEN_VARIABLE
from conductor.transports import entrance
from tests.harness.bridge.doors import PATIENCE, Bridge, descriptors, listener


@asynccontextmanager
async def listening(
    line_limit: int = 64 * 1024 * 1024,
) -> AsyncIterator[tuple[Bridge, StdioDeclaration]]:
    """A bridge, and the declaration of its one listener, which is called `7:tools`."""
    async with listener("stdio", line_limit) as both:
        try:
            yield both
        finally:
            while CLIENTS:
                await CLIENTS.pop().close()


CLIENTS: list[SocketClient] = []
"""The clients of a test, which ends by closing them."""


def address(declaration: StdioDeclaration) -> str:
    return declaration.args[-1]


def token(declaration: StdioDeclaration) -> bytes:
    ((name, value),) = declaration.env
    assert name == TOKEN_VARIABLE
    return value.encode()


class SocketClient:
    """A connection to the socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, where: str, first: bytes = b"") -> SocketClient:
        limit = 64 * 1024 * 1024
        client = cls(*await asyncio.open_unix_connection(where, limit=limit))
        CLIENTS.append(client)
        client.writer.write(first)
        return client

    @classmethod
    async def enter(cls, declaration: StdioDeclaration) -> SocketClient:
        return await cls.connect(address(declaration), token(declaration) + b"\n")

    def ask(self, number: object, method: str) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method}
        self.writer.write(json.dumps(message).encode() + b"\n")

    async def read(self) -> dict[str, object]:
        line = await self.reader.readline()
        assert line.endswith(b"\n")
        answer: dict[str, object] = json.loads(line)
        return answer

    async def ended(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def test_the_declaration_names_a_private_socket_and_keeps_the_secret_out_of_argv() -> None:
    async with listening() as (bridge, declaration):
        assert Path(declaration.command).is_absolute()
        assert token(declaration).decode() not in " ".join((declaration.command, *declaration.args))
        folder = Path(address(declaration)).parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        other = await bridge.doors.listen("7:other", "stdio")
        assert isinstance(other, StdioDeclaration)
        assert address(other) == address(declaration)
        assert token(other) != token(declaration)


async def test_lines_pass_both_ways_and_closing_is_told() -> None:
    async with listening() as (bridge, declaration):
        client = await SocketClient.enter(declaration)
        client.writer.write(b'{"jsonrpc":"2.0","id":1,"method":"a\\u0062"}\n')
        answer = await client.read()
        assert answer["result"] == {"listener": "7:tools", "method": "ab", "params": {}}
        assert bridge.frames[0][1] == b'{"jsonrpc":"2.0","id":1,"method":"a\\u0062"}'
        client.writer.write(b'{"jsonrpc":"2.0","method":"last"}')  # no newline, then the end
        await client.close()
        await bridge.until(lambda: bool(bridge.closes))
        assert bridge.messages()[-1]["method"] == "last"
        assert bridge.closes == [bridge.opens[0][0]]


@pytest.mark.proves("from MCP clients to the conductor")
@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1] + (b"0" if token[-1:] != b"0" else b"1"),
        lambda token: b"f" * len(token),
        lambda token: token[:8] + b"\0" * (len(token) - 8),
        lambda token: token.upper() if token.upper() != token else token[::-1],
        lambda token: b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"padding":"xxxx"}}',
    ],
    ids=["last byte", "no such listener", "zeros", "another case", "no secret at all"],
)
async def test_who_does_not_know_the_secret_is_sent_away(change: Callable[[bytes], bytes]) -> None:
    async with listening() as (bridge, declaration):
        wrong = change(token(declaration))
        client = await SocketClient.connect(address(declaration), wrong + b"\n")
        client.ask(1, "hello")
        assert await client.ended()
        assert bridge.opens == []
        assert bridge.logs == ["warning: mcp: a client without the secret of a session was refused"]
        await client.close()


async def test_who_leaves_or_says_nothing_does_not_hold_others_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entrance, "LOGIN", 0.01)
    async with listening() as (bridge, declaration):
        silent = await SocketClient.connect(address(declaration), b"0000")
        assert await silent.ended()
        monkeypatch.setattr(entrance, "LOGIN", PATIENCE)
        gone = await SocketClient.connect(address(declaration), b"0000")
        await gone.close()
        client = await SocketClient.enter(declaration)
        client.ask(1, "hello")
        assert (await client.read())["id"] == 1
        assert len(bridge.opens) == 1


async def test_a_line_that_is_too_long_is_answered_and_the_next_is_served() -> None:
    async with listening(line_limit=4096) as (bridge, declaration):
        client = await SocketClient.enter(declaration)
        padding = b"x" * 5000
        long = b'{"jsonrpc":"2.0","id":"a\\"1","method":"m","params":["%b"]}\n'
        client.writer.write(long % padding)
        answer = await client.read()
        assert answer["id"] == 'a"1'
        assert "longer than 4096 bytes" in str(answer["error"])
        client.writer.write(b'{"params":{"id":7,"x":"%b"}}\n' % padding)
        assert (await client.read())["id"] is None
        client.ask(2, "hello")
        assert (await client.read())["id"] == 2
        assert len(bridge.frames) == 1


async def test_a_client_that_reads_nothing_is_not_read_from_and_loses_nothing() -> None:
    async with listening() as (bridge, declaration):
        client = await SocketClient.enter(declaration)
        client.ask(0, f"big {8 * 1024 * 1024}")
        await bridge.until(lambda: bool(bridge.frames))
        client.ask(1, "hello")
        # A second connection is served meanwhile, so the first is not merely late.
        other = await SocketClient.enter(declaration)
        other.ask(2, "hello")
        await other.read()
        assert [each["id"] for each in bridge.messages()] == [0, 2]
        assert len(str((await client.read())["result"])) > 8 * 1024 * 1024
        assert (await client.read())["id"] == 1


async def test_a_client_that_never_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "UNSENT", 1024 * 1024)
    async with listening() as (bridge, declaration):
        client = await SocketClient.enter(declaration)
        client.ask(0, f"big {8 * 1024 * 1024}")
        await bridge.until(lambda: bool(bridge.closes))
        assert bridge.logs == [
            "warning: mcp: an MCP client took none of 1048576 bytes; it is closed"
        ]
        await client.close()


async def test_a_held_client_is_read_from_later() -> None:
    async with listening() as (bridge, declaration):
        client, other = await SocketClient.enter(declaration), await SocketClient.enter(declaration)
        await bridge.until(lambda: len(bridge.opens) == 2)
        client.ask("first", "hello")
        await client.read()
        held = bridge.frames[0][0]
        bridge.doors.hold(held, True)
        client.ask("held", "hello")
        other.ask("free", "hello")
        await other.read()
        assert [each["id"] for each in bridge.messages()] == ["first", "free"]
        bridge.doors.hold(held, False)
        assert (await client.read())["id"] == "held"


async def test_many_connections_keep_their_answers_apart() -> None:
    async with listening() as (bridge, declaration):
        second = await bridge.doors.listen("8:more", "stdio")
        assert isinstance(second, StdioDeclaration)
        doors = [("7:tools", declaration), ("8:more", second)]
        clients = [(name, await SocketClient.enter(door)) for name, door in doors * 20]

        async def converse(name: str, client: SocketClient, number: int) -> None:
            for n in range(25):
                client.ask(n, f"m{number}.{n}")
            for n in range(25):
                answer = await client.read()
                assert answer["id"] == n
                assert answer["result"] == {
                    "listener": name,
                    "method": f"m{number}.{n}",
                    "params": {},
                }

        await asyncio.gather(*(converse(*each, n) for n, each in enumerate(clients)))
        assert len({connection for connection, _ in bridge.opens}) == 40


async def test_closing_a_listener_ends_its_clients_and_nobody_elses() -> None:
    async with listening() as (bridge, declaration):
        second = await bridge.doors.listen("8:more", "stdio")
        assert isinstance(second, StdioDeclaration)
        one, other = await SocketClient.enter(declaration), await SocketClient.enter(second)
        await bridge.until(lambda: len(bridge.opens) == 2)
        bridge.close_listener("7:tools")
        bridge.close_listener("7:tools")
        assert await one.ended()
        late = await SocketClient.connect(address(declaration), token(declaration) + b"\n")
        assert await late.ended()
        other.ask(1, "hello")
        assert (await other.read())["id"] == 1
        assert len(bridge.opens) == 2
        assert bridge.closes == []


async def test_what_is_queued_for_a_closed_client_still_arrives() -> None:
    async with listening() as (bridge, declaration):
        bridge.quiet = True
        client = await SocketClient.enter(declaration)
        await bridge.until(lambda: bool(bridge.opens))
        connection = bridge.opens[0][0]
        bridge.send(connection, {"id": 1, "result": "x" * 8_000_000})
        bridge.send(connection, {"id": 2, "result": {}})
        bridge.close(connection)
        bridge.close(connection)
        bridge.send(connection, {})
        assert [(await client.read())["id"] for _ in range(2)] == [1, 2]
        assert await client.ended()
        assert bridge.closes == []


def there_is(path: Path) -> bool:
    """Whether there is something at `path`."""
    return path.exists()


async def test_five_hundred_listeners_leave_nothing_behind() -> None:
    async with listening() as (bridge, declaration):
        where = Path(address(declaration))
        before = 0
        for n in range(501):
            each = await bridge.doors.listen(f"{n}:x", "stdio")
            assert isinstance(each, StdioDeclaration)
            if n % 50 == 0:
                client = await SocketClient.enter(each)
                client.ask(1, "hello")
                await client.read()
                bridge.close_listener(f"{n}:x")
                assert await client.ended()
                await client.close()
            else:
                bridge.close_listener(f"{n}:x")
            if n == 0:  # by now the event loop has what it needs itself
                before = descriptors()
        assert descriptors() == before
        assert there_is(where)
        bridge.close_listener("7:tools")
        assert not there_is(where.parent)
        with pytest.raises(FileNotFoundError):
            await SocketClient.connect(str(where))
        again = await bridge.doors.listen("9:again", "stdio")
        assert isinstance(again, StdioDeclaration)
        client = await SocketClient.enter(again)
        client.ask(1, "hello")
        assert (await client.read())["id"] == 1


async def test_a_path_too_long_for_a_socket_goes_elsewhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with listening() as (_, declaration):
        assert not address(declaration).startswith(str(deep))
        assert list(deep.iterdir()) == []
        client = await SocketClient.enter(declaration)
        client.ask(1, "hello")
        assert (await client.read())["id"] == 1


def test_the_shim_is_found_beside_python_or_run_as_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    program, *words = stdio.shim_command()
    assert program == str(tmp_path / "python")
    assert words[-1].endswith("shim.py")
    installed = tmp_path / "conductor"
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    assert stdio.shim_command() == [str(installed), "mcp"]
    monkeypatch.setattr(sys, "argv", ["/elsewhere/conductor"])
    assert stdio.shim_command() == [str(installed), "mcp"]


def test_the_file_runs_without_the_packages_around_it(tmp_path: Path) -> None:
    """A folder with modules named like the standard library's is not searched for them."""
    shim = str(Path(stdio.__file__).parent / "shim.py")
    done = subprocess.run(
        [sys.executable, "-I", shim, str(tmp_path / "nothing")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot reach the conductor at ")
