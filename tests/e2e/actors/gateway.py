"""Serves a program that speaks on its standard input and output, at an address.

    python -m tests.e2e.actors.gateway [OPTION…] SCHEME COMMAND ARGUMENT…

SCHEME is `unix`, `tcp`, `ws` or `http`. Each connection gets a process of its own, which ends
with it. The first line on standard output is the address. `--token TEXT`: who does not show it is
refused (401).
`--ends N`: the first N connections are ended as soon as they stand. `--upgrades FILE`: gets a line
for each connection. `--certificate FILE`: WebSockets with TLS, by the key and certificate there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http
import json
import os
import ssl
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from aiohttp import web
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.transports.remote.http_peer import HttpServer, Served

_LIMIT = 128 * 1024 * 1024


class Gateway:
    """A program behind an address."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._came = 0

    def _is_ended(self) -> bool:
        self._came += 1
        if self._given.upgrades:
            with Path(self._given.upgrades).open("a") as file:
                file.write(f"{self._came}\n")
        return self._came <= int(self._given.ends)

    async def _run(self, lines: AsyncIterator[bytes], send: Callable[[bytes], Awaitable[None]]) -> None:  # fmt: skip # noqa: E501
        """Carries lines to a process of the program and back, until either is done."""
        process = await asyncio.create_subprocess_exec(
            *self._given.command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LIMIT,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        async def back() -> None:
            while line := await stdout.readline():
                await send(line)

        async def forth() -> None:
            async for line in lines:
                stdin.write(line)
                await stdin.drain()
            stdin.close()

        going = asyncio.ensure_future(forth())
        with contextlib.suppress(ConnectionError, ConnectionClosed):
            await back()
        going.cancel()
        with contextlib.suppress(BaseException):
            await going
        stdin.close()
        await process.wait()

    async def lines(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of lines."""

        async def send(line: bytes) -> None:
            writer.write(line)
            await writer.drain()

        if not self._is_ended():
            await self._run(aiter(reader), send)
        writer.close()

    def check(self, connection: ServerConnection, request: Request) -> Response | None:
        """Whether who comes is let in."""
        token = self._given.token
        if token and request.headers.get("Authorization") != f"Bearer {token}":
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "no\n")
        return None

    async def texts(self, connection: ServerConnection) -> None:
        """A WebSocket."""

        async def lines() -> AsyncIterator[bytes]:
            with contextlib.suppress(ConnectionClosed):
                async for text in connection:
                    yield (text if isinstance(text, bytes) else text.encode()) + b"\n"

        async def send(line: bytes) -> None:
            await connection.send(line[:-1].decode())

        if not self._is_ended():
            await self._run(lines(), send)

    def _tls(self) -> ssl.SSLContext | None:
        if not self._given.certificate:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._given.certificate)
        return context

    def _http(self) -> HttpServer:
        processes: dict[str, asyncio.subprocess.Process] = {}
        pumps: set[asyncio.Task[None]] = set()
        routes: dict[tuple[str, str], str] = {}

        async def pump(served: Served, process: asyncio.subprocess.Process) -> None:
            assert process.stdout is not None
            while line := await process.stdout.readline():
                message = json.loads(line)
                session = _session(message)
                if "method" not in message:  # it answers where the question was asked
                    session = routes.pop((served.id, str(message["id"])), "")
                served.send(line[:-1], session)
            HttpServer.end(served)

        async def began(served: Served) -> None:
            if self._is_ended():
                raise web.HTTPServiceUnavailable
            process = processes[served.id] = await asyncio.create_subprocess_exec(
                *self._given.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LIMIT,
            )
            pumps.add(asyncio.ensure_future(pump(served, process)))
            ending = asyncio.ensure_future(ends(served, process))
            pumps.add(ending)

        async def ends(served: Served, process: asyncio.subprocess.Process) -> None:
            await served.closed.wait()
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()

        async def took(served: Served, frame: bytes) -> None:
            message = json.loads(frame)
            if "method" in message and "id" in message:
                routes[served.id, str(message["id"])] = _session(message)
            stdin = processes[served.id].stdin
            assert stdin is not None
            stdin.write(frame + b"\n")
            await stdin.drain()

        server = HttpServer(took, began)
        server.token = self._given.token
        return server

    async def serve(self) -> None:
        """Listens until this process is ended."""
        scheme = self._given.scheme
        if scheme == "unix":
            # Not in the current folder: the path of a socket is short.
            path = os.path.join(tempfile.mkdtemp(prefix="gateway-"), "socket")
            await asyncio.start_unix_server(self.lines, path, limit=_LIMIT)
            address = f"unix:{path}"
        elif scheme == "tcp":
            server = await asyncio.start_server(self.lines, "127.0.0.1", 0, limit=_LIMIT)
            address = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        elif scheme == "http":
            address = await self._http().start()
        else:
            upgrades = await serve(
                self.texts,
                "127.0.0.1",
                0,
                compression=None,
                max_size=_LIMIT,
                process_request=self.check,
                ssl=self._tls(),
            )
            port = next(iter(upgrades.sockets)).getsockname()[1]
            address = f"ws://127.0.0.1:{port}"
        sys.stdout.write(f"{address}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def _session(message: Any) -> str:
    """The session that a message names; empty: none."""
    params = message.get("params")
    session = params.get("sessionId") if isinstance(params, dict) else None
    return session if isinstance(session, str) else ""


def main() -> None:
    """Serves what the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--token", default="")
    parser.add_argument("--ends", type=int, default=0)
    parser.add_argument("--upgrades", default="")
    parser.add_argument("--certificate", default="")
    parser.add_argument("scheme")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asyncio.run(Gateway(parser.parse_args()).serve())


if __name__ == "__main__":
    main()
