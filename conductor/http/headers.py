"""The headers of one request: the server's name, the calling page, and the secret. Pure."""

from __future__ import annotations

import functools
import hmac
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from conductor.transports.host import is_named

BODY: Final = frozenset({"content-length", "transfer-encoding"})
"""Headers of a request that has a body."""

ONCE: Final = ("authorization", "host", "origin")
"""Headers that may come once only: two readers could disagree about a repeated header."""


class Headers(dict[str, str]):
    """Headers by lower-case name; a repeated header is one list of its values."""

    def __init__(self, lines: Iterable[tuple[bytes, bytes]]) -> None:
        """`lines`: names and values as they came."""
        super().__init__()
        self._repeated: list[str] = []
        for raw_name, value in lines:
            name = raw_name.decode("latin-1").lower()
            text = value.decode("utf-8", "surrogateescape").strip()
            if name in self:
                self._repeated.append(name)
                text = f"{self[name]}, {text}"
            self[name] = text

    def repeated(self, once: Container[str]) -> str | None:
        """A header of `once` that came more than once."""
        return next((name for name in self._repeated if name in once), None)

    def accepts(self, kind: str) -> bool:
        """Whether the client accepts this media type; without `Accept` it accepts any."""
        accept = self.get("accept")
        if accept is None:
            return True
        kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
        return bool({kind, f"{kind.partition('/')[0]}/*", "*/*"} & kinds)


def head_of(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of an answer as it is written; bytes that are no UTF-8 came so from a client."""
    lines = [f"HTTP/1.1 {status} ", *(f"{name}: {value}" for name, value in headers), "", ""]
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a header has a line break")
    return "\r\n".join(lines).encode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=1)
def date_of(second: int) -> bytes:
    """The line of a head that says when it was written, in seconds since 1970."""
    return time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime(second)).encode()


def misdirected(
    headers: Headers, names: Sequence[str], port: int | None, once: Iterable[str] = ()
) -> tuple[int, str] | None:
    """Why a request is not for the server called `names` at `port`: a status and a sentence; None
    if it is. `port`: None if the server may be reached by another port, and has no page.

    So no web page of somebody else gets through, not even if the name of its site was rebound to
    this machine. `once`: further headers that may come once only.
    """
    if repeated := headers.repeated({*ONCE, *once}):
        return 400, f"the header `{repeated}` came twice"
    if not is_named(headers.get("host") or "", names, port):
        return 421, f"this server answers to {' and '.join(names)} only"
    origin = headers.get("origin")
    own = () if port is None else {f"http://{name}:{port}" for name in names}
    if origin is not None and origin not in own:
        return 403, "requests of other web pages are refused"
    return None


def bearer(headers: Mapping[str, str]) -> str:
    """The bearer token of a request; empty: it has none."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def shows(headers: Headers, secret: bytes | None) -> bool:
    """Whether a request shows a secret as its bearer token, compared in constant time.

    `secret`: None if there is none, so that no request shows it.
    """
    wanted = secret if secret is not None else b"\0" * 64
    same = hmac.compare_digest(bearer(headers).encode("latin-1", "replace"), wanted)
    return same and secret is not None
