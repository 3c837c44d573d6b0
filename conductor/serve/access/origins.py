"""The pages that may call a server. Pure.

The script of a foreign page must not reach a server on the user's machine. The names by which a
server may be called are in `conductor.transports.host`.
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
    """An origin in one spelling; empty: the text is no origin."""
    try:
        split = urlsplit(origin.strip())
    except ValueError:
        return ""
    return f"{split.scheme}://{split.netloc}".lower() if split.scheme and split.netloc else ""
