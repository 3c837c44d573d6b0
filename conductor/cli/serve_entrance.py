"""Where a server listens, and whom it lets in: addresses, certificates, tokens and owners."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

from conductor.errors import UsageError
from conductor.spec import paths
from conductor.spec.origins import blamed
from conductor.transports.remote import address as addresses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conductor.serve.access.gate import Gate
    from conductor.serve.access.issuer_keys import Start
    from conductor.serve.settings import Settings
    from conductor.transports.remote.address import Address

_WEB: Final = ("ws", "wss", "http", "https")


def listens_at(settings: Settings) -> list[Address]:
    """The addresses at which a server listens. Raises `UsageError`."""
    try:
        return [addresses.parse(text) for text in settings.listen]
    except UsageError as error:
        raise blamed(error, settings.set_by.get("listen")) from None


def check(address: Address, settings: Settings) -> None:
    """Raises `UsageError` for an address that would let strangers in, or whose path differs from
    the path of chains."""
    if address.takes_token and address.path.rstrip("/") != addresses.ENDPOINT:
        raise UsageError(
            f"nothing is served at the path of {address}",
            f"leave it out: chains are at {addresses.ENDPOINT}, and {addresses.ENDPOINT}/NAME",
        )
    if address.has_tls and not settings.tls_cert:
        raise UsageError(
            f"{address} needs a certificate", "`--tls-cert FILE` and `--tls-key FILE` name them"
        )
    if settings.insecure:
        return
    if address.scheme == "tcp" and address.is_local and (settings.tokens or settings.oidc_issuer):
        raise UsageError(
            f"{address} shows no token, so every user of this machine would get in without one",
            "serve unix:PATH, which only you may open; or add `--insecure`",
        )
    if address.is_local:
        return
    if not address.takes_token:
        raise UsageError(
            f"{address} is beyond this machine, and lines show no token",
            "serve wss:// there; or, where only friends are on that network, add `--insecure`",
        )
    if not address.has_tls:
        raise UsageError(
            f"{address} is beyond this machine, and everybody on the way could read along",
            "write wss:// with `--tls-cert` and `--tls-key`; behind a proxy that does TLS, add "
            "`--insecure`",
        )
    if not settings.tokens and not settings.oidc_issuer:
        raise UsageError(
            f"{address} is beyond this machine, and everybody could use the chain",
            "`conductor serve token NAME` makes a token, `--tokens FILE` asks for it",
        )


def tls(settings: Settings, listening: Sequence[Address]) -> ssl.SSLContext | None:
    """The TLS context of the addresses; None: none has TLS. Raises `UsageError`."""
    if not settings.tls_cert:
        return None
    if not any(address.has_tls for address in listening):
        error = UsageError(
            f"`--tls-cert` means nothing at {', '.join(map(str, listening))}",
            "write `--listen wss://HOST:PORT`, or leave the certificate out",
        )
        raise blamed(error, settings.set_by.get("tls_cert"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load(context, settings)
    return context


def load(context: ssl.SSLContext, settings: Settings) -> None:
    """Reads the certificate and the key. Raises `UsageError`."""
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key or None)
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or str(error)
        failed = UsageError(
            f"the certificate `{settings.tls_cert}` cannot be used: {why}",
            "`--tls-cert` and `--tls-key` name PEM files that belong together",
        )
        raise blamed(failed, settings.set_by.get("tls_cert")) from None


def gate(settings: Settings, listening: Sequence[Address], start: Start) -> Gate:
    """Decides whom the server lets in; `start` starts the gate's tasks. Raises `ConductorError`."""
    from conductor.serve.access import origins, tokens
    from conductor.serve.access.gate import Gate
    from conductor.serve.access.oidc import Oidc

    for origin in settings.origin:
        if not origins.is_origin(origin):
            error = UsageError(
                f"`serve.origin={origin}` is no origin of a page",
                "write it as in https://chat.example",
            )
            raise blamed(error, settings.set_by.get("origin"))
    hosts = [one.host for one in listening if one.scheme in _WEB]
    names = [
        *origins.LOOPBACK,
        *(f"[{host}]" if ":" in host else host for host in hosts),
        *settings.host,
    ]
    issuer = None
    if settings.oidc_issuer:
        try:
            issuer = Oidc(settings.oidc_issuer, settings.oidc_audience, start)
        except UsageError as error:
            raise blamed(error, settings.set_by.get("oidc_issuer")) from None
    try:
        known = tokens.read(settings.tokens) if settings.tokens else []
    except UsageError as error:
        raise blamed(error, settings.set_by.get("tokens")) from None
    return Gate(
        names=names,
        allowed=[*settings.origin],
        open_=not settings.tokens and issuer is None,
        known=known,
        issuer=issuer,
    )


def owners(settings: Settings) -> str:
    """The file of owners; empty: there is none."""
    if settings.owners == "none":
        return ""
    return settings.owners or paths.owners()
