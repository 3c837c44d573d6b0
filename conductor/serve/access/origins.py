"""From which pages a server may be called. Pure.

A page of somebody else must not reach a server on the user's machine by its own script. By which
names one may call it is in `conductor.transports.host`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def may_come_from(origin: str | None, allowed: Iterable[str]) -> bool:
    """Whether a request with this `Origin` header may be served: None is no page."""
    return origin is None or (is_origin(origin) and _normal(origin) in map(_normal, allowed))


def is_origin(text: str) -> bool:
    """Whether a text is the origin of a page, and not `null` or a mere name."""
    return bool(_normal(text))


def _normal(origin: str) -> str:
    """An origin in one spelling; empty: it is none."""
    try:
        split = urlsplit(origin.strip())
    except ValueError:
        return ""
    return f"{split.scheme}://{split.netloc}".lower() if split.scheme and split.netloc else ""
