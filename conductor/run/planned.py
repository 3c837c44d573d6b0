"""The plan for each component of a chain, with its transport: plain values.

`launch` makes the plans, and the runtime uses them without knowing which kinds of processes there
are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

import msgspec

from conductor.core import json_text
from conductor.core.component import KEPT_ALIASES, Component, KeptMembers
from conductor.core.effects import Violated
from conductor.errors import ConductorError
from conductor.services.calls import Grantee
from conductor.spec.limits import DEFAULT_LIMITS
from conductor.spec.model import Spec
from conductor.spec.settings import configuration
from conductor.transports.base import Transport

AGENT_PATIENCE: Final = 120.0
"""Seconds that an agent without a `timeout` has to answer `initialize`: its launcher may have to
download it."""


class Belongings:
    """The state that outlives the process of a host of guests: the MCP addresses that each guest
    owns, and the members that it kept. The host receives both when it is started again."""

    def __init__(self) -> None:
        self.own: dict[str, set[str]] = {}
        """The addresses each guest has declared as its own."""
        self.known: AbstractSet[str] = frozenset()
        """All addresses that the chain knows."""
        self.reserved: AbstractSet[str] = frozenset()
        """Names of MCP servers that only their owners may use: those of all other components."""
        self.kept: defaultdict[str, KeptMembers] = defaultdict(KeptMembers)
        """The kept members, by guest."""
        self.starts: Counter[str] = Counter()
        """How often each guest has been started."""
        self.paused: AbstractSet[str] = frozenset()
        """The guests that are paused."""

    @classmethod
    def of(cls, hosts: Iterable[Belongings | None]) -> Belongings:
        """For a new host: the state of all guests of running hosts, whichever of them it gets."""
        taken = cls()
        for host in hosts:
            if host is not None:
                taken.own |= {guest: set(own) for guest, own in host.own.items()}
                taken.known, taken.starts = host.known, taken.starts + host.starts
                taken.paused |= host.paused
                for guest, kept in host.kept.items():
                    taken.kept[guest] = KeptMembers(kept.to_json())
        return taken

    def aliases(self, guests: Iterable[str]) -> list[bytes]:
        """The aliases of the sessions of guests, in order, as each guest keeps them."""
        return [bytes(self.kept[guest].get(KEPT_ALIASES) or b"{}") for guest in guests]

    def started(self, guests: Iterable[str]) -> None:
        """Guests are started once more."""
        self.starts.update(guests)

    def add(self, guest: str, addresses: Iterable[str]) -> None:
        """Records addresses that a guest has declared as its own."""
        own = self.own.setdefault(guest, set())
        own.update(addresses)
        if len(own) > 65_536:
            # A guest may declare addresses for ever. The chain forgets the oldest, and nobody can
            # use those any more, so neither need they be kept here.
            own.intersection_update(self.known)

    def by_owner(self) -> dict[str, list[str]]:
        """By guest; under the empty name, the addresses of all others."""
        known = self.known
        owned = {name: sorted(own & known) for name, own in self.own.items()}
        return {**owned, "": sorted(known - set().union(*self.own.values()))}


class Configuration:
    """The settings of a component, which may change while the chain runs, and so may their file."""

    def __init__(self, spec: Spec) -> None:
        self.component = spec.name
        self.file = spec.config_file or ""
        self._spec = spec
        self._good: bytes | None = None
        """The settings that the component got last."""

    def change(self, spec: Spec) -> bool:
        """The component has these settings from now on; whether they are written otherwise."""
        before, self._spec, self.file = self._spec, spec, spec.config_file or ""
        return (before.config, before.config_file) != (spec.config, spec.config_file)

    def news(self) -> bytes | None:
        """The settings as `params`, if they differ from those that the component got last."""
        before = self._good
        return now if (now := self.params()) != before else None

    def params(self) -> bytes:
        """The params of `configure`, with the present file. Raises `ConductorError`."""
        self._good = json_text.encode(configuration(self._spec))
        return self._good

    def last_good(self) -> bytes:
        """The present params, or else the last good ones. Raises `ConductorError` without any."""
        try:
            return self.params()
        except ConductorError:
            if self._good is None:
                raise
            return self._good


class Planned(msgspec.Struct, frozen=True):
    """One peer of the router and its transport."""

    component: Component
    transport: Transport
    renew: Callable[[], Transport] | None = None
    """Makes another transport, for a component that is started again."""
    guests: tuple[str, ...] = ()
    """Names of the guests it hosts, if it is a host."""
    on_failure: str = "fail"
    """The actions on its failure (`conductor.core.restart_state.CHOICES`)."""
    timeout: float | None = None
    """The seconds in which it must answer a request other than a prompt."""
    quiet: float | None = None
    """Of an agent: seconds without a message from it after which its turns are cancelled."""
    files: tuple[str, ...] = ()
    """Files it is made of: when one changes, there is a new build."""
    mcp_bridge: str = "auto"
    """For an agent: as of `Options`."""
    configurations: tuple[Configuration, ...] = ()
    """The settings of its components; an agent is sent none."""
    belongings: Belongings | None = None
    """The state that its guests own and keep, if it is a host."""
    grantees: tuple[Grantee, ...] = ()
    """The users of services in it: itself, or its guests."""
    specs: tuple[Spec, ...] = ()
    """The specs that it was planned from."""
    would: tuple[Violated, ...] = ()
    """The refusals that a watching managed policy would have made of it."""

    @property
    def name(self) -> str:
        """The name of its peer."""
        return self.component.name

    @property
    def names(self) -> tuple[str, ...]:
        """The components in it: its guests, or itself."""
        return self.guests or (self.name,)


def grantee(spec: Spec) -> Grantee:
    """The projection of a proxy for the services."""
    return Grantee(
        spec.name,
        # Kept values belong to the name and the command of a component: a component with the name
        # of another one must not read the values of the other.
        f"{spec.name}\0{spec.bundled or spec.what}",
        spec.grants,
        {**DEFAULT_LIMITS, **spec.limits},
    )


Stderr = Callable[[str, str], None]
"""Called with component name and one line of its standard error."""
