"""What a parent and the child that hosts guests exchange: plain data.

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
"""Brings a host the names of its guests that are paused: a list."""

NOT_KEPT: Final = "conductor: each run compiles its modules anew, which takes longer: "
"""How a line of the host begins that says why the cache of compiled modules is not used."""


class GuestSpec(Hosted, frozen=True, kw_only=True, omit_defaults=True):
    """One guest to run: the part of its `Spec` that its host needs, and facts of this start."""

    label: str = ""
    """How errors name it."""
    services: frozenset[str] = frozenset()
    """The services it may use, without what narrows them."""
    configure: msgspec.Raw = msgspec.Raw(b"null")
    """The params of `configure`."""
    instance: str = ""
    """Which instance it is; empty: the first."""
    kept: msgspec.Raw = msgspec.Raw(b"{}")
    """What former instances kept (`conductor.core.component.KeptMembers`)."""
    known_as: tuple[str, ...] = ()
    """Other names of its own."""
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
    from conductor.spec import origins  # a host, which reads only what this makes, needs it not

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
    """Where the numbers of messages begin in a trace; 0: the parent sees all that passes."""
    recording: bool = False
    """Whether there is a record (`conductor.run.host_record`)."""
    deliveries: bool = False
    """Whether it has what each guest is given and returns."""
    relays: bool = False
    """Perform no service here: relay every call."""
    auditing: bool = False
    """Whether what the guests change is reported (see `conductor.run.report_lines`)."""
    reserved: tuple[str, ...] = ()
    """Names of MCP servers that only their owners may use (`Router`)."""
    paused: tuple[str, ...] = ()
    """Names of guests that are paused."""
    owned: dict[str, list[str]] = {}
    """Once it is started again: addresses of MCP by the guest that owns them; under the empty name
    those of all others in the chain."""


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
