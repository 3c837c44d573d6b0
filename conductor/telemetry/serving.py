"""Serves the numbers of a chain to a Prometheus on this machine: a thread of its own, so that the
chain never waits for who reads them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final

from conductor.core import json_text
from conductor.errors import hidden
from conductor.http.headers import misdirected
from conductor.http.request import Request, Response
from conductor.http.server import HttpServer

HOST: Final = "127.0.0.1"
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAMES: Final = ("localhost", HOST, "[::1]")
_HEADERS: Final = (("x-content-type-options", "nosniff"), ("connection", "close"))


class Serving:
    """Answers `GET /metrics`. A client that asks for nothing makes room for others."""

    def __init__(self, port: int, text: Callable[[], str]) -> None:
        """`port`: 0: any that is free. Raises `OSError`."""
        self._text = text
        self._socket = socket.create_server((HOST, port), backlog=16)
        self.port: int = self._socket.getsockname()[1]
        """The port on which it listens."""
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        threading.Thread(target=self._run, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stops listening."""
        with contextlib.suppress(RuntimeError):  # it has been closed
            self._loop.call_soon_threadsafe(self._ending.set)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        async with HttpServer(self._answer, self._socket, lambda text: None):
            await self._ending.wait()

    async def _answer(self, request: Request) -> None:
        """Answers a request."""
        request.more = _HEADERS
        if refusal := misdirected(request.headers, _NAMES, None):
            status, why = refusal
        elif request.method not in ("GET", "HEAD"):
            status, why = 405, "only GET"
        elif request.path not in ("/metrics", "/"):
            status, why = 404, "the numbers are at /metrics"
        else:
            status, why = 200, hidden(self._text())
        await request.respond(Response(json_text.utf8(why), status, _TYPE))
