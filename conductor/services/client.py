"""Who may ask the conductor for services."""

from __future__ import annotations

import msgspec

from conductor.spec.limits import DEFAULT_LIMITS


class Client(msgspec.Struct, frozen=True):
    """A proxy as the services see it.

    `identity` is the same from run to run: values are kept under it. `grants`: as they were given
    (`files:**/AGENTS.md`); None for one that may use everything.
    """

    name: str
    identity: str
    grants: frozenset[str] | None
    limits: dict[str, int] = {}
    """Those that differ from `conductor.spec.limits.DEFAULT_LIMITS`."""

    def limit(self, name: str) -> int:
        """One of its limits."""
        return self.limits.get(name, DEFAULT_LIMITS[name])
