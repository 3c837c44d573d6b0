"""How a chain is to be run, and what has been planned for each of its components: plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final

import msgspec

from conductor.core.keeping import Keeping
from conductor.core.peer import Component
from conductor.services.calls import Grantee
from conductor.transports.base import Transport
from conductor.transports.framing import LINE_LIMIT

LOCK_FILE: Final = "conductor.lock"
"""In the current folder."""

ISOLATIONS: Final = ("process", "inline", "separate")
_MOST_OWN: Final = 65_536
TRACE_CONTENTS: Final = ("redacted", "all", "none")


@cache
def _bundled() -> tuple[str, ...]:
    from conductor.spec import catalog

    return catalog.bundled()


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a chain is run; every size is in bytes, every time in seconds."""

    isolation: str = "process"
    """Where guests run: `process` (neighbours share one child), `separate`, or `inline`."""
    cache: str | None = None
    """Folder of compiled modules; None: the user's cache folder."""
    clock: str | None = None
    """A fixed ISO 8601 time for the clock service."""
    line_limit: int = LINE_LIMIT
    high_water: int = 4 * 1024 * 1024
    """Sources wait while a peer has more than this unsent …"""
    low_water: int = 1024 * 1024
    """… until it has less than this."""
    hard_water: int = 32 * 1024 * 1024
    """Above this even proxies wait."""
    stall: float = 300.0
    """A peer that takes nothing for this long while others wait for it is closed."""
    grace: float = 2.0
    """Before each harder step of ending a process."""
    drain: float = 10.0
    """After the client's end of file: how long the chain may go without a message while requests
    are still open …"""
    drain_total: float = 600.0
    """… and how long they may take altogether."""
    verbose: bool = False
    watch: bool = False
    """Replace a proxy by its new build as soon as its file changes."""
    require_hardening: bool = False
    """Refuse to host guests unless the kernel's restrictions are in force."""
    require_sandbox: bool = False
    """Refuse a chain with a proxy that is not sandboxed."""
    audit: str | None = None
    """File for records of violations and failures (`conductor.record.audit`); None: no records."""
    trace: str | None = None
    """File that every message is written to (`conductor.trace`); None: no trace."""
    trace_content: str = "redacted"
    """What of the messages: `all`, all but secrets (`redacted`), or `none` but their sizes."""
    reserved: tuple[str, ...] = msgspec.field(default_factory=_bundled)
    """Names that no MCP server may have but its owner's: by default those of bundled components."""
    mcp_bridge: str = "auto"
    """How the agent is given MCP servers of ACP transport (`conductor.mcp.KINDS`)."""
    locked: bool = False
    """Refuse what the lock file does not allow (docs/cli.md, "Locks")."""
    values: str | None = None
    """The file that components' values are kept in (`kv`); None: the user's."""
    metrics: str | None = None
    """File that the numbers proxies count are written to, for a collector; None: none."""
    lock_file: str | None = None
    """The lock file, if it is another than `LOCK_FILE`; to name it is to ask for it."""

    @property
    def lock(self) -> str | None:
        """The lock file that holds; None: none."""
        if self.lock_file is not None:
            return self.lock_file
        return LOCK_FILE if self.locked else None


class Belongings:
    """What is kept for a host of guests that is started again: whose the addresses of MCP are, and
    what each guest has asked to be kept."""

    def __init__(self) -> None:
        self.own: dict[str, set[str]] = {}
        """What each guest has said to be its own."""
        self.known: AbstractSet[str] = frozenset()
        """All that the chain knows of: a live view of the router's."""
        self.kept: defaultdict[str, Keeping] = defaultdict(Keeping)
        """By guest."""

    def add(self, guest: str, addresses: Iterable[str]) -> None:
        """A guest has said that these are its own."""
        own = self.own.setdefault(guest, set())
        own.update(addresses)
        if len(own) > _MOST_OWN:  # the chain forgets its oldest, too
            own.intersection_update(self.known)

    def by_owner(self) -> dict[str, list[str]]:
        """By guest; by the empty name, those of everybody else."""
        known = self.known
        found = {name: sorted(own & known) for name, own in self.own.items()}
        return {**found, "": sorted(known - set().union(*self.own.values()))}


class Configuration(msgspec.Struct, frozen=True):
    """What a component is told of its settings, which are in a file that may change."""

    component: str
    file: str
    params: Callable[[], bytes]
    """The params of `configure` as of now. Raises `ConductorError`."""


class Planned(msgspec.Struct, frozen=True):
    """One peer of the router and what carries its messages."""

    component: Component
    transport: Transport
    renew: Callable[[], Transport] | None = None
    """Makes the transport anew, for a component that is started again."""
    guests: tuple[str, ...] = ()
    """Names of the guests it hosts, where it is a child that does."""
    on_failure: str = "fail"
    """What happens when it fails (`conductor.core.restart_state.CHOICES`)."""
    timeout: float | None = None
    """Seconds it may take to answer a request other than a prompt."""
    quiet: float | None = None
    """Of an agent: seconds without a message from it after which its turns are cancelled."""
    files: tuple[str, ...] = ()
    """What it is made of: when one of these changes, there is a new build."""
    mcp_bridge: str = "auto"
    """For an agent: as of `Options`."""
    configurations: tuple[Configuration, ...] = ()
    belongings: Belongings | None = None
    """Where it is a child with guests: what they have said to be theirs."""
    grantees: tuple[Grantee, ...] = ()
    """The proxies on it that may ask for services: itself, or its guests."""


Stderr = Callable[[str, str], None]
"""Called with component name and one line of its standard error."""
