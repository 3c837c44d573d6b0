"""The cookies of one connection: a server, or a balancer before it, gets its cookies back.

As in the SDKs, only names and values count, and all cookies go back to the only address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_MOST: Final = 64
"""Cookies that are kept; then the oldest is forgotten."""


class Cookies:
    """The cookies of a server."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def take(self, headers: Iterable[str]) -> None:
        """Keeps the cookies of headers `Set-Cookie`."""
        for header in headers:
            name, equals, value = header.partition(";")[0].partition("=")
            if equals and header.isascii() and header.isprintable():
                self._values.pop(name.strip(), None)
                self._values[name.strip()] = value.strip()
            if len(self._values) > _MOST:
                del self._values[next(iter(self._values))]

    def header(self) -> dict[str, str]:
        """The header that gives them back, if there are any."""
        cookies = "; ".join(f"{name}={value}" for name, value in self._values.items())
        return {"Cookie": cookies} if cookies else {}
