"""Downloads: the tricks of servers, and that each download ends in time with one error."""

import socket
import time
from pathlib import Path
from typing import Final

import pytest

from conductor.errors import UsageError
from conductor.packages import download
from conductor.packages.download import DownloadError
from tests.packages.servers import Answerer, Server, answer, certified, forever, overheard, serving
from tests.places import DEADLINE

MOST: Final = 1000


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_an_answer_and_its_redirects() -> None:
    with serving({"/there": b"content"}) as last:
        here = answer(b"gone", "302 Found", Location=f"{last.url}/there")
        with Server(lambda connection, _: connection.sendall(here)) as first:
            got = download.send("GET", f"{first.url}/x", headers={"Authorization": "Bearer secret"})
            assert (got.content, got.url, got.status) == (b"content", f"{last.url}/there", 200)
            assert b"secret" in first.heads[0]
        # The secret is for the first host only.
        assert b"secret" not in last.heads[0]


def test_a_relative_redirect() -> None:
    def one(connection: socket.socket, path: str) -> None:
        moved = answer(b"", "307 Temporary Redirect", Location="../there?x=1")
        connection.sendall(moved if path == "/a/b" else answer(path.encode()))

    with Server(one) as server:
        assert download.get(f"{server.url}/a/b") == b"/there?x=1"


def drip(connection: socket.socket, piece: bytes) -> None:
    """Sends byte after byte, so that no single read takes long."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
    for _ in range(800):
        connection.sendall(piece)
        time.sleep(0.05)


LIES: Final[dict[str, tuple[Answerer, str]]] = {
    "a body that never ends": (
        lambda c, _: forever(c, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100),
        "larger than 1,000 bytes",
    ),
    "a body that stops": (
        lambda c, _: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nshort"),
        "broke off",
    ),
    "a chunk that stops": (
        lambda c, _: c.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort"),
        "broke off",
    ),
    "a head that never ends": (
        lambda c, _: forever(c, b"HTTP/1.1 200 OK\r\n", b"X: yyyyyyyyyyy\r\n"),
        "broke off",
    ),
    "a length that is none": (
        lambda c, _: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nx"),
        "broke off",
    ),
    "a redirect in a circle": (
        lambda c, _: c.sendall(answer(b"", "302 Found", Location="/again")),
        "redirects more than 5 times",
    ),
    "a redirect to a file": (
        lambda c, _: c.sendall(answer(b"", "302 Found", Location="file:///etc/passwd")),
        "redirects elsewhere",
    ),
    "a redirect to nowhere": (
        lambda c, _: c.sendall(answer(b"", "302 Found", Location="http://[::1")),
        "redirects elsewhere",
    ),
    "a redirect to plain http": (
        lambda c, _: c.sendall(answer(b"", "302 Found", Location="http://example.com/")),
        "redirects elsewhere",
    ),
    "a redirect with a password": (
        lambda c, _: c.sendall(answer(b"", "302 Found", Location="https://a:b@example.com/")),
        "redirects elsewhere",
    ),
    "drips": (lambda c, _: drip(c, b"x"), "in time"),
    "hangs up": (lambda c, _: None, "broke off"),
    "no HTTP": (lambda c, _: c.sendall(b"220 smtp.example.com ready\r\n\r\n"), "broke off"),
    "says nothing": (lambda c, _: (c.recv(1), None)[1], "in time"),
    "status 404": (lambda c, _: c.sendall(answer(b"", "404 Not Found")), "status 404"),
    "status 500": (lambda c, _: c.sendall(answer(b"", "500 Oops")), "status 500"),
}


@pytest.mark.parametrize("lie", sorted(LIES))
def test_a_server_that_lies(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answerer, why = LIES[lie]
    monkeypatch.setattr(download, "SECONDS", 1.0 if why == "in time" else DEADLINE)
    with Server(answerer) as server, pytest.raises(DownloadError, match=why) as error:
        download.get(f"{server.url}/x", most=MOST)
    assert error.value.hint


def test_nobody_listens() -> None:
    with socket.socket() as held:  # and nobody else takes the port meanwhile
        held.bind(("127.0.0.1", 0))
        with pytest.raises(DownloadError, match="cannot be reached"):
            download.get(f"http://127.0.0.1:{held.getsockname()[1]}/x")


URLS: Final = {
    "a blank": "https://example.com/a b",
    "a control character": "https://example.com/\x1b[2J",
    "a file": "file:///etc/passwd",
    "a host with a dash": "https://-oProxyCommand/x",
    "a password": "https://user:word@example.com/x",
    "a port that is none": "https://example.com:99999/x",
    "a relative one": "example.com/x",
    "letters that look alike": "https://ex\u0430mple.com/x",
    "no host": "https:///x",
    "not loopback": "http://127.0.0.1.example.com/x",
    "plain http": "http://example.com/x",
    "port zero": "https://example.com:0/x",
}


@pytest.mark.parametrize("kind", sorted(URLS))
def test_a_url_that_is_not_asked(kind: str) -> None:
    with pytest.raises(UsageError):
        download.get(URLS[kind])


def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with certified(tmp_path) as (context, certificate), serving({"/x": b"content"}, context) as it:
        download._context.cache_clear()
        with pytest.raises(DownloadError, match="certificate"):
            download.get(f"{it.url}/x")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        download._context.cache_clear()
        assert download.get(f"{it.url}/x") == b"content"
    download._context.cache_clear()


def test_https_never_becomes_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with certified(tmp_path) as (context, certificate), serving({"/x": b"content"}) as plain:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        download._context.cache_clear()
        down = answer(b"", "302 Found", Location=f"{plain.url}/x")
        with (
            Server(lambda connection, _: connection.sendall(down), context) as server,
            pytest.raises(DownloadError, match="which is not https"),
        ):
            download.get(f"{server.url}/x")
        assert not plain.asked
    download._context.cache_clear()


def test_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is asked directly; for others the proxy counts, also a proxy that is not
    there."""
    with serving({"/x": b"content"}) as server, socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert download.get(f"{server.url}/x") == b"content"
    refusing = Server(lambda connection, _: connection.sendall(answer(b"", "403 Forbidden")))
    with refusing as proxy:
        monkeypatch.setenv("https_proxy", f"http://user:word@{proxy.url.removeprefix('http://')}")
        with pytest.raises(DownloadError, match="cannot be reached"):
            download.get("https://example.invalid/x")
        assert proxy.asked == ["example.invalid:443"]
        assert b"Basic " in proxy.heads[0] or b"basic " in proxy.heads[0].lower()


def test_a_redirect_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server elsewhere cannot have one of this machine asked."""
    asked: list[str] = []

    async def once(_request: object, url: str, _most: int, _outside: bool) -> download.Answer:
        asked.append(url)
        return download.Answer(302, [("location", "https://127.0.0.1/admin")], b"", url)

    monkeypatch.setattr(download, "_once", once)
    with pytest.raises(DownloadError, match="redirects to this machine"):
        download.get("https://example.com/x")
    assert asked == ["https://example.com/x"]


@pytest.mark.parametrize(
    "host", ["0x7f.1", "10.0.0.1", "127.1", "2130706433", "[::ffff:7f00:1]", "a.localhost"]
)
def test_a_redirect_to_a_bare_address(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    async def once(_request: object, url: str, _most: int, _outside: bool) -> download.Answer:
        return download.Answer(302, [("location", f"https://{host}/admin")], b"", url)

    monkeypatch.setattr(download, "_once", once)
    with pytest.raises(DownloadError, match="to a bare address"):
        download.get("https://example.com/x")


@pytest.mark.proves("a server of the internet sends")
def test_a_redirect_to_a_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a name means at the moment: not even TLS begins there."""
    once, look_up = download._once, socket.getaddrinfo

    async def from_outside(
        request: download._Request, url: str, most: int, outside: bool
    ) -> download.Answer:
        if url == "https://example.com/x":
            moved = [("location", f"https://inside.example:{port}/admin")]
            return download.Answer(302, moved, b"", url, is_outside=True)
        return await once(request, url, most, outside)

    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **more: look_up("127.0.0.1", *rest, **more)
    )
    monkeypatch.setattr(download, "_once", from_outside)
    with (
        overheard() as (port, heard),
        pytest.raises(DownloadError, match=r"inside\.example, which is 127\.0\.0\.1"),
    ):
        download.get("https://example.com/x")
    assert not heard


def test_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "IDLE", 0.1)

    def silent(connection: socket.socket, _path: str) -> None:
        connection.recv(1)  # until the other side goes

    with Server(silent) as server, pytest.raises(DownloadError, match="is silent"):
        download.get(f"{server.url}/x")
