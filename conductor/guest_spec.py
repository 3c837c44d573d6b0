"""What a parent tells the child that hosts guests: plain data, sent as the first line."""

from __future__ import annotations

import msgspec

from conductor.core.policy import TRUSTED, PolicyWords
from conductor.transports.framing import LINE_LIMIT


class GuestSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One guest to run: see `conductor.catalog.Spec` for the meaning of each."""

    name: str
    path: str
    sha256: str = ""
    """What the file must be, where that is known."""
    label: str = ""
    dialect: str | None = None
    services: frozenset[str] = frozenset()
    configure: msgspec.Raw = msgspec.Raw(b"null")
    limits: dict[str, int] = {}
    on_failure: str = "fail"
    policy: PolicyWords = PolicyWords(TRUSTED)
    """What the child's router holds it to; `trusted` where the parent does that."""


class SegmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line a segment reads."""

    guests: list[GuestSpec]
    cache: str | None = None
    clock: str | None = None
    line_limit: int = LINE_LIMIT
    verbose: bool = False
    require_hardening: bool = False
    """Do not run anything unless the kernel's restrictions are in force."""
    tracing: bool = False
    """Whether what passes between the guests is reported (see `Hop`)."""


class Recovered(msgspec.Struct, frozen=True):
    """What a child did about a guest that failed: `action` is `restart` or `bypass`."""

    component: str
    action: str
    text: str


class Hop(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message between two guests, as the child reports it: `conductor.core.Trace` and more."""

    kind: str
    source: str
    target: str
    at: float
    """When, by the machine's monotonic clock, in seconds."""
    size: int
    """Bytes of the payload, which is left out where it would not fit in a line."""
    id: str | None = None
    method: str | None = None
    is_error: bool = False
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
