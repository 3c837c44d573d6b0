"""How the HTTP shell answers: in one piece, or as a stream of events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from conductor.mcp.http import requests
from conductor.mcp.http.requests import SESSION
from conductor.mcp.http.session import Exchange, Outlet, error_code

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Reply:
    """Writes one response."""

    def __init__(self, send: Send, silence: float) -> None:
        self._send = send
        self._silence = silence
        self.session = ""
        """The `Mcp-Session-Id` to give, if any."""
        self.failed = False
        """Whether the answer given was an error."""

    async def whole(
        self, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """A response in one piece: JSON, or nothing."""
        kind = (("content-type", "application/json"),) if body else ()
        await self._begin(status, (*kind, ("content-length", str(len(body))), *headers))
        await self._send({"type": "http.response.body", "body": body})

    async def answer(self, exchange: Exchange, receive: Receive, *, legacy: bool) -> None:
        """The answer to a request, and what comes before it; returns early if nobody wants it."""
        watching = asyncio.ensure_future(_left(receive, exchange))
        try:
            first = await exchange.take(self._silence)
            if first and exchange.last:
                code = error_code(first)
                self.failed = code is not None
                status = 200 if legacy or code is None else requests.STATUS.get(code, 200)
                await self.whole(status, first)
            else:
                await self._events(exchange, first)
        finally:
            watching.cancel()

    async def stream(self, outlet: Outlet, receive: Receive) -> None:
        """A stream of events, until the outlet ends or nobody reads."""
        watching = asyncio.ensure_future(_left(receive, outlet))
        try:
            await self._events(outlet, b"")
        finally:
            watching.cancel()

    async def _events(self, outlet: Outlet, frame: bytes | None) -> None:
        await self._begin(
            200,
            (
                ("content-type", "text/event-stream"),
                ("cache-control", "no-cache, no-transform"),
            ),
        )
        while frame is not None:
            # A comment says, in a long silence, that the stream is alive.
            event = b"event: message\ndata: %b\n\n" % frame if frame else b": alive\n\n"
            await self._send({"type": "http.response.body", "body": event, "more_body": True})
            frame = await outlet.take(self._silence)
        await self._send({"type": "http.response.body", "body": b""})

    async def _begin(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        session = ((SESSION, self.session),) if self.session else ()
        lines = [(name.encode(), value.encode()) for name, value in (*headers, *session)]
        await self._send({"type": "http.response.start", "status": status, "headers": lines})


async def _left(receive: Receive, outlet: Outlet) -> None:
    """Waits until the client leaves; what it would have read is dropped then."""
    while (await receive())["type"] != "http.disconnect":
        continue
    outlet.drop()
