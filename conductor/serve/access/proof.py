"""By what a server knows who a client is."""

from __future__ import annotations

import msgspec


class Proof(msgspec.Struct, frozen=True):
    """Shows who a client is, for as long as `conductor.serve.access.gate.Gate.holds` it."""

    principal: str
    by: bytes = b""
    """The digest of a token of the file, or the issuer of one; empty: no token was asked for."""
    until: float | None = None
    """When the issuer's token ends, in seconds since 1970. Until when one of the file is valid
    stands there."""
