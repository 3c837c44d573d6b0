"""Decides for each request who its principal is, before anything else is done with it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import msgspec

from conductor.http.headers import bearer
from conductor.http.request import Refused
from conductor.serve.access import origins, tokens
from conductor.serve.access.proof import Proof
from conductor.transports.host import is_named

LOCAL: Final = "local"
"""The only principal of a server that asks for no token."""

BEARER: Final = "acp.bearer."
"""How a subprotocol begins that is the token of a page: pages can set no headers on WebSockets."""


CHALLENGE: Final = (("www-authenticate", 'Bearer realm="conductor"'),)
"""The headers of an answer after which the client may come again with a token."""


class Issuer(Protocol):
    """Vouches for tokens that the file does not have (`conductor.serve.access.oidc`).

    Attributes:
        name: The member `by` of its proofs.
    """

    name: bytes

    async def proof(self, token: str) -> Proof:
        """The proof that a token gives. Raises `Refused`."""


class Gate:
    """Decides whom a server lets in.

    Attributes:
        issuer: None: only the file counts.
        open: Whether no token is asked for: everybody is `local`.
    """

    def __init__(
        self,
        *,
        names: list[str],
        allowed: list[str],
        open_: bool,
        known: list[tokens.Token],
        issuer: Issuer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.names = names
        self.allowed = allowed
        self.open = open_
        self._known = {token.digest: token for token in known}
        self.issuer = issuer
        self._clock = clock

    def become(self, other: Gate) -> None:
        """Takes over the rules of another gate."""
        self.names, self.allowed, self.open = other.names, other.allowed, other.open
        self._known = other._known
        if self.issuer is None or other.issuer is None or self.issuer.name != other.issuer.name:
            self.issuer = other.issuer  # else the keys that it knows stay

    def check_place(self, headers: Mapping[str, str]) -> None:
        """Whether a request calls this server, and from where it may. Raises `Refused`."""
        if not is_named(headers.get("host", ""), self.names):
            raise Refused(421, "this is not a name of this server")
        if not origins.may_come_from(headers.get("origin"), self.allowed):
            raise Refused(403, "pages of this origin may not connect")

    async def proof(self, headers: Mapping[str, str]) -> Proof:
        """The proof of a request's sender. Raises `Refused`."""
        self.check_place(headers)
        if self.open:
            return Proof(LOCAL)
        shown = shown_token(headers)
        if shown is None:
            raise Refused(401, "a token is needed: Authorization: Bearer TOKEN", CHALLENGE)
        token, why = tokens.found(self._known.values(), shown, self._clock())
        if token is not None:
            return Proof(token.principal, token.digest)
        if self.issuer is not None and shown.count(".") == 2:
            return await self.issuer.proof(shown)
        raise Refused(401, why, CHALLENGE)

    def holds(self, proof: Proof) -> bool:
        """Whether it would let in now who has shown this."""
        now = self._clock()
        if not proof.by:
            return self.open
        if self.issuer is not None and proof.by == self.issuer.name:
            return proof.until is None or proof.until > now
        token = self._known.get(proof.by)
        return token is not None and token.principal == proof.principal and token.is_valid(now)


class _Offered(msgspec.Struct):
    token: str | None
    others: list[str]


def offered(headers: Mapping[str, str]) -> _Offered:
    """The subprotocols that a client offers, and the token among them."""
    words = [word.strip() for word in headers.get("sec-websocket-protocol", "").split(",")]
    found = [word.removeprefix(BEARER) for word in words if word.startswith(BEARER)]
    others = [word for word in words if word and not word.startswith(BEARER)]
    return _Offered(found[0] if found else None, others)


def shown_token(headers: Mapping[str, str]) -> str | None:
    """The token that a request shows; None: none. A page may show it as a subprotocol."""
    if token := bearer(headers):
        return token
    if headers.get("origin") is not None:
        return offered(headers).token
    return None
