"""`fetch`: only to what was granted, however one tries to get elsewhere."""

import asyncio
import base64
import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore2 as httpcore
import msgspec
import pytest

from conductor.core.policy.scopes import destinations
from conductor.services.calls import ServiceError
from conductor.services.fetch import fetch, trusted_context
from tests.services.support import grantee


class Handler(BaseHTTPRequestHandler):
    """Answers with what it was asked; `/to?URL` redirects, `/slow` waits, `/big` is big."""

    def do_GET(self) -> None:
        """Serves every method."""
        server = self.server
        assert isinstance(server, Server)
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length).decode("latin-1")
        if self.path.startswith("/to?"):
            self.send_response(int(self.headers.get("x-status", "302")))
            self.send_header("Location", self.path.partition("?")[2].replace("E-ACUTE", "\xe9"))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/slow":
            server.released.wait(30)
        headers = dict(self.headers.items())
        seen = {"method": self.command, "path": self.path, "body": body, "headers": headers}
        server.seen.append(seen)
        answer = json.dumps(seen).encode()
        if self.path == "/big":
            answer = b"x" * 1_000_000
        if self.path == "/binary":
            answer = b"\xff\x00"
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-Two", "a")
        self.send_header("X-Two", "b")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the library's names

    def log_message(self, *args: object) -> None:
        """Says nothing."""


class Server(ThreadingHTTPServer):
    """A server on this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.released = threading.Event()
        self.seen: list[dict[str, Any]] = []

    @property
    def place(self) -> str:
        """The scheme, address and port of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as one:
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.released.set()
        one.shutdown()
        thread.join()


def get(grants: list[str] | None, url: str, **params: object) -> Any:
    """Makes one request of a component with these grants."""
    granted = None if grants is None else [f"web:{place}" for place in grants]
    return asyncio.run(fetch(grantee(grants=granted), msgspec.json.encode({"url": url, **params})))


def refusal(grants: list[str] | None, url: str, **params: object) -> ServiceError:
    """Why a request is refused."""
    with pytest.raises(ServiceError) as caught:
        get(grants, url, **params)
    return caught.value


def test_getting(server: Server) -> None:
    found = get([server.place], f"{server.place}/a?b=c", headers={"X-Mine": "1"})
    seen = json.loads(found["text"])
    assert (found["status"], found["truncated"], found["url"]) == (
        200,
        False,
        f"{server.place}/a?b=c",
    )
    assert found["headers"]["x-two"] == "a, b"
    assert (seen["method"], seen["path"], seen["headers"]["X-Mine"]) == ("GET", "/a?b=c", "1")


def test_it_says_who_asks_unless_the_component_does(server: Server) -> None:
    for given, said in (({}, "conductor"), ({"user-agent": "mine"}, "mine")):
        found = json.loads(get([server.place], server.place, headers=given)["text"])
        assert [v for k, v in found["headers"].items() if k.lower() == "user-agent"] == [said]


def test_of_several_addresses_one_that_answers_is_enough(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(host: str, port: int, **_: object) -> list[Any]:
        return [(2, 1, 6, "", (one, port)) for one in ("127.0.0.2", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    place = server.place.replace("127.0.0.1", "localhost")
    assert get([place], place)["status"] == 200


def test_a_program_reaches_every_address(server: Server) -> None:
    assert get(None, server.place)["status"] == 200


def test_posting(server: Server) -> None:
    granted = [f"POST@{server.place}", f"PUT@{server.place}"]
    assert json.loads(get(granted, server.place, method="POST", text="hé")["text"])["body"] == (
        "hé".encode().decode("latin-1")
    )
    body = base64.b64encode(b"\xff").decode()
    assert json.loads(get(granted, server.place, method="PUT", base64=body)["text"])["body"] == "ÿ"
    assert refusal(granted, server.place).reason == "not-granted"  # GET was not


def test_what_comes_back(server: Server) -> None:
    assert get([server.place], f"{server.place}/binary")["base64"] == "/wA="
    big = get([server.place], f"{server.place}/big", maxBytes=1000)
    assert (len(big["text"]), big["truncated"]) == (1000, True)


def test_it_waits_no_longer_than_asked(server: Server) -> None:
    assert refusal([server.place], f"{server.place}/slow", timeoutMs=100).reason == "timeout"


@pytest.mark.proves("HTTP goes to granted places only")
@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "http://127.0.0.1:1/",
        "http://127.0.0.2:{port}/",
        "http://localhost:{port}/",
        "http://[::1]:{port}/",
    ],
)
def test_elsewhere_is_not_granted(server: Server, url: str) -> None:
    port = server.server_address[1]
    wrong = refusal([server.place], url.replace("{port}", str(port)))
    assert wrong.reason == "not-granted"
    assert "hint: `,allow=web:" in wrong.text


@pytest.mark.parametrize(
    ("grant", "method", "url"),
    [
        ("a.org", "GET", "https://a.org/x"),
        ("a.org:8443", "HEAD", "https://a.org:8443/x"),
        ("http://a.org", "GET", "http://A.org/"),
        ("http://127.0.0.1:81", "GET", "http://127.0.0.1:81/"),
        ("http://[::1]:81", "GET", "http://[::1]:81/"),
        ("POST@a.org", "POST", "https://a.org/x"),
        ("PUT@http://a.org:81", "PUT", "http://a.org:81/x"),
    ],
)
def test_who_follows_the_hint_gets_there(grant: str, method: str, url: str) -> None:
    hint = f"hint: `,allow=web:{grant}` lets it"
    granted = destinations([f"web:{grant}"])[0]
    for others in (["b.org"], [f"DELETE@{grant.rpartition('@')[2]}"]):
        wrong = refusal(others, url, method=method)
        assert (wrong.reason, wrong.text.rpartition("\n")[2]) in (
            ("not-granted", hint),
            ("not-granted", hint.replace("web:", f"web:{method}@")),
        )
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    assert granted.covers(parts.scheme, parts.hostname or "", port)
    assert method in granted.methods


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a/",
        "x",
        "http://",
        "http://u:p@a/",
        "http://a:b/",
        "http://é/",
        "http://a/é",
        "http://a/a b",
    ],
)
def test_what_is_no_address(url: str) -> None:
    assert refusal(["a"], url).reason == "params"


@pytest.mark.proves("HTTP goes to granted places only")
def test_redirects_go_as_far_as_grants_do(server: Server) -> None:
    within = f"{server.place}/to?/there"
    assert json.loads(get([server.place], within)["text"])["path"] == "/there"
    assert refusal([server.place], f"{server.place}/to?http://127.0.0.1:1/").reason == "not-granted"
    assert refusal([server.place], f"{server.place}/to?/to?/to?/to?/to?/to?/to?/x").reason in (
        "redirects",
        "not-granted",
    )
    assert json.loads(get([server.place], f"{server.place}/to?/E-ACUTE")["text"])["path"] == "/%E9"


REDIRECTED: Final = {
    ("GET", 301): ("GET", "", True),
    ("GET", 303): ("GET", "", False),
    ("HEAD", 303): ("HEAD", "", False),
    ("POST", 301): ("GET", "", False),
    ("POST", 302): ("GET", "", False),
    ("POST", 303): ("GET", "", False),
    ("POST", 307): ("POST", "a", True),
    ("POST", 308): ("POST", "a", True),
    ("PUT", 301): ("PUT", "a", True),
    ("PUT", 302): ("PUT", "a", True),
    ("PUT", 303): ("GET", "", False),
}
"""The method, the body, and whether its type is still told, after a redirect."""


@pytest.mark.parametrize(("method", "status"), REDIRECTED)
def test_what_a_redirect_leaves_of_a_request(server: Server, method: str, status: int) -> None:
    granted = [f"{verb}@{server.place}" for verb in ("GET", "HEAD", "POST", "PUT")]
    headers = {"x-status": str(status), "Content-Type": "text/plain", "X-Mine": "1"}
    body = {"text": "a"} if method in ("POST", "PUT") else {}
    get(granted, f"{server.place}/to?/there", method=method, headers=headers, **body)
    seen = server.seen[-1]
    kept = (seen["method"], seen["body"], seen["headers"].get("Content-Type") == "text/plain")
    assert kept == REDIRECTED[method, status]
    assert (seen["path"], seen["headers"]["X-Mine"]) == ("/there", "1")


def test_redirects_that_lead_nowhere_end(server: Server) -> None:
    path = "/x"
    for _ in range(7):
        path = f"/to?{path}"
    for to in (path, "/to?http://[x", "/to?//["):  # a circle, and targets that are no URLs
        assert refusal([server.place], server.place + to).reason == "redirects"


def test_secrets_do_not_go_along_to_another_place(server: Server) -> None:
    with Server() as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        secret = {"Authorization": "Bearer x", "X-Plain": "y"}
        url = f"{server.place}/to?{other.place}/"
        found = get([server.place, other.place], url, headers=secret)
        other.shutdown()
        thread.join()
    headers = json.loads(found["text"])["headers"]
    assert "Authorization" not in headers
    assert headers["X-Plain"] == "y"


@pytest.mark.proves("HTTP goes to granted places only")
@pytest.mark.parametrize("place", ["*.example.com", "a.example.com"])
def test_a_public_name_may_not_lead_to_a_private_address(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def nearby(host: str, port: int, **_: object) -> list[Any]:
        return [(2, 1, 6, "", ("8.8.8.8", port)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", nearby)
    assert refusal([place], "https://a.example.com/").reason == "private"


@pytest.mark.proves("a name that resolves first to")
def test_a_name_that_changes_its_mind_is_connected_to_as_it_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = ["8.8.8.8", "127.0.0.1", "127.0.0.1"]
    reached: list[str] = []

    def rebound(host: str, port: int, **_: object) -> list[Any]:
        return [(2, 1, 6, "", (answers.pop(0), port))]

    async def connect(self: object, host: str, *_: object) -> Any:
        reached.append(host)
        raise httpcore.ConnectError("nobody there")

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    monkeypatch.setattr(httpcore.AnyIOBackend, "connect_tcp", connect)
    assert refusal(["a.example.com"], "https://a.example.com/").reason == "unreachable"
    assert (reached, len(answers)) == (["8.8.8.8"], 2)  # one look-up, and that is where it went
    assert refusal(["a.example.com"], "https://a.example.com/").reason == "private"
    assert reached == ["8.8.8.8"]


@pytest.mark.parametrize(
    "params",
    [
        {"method": "STEAL"},
        {"maxBytes": 0},
        {"timeoutMs": 10**9},
        {"text": "a", "base64": "YQ=="},
        {"base64": "?"},
        {"base64": "é"},
        {"headers": {"Host": "a"}},
        {"headers": {"X": "a\r\nY: b"}},
        {"headers": {"X": "é"}},
        {"headers": {"": "a"}},
        {"headers": {"X Y": "a"}},
        {"headers": {f"X-{number}": "" for number in range(10_000)}},
        {"headers": {"Content-Length": "5"}},
        {"follow": True},
    ],
)
def test_bad_params(params: dict[str, Any]) -> None:
    assert refusal(["a.org"], "https://a.org/", **params).reason == "params"


def test_nobody_there() -> None:
    assert refusal(["http://127.0.0.1:9"], "http://127.0.0.1:9/").reason == "unreachable"


def test_certificates_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading takes tens of milliseconds, in which nothing else is done for anybody."""
    read: list[ssl.SSLContext] = []
    whole = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        read.append(whole())
        return read[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    trusted_context.cache_clear()
    for _ in range(3):
        assert refusal(["http://127.0.0.1:9"], "http://127.0.0.1:9/").reason == "unreachable"
    assert len(read) == 1
    trusted_context.cache_clear()


class UnixServer(Server):
    """The same at a socket of this machine."""

    address_family = socket.AF_UNIX

    def __init__(self, path: str) -> None:
        ThreadingHTTPServer.__init__(self, path, Handler)  # type: ignore[arg-type]
        self.released, self.seen = threading.Event(), []

    def server_bind(self) -> None:
        """Binds, without looking a name up."""
        self.socket.bind(self.server_address)
        self.server_name, self.server_port = "localhost", 80

    def get_request(self) -> Any:
        """A connection; its address is written to logs."""
        return self.socket.accept()[0], ("local", 0)


@pytest.fixture(name="path")
def at_a_socket() -> Iterator[str]:
    """The path of a socket where `Handler` answers."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{os.path.realpath(folder)}/s"
        with UnixServer(path) as one:
            thread = threading.Thread(target=one.serve_forever, args=(0.01,))
            thread.start()
            yield path
            one.released.set()
            one.shutdown()
            thread.join()


def test_a_socket_of_this_machine(path: str) -> None:
    found = get([f"unix:{path}"], f"unix:{path}:/a?b=c")
    seen = json.loads(found["text"])
    assert (seen["path"], seen["headers"]["Host"]) == ("/a?b=c", "localhost")
    assert found["url"] == f"unix:{path}:/a?b=c"
    assert json.loads(get([f"unix:{path}"], f"unix:{path}")["text"])["path"] == "/"
    posted = get([f"POST@unix:{path}"], f"unix:{path}:/x", method="POST", text="hi")
    assert json.loads(posted["text"])["body"] == "hi"
    assert get([f"unix:{path}"], f"unix:{path}:/to?/b")["url"] == f"unix:{path}:/b"
    assert get([f"unix:{path}"], f"unix:{path}:/big", maxBytes=10)["truncated"]
    assert refusal([f"unix:{path}"], f"unix:{path}:/slow", timeoutMs=100).reason == "timeout"


@pytest.mark.proves("a proxy reaches a socket of this")
def test_a_socket_is_reached_only_by_its_own_name(path: str, server: Server) -> None:
    folder = os.path.dirname(path)
    os.symlink(path, f"{folder}/link")
    os.symlink(folder, f"{folder}/folder")
    for grants in (["http://localhost:80"], [], [f"unix:{folder}/other"], [server.place]):
        wrong = refusal(grants, f"unix:{path}:/a")
        assert (wrong.reason, wrong.text.rpartition("\n")[2]) == (
            "not-granted",
            f"hint: `,allow=web:unix:{path}` lets it",
        )
    assert refusal([f"unix:{path}"], f"unix:{path}", method="POST").reason == "not-granted"
    assert refusal([f"unix:{path}"], "http://localhost/a").reason == "not-granted"
    for link in (f"{folder}/link", f"{folder}/folder/s"):
        wrong = refusal([f"unix:{link}"], f"unix:{link}:/a")
        assert (wrong.reason, f"leads to {path}" in wrong.text) == ("not-granted", True)
    with open(f"{folder}/file", "w", encoding="ascii"):
        pass
    for name, why in (("file", "is no socket"), ("none", "No such file")):
        wrong = refusal([f"unix:{folder}/{name}"], f"unix:{folder}/{name}:/")
        assert (wrong.reason, why in wrong.text) == ("unreachable", True)
    both = [f"unix:{path}", server.place]
    assert refusal(both, f"unix:{path}:/to?{server.place}/a").reason == "redirects"
    assert refusal(both, f"{server.place}/to?unix:{path}:/a").reason == "params"


@pytest.mark.proves("a proxy reaches a socket of this")
@pytest.mark.parametrize(
    "url",
    ["unix:", "unix:s:/a", "unix:/a/../s:/a", "unix://a/s:/", "unix:/a//s:/", "unix:/s:a",
     "unix:/\0:/", "unix:/" + "a" * 107],
)  # fmt: skip
def test_what_names_no_socket(url: str) -> None:
    assert refusal(["unix:/s"], url).reason == "params"
