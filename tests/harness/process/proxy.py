"""A proxy of HTTP for tests: it knows one host, `chains.example`, whatever the DNS says."""

import re
import socket
import threading
from typing import Self

HOST = "chains.example"
_WHOLE = re.compile(rb"(?<=[A-Z]) http://[^/ ]+/")
"""The beginning of a request to a proxy; a request to a server names no host there."""


class Proxy:
    """Carries each connection that asks for `chains.example` to a port of this machine."""

    def __init__(self, port: int, login: str = "", *, tunnels: bool = True) -> None:
        """`login`: what the header of a login has to hold. `tunnels`: whether to any port, else to
        443 alone."""
        self._to, self._login, self._tunnels = port, login, tunnels
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.asked: list[str] = []
        """The first line of each connection."""

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    @property
    def url(self) -> str:
        """The address of the proxy, as variables name it."""
        return f"127.0.0.1:{self.port}"

    def _run(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            more = near.recv(65536)
            if not more:
                return
            head += more
        first = head.split(b"\r\n", 1)[0].decode()
        self.asked.append(first)
        if self._login and f"Proxy-Authorization: {self._login}".encode() not in head:
            near.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            near.close()
            return
        assert HOST in first
        is_tunnel = first.startswith("CONNECT ")
        if is_tunnel and not self._tunnels and ":443 " not in first:
            near.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            near.close()
            return
        with near, socket.create_connection(("127.0.0.1", self._to)) as far:
            if is_tunnel:
                near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                far.sendall(_WHOLE.sub(b" /", head))
            back = threading.Thread(target=_carry, args=(far, near), daemon=True)
            back.start()
            _carry(near, far)
            back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(_WHOLE.sub(b" /", data))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass
