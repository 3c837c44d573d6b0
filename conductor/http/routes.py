"""Which function answers which path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from conductor.http.request import Request, Response

_DIGITS: Final = 10

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Makes the answer to a request."""


class Route(NamedTuple):
    """A path, and the function that answers it.

    A part of the path in braces (`/file/{name}`) stands for any part that is not empty, a part like
    `{number:int}` for a number below a billion; the request's `parts` have it.
    """

    path: str
    answer: Answer
    method: str = "GET"


class Routes:
    """A table of routes, of which the first that fits counts."""

    def __init__(self, routes: Iterable[Route], failure: Callable[[int, str], Response]) -> None:
        """`failure` makes the answer that says why there is none."""
        self._routes = [(route, route.path.split("/")) for route in routes]
        self._failure = failure

    async def answer(self, request: Request) -> Response:
        """The answer to a request. HEAD is answered like GET."""
        given = request.path.split("/")
        method = "GET" if request.method == "HEAD" else request.method
        others: list[str] = []
        for route, wanted in self._routes:
            parts = _parts(wanted, given)
            if parts is not None and route.method == method:
                request.parts = parts
                return await route.answer(request)
            others += [route.method] * (parts is not None)
        if not others:
            return self._failure(404, "there is nothing here")
        refusal = self._failure(405, f"methods are: {', '.join(others)}")
        return Response(refusal.body, refusal.status, refusal.kind, (("allow", ", ".join(others)),))


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) < _DIGITS


def _parts(wanted: Sequence[str], given: Sequence[str]) -> dict[str, str] | None:
    """The parts of a path where a route has braces; None: the path does not fit."""
    if len(wanted) != len(given):
        return None
    parts: dict[str, str] = {}
    for want, part in zip(wanted, given, strict=True):
        name, _, kind = want[1:-1].partition(":")
        if want.startswith("{") and (_is_number(part) if kind else part):
            parts[name] = part
        elif want != part:
            return None
    return parts
