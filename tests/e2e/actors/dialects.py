"""The generations of the proxy protocol as X speaks them."""

from __future__ import annotations

from typing import NamedTuple


class Dialect(NamedTuple):
    """The methods by which a generation says what: each pair is (request, notification)."""

    role: str
    down: tuple[str, str]
    up: tuple[str, str]
    nested: bool = False


_FLAT = ("_proxy/successor/request", "_proxy/successor/notification")
DIALECTS = {
    "acp": Dialect("proxy/initialize", ("proxy/successor",) * 2, ("proxy/successor",) * 2),
    "sdk": Dialect("_proxy/initialize", ("_proxy/successor",) * 2, ("_proxy/successor",) * 2),
    "sacp": Dialect("initialize", _FLAT, _FLAT),
    "pacp": Dialect(
        "initialize",
        ("_proxy/successor/send/request", "_proxy/successor/send/notification"),
        ("_proxy/successor/receive/request", "_proxy/successor/receive/notification"),
        nested=True,
    ),
    "scp": Dialect("initialize", ("", ""), ("", "")),
}
