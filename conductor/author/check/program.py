"""A program of anybody's under check: an agent, or a conductor with a scripted agent behind it."""

from __future__ import annotations

import asyncio
import secrets
import shlex
import signal
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

import anyio

from conductor import children
from conductor.author.check.robustness import not_a_message
from conductor.author.check.scripted_chain import ScriptedChain
from conductor.author.check.scripted_end import Fault
from conductor.errors import ComponentError
from conductor.transports import process_groups
from conductor.transports.private import JOIN, private_socket
from conductor.transports.socket import TOKEN_VARIABLE

if TYPE_CHECKING:
    import socket
    from collections import deque
    from collections.abc import AsyncIterator, Iterator

AGENT: Final = "{agent}"
"""The word of a conductor's command line that the scripted agent takes the place of."""

_LINE: Final = 64 * 1024 * 1024
"""Bytes of a line at most."""

_FAREWELL: Final = 0.5
"""Seconds that a program has to end once its check is over."""


class ProgramChain(ScriptedChain):
    """The chain of a check whose component is a program that nobody of ours runs."""

    def __init__(self, folder: str, grace: float) -> None:
        """`grace`: seconds that the program may take to end once its input has ended."""
        super().__init__(folder)
        self.dialect = lambda: "program"
        self.odd: list[bytes] = []
        """Lines of the program's that are no message, or a batch of several."""
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None
        self._listening: socket.socket | None = None
        """The socket for the scripted agent's stand-in; None: the program is no conductor."""
        self._token = b""

    async def end(self) -> int | None:
        """Ends the program's input; its exit code, or None if it goes on nevertheless."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        with anyio.move_on_after(self._grace):
            return await self._process.wait()
        return None

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        """Ends the program: most end with their input, others would wait for open requests."""
        assert process.stdin is not None
        process.stdin.close()
        with anyio.move_on_after(_FAREWELL):
            await process.wait()
        process_groups.signal(process.pid, signal.SIGKILL)  # it has a session of its own
        await process.wait()

    @asynccontextmanager
    async def running(self, words: list[str]) -> AsyncIterator[None]:
        """Runs the program; the ends of the chain hear and speak meanwhile.

        Raises:
            ComponentError: it cannot be started.
        """
        with self._agent_end(words) as command:
            process = self._process = await _started(command)
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(
                        self.client.run, StreamLines(process.stdout, process.stdin, self.odd)
                    )
                    tasks.start_soon(self._agent_runs)
                    tasks.start_soon(_kept, process.stderr, self.stderr)
                    yield
                    tasks.cancel_scope.cancel()
            finally:
                with anyio.CancelScope(shield=True):
                    await self._stop(process)

    async def over(self) -> None:
        """Raises `Fault` some time after the program has ended: nothing more can come then."""
        assert self._process is not None
        await self._process.wait()
        await anyio.sleep(_FAREWELL)
        raise Fault("it has ended", came=self.last)

    @property
    def last(self) -> bytes:
        """The last of its lines that are no messages."""
        return self.odd[-1] if self.odd else b"nothing"

    @contextmanager
    def _agent_end(self, words: list[str]) -> Iterator[list[str]]:
        """The command to start; where it names the scripted agent, that waits at a socket."""
        if AGENT not in words:
            yield words
            return
        listening, folder = private_socket(JOIN)
        listening.setblocking(False)
        token = secrets.token_hex()
        joins = [sys.executable, "-m", "conductor", "join", folder.socket]
        agent = shlex.join(["env", f"{TOKEN_VARIABLE}={token}", *joins])
        self._listening, self._token = listening, token.encode()
        try:
            yield [agent if word == AGENT else word for word in words]
        finally:
            listening.close()
            folder.remove()

    async def _agent_runs(self) -> None:
        """The scripted agent, once the program has started its stand-in."""
        if self._listening is None:
            return
        connection, _ = await asyncio.get_running_loop().sock_accept(self._listening)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=_LINE)
        try:
            if (await reader.readline()).rstrip() == self._token:
                await self.agent.run(StreamLines(reader, writer, self.odd))
        finally:
            writer.close()


async def _started(command: list[str]) -> asyncio.subprocess.Process:
    """A program on pipes, in a session of its own. Raises `ComponentError`."""
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE,
            env=children.inherited(),
            start_new_session=True,
        )
    except OSError as error:
        raise ComponentError(
            f"cannot start `{shlex.join(command)}`: {error.strerror}",
            "check that the program is installed and on PATH",
        ) from None


class StreamLines:
    """The lines of a stream, as an end of a scripted chain takes them."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, odd: list[bytes]
    ) -> None:
        """`odd` gets the lines that are no message."""
        self._reader = reader
        self._writer = writer
        self._odd = odd

    async def receive(self) -> bytes | None:
        """The next message; None once nothing more will come."""
        while line := await self._reader.readline():
            text = line.rstrip(b"\r\n")
            if not text.strip():
                continue
            if not_a_message([text]) is None:
                return text
            self._odd.append(text)
        return None

    def send(self, line: bytes) -> None:
        """Sends a line."""
        if not self._writer.is_closing():
            self._writer.write(line.removesuffix(b"\n") + b"\n")


async def _kept(stream: asyncio.StreamReader, tail: deque[str]) -> None:
    """Keeps the last lines of a program's standard error."""
    while line := await stream.readline():
        tail.append(line.decode(errors="replace").rstrip())
