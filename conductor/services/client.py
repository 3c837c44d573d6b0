"""Who may ask the conductor for services."""

from __future__ import annotations

import msgspec


class Client(msgspec.Struct, frozen=True):
    """A proxy as the services see it."""

    name: str
    identity: str
    """The same from run to run: values are kept under it."""
    grants: frozenset[str] | None
    """Services with what narrows them (`files:**/AGENTS.md`); None: it may use all."""
    limits: dict[str, int]
    """All its limits by name (`conductor.spec.limits.TABLE`), defaults included."""
