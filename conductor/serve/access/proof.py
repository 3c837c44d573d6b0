"""The proof by which a server knows who a client is."""

from __future__ import annotations

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """Shows who a client is, for as long as `conductor.serve.access.gate.Gate.holds` it."""

    principal: str
    by: bytes = b""
    """The digest of a token of the file, or a token's issuer; empty: no token was asked for."""
    until: float | None = None
    """When the issuer's token ends, in seconds since 1970. None for a token of the file: the file
    says how long it is valid."""
