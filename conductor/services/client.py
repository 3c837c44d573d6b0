"""Who may ask the conductor for services."""

from __future__ import annotations

import msgspec


class Client(msgspec.Struct, frozen=True):
    """A proxy as the services see it.

    `identity` is the same from run to run: values are kept under it. `grants`: as they were given
    (`files:**/AGENTS.md`); None for one that may use everything.
    """

    name: str
    identity: str
    grants: frozenset[str] | None
