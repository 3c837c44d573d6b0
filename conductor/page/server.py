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
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from conductor.page.data import Data, failure
from conductor.page.source import Source
from conductor.transports.host import is_named

STATIC: Final = os.path.join(os.path.dirname(__file__), "static")
HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What the page may load and run: its own files, and pictures that messages hold."""
FRAMES: Final = "; frame-src 'self'"
"""What a page with frames adds. It also keeps a frame from going elsewhere."""

_HEADERS: Final = (
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
_REOPEN: Final = (
    "this address needs the secret that `conductor` printed: open the whole address again"
)

_IN_TIME: Final = 10.0
"""Seconds that a connection has to send the head of a request."""

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

    def __init__(self, app: ASGIApp, port: int, secret: str, policy: str) -> None:
        self._app = app
        self._headers = ((b"content-security-policy", policy.encode()), *_HEADERS)
        self._port = port
        self._origins = {f"http://{name}:{port}".encode() for name in _NAMES}
        self._secret = f"Bearer {secret}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request, or refuses it."""
        if scope["type"] != "http":
            return

        async def careful(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                others = [each for each in self._headers if each[0] not in names]
                message["headers"] = [*given, *others]
            await send(message)

        refusal = self._refused(scope)
        app = self._app if refusal is None else refusal
        await app(scope, receive, careful)

    def _refused(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if not is_named(headers.get(b"host", b"").decode("latin-1"), _NAMES, self._port):
            return failure(421, "this is not the name of this server")
        origin = headers.get(b"origin")
        if origin is not None and origin not in self._origins:
            return failure(403, "another site may not ask here")
        if headers.get(b"sec-fetch-site", b"same-origin") not in (
            b"same-origin",
            b"none",
        ) and not self._is_opened(scope["path"], headers):
            return failure(403, "another site may not ask here")
        if scope["path"].startswith("/api/"):
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self._secret):
                return failure(401, _REOPEN)
        return None

    @staticmethod
    def _is_opened(path: str, headers: dict[bytes, bytes]) -> bool:
        """Whether somebody leads a window to the page, as the file does that a browser is opened
        with. That page alone holds nothing."""
        wanted = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
        return path == "/" and wanted.items() <= headers.items()


class Punctual(H11Protocol):
    """Ends a connection that does not send a request in time; uvicorn would wait for ever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody connects."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._wait()

    def data_received(self, data: bytes) -> None:
        """A part of a request is there, or all of it."""
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        self._on_time()

    def _wait(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._on_time()
        elif self._late is None:
            self._late = self.loop.call_later(_IN_TIME, self.transport.abort)

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def app(
    source: Source,
    port: int,
    secret: str,
    start: str,
    more: Sequence[BaseRoute] = (),
    *,
    frames: bool = False,
) -> ASGIApp:
    """The whole server.

    Args:
        source: The trace that it shows.
        port: Where it listens.
        secret: What requests for data must bring.
        start: The name of the page in `static` that `/` shows.
        more: Further routes; what is below `/api/` needs the secret.
        frames: The page shows frames of this server.
    """
    pages = Data(source)
    routes = [
        Route("/", _file(start)),
        Route("/api/head", pages.head),
        Route("/api/turns", pages.turns),
        Route("/api/turn/{number:int}", pages.turn),
        Route("/api/rows", pages.rows),
        Route("/api/event/{number:int}", pages.event),
        Route("/api/find", pages.find),
        *more,
        Route("/{name}", _static),
    ]
    return Guard(Starlette(routes=routes), port, secret, POLICY + FRAMES * frames)


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


def config(
    source: Source,
    listening: socket.socket,
    secret: str,
    start: str,
    more: Sequence[BaseRoute] = (),
    *,
    frames: bool = False,
) -> uvicorn.Config:
    """How the server of a page is run."""
    return uvicorn.Config(
        app(source, listening.getsockname()[1], secret, start, more, frames=frames),
        log_level="critical",
        access_log=False,
        lifespan="off",
        http=Punctual,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )


async def serve(
    source: Source,
    listening: socket.socket,
    secret: str,
    start: str,
    more: Sequence[BaseRoute] = (),
) -> None:
    """Serves until SIGINT or SIGTERM, or until it is cancelled."""
    server = uvicorn.Server(config(source, listening, secret, start, more))
    reading = asyncio.create_task(source.run(lambda: None))
    try:
        await server.serve(sockets=[listening])
    finally:
        reading.cancel()
