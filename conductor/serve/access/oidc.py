"""Tokens of an issuer of OpenID Connect: who an issuer vouches for is a principal."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any, Final

import jwt

from conductor.errors import UsageError
from conductor.http.request import Refused
from conductor.serve.access.gate import CHALLENGE
from conductor.serve.access.issuer_keys import DEADLINE, IssuerKeys, Start, is_secure
from conductor.serve.access.proof import Proof

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
"""Signatures with a key pair alone: with a shared secret, who checks could also sign."""
_LEEWAY: Final = 30.0
_LONGEST: Final = 16 * 1024
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
"""A `sub` (OpenID Connect has at most 255 characters) that every record and address can hold."""


class Oidc:
    """Checks tokens of one issuer for one audience."""

    def __init__(
        self,
        issuer: str,
        audience: str,
        start: Start,
        clock: Callable[[], float] = time.monotonic,
        deadline: float = DEADLINE,
    ) -> None:
        """`start` starts a task. `deadline`: the seconds that the issuer has to send its keys.
        Raises `UsageError`."""
        if not is_secure(issuer):
            raise UsageError(
                f"the issuer `{issuer}` is no https URL", "write it as it names itself"
            )
        if not audience:
            raise UsageError(
                "`serve.oidc-issuer` needs `serve.oidc-audience`",
                "else a token for any other service of the issuer would open this one",
            )
        self.name = f"{issuer} {audience}".encode()
        self._issuer = issuer
        self._audience = audience
        self._keys = IssuerKeys(issuer, clock, deadline, start)

    async def proof(self, token: str) -> Proof:
        """The proof that a token gives: its principal is `sub`. Raises `Refused`."""
        if len(token) > _LONGEST:
            raise Refused(401, "the token is too long", CHALLENGE)
        try:
            id_ = jwt.get_unverified_header(token).get("kid")
            if not isinstance(id_, str):
                raise Refused(401, "the token names no key", CHALLENGE)
            claims = self._checked(await self._keys.key(id_), token)
        except jwt.ExpiredSignatureError:
            raise Refused(401, "the token has expired", CHALLENGE) from None
        except jwt.PyJWTError:
            raise Refused(401, "the token is not valid here", CHALLENGE) from None
        subject = claims.get("sub")
        if not isinstance(subject, str) or not _NAME.fullmatch(subject):
            raise Refused(401, "the token names nobody, or not in a way to write", CHALLENGE)
        return Proof(f"oidc:{subject}", self.name, float(claims["exp"]) + _LEEWAY)

    def _checked(self, key: jwt.PyJWK, token: str) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[*_ALGORITHMS],
            audience=self._audience,
            issuer=self._issuer,
            leeway=_LEEWAY,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )
        return claims
