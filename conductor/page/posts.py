"""Requests of a page that change something: a body of bounded size, and the result."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from conductor.core import json_text
from conductor.errors import ConductorError, UsageError
from conductor.http.request import Refused, Request, Response
from conductor.http.routes import Answer, Route
from conductor.page.data import data, failure, refusal

MOST_BODY: Final = 64 * 1024


def taking(
    shape: type, most: int, act: Callable[[Any], Awaitable[Any]], *, patient: bool = False
) -> Answer:
    """Serves a POST: its body becomes `shape`, and `act` does it.

    `patient`: it may take long, and does not happen any more once nobody waits for it.
    """

    async def serve(request: Request) -> Response:
        try:
            body = await request.body(most)
            asked: Any = json_text.decode(body or b"{}", type=shape)
        except Refused as why:
            much = f"this is more than {most >> 10} KiB, too much for one request"
            return failure(why.status, much if why.status == 413 else why.text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return failure(400, f"the request cannot be read: {error}")
        done: list[Response | Exception] = []
        work = _done(act(asked), done)
        # An act that has begun is finished, also for a page that is closed meanwhile.
        await (work if patient else asyncio.shield(request.connection.start(work)))
        if isinstance(done[0], Exception):
            raise done[0]
        return done[0]

    return serve


async def _done(work: Awaitable[Any], done: list[Response | Exception]) -> None:
    """Performs a request; `done` gets the answer, or a defect."""
    try:
        result = await work
        done.append(data({} if result is None else result))
    except ConductorError as error:
        done.append(refused(error))
    except Exception as defect:
        done.append(defect)


def refused(error: ConductorError) -> Response:
    """The refusal of a request: 409 for a fault of the page, 502 for a fault of the chain."""
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

    return Route("/api/pause", taking(_Switch, MOST_BODY, act, patient=True), "POST")
