"""From an address to the transport that reaches it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from conductor import installation
from conductor.errors import ComponentError, ConductorError, UsageError
from conductor.transports import backoff
from conductor.transports.framing import LINE_LIMIT
from conductor.transports.remote.address import Address

if TYPE_CHECKING:
    from ssl import SSLContext

    from conductor.transports.base import Transport


class CaError(UsageError):
    """A file of certificates cannot be used."""


def dial(
    address: Address,
    *,
    token: Callable[[], str] | None = None,
    ca: str = "",
    line_limit: int = LINE_LIMIT,
    log: Callable[[str], None] = lambda _: None,
    patience: float = backoff.PATIENCE,
) -> Transport:
    """The transport that reaches an address; it connects when it is opened.

    Args:
        address: The address to reach.
        token: Returns the token to show there; None: no token is shown.
        ca: A file with the trusted certificates; empty: the system's certificates.
        line_limit: Bytes of a message, at most.
        log: Takes sentences about links that are cut, and are there again.
        patience: Seconds of tries to get a link back.

    Raises:
        UsageError: A package is missing, or the address cannot take the token, or has no TLS.
    """
    check(address, has_token=token is not None, has_ca=bool(ca))
    token = partial(shown, token) if token is not None else None
    if not address.row.is_web:
        return _class(address)(address, line_limit=line_limit)
    # Before the event loop's modules: they load no TLS unless it is loaded already.
    tls = _tls(ca) if address.has_tls else None
    try:
        made = _class(address)
    except ImportError as error:
        raise missing(address, error) from None
    return made(address, token=token, tls=tls, line_limit=line_limit, log=log, patience=patience)


def _class(address: Address) -> Callable[..., Transport]:
    """The transport of its row."""
    module, _, name = address.row.transport.partition(":")
    made: Callable[..., Transport] = getattr(import_module(f"{__package__}.{module}"), name)
    return made


def shown(token: Callable[[], str]) -> str:
    """A token as a header has it. Raises `ComponentError` for a token that is missing, or cannot be
    valid: every failure to open a connection is such an error. Never repeats the token."""
    try:
        text = token().strip()
    except ConductorError as error:
        raise ComponentError(error.text, error.hint) from None
    if not text or not text.isascii() or any(sign <= " " or sign == "\x7f" for sign in text):
        raise ComponentError(
            "a token is one word of ASCII, and this one is not",
            "check the variable, or the file, that holds the token",
        )
    return text


def check(address: Address, *, has_token: bool = False, has_ca: bool = False) -> None:
    """Raises `UsageError` for an address that nobody can dial so."""
    if not (address.row.is_path or address.port):
        raise UsageError(f"{address} has no port", "who listens there has shown the real one")
    if has_token and not address.takes_token:
        raise UsageError(
            f"no token can be shown at {address}",
            "leave it out, or use an address of ws://, wss://, http:// or https://",
        )
    if has_ca and not address.has_tls:
        raise CaError(
            f"{address} has no TLS, so `ca` means nothing there",
            "leave it out, or use wss:// or https://",
        )
    if has_token and not (address.has_tls or address.is_local):
        raise UsageError(
            f"{address} is not encrypted: everybody on the way would read the token",
            "use wss:// or https://",
        )


def missing(address: Address, error: ImportError) -> UsageError:
    """The error for a package that is not installed. Raises any other failed import again."""
    if (error.name or "").partition(".")[0] != "websockets":
        raise error
    return UsageError(
        f"{address} needs the package `websockets`, which is not installed",
        f"`{installation.with_extra('remote')}`",
    )


def _tls(ca: str) -> SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ssl.SSLError) as error:
        raise CaError(
            f"`{ca}` has no certificates that can be read: {error.strerror or error}",
            "it is a file in the format PEM, of one or more authorities",
        ) from None
