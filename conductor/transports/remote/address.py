"""Addresses: where a chain listens, or a component is reached. Pure; the start path may load it."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec

from conductor.errors import UsageError
from conductor.patterns import lazy_pattern

ENDPOINT: Final = "/acp"
"""The path of a URL that is written without a path, as in all SDKs."""


class Scheme(NamedTuple):
    """A kind of address: a row of `SCHEMES`."""

    form: str
    """As a user writes it."""
    transport: str
    """The class that carries lines there, and its module of `conductor.transports.remote`."""
    port: int = 0
    """The port of a URL that is written without a port; 0: the scheme has no usual port."""
    is_path: bool = False
    """Whether it names a file of this machine, and no host."""
    is_web: bool = False
    """Whether it is a URL of HTTP: with a path, a token, and perhaps TLS."""

    @property
    def is_served(self) -> bool:
        """Whether conductor can listen there."""
        return self.is_web or self.transport == _LINES


_LINES: Final = "lines:LinesTransport"
_WEBSOCKET: Final = "websocket_transport:WebSocketTransport"
SCHEMES: Final = {
    "unix": Scheme("unix:PATH", _LINES, is_path=True),
    "tcp": Scheme("tcp://HOST:PORT", _LINES),
    "ws": Scheme("ws://HOST", _WEBSOCKET, 80, is_web=True),
    "wss": Scheme("wss://HOST", _WEBSOCKET, 443, is_web=True),
    "http": Scheme("http://HOST", "http:HttpTransport", 80, is_web=True),
    "https": Scheme("https://HOST", "http:HttpTransport", 443, is_web=True),
}
"""By its name."""
_PREFIXES: Final = tuple(f"{scheme}:" for scheme in SCHEMES)
_BETWEEN: Final = lazy_pattern(f",(?={'|'.join(_PREFIXES)})", re.IGNORECASE)
_SECRET: Final = lazy_pattern(r"token|secret|passw|auth|api_?key|^key$|^sig", re.IGNORECASE)
_SENT: Final = "!#$%&'()*+,-./:;=?@[]~"
"""Signs of a URL that are sent as they are; others that are no letters and digits get codes."""
_LONGEST_SOCKET: Final = 103
"""Bytes of a socket's path: every system takes so many."""

FORMS: Final = (
    f"addresses are {', '.join(f'`{row.form}`' for row in SCHEMES.values())}; those of WebSockets "
    "and of HTTP also with a port and a path"
)


class Address(msgspec.Struct, frozen=True):
    """An address, read."""

    scheme: str
    """One of `SCHEMES`."""
    host: str = ""
    """Of an IPv6 address without its brackets; empty: of a path."""
    port: int = 0
    """0: the address is a path; or, for a listener, any free port."""
    path: str = ""
    """A path on this machine; of a URL its path and query; of `tcp` empty."""

    @property
    def row(self) -> Scheme:
        """The scheme's row."""
        return SCHEMES[self.scheme]

    @property
    def has_tls(self) -> bool:
        """Whether the messages are encrypted."""
        return self.scheme in ("wss", "https")

    @property
    def is_local(self) -> bool:
        """Whether the messages stay on this machine."""
        if self.row.is_path or self.host == "localhost":
            return True
        return self.host == "::1" or re.fullmatch(r"127(\.\d{1,3}){3}", self.host) is not None

    @property
    def takes_token(self) -> bool:
        """Whether a token can be shown there."""
        return self.row.is_web

    @property
    def authority(self) -> str:
        """Host and port as a URL has them; a port that goes without saying is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port and self.port == self.row.port else f"{host}:{self.port}"

    def __str__(self) -> str:
        """The address as a user would write it."""
        if self.row.is_path:
            return f"{self.scheme}:{self.path}"
        return f"{self.scheme}://{self.authority}{self.path}"


def is_address(word: str) -> bool:
    """Whether a word is meant as an address, right or wrong."""
    return word.lower().startswith(_PREFIXES)


def between(text: str) -> list[str]:
    """The addresses between the commas of a text, right or wrong."""
    return _BETWEEN.split(text)


def parse_all(text: str, here: str = "") -> tuple[Address, ...]:
    """Reads an address, or several between commas, at which the same is served. Raises
    `UsageError`."""
    return tuple(parse(one, here) for one in between(text))


def parse(text: str, here: str = "") -> Address:
    """Reads an address. A relative path of a socket starts from `here`, or else from the current
    folder. Raises `UsageError`; its text repeats no possible password."""
    scheme, _, rest = text.partition(":")
    scheme = scheme.lower()
    row = SCHEMES.get(scheme)
    if row is not None and row.is_path:
        return _on_machine(scheme, rest, here)
    if row is None or not rest.startswith("//"):
        raise UsageError(f"`{text}` is no address", FORMS)
    if any(sign <= " " or sign in "\"'`<>\\^{|}\x7f" for sign in text):
        raise UsageError("a URL has no blanks, quotes or control characters", FORMS)
    if "@" in rest[2:].partition("/")[0]:
        raise UsageError(
            f"an address `{scheme}://…@…` with a user or a password is not taken",
            "write the address without them; `,token=env:NAME` behind a component, and the "
            "variable CONDUCTOR_TOKEN for `conductor connect`, say which token is shown",
        )
    return _url(text, scheme)


def _on_machine(scheme: str, path: str, here: str) -> Address:
    path = path.removeprefix("//")
    if not path or "\0" in path:
        raise UsageError(f"`{scheme}:` without a path", f"as in `{scheme}:/run/user/1000/acp`")
    whole = os.path.abspath(os.path.join(here, os.path.expanduser(path)))
    if len(os.fsencode(whole)) > _LONGEST_SOCKET:
        raise UsageError(
            f"the path of the socket `{whole}` has more than {_LONGEST_SOCKET} bytes",
            "sockets have short paths; choose a folder near the root",
        )
    return Address(scheme, path=whole)


def _url(text: str, scheme: str) -> Address:
    try:
        split = urlsplit(text)
        host, port = split.hostname or "", split.port
    except ValueError:
        raise UsageError(f"`{text}`: its host or its port is none", FORMS) from None
    if not host:
        raise UsageError(f"`{text}` names no host", FORMS)
    if not host.isascii():
        raise UsageError(f"the host of `{text}` is not ASCII", "write its name in Punycode: xn--…")
    if split.fragment or text.endswith("#"):
        raise UsageError(f"`{text}` has a part behind `#`, which no server sees", "leave it out")
    if scheme == "tcp":
        if port is None or split.path.strip("/") or split.query:
            raise UsageError(f"`{text}`: `tcp://` takes a host and a port, and nothing else", FORMS)
        return Address(scheme, host, port)
    for name, _ in parse_qsl(split.query, keep_blank_values=True):
        if _SECRET.search(name):
            raise UsageError(
                f"the address has a parameter `{name}`, which looks like a secret; addresses are "
                "shown, logged and locked",
                "write `,token=env:NAME` behind the component; `conductor connect` takes the "
                "variable CONDUCTOR_TOKEN",
            )
    path = ENDPOINT if split.path in ("", "/") else split.path
    query = f"?{split.query}" if split.query else ""
    sent = quote(path + query, safe=_SENT, errors="surrogateescape")
    return Address(scheme, host, SCHEMES[scheme].port if port is None else port, sent)
