"""The data that a parent and the child that hosts guests exchange.

The first line is a `SegmentSpec`; the notifications are named below.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.policy import words
from conductor.core.policy.words import AGENTS, TRUSTED
from conductor.core.service_table import granted_names
from conductor.spec.model import Hosted, Spec
from conductor.transports.framing import LINE_LIMIT

TELL: Final = "tell"
"""Brings a host a notification for one of its guests: `{component, method, params}`."""

FIRED: Final = "timer/fired"
"""Tells a guest that one of its timers has fired."""

RESERVE: Final = "reserve"
"""Brings a host more names that only their owners may give to MCP servers: a list."""

RECONFIGURE: Final = "reconfigure"
"""Brings a host the changed configuration of one of its guests."""

PAUSED: Final = "paused"
"""Brings a host the names of its paused guests: a list."""

NOT_KEPT: Final = "conductor: each run compiles its modules anew, which takes longer: "
"""The beginning of a host's line about why the cache of compiled modules is not used."""


class GuestSpec(Hosted, frozen=True, kw_only=True, omit_defaults=True):
    """One guest to run: the part of its `Spec` that its host needs, and facts of this start."""

    label: str = ""
    """Its name in errors."""
    services: frozenset[str] = frozenset()
    """The services it may use, without their scopes."""
    configure: msgspec.Raw = msgspec.Raw(b"null")
    """The params of `configure`."""
    instance: str = ""
    """The id of the instance; empty: the first."""
    kept: msgspec.Raw = msgspec.Raw(b"{}")
    """The members that former instances kept (`conductor.core.component.KeptMembers`)."""
    known_as: tuple[str, ...] = ()
    """Further names of the component."""
    denied: dict[str, str] = msgspec.field(default_factory=dict)
    """The words that are denied it, each with who denies it."""
    policed: bool = True
    """Whether its host enforces its policy; else the parent does."""


def guest_spec(
    spec: Spec,
    configure: bytes,
    instance: str = "",
    kept: bytes = b"{}",
    *,
    policed: bool = True,
) -> GuestSpec:
    """The projection of a sandboxed component for its host.

    Not `policed`: the parent enforces the policy, so the host's router trusts the guest.
    """
    from conductor.spec import origins  # a host reads only the result and does not need it

    # Its services are listed apart: their scopes are read by modules that a host cannot load.
    services = words.services(spec.policy.rights)
    held = spec.policy.rights
    if not policed:
        named = [f"{verb}:{name}" for verb in AGENTS for name in words.agents(held, verb)]
        held = (TRUSTED, *named)
    rights = tuple(name for name in held if name not in services)
    policy = msgspec.structs.replace(spec.policy, rights=rights)
    hosted = {field: getattr(spec, field) for field in Hosted.__struct_fields__}
    return GuestSpec(
        **{**hosted, "policy": policy},
        label=spec.label("proxy"),
        services=granted_names(spec.grants or ()),
        configure=msgspec.Raw(configure),
        instance=instance,
        kept=msgspec.Raw(kept),
        known_as=spec.aliases,
        denied=origins.denials(spec),
        policed=policed,
    )


class SegmentSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line a segment reads."""

    guests: list[GuestSpec]
    cache: str | None = None
    clock: str | None = None
    line_limit: int = LINE_LIMIT
    verbose: bool = False
    require_hardening: bool = False
    """Do not run anything unless the kernel's restrictions are in force."""
    loading_only: bool = False
    """Load the modules, which compiles them, and end (`conductor.run.compiled`)."""
    numbers: int = 0
    """The first number of messages in a trace; 0: the parent sees all messages."""
    recording: bool = False
    """Whether there is a record (`conductor.run.host_record`)."""
    deliveries: bool = False
    """Whether the record has the input and output of each guest."""
    relays: bool = False
    """Perform no service here: relay every call."""
    auditing: bool = False
    """Whether the guests' changes are reported (see `conductor.run.report_lines`)."""
    reserved: tuple[str, ...] = ()
    """Names of MCP servers that only their owners may use (`Router`)."""
    paused: tuple[str, ...] = ()
    """Names of the paused guests."""
    owned: dict[str, list[str]] = {}
    """Once it is started again: addresses of MCP by the guest that owns them; under the empty name
    the addresses of all others in the chain."""


class FiredTimer(msgspec.Struct):
    """The params of `timer/fired` that a host reads."""

    timer: str = ""


class Recovered(msgspec.Struct, frozen=True):
    """How a child recovered from a guest that failed: `action` is `restart` or `bypass`."""

    component: str
    action: str
    text: str


class Relayed(msgspec.Struct):
    """A message that a host passes on from a guest, or to a guest."""

    component: str
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
