"""Whom the headers of a request show."""

import pytest

from conductor.http.headers import Headers, misdirected, shows

NAMES = ("127.0.0.1", "localhost")


def headers(**values: str) -> Headers:
    """Headers, with `_` for `-`."""
    return Headers(
        (name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in values.items()
    )


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"host": "localhost:8"}, None),
        ({"host": "LOCALHOST:8", "origin": "http://127.0.0.1:8"}, None),
        ({"host": "localhost:9"}, 421),
        ({"host": "localhost"}, 421),
        ({"host": "evil.example:8"}, 421),
        ({"host": "localhost:8@evil.example"}, 421),
        ({}, 421),
        ({"host": "localhost:8", "origin": "http://127.0.0.1:9"}, 403),
        ({"host": "localhost:8", "origin": "https://localhost:8"}, 403),
        ({"host": "localhost:8", "origin": "null"}, 403),
    ],
)
def test_a_request_is_for_this_server_by_its_name(
    given: dict[str, str], status: int | None
) -> None:
    why = misdirected(headers(**given), NAMES, 8)
    assert (why and why[0]) == status


def test_a_header_that_decides_comes_once() -> None:
    twice = Headers([(b"host", b"localhost:8"), (b"x", b"1"), (b"x", b"2"), (b"host", b"evil")])
    assert misdirected(twice, NAMES, 8) == (400, "the header `host` came twice")
    once = Headers([(b"host", b"localhost:8"), (b"x", b"1"), (b"x", b"2")])
    assert misdirected(once, NAMES, 8) is None
    assert misdirected(once, NAMES, 8, ("x",)) == (400, "the header `x` came twice")
    assert once.get("x") == "1, 2"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Bearer secret", True),
        ("bearer  secret ", True),
        ("secret", False),
        ("Basic secret", False),
        ("Bearer secre", False),
        ("Bearer secrets", False),
        ("Bearer \xe9\xff", False),
        ("", False),
    ],
)
def test_a_secret_is_shown_whole(given: str, shown: bool) -> None:
    assert shows(headers(authorization=given), b"secret") is shown
    assert not shows(headers(authorization=given), None)


@pytest.mark.parametrize(
    ("accept", "takes"),
    [
        (None, True),
        ("application/json, text/event-stream", True),
        ("TEXT/*;q=0.1", True),
        ("text/event-stream\napplication/json", True),
        ("*/*", True),
        ("text/html", False),
        ("", False),
    ],
)
def test_what_a_client_accepts(accept: str | None, takes: bool) -> None:
    lines = [] if accept is None else accept.split("\n")
    given = Headers((b"accept", line.encode()) for line in lines)
    assert given.accepts("text/event-stream") is takes
