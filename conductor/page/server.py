"""Serves the page and its data, to one browser of this user.

It listens on the loopback interface alone. The data needs a secret: it stands in the fragment of
the address that the user opens, which no browser sends to anybody, and comes back in a header. A
page of somebody else can neither read the answers (no CORS header is ever sent) nor reach the data
by another name for this machine (`Host` is checked).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from conductor.mcp.http.server import HttpServer
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
        try:
            await app(scope, receive, careful)
        finally:
            scope["state"]["connection"].answered()

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
            if not scope["state"]["connection"].admit():
                return failure(503, "too many requests of this page are open: close some windows")
        return None

    @staticmethod
    def _is_opened(path: str, headers: dict[bytes, bytes]) -> bool:
        """Whether somebody leads a window to the page, as the file does that a browser is opened
        with. That page alone holds nothing."""
        wanted = {b"sec-fetch-mode": b"navigate", b"sec-fetch-dest": b"document"}
        return path == "/" and wanted.items() <= headers.items()


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


@contextlib.asynccontextmanager
async def serving(
    app: ASGIApp, listening: socket.socket, complain: Callable[[str], None]
) -> AsyncIterator[None]:
    """Serves a page meanwhile. Who has not shown the secret makes room for others, and has a few
    seconds for a request. `complain` logs a sentence."""
    server = HttpServer(app, listening, complain)
    try:
        yield
    finally:
        await server.aclose()


async def serve(
    source: Source,
    app: ASGIApp,
    listening: socket.socket,
    complain: Callable[[str], None],
    shown: contextlib.AbstractContextManager[None],
) -> None:
    """Serves the page of a trace until SIGINT or SIGTERM, and is in `shown` meanwhile."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ending.set)
    reading = asyncio.create_task(source.run(lambda: None))
    try:
        async with serving(app, listening, complain):
            with shown:
                await ending.wait()
    finally:
        reading.cancel()
