"""The `Host` header of a request: by which name a server was called. Pure.

A foreign page must not reach a server of this machine by a name of its own that leads
here, so only exact names count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from conductor.patterns import lazy_pattern

_HOST: Final = lazy_pattern(r"(\[[0-9a-f:.]{2,45}\]|[^\s:/\\@\[\]?#]{1,255})(?::([0-9]{1,5}))?")


def is_named(header: str, names: Iterable[str], port: int | None = None) -> bool:
    """Whether a header calls a server by one of its names, and at `port`, if there is a port."""
    match = _HOST.fullmatch(header.strip(" \t").lower())
    if match is None or match[1] not in {name.lower() for name in names}:
        return False
    asked = int(match[2]) if match[2] else None
    return asked == port if port is not None else asked is None or asked < 1 << 16
