"""What one component may cost, and what it has cost so far.

A component's *allowance* has its limits (the rows of `docs/limits.md` that are kept where messages
pass); its *account* what it has spent of them. The places that spend ask the account. There is no
clock here: who asks tells the time.
"""

from __future__ import annotations

from typing import Final

import msgspec

BURST: Final = 5.0
"""Seconds' worth of a share or a rate that may be spent at once."""


class Allowance(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one component where its messages pass (`conductor.limits.TABLE`)."""

    json_values: int = 250_000
    """Values in one line that is judged, traced or audited."""
    waiting_bytes: int = 128 * 1024 * 1024
    """Bytes that it has sent and nobody has taken."""
    open_requests: int = 10_000
    """Its requests that have no answer, on each of its sides."""
    own_share: int = 20
    """Percent of the processor's time for what nobody else has caused."""
    own_messages: int = 1000
    """Messages a second that nobody else has caused."""
    service_bytes: int = 64 * 1024
    """Bytes of one request to a service that brings no values along."""
