"""Serves the page and its data, to one browser of this user.

It listens on the loopback interface alone. The data needs a secret: it stands in the fragment of
the address that the user opens, which no browser sends to anybody, and comes back in a header. A
page of somebody else can neither read the answers (no CORS header is ever sent) nor reach the data
by another name for this machine (`Host` is checked).
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from conductor.page.source import Source, head

STATIC: Final = os.path.join(os.path.dirname(__file__), "static")
HOST: Final = "127.0.0.1"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load and run: its own files, and pictures that messages hold."""

_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_MOST_ROWS: Final = 5_000
_MOST_TURNS: Final = 2_000
_MOST_EVENT: Final = 4 * 1024 * 1024
"""Bytes of an event that the page shows."""
_SEARCH_SLICE: Final = 2_000
_MOST_FOUND: Final = 100_000
_NEWS: Final = 0.2
"""Seconds between two pieces of news."""
_REOPEN: Final = (
    "this address needs the secret that `conductor` printed: open the whole address again"
)

_encode: Final = msgspec.json.Encoder().encode
Handler = Callable[[Request], Awaitable[Response]]


def new_secret() -> str:
    """A secret that nobody can guess."""
    return secrets.token_urlsafe(32)


def listen(port: int = 0) -> socket.socket:
    """A socket that listens on the loopback interface. Raises `OSError`."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(16)
    except OSError:
        listening.close()
        raise
    return listening


class Guard:
    """Lets in only requests to this very server, from its own page, and those for data only with
    the secret; and puts the headers of a careful page on every answer."""

    def __init__(self, app: ASGIApp, port: int, secret: str) -> None:
        self._app = app
        self._hosts = {f"{name}:{port}".encode() for name in (HOST, "localhost")}
        self._origins = {b"http://" + host for host in self._hosts}
        self._secret = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, or refuses it."""
        if scope["type"] != "http":
            return

        async def careful(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)

        refusal = self._refused(scope)
        app = self._app if refusal is None else refusal
        await app(scope, receive, careful)

    def _refused(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if headers.get(b"host", b"").lower() not in self._hosts:
            return failure(421, "this is not the name of this server")
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return failure(403, "another site may not ask here")
        if headers.get(b"sec-fetch-site", b"same-origin") not in (b"same-origin", b"none"):
            return failure(403, "another site may not ask here")
        if scope["path"].startswith("/api/"):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._secret):
                return failure(401, _REOPEN)
        return None


def failure(status: int, why: str) -> Response:
    """An error, as the page shows it."""
    return Response(_encode({"error": why}), status, media_type="application/json")


def data(value: Any) -> Response:
    """A value as JSON."""
    return Response(_encode(value), media_type="application/json")


def app(
    source: Source, port: int, secret: str, start: str, more: Sequence[BaseRoute] = ()
) -> ASGIApp:
    """The whole server.

    Args:
        source: The trace that it shows.
        port: Where it listens.
        secret: What requests for data must bring.
        start: The name of the page in `static` that `/` shows.
        more: Further routes; what is below `/api/` needs the secret.
    """
    pages = Data(source)
    routes = [
        Route("/", _file(start)),
        Route("/api/head", pages.head),
        Route("/api/turns", pages.turns),
        Route("/api/turn/{number:int}", pages.turn),
        Route("/api/rows", pages.rows),
        Route("/api/event/{number:int}", pages.event),
        Route("/api/search", pages.search),
        Route("/api/news", pages.news),
        *more,
        Route("/{name}", _static),
    ]
    return Guard(Starlette(routes=routes), port, secret)


class Data:
    """The data of one trace."""

    def __init__(self, source: Source) -> None:
        self._source = source

    @property
    def _reader(self) -> Any:
        return self._source.reader

    async def head(self, request: Request) -> Response:
        """What the trace is of."""
        return data(head(self._source))

    async def turns(self, request: Request) -> Response:
        """The turns from number `after` on."""
        after = _number(request, "after", 0)
        return data(self._reader.turns[after : after + _MOST_TURNS])

    async def turn(self, request: Request) -> Response:
        """A turn in detail."""
        try:
            return data(self._reader.detail(request.path_params["number"]))
        except IndexError:
            return failure(404, "there is no such turn")

    async def rows(self, request: Request) -> Response:
        """Events in short: from number `after` on, at most `limit`."""
        after, limit = _number(request, "after", 0), _number(request, "limit", 1_000)
        return data(self._reader.rows(after, min(limit, _MOST_ROWS)))

    async def event(self, request: Request) -> Response:
        """A line of the trace as it is."""
        line = self._reader.line(request.path_params["number"])
        if not line:
            return failure(404, "this event is not there any more")
        if len(line) > _MOST_EVENT:
            size = f"{len(line) / 1024 / 1024:.1f} MiB"
            return failure(413, f"this event has {size}, too much for a page; it is in the file")
        return Response(line.decode("utf-8", "replace"), media_type="application/json")

    async def search(self, request: Request) -> Response:
        """The numbers of the events that hold the words `text`, in any case."""
        wanted = request.query_params.get("text", "").lower()
        found: list[int] = []
        for number in range(len(self._reader)):
            if wanted in self._reader.line(number).decode("utf-8", "replace").lower():
                found.append(number)
            if len(found) == _MOST_FOUND:
                break
            if number % _SEARCH_SLICE == 0:
                await asyncio.sleep(0)
        return data(found)

    async def news(self, request: Request) -> Response:
        """How much there is, a line each time there is more, until there is no more to come."""
        return StreamingResponse(self._lines_of_news(), media_type="application/x-ndjson")

    async def _lines_of_news(self) -> AsyncIterator[bytes]:
        before: bytes = b""
        while True:
            reader = self._reader
            now = head(self._source)
            line = _encode(
                {
                    "events": now.events, "turns": reader.count, "live": now.live,
                    "gaps": now.gaps, "components": now.components,
                }
            )  # fmt: skip
            if line != before:
                yield line + b"\n"
                before = line
            if not now.live:
                return
            await asyncio.sleep(_NEWS)


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else default


def _file(name: str) -> Handler:
    async def serve(request: Request) -> Response:
        return _static_file(name)

    return serve


async def _static(request: Request) -> Response:
    return _static_file(request.path_params["name"])


def _static_file(name: str) -> Response:
    """A file of the page. Only names that the folder lists: so no path leads out of it."""
    if name not in os.listdir(STATIC):
        return failure(404, "there is no such file")
    with open(os.path.join(STATIC, name), "rb") as file:
        content = file.read()
    return Response(content, media_type=_TYPES.get(os.path.splitext(name)[1], "text/plain"))


async def serve(
    source: Source,
    listening: socket.socket,
    secret: str,
    start: str,
    more: Sequence[BaseRoute] = (),
) -> None:
    """Serves until SIGINT or SIGTERM, or until it is cancelled."""
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        app(source, port, secret, start, more),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    reading = asyncio.create_task(source.run(lambda: None))
    try:
        await server.serve(sockets=[listening])
    finally:
        reading.cancel()
