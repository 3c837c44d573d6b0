"""The proxy on the way to an address, by the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY: a
tunnel through it. Requests for `http://` go to it as they are: many proxies tunnel to 443 alone.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from conductor.transports.remote import failures, sockets
from conductor.transports.remote.address import Address

_MOST: Final = 16 * 1024
"""Bytes of the answer of a proxy."""
_END: Final = b"\r\n\r\n"
_HINT: Final = "check the variables HTTPS_PROXY and HTTP_PROXY; NO_PROXY names hosts without one"


class Proxy(NamedTuple):
    """A proxy; its login, if there is any, is the value of a header."""

    host: str
    port: int
    login: str = ""

    def __str__(self) -> str:
        """The proxy without its login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the proxy gets with a request."""
        return {"Proxy-Authorization": self.login} if self.login else {}


async def connected(address: Address) -> socket.socket:
    """A socket to an address, through its proxy if it has one; for `http://` to the proxy.

    Raises:
        OSError: Nobody listens at the address.
        LinkError: The proxy does not let us through.
    """
    proxy = of(address)
    if proxy is None:
        return await sockets.connected(address.host, address.port)
    try:
        connection = await sockets.connected(proxy.host, proxy.port)
    except (OSError, TimeoutError) as error:
        raise failed(address, f"its proxy {proxy} does not answer ({_why(error)})") from None
    if address.scheme == "http":
        return connection
    try:
        await _tunnel(connection, proxy, address)
    except BaseException:
        connection.close()
        raise
    return connection


def of(address: Address) -> Proxy | None:
    """The proxy of an address; None: the address has no proxy. Raises `LinkError`."""
    if address.is_local or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib import request  # few have a proxy, and it loads much

    proxies = request.getproxies_environment()
    url = proxies.get("https" if address.has_tls else "http") or proxies.get("all")
    if not url or request.proxy_bypass(f"{address.host}:{address.port}"):
        return None
    try:
        split = urlsplit(url if "://" in url else f"http://{url}")
        host, port = split.hostname, split.port or 80
    except ValueError:
        host, split = None, urlsplit("http:")
    if split.scheme != "http" or not host:
        raise failed(address, "the proxy that its variable names is none of `http://HOST:PORT`")
    login = ""
    if split.username is not None:
        pair = f"{unquote(split.username)}:{unquote(split.password or '')}".encode()
        login = f"Basic {base64.b64encode(pair).decode()}"
    return Proxy(host, port, login)


def failed(address: Address, why: str) -> failures.LinkError:
    """The error for a way that ends at a proxy."""
    data: dict[str, object] = {"address": str(address)}
    return failures.LinkError(f"cannot reach {address}: {why}", _HINT, data, is_final=False)


async def _tunnel(connection: socket.socket, proxy: Proxy, address: Address) -> None:
    """Has a proxy carry everything from now on. Raises `LinkError`."""
    loop = asyncio.get_running_loop()
    host = f"[{address.host}]" if ":" in address.host else address.host
    place = f"{host}:{address.port}"
    headers = {"Host": place, **proxy.headers}.items()
    lines = [f"CONNECT {place} HTTP/1.1", *(f"{name}: {value}" for name, value in headers), "", ""]
    head = b""
    try:
        await loop.sock_sendall(connection, "\r\n".join(lines).encode())
        while _END not in head and len(head) < _MOST:
            more = await loop.sock_recv(connection, _MOST)
            if not more:
                break
            head += more
    except OSError as error:
        raise failed(address, f"its proxy {proxy} broke off ({_why(error)})") from None
    answered = re.match(rb"HTTP/1\.[01] (\d{3})", head)
    if answered is None or not head.endswith(_END):
        raise failed(address, f"the server at {proxy} is no proxy")
    if answered[1] == b"407":
        raise failed(address, f"its proxy {proxy} wants a login, as in http://USER:PASSWORD@HOST")
    if not answered[1].startswith(b"2"):
        status = answered[1].decode()
        raise failed(address, f"its proxy {proxy} lets nobody through: HTTP status {status}")


def _why(error: OSError | TimeoutError) -> str:
    return getattr(error, "strerror", None) or "no answer in time"
