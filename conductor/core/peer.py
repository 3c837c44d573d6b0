"""What the router knows of one peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from conductor.core.dialects import PLAIN, Dialect, Writer, writers
from conductor.core.link import Link
from conductor.core.topology import Role, Side

if TYPE_CHECKING:
    from conductor.core.effects import Closure, Effect


class Component(msgspec.Struct, frozen=True):
    """What the router is told about one component of the chain.

    `dialect` None means: find out. `services` are the granted services (None: all). `configure`
    is the JSON of the `configure` notification's params, or None to send none.
    """

    name: str
    label: str = ""
    """How errors call it, e.g. `proxy `datetime` (datetime.wasm)`; defaults to the name."""
    dialect: Dialect | None = None
    services: frozenset[str] | None = None
    configure: bytes | None = None


class Route(msgspec.Struct, frozen=True, gc=False):
    """Where what a peer says on one side goes: the peer across and its side there."""

    peer: Peer
    side: Side


class Peer:
    """One connection's mutable state."""

    __slots__ = (
        "backlog",
        "closure",
        "component",
        "dialect",
        "envelope_seen",
        "guessing",
        "label",
        "launched_by",
        "link",
        "name",
        "ready",
        "role",
        "routes",
        "sideband",
        "writers",
    )

    def __init__(self, component: Component, role: Role, dialect: Dialect | None) -> None:
        self.name = component.name
        self.label = component.label or f"`{component.name}`"
        self.component = component
        self.role = role
        self.link = Link()
        self.routes: dict[Side, Route] = {}
        self.closure: Closure | None = None
        self.backlog: list[Callable[[list[Effect]], None]] = []
        """What waits until the peer's dialect is known, in order."""
        self.envelope_seen = False
        self.launched_by: Peer | None = None
        """For the second connection of an `scp` proxy: the proxy itself."""
        self.guessing = dialect is None
        self.ready = dialect is not None
        self.speak(dialect or PLAIN)

    def speak(self, dialect: Dialect) -> None:
        """Writes to this peer in `dialect` from now on."""
        self.dialect = dialect
        self.sideband = dialect.sideband
        towards_predecessor, towards_successor = writers(
            dialect, to_conductor=self.role is Role.OUTER
        )
        self.writers: dict[Side, Writer] = {Side.P: towards_predecessor, Side.S: towards_successor}
