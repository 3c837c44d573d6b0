"""Requests of a page that do something: a body of bounded size, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from conductor.core import json_text
from conductor.errors import ConductorError, UsageError
from conductor.page.data import data, failure, refusal

MOST_BODY: Final = 64 * 1024
_LOOK: Final = 0.2
"""Seconds between two looks whether somebody still waits for an answer."""


class TooLargeError(Exception):
    """A request has a body that nobody reads to its end."""


def taking(
    shape: type, most: int, act: Callable[[Any], Awaitable[Any]], *, patient: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """Serves a POST: its body becomes `shape`, and `act` does it.

    `patient`: it may take long, and does not happen any more once nobody waits for it.
    """

    async def serve(request: Request) -> Response:
        try:
            body = await _body(request, most)
            asked: Any = json_text.decode(body or b"{}", type=shape)
        except TooLargeError:
            return failure(413, f"this is more than {most >> 10} KiB, too much for one request")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(400, f"the request cannot be read: {error}")
        except ClientDisconnect:
            return failure(400, "the request has no end")
        work = act(asked)
        try:
            done = await (_waited_for(request, work) if patient else work)
            return data({} if done is None else done)
        except ConductorError as error:
            return refused(error)

    return serve


async def _waited_for(request: Request, work: Awaitable[Any]) -> Any:
    task = asyncio.ensure_future(work)
    try:
        while not task.done() and not await request.is_disconnected():
            await asyncio.wait((task,), timeout=_LOOK)
        if not task.done():
            raise ConductorError("nobody waits for it any more")
        return task.result()
    finally:
        task.cancel()


async def _body(request: Request, most: int) -> bytes:
    """The body of a request. Raises `TooLargeError`."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise TooLargeError
    return bytes(body)


def refused(error: ConductorError) -> Response:
    """What was asked cannot be done: 409 if it is the page's own fault, 502 if the chain's."""
    status = 409 if isinstance(error, UsageError) else 502
    return refusal(error, status)


# -- a component is switched off and on ------------------------------------------------------------

Pause = Callable[[str, bool], Awaitable[None]]
"""Pauses a component, or resumes it. Raises `ConductorError`."""


class _Switch(msgspec.Struct):
    name: str
    paused: bool


def pausing(pause: Pause) -> Route:
    """The route by which a page pauses and resumes components."""

    async def act(asked: _Switch) -> None:
        await pause(asked.name, asked.paused)

    return Route("/api/pause", taking(_Switch, MOST_BODY, act, patient=True), methods=["POST"])
