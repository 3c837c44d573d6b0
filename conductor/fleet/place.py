"""The addresses of NATS, and the login of this part of the fleet."""

from __future__ import annotations

import ssl
from typing import Any, Final

import msgspec

from conductor.errors import UsageError

_WAIT: Final = 30.0
"""Seconds in which NATS must be there when a part of the fleet starts."""
_SECURE: Final = ("tls", "wss")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of NATS, and the login of this part of the fleet."""

    nats: tuple[str, ...] = ("nats://127.0.0.1:4222",)
    creds: str = ""
    """A file of credentials: the JWT of a user, and the seed of its key."""
    user: str = ""
    password: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""
    wait: float = _WAIT

    @property
    def is_secure(self) -> bool:
        """Whether TLS is asked for: by an address, or by certificates."""
        asked = any(url.partition("://")[0] in _SECURE for url in self.nats)
        return asked or bool(self.ca or self.cert or self.key)

    @property
    def shown(self) -> str:
        """The addresses of NATS, without secrets, for people."""
        return ", ".join(without_login(url) for url in self.nats)


def without_login(url: str) -> str:
    """An address without the user and the password that it may have."""
    scheme, mark, rest = url.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def login(place: Place) -> dict[str, Any]:
    """How the client shows who it is."""
    found: dict[str, Any] = {}
    if place.creds:
        found["user_credentials"] = place.creds
    if place.user:
        found |= {"user": place.user, "password": place.password}
    if place.ca or place.cert:
        found["tls"] = _tls(place)
    return found


def _tls(place: Place) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=place.ca or None)
        if place.cert:
            context.load_cert_chain(place.cert, place.key or None)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"the certificates for NATS cannot be used: {error}",
            "`--nats-ca`, `--nats-cert` and `--nats-key` name PEM files",
        ) from None
    return context
