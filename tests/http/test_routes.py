"""Which function answers which path."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from conductor.http.request import Request, Response
from conductor.http.routes import Answer, Route, Routes


def answering(name: str) -> Answer:
    """Answers with a name, and with the parts of the path."""

    async def answer(request: Request) -> Response:
        return Response(f"{name} {dict(request.parts)}".encode())

    return answer


ROUTES = Routes(
    [
        Route("/", answering("root")),
        Route("/turn/{number:int}", answering("turn")),
        Route("/turn/new", answering("new"), "POST"),
        Route("/{name}", answering("file")),
    ],
    lambda status, why: Response(why.encode(), status),
)


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("GET", "/", 200, "root {}"),
        ("HEAD", "/turn/12", 200, "turn {'number': '12'}"),
        ("POST", "/turn/new", 200, "new {}"),
        ("GET", "/turn/new", 405, "methods are: POST"),
        ("DELETE", "/turn/3", 405, "methods are: GET"),
        ("GET", "/turn/٣", 404, "there is nothing here"),
        ("GET", "/turn/9999999999", 404, "there is nothing here"),
        ("GET", "/a.js", 200, "file {'name': 'a.js'}"),
        ("GET", "/a/b", 404, "there is nothing here"),
        ("GET", "//", 404, "there is nothing here"),
        ("GET", "", 404, "there is nothing here"),
    ],
)
def test_the_first_route_that_fits_answers(method: str, path: str, status: int, said: str) -> None:
    request: Any = SimpleNamespace(method=method, path=path, parts={})
    response = asyncio.run(ROUTES.answer(cast("Request", request)))
    assert (response.status, response.body.decode()) == (status, said)
