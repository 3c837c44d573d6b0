"""Tokens of an issuer of OpenID Connect: who an issuer vouches for is a principal."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import jwt

from conductor.errors import UsageError
from conductor.serve.access.gate import Denied
from conductor.serve.access.proof import Proof

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
"""Signatures with a key pair alone: with a shared secret, who checks could also sign."""
_LEEWAY: Final = 30.0
_TIMEOUT: Final = 10.0
_AGAIN: Final = 30.0
"""Seconds between two tries to read the keys of an issuer."""
_LONGEST: Final = 16 * 1024
_SECURE: Final = ("https://", "http://127.0.0.1:", "http://localhost:")
"""How a URL begins whose answer nobody on the way can forge."""


class Oidc:
    """Checks tokens of one issuer for one audience."""

    def __init__(self, issuer: str, audience: str) -> None:
        """Raises `UsageError`."""
        if not issuer.startswith(_SECURE):
            raise UsageError(
                f"the issuer `{issuer}` is no https URL", "write it as it names itself"
            )
        if not audience:
            raise UsageError(
                "`--oidc-issuer` needs `--oidc-audience`",
                "else a token for any other service of the issuer would open this one",
            )
        self.name = f"{issuer} {audience}".encode()
        self._issuer = issuer
        self._audience = audience
        self._keys: jwt.PyJWKClient | None = None
        self._next = 0.0
        self._lock = asyncio.Lock()

    async def proof(self, token: str) -> Proof:
        """What a token shows: its principal is `sub`. Raises `Denied`."""
        if len(token) > _LONGEST:
            raise Denied(401, "the token is too long", challenge=True)
        try:
            keys = await self._known()
            claims = await asyncio.to_thread(self._checked, keys, token)
        except jwt.ExpiredSignatureError:
            raise Denied(401, "the token has expired", challenge=True) from None
        except jwt.PyJWKClientConnectionError:
            raise Denied(503, "the issuer of the token cannot be reached") from None
        except jwt.PyJWTError:
            raise Denied(401, "the token is not valid here", challenge=True) from None
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise Denied(401, "the token names nobody", challenge=True)
        return Proof(f"oidc:{subject}", self.name, float(claims["exp"]) + _LEEWAY)

    def _checked(self, keys: jwt.PyJWKClient, token: str) -> dict[str, Any]:
        key = keys.get_signing_key_from_jwt(token)
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

    async def _known(self) -> jwt.PyJWKClient:
        """The keys of the issuer, at the address that it names."""
        async with self._lock:
            if self._keys is None:
                now = time.monotonic()
                if now < self._next:
                    raise Denied(503, "the issuer of the token cannot be reached")
                self._next = now + _AGAIN
                self._keys = await self._found()
            return self._keys

    async def _found(self) -> jwt.PyJWKClient:
        import aiohttp

        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_TIMEOUT)) as session,
                session.get(where, allow_redirects=False) as answer,
            ):
                about = await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise Denied(503, "the issuer of the token cannot be reached") from None
        place = about.get("jwks_uri") if isinstance(about, dict) else None
        if not isinstance(place, str) or about.get("issuer") != self._issuer:
            raise Denied(503, "the issuer of the token does not name itself and its keys")
        if not place.startswith(_SECURE):
            raise Denied(503, "the issuer of the token has its keys at no https URL")
        # The set of keys is kept for minutes, never a single key: one that is withdrawn must go.
        return jwt.PyJWKClient(place, timeout=_TIMEOUT)
