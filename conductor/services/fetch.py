"""`fetch`: HTTP to the places a component was granted, and nowhere else.

A name is looked up once; every address it has must be public (unless the grant itself names a
private address), and the connection goes to the checked address, so a name cannot change its
meaning in between. Redirects are followed only as far as the grants go. Proxy settings, cookies
and credentials of the user's are not used. A socket of this machine, `unix:PATH`, is reached only
if a grant names it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import functools
import os
import re
import socket
import ssl
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

import anyio
import httpcore2 as httpcore
import msgspec

from conductor.core import json_text
from conductor.core.policy.scopes import (
    METHODS,
    READING,
    UNIX,
    Destination,
    destinations,
    is_public,
    socket_path,
)
from conductor.services.calls import Grantee, ServiceError, bad_params, read
from conductor.services.files import content
from conductor.transports.remote.in_pieces import InPieces

BODY_BYTES: Final = 16 * 1024 * 1024
_BODY: Final = 1024 * 1024
_TIMEOUT_MS: Final = 60_000
_REDIRECTS: Final = 5
_LOOKUPS: Final = 4
"""Names that are looked up at a time for one component, as many as its requests at a time."""
_HEADER_BYTES: Final = 64 * 1024
_MOVED: Final = frozenset({301, 302, 303, 307, 308})

_OURS: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers that belong to the connection, so a component cannot set them."""

_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[\t -~]*")
_URL: Final = re.compile(r"[!-~]+")
_PRINTED: Final = "".join(map(chr, range(0x21, 0x7F)))

_AGENT: Final = ("User-Agent", "conductor")
"""Sent where the component sets none: some servers refuse requests without it."""

_BEHIND_SOCKETS: Final = "http://localhost"
"""The begin of URLs for a server that listens at a socket."""

_SECRET: Final = frozenset({"authorization", "cookie"})
"""Headers that a redirect to another host must not carry there."""


class _Params(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    url: str
    method: str = "GET"
    headers: msgspec.Raw = msgspec.Raw(b"{}")
    text: str | None = None
    base64: str | None = None
    max_bytes: int = _BODY
    timeout_ms: int = 10_000


class _Request(msgspec.Struct, frozen=True):
    url: str
    method: str
    headers: list[tuple[str, str]]
    body: bytes | None
    socket: str = ""
    """The path of a socket of this machine that takes the request; empty: no socket does."""

    @property
    def shown(self) -> str:
        """The target of the request, as the component has named it."""
        if not self.socket:
            return self.url
        return f"{UNIX}:{self.socket}:{self.url.removeprefix(_BEHIND_SOCKETS)}"


class _Pinned(httpcore.AsyncNetworkBackend):
    """Connects to an address that was looked at before."""

    def __init__(self, component: str, *, private: bool) -> None:
        self._component = component
        self._private = private
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Looks the name up, refuses private addresses, and connects to the first that answers."""
        try:
            answers = await _looked_up(self._component, host, port)
        except OSError as error:
            raise ServiceError("unreachable", f"{host}: {error}") from None
        addresses = [str(entry[4][0]) for entry in answers]
        closed = [address for address in addresses if not is_public(address)]
        if closed and not self._private:
            text = f"{host} leads to {closed[0]}, an address of this machine or its network"
            raise ServiceError("private", text)
        *others, last = dict.fromkeys(addresses)
        for address in others:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._connect(address, port, timeout, local_address, socket_options)
        return await self._connect(last, port, timeout, local_address, socket_options)

    async def _connect(self, *to: Any) -> httpcore.AsyncNetworkStream:
        return InPieces(await self._inner.connect_tcp(*to))

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to a socket that has this path itself: no part of it is a link."""
        real = await anyio.to_thread.run_sync(os.path.realpath, path)
        if real != path:
            text = f"{path} leads to {real}\nhint: allow that: `,allow=web:{UNIX}:{real}`"
            raise ServiceError("not-granted", text)
        try:
            kind = os.lstat(path).st_mode
        except OSError as error:
            raise ServiceError("unreachable", f"{path}: {error.strerror}") from None
        if not stat.S_ISSOCK(kind):
            raise ServiceError("unreachable", f"{path}: is no socket")
        return InPieces(await self._inner.connect_unix_socket(path, timeout, socket_options))


async def _looked_up(component: str, host: str, port: int) -> list[Any]:
    """The addresses of a name. Raises `OSError`."""
    find = functools.partial(socket.getaddrinfo, host.encode(), port, type=socket.SOCK_STREAM)
    return await asyncio.get_running_loop().run_in_executor(_threads(component), find)


@functools.cache
def _threads(component: str) -> ThreadPoolExecutor:
    """The threads that look names up for a component.

    Nothing ends a lookup whose request is over, so a name that nobody answers for keeps its thread.
    """
    return ThreadPoolExecutor(_LOOKUPS, "lookup")


@functools.cache
def trusted_context() -> ssl.SSLContext:
    """The certificates this machine trusts. Read once: it blocks the event loop for a while."""
    return ssl.create_default_context()


async def fetch(grantee: Grantee, params: bytes | None) -> object:
    """Performs one HTTP request of a component; a program may reach every address.

    Raises `ServiceError`.
    """
    call = read(params, _Params)
    request = _checked(call)
    try:
        with anyio.fail_after(call.timeout_ms / 1000):
            return await _follow(grantee, request, call.max_bytes)
    except TimeoutError:
        raise ServiceError("timeout", f"no answer within {call.timeout_ms} ms") from None
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
        what = str(error) or type(error).__name__
        raise ServiceError("unreachable", f"{request.shown}: {what}") from None
    except (OSError, ssl.SSLError) as error:
        raise ServiceError("unreachable", f"{request.shown}: {error}") from None


def _checked(call: _Params) -> _Request:
    if call.method not in METHODS:
        raise bad_params(f"method must be one of {', '.join(sorted(METHODS))}")
    if not 1 <= call.max_bytes <= BODY_BYTES or not 1 <= call.timeout_ms <= _TIMEOUT_MS:
        raise bad_params(f"maxBytes must be 1 to {BODY_BYTES}, timeoutMs 1 to {_TIMEOUT_MS}")
    if call.text is not None and call.base64 is not None:
        raise bad_params("a body is text or base64, not both")
    body = None if call.text is None else json_text.utf8(call.text)
    if call.base64 is not None:
        try:
            body = base64.b64decode(call.base64, validate=True)
        except ValueError as error:
            raise bad_params(f"base64: {error}") from None
    if memoryview(call.headers).nbytes > _HEADER_BYTES:
        raise bad_params(f"headers have at most {_HEADER_BYTES:,} bytes")
    chosen = read(bytes(call.headers), dict[str, str])
    for name, value in chosen.items():
        if name.lower() in _OURS:
            raise bad_params(f"the header `{name}` cannot be set")
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise bad_params(f"the header `{name}` is not plain ASCII on one line")
    headers = list(chosen.items())
    if not any(name.lower() == "user-agent" for name in chosen):
        headers.append(_AGENT)
    socket, url = _split(call.url)
    return _Request(url, call.method, headers, body, socket)


def _split(url: str) -> tuple[str, str]:
    """The socket that a URL begins with, `unix:PATH:/v1/data`, and the URL to request there."""
    if not url.startswith(f"{UNIX}:"):
        return "", url
    path, _, rest = url.removeprefix(f"{UNIX}:").partition(":")
    if rest and not rest.startswith("/"):
        raise bad_params(f"`{url}` has no path behind its socket: unix:PATH:/PATH")
    try:
        return socket_path(path), _BEHIND_SOCKETS + (rest or "/")
    except ValueError as error:
        raise bad_params(str(error)) from None


async def _follow(grantee: Grantee, request: _Request, most: int) -> object:
    for _ in range(_REDIRECTS + 1):
        status, headers, body, truncated = await _once(grantee, request, most)
        target = next((value for name, value in headers if name == "location"), None)
        if status not in _MOVED or target is None:
            return {
                "status": status,
                "url": request.shown,
                "headers": _joined(headers),
                "truncated": truncated,
                **content(body),
            }
        target = quote(target.encode("latin-1"), safe=_PRINTED)  # some servers do not escape it
        try:
            request = _redirected(request, status, urljoin(request.url, target))
        except ValueError:
            raise ServiceError("redirects", f"`{target}` is no URL to redirect to") from None
    raise ServiceError("redirects", f"more than {_REDIRECTS} redirects")


async def _once(
    grantee: Grantee, request: _Request, most: int
) -> tuple[int, list[tuple[str, str]], bytes, bool]:
    places = None if grantee.grants is None else destinations(grantee.grants)
    private = _allowed(places, request)
    body = bytearray()
    async with httpcore.AsyncConnectionPool(
        ssl_context=None if request.socket else trusted_context(),
        network_backend=_Pinned(grantee.name, private=private),
        uds=request.socket or None,
    ) as pool:
        headers = [("Host", urlsplit(request.url).netloc), *request.headers]
        async with pool.stream(
            request.method, request.url, headers=headers, content=request.body
        ) as response:
            async for chunk in response.aiter_stream():
                body += chunk
                if len(body) > most:
                    break
            received = [
                (name.decode("latin-1").lower(), value.decode("latin-1"))
                for name, value in response.headers
            ]
    return response.status, received, bytes(body[:most]), len(body) > most


def _allowed(places: tuple[Destination, ...] | None, request: _Request) -> bool:
    """Whether the grant names a private address. Raises `ServiceError` if there is no grant."""
    try:
        parts = urlsplit(request.url)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (KeyError, ValueError):
        raise bad_params(f"`{request.url}` is no http or https URL") from None
    host = parts.hostname
    if not host or "@" in parts.netloc or not host.isascii():
        raise bad_params(f"`{request.url}` names no plain host")
    if not _URL.fullmatch(request.url):
        raise bad_params(f"`{request.url}` is not plain ASCII: write other characters as %XX")
    if places is None:  # of a program, which has the machine anyway
        return True
    if request.socket:
        where, shown = (UNIX, request.socket, 0), f"{UNIX}:{request.socket}"
    else:
        where, shown = (parts.scheme, host, port), _place(parts.scheme, host, port)
    fitting = [place for place in places if place.covers(*where)]
    method = "" if request.method in READING else f"{request.method}@"
    if not fitting:
        place = shown if request.socket else f"{parts.scheme}://{_bracketed(host)}:{port}"
        raise _refused(place, f"web:{method}{shown}")
    if not any(request.method in place.methods for place in fitting):
        raise _refused(f"{request.method} to {shown}", f"web:{request.method}@{shown}")
    return any(place.private for place in fitting)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _place(scheme: str, host: str, port: int) -> str:
    """A place as a grant names it."""
    shown = _bracketed(host) if scheme == "https" else f"{scheme}://{_bracketed(host)}"
    return shown if port == {"http": 80, "https": 443}[scheme] else f"{shown}:{port}"


def _refused(what: str, grant: str) -> ServiceError:
    text = f"{what} is not among the addresses granted\nhint: `,allow={grant}` lets it"
    return ServiceError("not-granted", text)


def _redirected(request: _Request, status: int, url: str) -> _Request:
    before, after = urlsplit(request.url), urlsplit(url)
    headers = request.headers
    if request.socket and (before.scheme, before.netloc) != (after.scheme, after.netloc):
        raise ServiceError("redirects", f"{request.shown} redirects away from its socket")
    if (before.scheme, before.netloc) != (after.scheme, after.netloc):
        headers = [header for header in headers if header[0].lower() not in _SECRET]
    if status == 303 or (status in (301, 302) and request.method == "POST"):
        headers = [header for header in headers if header[0].lower() != "content-type"]
        method = "HEAD" if request.method == "HEAD" else "GET"
        return _Request(url, method, headers, None, request.socket)
    return _Request(url, request.method, headers, request.body, request.socket)


def _joined(headers: list[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
