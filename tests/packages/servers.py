"""Servers of this machine for the tests of sources: honest ones, and others that lie."""

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

Answerer = Callable[[socket.socket, str], None]
"""Answers one request for a path; the connection ends when it returns."""


def answer(content: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A whole answer of a server."""
    named = {"Content-Length": str(len(content)), **headers}
    lines = [f"HTTP/1.1 {status}", *(f"{k.replace('_', '-')}: {v}" for k, v in named.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


class Server:
    """A server on loopback. `asked`: the paths it was asked for, in their order."""

    def __init__(self, answerer: Answerer, context: ssl.SSLContext | None = None) -> None:
        self._answerer = answerer
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.asked: list[str] = []
        self.heads: list[bytes] = []
        self._threads = [threading.Thread(target=self._serve, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        """The address of the server."""
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            thread = threading.Thread(target=self._one, args=[connection], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _one(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(self._open.discard, connection)
            stack.callback(connection.close)
            if self._context is not None:
                connection = stack.enter_context(
                    self._context.wrap_socket(connection, server_side=True)
                )
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(65536)
                if not piece:
                    return
                head += piece
            self.heads.append(head)
            self.asked.append(head.split()[1].decode())
            self._answerer(connection, self.asked[-1])


def serving(files: Mapping[str, bytes], context: ssl.SSLContext | None = None) -> Server:
    """An honest server of these files, by path."""

    def one(connection: socket.socket, path: str) -> None:
        content = files.get(path)
        connection.sendall(answer(b"", "404 Not Found") if content is None else answer(content))

    return Server(one, context)


@contextlib.contextmanager
def overheard() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and the words of its first client there, if there are any."""
    heard: list[bytes] = []

    def listen() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                heard.extend(filter(None, [connection.recv(65536)]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=listen)
        thread.start()
        yield listener.getsockname()[1], heard
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def forever(connection: socket.socket, first: bytes, piece: bytes) -> None:
    """Sends something, then a piece again and again until nobody takes it."""
    with contextlib.suppress(OSError):
        connection.sendall(first)
        while True:
            connection.sendall(piece)


@contextlib.contextmanager
def certified(folder: Path) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """The context of a server on 127.0.0.1, and the file with the certificate to trust."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    yield context, public
