"""The keys by which an issuer of OpenID Connect signs.

One fetch at a time, with one deadline and a bound on its bytes, whatever the issuer sends. A known
key never waits for a fetch. Keys that a stranger makes up cost the issuer one fetch a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Coroutine
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from conductor.http.request import Refused
from conductor.serve.access.gate import CHALLENGE

DEADLINE: Final = 10.0
"""Seconds for one whole fetch."""
LARGEST: Final = 1024 * 1024
"""Bytes of a document of the issuer."""
FRESH: Final = 300.0
"""Seconds after which the keys are read again: a withdrawn key must go. Until then all known keys
stay valid."""
STALE: Final = 900.0
"""Seconds after which known keys are no longer valid."""
AGAIN: Final = 60.0
"""Seconds between two fetches."""

Start = Callable[[Coroutine[Any, Any, None]], object]
"""Starts a task."""

_AWAY: Final = "the issuer of the token cannot be reached"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class IssuerKeys:
    """The keys of one issuer."""

    def __init__(
        self, issuer: str, clock: Callable[[], float], deadline: float, start: Start
    ) -> None:
        """`start` starts a fetch: who waits for it may leave before its end."""
        self._issuer = issuer
        self._clock = clock
        self._deadline = deadline
        self._start = start
        self._known: dict[str, jwt.PyJWK] = {}
        self._read: float | None = None
        """When they were read."""
        self._next = clock()
        """When they may be read again."""
        self._fetched: asyncio.Event | None = None
        """Of the fetch that is going on."""
        self._why = _AWAY
        """Why they could not be read last."""

    async def key(self, id_: str) -> jwt.PyJWK:
        """The key of this id. Raises `Refused`."""
        known = self._known.get(id_) if self._age < STALE else None
        if known is not None:
            if self._age > FRESH:
                self._fetch()
            return known
        fetched = self._fetch()
        if fetched is not None:
            await fetched.wait()
            known = self._known.get(id_) if self._age < STALE else None
        if known is not None:
            return known
        if self._age < STALE:
            raise Refused(401, "the token is not valid here", CHALLENGE)
        raise Refused(503, self._why)

    @property
    def _age(self) -> float:
        return self._clock() - self._read if self._read is not None else STALE

    def _fetch(self) -> asyncio.Event | None:
        """The end of the fetch that is going on, or may begin now; None: it was tried a moment
        ago."""
        if self._fetched is None and self._clock() >= self._next:
            self._next = self._clock() + AGAIN
            self._fetched = asyncio.Event()
            self._start(self._renew(self._fetched))
        return self._fetched

    async def _renew(self, fetched: asyncio.Event) -> None:
        import httpcore2 as httpcore

        from conductor.transports.remote.client import FAILED

        try:
            async with (
                asyncio.timeout(self._deadline),
                httpcore.AsyncConnectionPool() as session,
            ):
                self._known = _keys(await _document(session, await self._place(session)))
            self._read = self._clock()
        except Refused as denied:
            self._why = denied.text
        except (*FAILED, httpcore.UnsupportedProtocol, ValueError, RecursionError):
            self._why = _AWAY
        finally:
            self._fetched = None
            fetched.set()

    async def _place(self, session: Any) -> str:
        """The URL of the keys. Raises `Refused` and the errors of a fetch."""
        where = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        about = await _document(session, where)
        place = about.get("jwks_uri") if isinstance(about, dict) else None
        if not isinstance(place, str) or about.get("issuer") != self._issuer:
            raise Refused(503, "the issuer of the token does not name itself and its keys")
        if not is_secure(place):
            raise Refused(503, "the issuer of the token has its keys at no https URL")
        return place


def is_secure(url: str) -> bool:
    """Whether nobody on the way can forge the content of a URL: by TLS, or from this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return False
    if "@" in parts.netloc or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)


async def _document(session: Any, where: str) -> Any:
    """A JSON document of bounded size. Raises `ValueError` for anything else."""
    from conductor.transports.remote import client

    asked = {"Accept": "application/json", "Accept-Encoding": "identity"}
    async with session.stream("GET", where, headers=asked) as answer:
        body = await client.body(answer, LARGEST)
        if body is None:
            raise ValueError("it is too large")
        if answer.status != 200:
            raise ValueError(f"its status is {answer.status}")
    return json.loads(body)


def _keys(about: Any) -> dict[str, jwt.PyJWK]:
    """The keys of a set that sign, by their ids; keys of unknown kinds are left out. Raises
    `ValueError`."""
    listed = about.get("keys") if isinstance(about, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is no set of keys")
    found = {}
    for one in listed:
        with contextlib.suppress(Exception):  # an issuer may list anything
            key = jwt.PyJWK(one)
            if key.public_key_use in ("sig", None) and isinstance(key.key_id, str):
                found[key.key_id] = key
    return found
