"""Serves the page and its data, to one browser of this user.

It listens on the loopback interface alone. The data needs a secret: it stands in the fragment of
the address that the user opens, which no browser sends to anybody, and comes back in a header. A
foreign page can neither read the answers (no CORS header is ever sent) nor reach the data
by another name for this machine (`Host` is checked).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from conductor import signals, tasks
from conductor.http.headers import misdirected, shows
from conductor.http.request import Handler, Request, Response
from conductor.http.routes import Answer, Route, Routes
from conductor.http.server import HttpServer
from conductor.page.data import Data, failure
from conductor.page.source import Source

STATIC: Final = os.path.join(os.path.dirname(__file__), "static")
HOST: Final = "127.0.0.1"
_NAMES: Final = (HOST, "localhost")
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The files that the page may load and run: its own files, and pictures in messages."""
FRAMES: Final = "; frame-src 'self'"
"""The addition for a page with frames. It also keeps a frame from going elsewhere."""

_HEADERS: Final = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
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


class Page:
    """The whole server of a page.

    It lets in only requests to this very server, from its own page, and requests for data only with
    the secret; and puts the headers of a careful page on every answer.
    """

    def __init__(
        self,
        source: Source,
        port: int,
        secret: str,
        start: str,
        more: Sequence[Route] = (),
        *,
        frames: bool = False,
    ) -> None:
        """Make it.

        Args:
            source: The trace that the page shows.
            port: Where it listens.
            secret: The secret that requests for data must bring.
            start: The name of the page in `static` that `/` shows.
            more: Further routes; those below `/api/` need the secret.
            frames: The page shows frames of this server.
        """
        pages = Data(source)
        self._routes = Routes(
            (
                Route("/", _file(start)),
                Route("/api/head", pages.head),
                Route("/api/turns", pages.turns),
                Route("/api/turn/{number:int}", pages.turn),
                Route("/api/rows", pages.rows),
                Route("/api/event/{number:int}", pages.event),
                Route("/api/find", pages.find),
                *more,
                Route("/{name}", _static),
            ),
            failure,
        )
        self._headers = (("content-security-policy", POLICY + FRAMES * frames), *_HEADERS)
        self._port = port
        self._secret = secret.encode()

    async def serve(self, request: Request) -> None:
        """Answers one request, or refuses it."""
        request.more = self._headers
        refusal = self._refused(request)
        await request.respond(refusal or await self._routes.answer(request))

    def _refused(self, request: Request) -> Response | None:
        headers = request.headers
        if why := misdirected(headers, _NAMES, self._port):
            return failure(*why)
        site = headers.get("sec-fetch-site") or "same-origin"
        if site not in ("same-origin", "none") and not self._is_opened(request):
            return failure(403, "requests of other web pages are refused")
        if request.path.startswith("/api/"):
            if not shows(headers, self._secret):
                return failure(401, _REOPEN)
            if not request.admit():
                return failure(503, "too many requests of this page are open: close some windows")
        return None

    @staticmethod
    def _is_opened(request: Request) -> bool:
        """Whether somebody leads a window to the page, as the file does that opens a browser. That
        page alone holds nothing."""
        headers = request.headers
        mode, target = headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")
        return request.path == "/" and (mode, target) == ("navigate", "document")


def _file(name: str) -> Answer:
    async def serve(request: Request) -> Response:
        return _static_file(name)

    return serve


async def _static(request: Request) -> Response:
    return _static_file(request.parts["name"])


def _static_file(name: str) -> Response:
    """A file of the page. Only names that the folder lists: so no path leads out of it."""
    if name not in os.listdir(STATIC):
        return failure(404, "there is no such file")
    with open(os.path.join(STATIC, name), "rb") as file:
        content = file.read()
    kind = _TYPES.get(os.path.splitext(name)[1], "text/plain; charset=utf-8")
    return Response(content, kind=kind)


@contextlib.asynccontextmanager
async def serving(
    handler: Handler, listening: socket.socket, complain: Callable[[str], None]
) -> AsyncIterator[None]:
    """Serves a page meanwhile. A client without the secret makes room for others, and has a few
    seconds for a request. `complain` logs a sentence."""
    async with HttpServer(handler, listening, complain):
        yield


async def serve(
    source: Source,
    handler: Handler,
    listening: socket.socket,
    complain: Callable[[str], None],
    shown: contextlib.AbstractContextManager[None],
) -> None:
    """Serves the page of a trace until SIGINT or SIGTERM, and is in `shown` meanwhile."""
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        signals.call(loop, number, ending.set)
    async with tasks.group() as reading:
        reading.start_soon(source.run, lambda: None)
        async with serving(handler, listening, complain):
            with shown:
                await ending.wait()
        reading.cancel_scope.cancel()
