"""Downloads within bounds: bytes, time and redirects, `https` only, but for this machine itself.

A server may drip, lie about a length or redirect in a circle: `get` ends in time with an answer or
one error. The content is held in memory until its digest has been checked.
Commands that fetch nothing load this module for its rules: a request loads the library for HTTP.
"""

from __future__ import annotations

import functools
import re
import ssl
import time
import urllib.request
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from conductor.core.policy.scopes import is_public
from conductor.errors import ConductorError, UsageError, one_line, visible_path
from conductor.version import version

if TYPE_CHECKING:
    import httpcore2 as httpcore

MOST: Final = 64 * 1024 * 1024
"""The most bytes of a download."""

SECONDS: Final = 300.0
"""The longest time of a download, with all its redirects."""

IDLE: Final = 60.0
"""The longest silence of a server."""

_REDIRECTS: Final = 5
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_READING: Final = ("GET", "HEAD")
OK: Final = 200
_URL: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_LOOPBACK: Final = re.compile(r"127(?:\.\d{1,3}){3}|localhost|\[?::1\]?", re.ASCII | re.IGNORECASE)
_ADDRESS: Final = re.compile(r".*:.*|(?:.*\.)?(?:\d+|0x[0-9a-f]*|localhost)\.?", re.IGNORECASE)
"""A host that names a machine by its number, in any spelling, or this machine."""

_LOGIN: Final = re.compile(r"://[^/@:\[]+:(?!\d+/)[^@]*@|(?<!ssh)://[^/@]*@")
"""A user or a password in a URL. A user with a password may hold any character."""

_MIB: Final = 1024 * 1024


class Answer(msgspec.Struct, frozen=True):
    """The answer of a server."""

    status: int
    headers: list[tuple[str, str]]
    """Names in small letters."""
    content: bytes
    url: str
    """The URL of the content, after redirects."""
    is_outside: bool = False
    """Whether the answer came from the public internet, and through no proxy."""

    def header(self, name: str) -> str:
        """The first header of this name; empty if there is none."""
        return next((value for key, value in self.headers if key == name), "")


class _Request(msgspec.Struct, frozen=True):
    """The request that is sent, wherever redirects lead."""

    method: str
    headers: dict[str, str]
    body: bytes | None = None


class DownloadError(ConductorError):
    """A download has failed. Nothing of it was kept."""


class UnreachableError(DownloadError):
    """A server, or the network, does not do its work now: the same may succeed later."""


class _Outside:
    """The network of a pool. It says nothing to an address of this machine or its network, whatever
    address a name has now."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects, and closes if the address is inside. Raises `DownloadError`."""
        import httpcore2 as httpcore

        inner = httpcore.AnyIOBackend()
        stream = await inner.connect_tcp(host, port, timeout, local_address, socket_options)
        address = stream.get_extra_info("server_addr")[0]
        if is_public(address):
            return stream
        await stream.aclose()
        raise DownloadError(
            f"a server elsewhere sends us to {host}, which is {address}, an address of this "
            "machine or its network",
            _MOVE,
        )


def refuse_login(url: str) -> None:
    """Raises `UsageError` for a URL with a user or a password, and shows neither."""
    if _LOGIN.search(url):
        raise UsageError("a URL with a user or a password in it would be kept", "leave them out")


def checked(url: str) -> str:
    """The URL itself. Raises `UsageError` unless it is `https` to a plain host; `http` is
    for servers of this machine."""
    refuse_login(url)
    if not _URL.fullmatch(url):
        raise UsageError(f"`{visible_path(url)}` is no URL", "write other characters as %XX")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"`{url}` is no URL: {error}", "check its host and port") from None
    host = parts.netloc.removesuffix(f":{port}") if port is not None else parts.netloc
    if not _HOST.fullmatch(host) or port == 0:
        raise UsageError(f"`{url}` is no URL with a host", "as in `https://example.com/proxy.wasm`")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise UsageError(
            f"`{url}` is not `https`", "`http` is only for servers of this machine (127.0.0.1)"
        )
    return url


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def is_loopback(host: str) -> bool:
    """Whether a host, as a URL has it, is this machine."""
    return _LOOPBACK.fullmatch(host) is not None


def get(url: str, *, most: int = MOST) -> bytes:
    """The content at a URL, redirects followed. Raises the errors of `send`, and an error for any
    other status than 200."""
    answer = send("GET", url, most=most)
    if answer.status != OK:
        raise DownloadError(f"{answer.url} answered with status {answer.status}", "check the URL")
    return answer.content


def send(
    method: str,
    url: str,
    body: bytes | None = None,
    *,
    most: int = MOST,
    until: float | None = None,
    headers: Mapping[str, str] | None = None,
    outside: bool = False,
) -> Answer:
    """The answer to a request, whatever its status; redirects of `GET` and `HEAD` are followed.

    Args:
        method: Such as `GET`.
        url: Held to the rules of `checked`, as each redirect is.
        body: The content of the request.
        most: Bytes of its content.
        until: The value of `time.monotonic` at which it has taken too long; None: in `SECONDS`.
        headers: Sent with the request; to another host than the URL's no `Authorization`.
        outside: A server of the public internet named the URL: the request goes to the public
            internet or nowhere, and so does each redirect of such a server.

    Raises:
        UsageError: The URL is refused.
        DownloadError: Anything else.
    """
    import anyio
    import httpcore2 as httpcore

    end = time.monotonic() + SECONDS if until is None else until

    async def within() -> Answer:
        with anyio.fail_after(max(0.0, end - time.monotonic())):
            return await _follow(_Request(method, dict(headers or {}), body), url, most, outside)

    try:
        return anyio.run(within)
    except TimeoutError:
        raise UnreachableError(f"{url} did not arrive in time", "try again later") from None
    except httpcore.TimeoutException:
        raise UnreachableError(f"{url} is silent: no byte for {IDLE:g} s", _AGAIN) from None
    except httpcore.ProtocolError as error:
        why = one_line(error) or type(error).__name__
        raise UnreachableError(
            f"{url} broke off, or its server speaks no HTTP: {why}", _AGAIN
        ) from None
    except (
        httpcore.NetworkError,
        httpcore.ProxyError,
        OSError,
    ) as error:
        why = one_line(error) or type(error).__name__
        raise UnreachableError(f"{url} cannot be reached: {why}", _AGAIN) from None


_AGAIN: Final = "check the URL and your network, then try again; installed components work offline"


async def _follow(request: _Request, url: str, most: int, outside: bool) -> Answer:
    at = checked(url)
    for _ in range(_REDIRECTS + 1):
        answer = await _once(request, at, most, outside)
        outside = outside or answer.is_outside
        target = answer.header("location")
        if answer.status not in _MOVED or not target or request.method not in _READING:
            return answer
        try:
            there = urljoin(at, target)
        except ValueError:
            there = target
        if urlsplit(at).scheme == "https" and not there.startswith("https://"):
            raise DownloadError(
                f"{url} redirects to `{one_line(there)}`, which is not https", _MOVE
            )
        try:
            checked(there)
        except UsageError as error:
            raise DownloadError(f"{url} redirects elsewhere: {error.text}", _MOVE) from None
        refuse_inward(at, there)
        if urlsplit(there).netloc != urlsplit(at).netloc:
            kept = {k: v for k, v in request.headers.items() if k.lower() != "authorization"}
            request = msgspec.structs.replace(request, headers=kept)
        at = there
    raise DownloadError(f"{url} redirects more than {_REDIRECTS} times", _MOVE)


def refuse_inward(at: str, there: str) -> None:
    """Raises `DownloadError` where a server elsewhere sends us to this machine, or to one by its
    number, which may be of this network: such a server has no name that others know."""
    if is_loopback(_host(at)) or _host(there) == _host(at) or not _ADDRESS.fullmatch(_host(there)):
        return
    raise DownloadError(f"{at} redirects to this machine, or to a bare address", _MOVE)


_MOVE: Final = "take the URL that its own page names"


async def _once(request: _Request, url: str, most: int, outside: bool) -> Answer:
    sent = {"User-Agent": f"conductor/{version()}", "Accept": "*/*", **request.headers}
    if request.body is not None:
        sent["Content-Length"] = str(len(request.body))
    host = urlsplit(url).netloc
    async with (
        _pool(url, outside) as pool,
        pool.stream(
            request.method,
            url,
            headers=[("Host", host), *sent.items()],
            content=request.body,
            extensions={"timeout": dict.fromkeys(("connect", "read", "write", "pool"), IDLE)},
        ) as response,
    ):
        received = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in response.headers
        ]
        is_outside = is_public(
            response.extensions["network_stream"].get_extra_info("server_addr")[0]
        )
        if response.status in _MOVED:
            return Answer(response.status, received, b"", url, is_outside)
        content = bytearray()
        async for piece in response.aiter_stream():
            content += piece
            if len(content) > most:
                size = f"{most // _MIB} MiB" if most >= _MIB else f"{most:,} bytes"
                raise DownloadError(f"{url} is larger than {size}", "that is no component")
        return Answer(response.status, received, bytes(content), url, is_outside)


def _pool(url: str, outside: bool) -> Any:
    """The pool of connections: direct, or through the proxy that the environment names."""
    import httpcore2 as httpcore

    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme, "")
    host = parts.hostname or ""
    if not proxy or is_loopback(host) or urllib.request.proxy_bypass(host):
        network: Any = _Outside() if outside else None
        return httpcore.AsyncConnectionPool(ssl_context=_context(), network_backend=network)
    named = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    auth = None
    if named.username is not None:
        auth = (named.username, named.password or "")
    where = f"{named.scheme}://{named.netloc.rpartition('@')[2]}"
    if named.scheme not in ("http", "https"):
        raise DownloadError(f"the proxy {where} is of another kind than http", "set `https_proxy`")
    own = _context() if named.scheme == "https" else None
    return httpcore.AsyncHTTPProxy(
        where, proxy_auth=auth, ssl_context=_context(), proxy_ssl_context=own
    )


@functools.cache
def _context() -> ssl.SSLContext:
    """The certificates that this machine trusts (`SSL_CERT_FILE` names others)."""
    return ssl.create_default_context()
