"""`conductor.telemetry.posting`: the answers of a collector that have no end."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import pytest
import requests

from conductor.telemetry import posting

_LITTLE: Final = 0.02


@contextmanager
def answering(begin: bytes, rest: bytes) -> Iterator[str]:
    """A server whose answers go on for as long as the test; its address."""
    over = threading.Event()

    def answer(client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(65536)
            client.sendall(begin)
            while not over.wait(_LITTLE):
                client.sendall(rest)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                threading.Thread(target=answer, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)


def test_a_body_without_an_end_is_not_read() -> None:
    session = posting.session()
    assert session is not None
    with answering(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\na\r\n") as url:
        assert session.post(url, timeout=5).content == b""


def test_a_head_without_an_end_ends_with_the_time() -> None:
    session = posting.session()
    assert session is not None
    with answering(b"HTTP/1.1 200 OK\r\na: ", b"a") as url:
        for words in ("has not answered", "has not ended an earlier answer"):
            with pytest.raises(requests.Timeout, match=words):
                session.post(url, timeout=0.2)


@pytest.mark.parametrize("status", [b"307", b"304", b"101"])
def test_only_2xx_is_a_success(status: bytes) -> None:
    session = posting.session()
    assert session is not None
    with (
        answering(b"HTTP/1.1 %b X\r\n\r\n" % status, b"") as url,
        pytest.raises(requests.RequestException, match=f"status {status.decode()}"),
    ):
        session.post(url, timeout=5, allow_redirects=False)


def test_a_session_of_the_user_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_PYTHON_EXPORTER_OTLP_HTTP_TRACES_CREDENTIAL_PROVIDER", "mine")
    assert posting.session() is None
