"""What a parent tells the child that hosts guests: plain data, sent as the first line."""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import TRUSTED
from conductor.transports.framing import LINE_LIMIT

TELL: Final = "tell"
"""By this a host is given a notification for one of its guests: `{component, method, params}`."""

FIRED: Final = "timer/fired"
"""The notification by which a guest learns that a timer of its has fired."""

RECONFIGURE: Final = "reconfigure"
"""By this a host is given the changed configuration of one of its guests."""


class GuestSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """One guest to run: see `conductor.spec.catalog.Spec` for the meaning of each."""

    name: str
    path: str
    sha256: str = ""
    """What the file must be, where that is known."""
    script: str = ""
    """Python source that the guest runs: a `.py` file or a folder."""
    script_sha256: str = ""
    """What that must be, where that is known."""
    locked: str = ""
    """The lock file that says so; empty: the manifest of a bundled module."""
    label: str = ""
    dialect: str | None = None
    services: frozenset[str] = frozenset()
    configure: msgspec.Raw = msgspec.Raw(b"null")
    instance: str = ""
    kept: msgspec.Raw = msgspec.Raw(b"{}")
    """What former instances kept (`conductor.core.keeping`)."""
    known_as: tuple[str, ...] = ()
    """Other names of its own: of a bundled one that by which it comes."""
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
    numbers: int = 0
    """Where the numbers of messages begin; 0: what passes is not reported (see `Hop`)."""
    recording: bool = False
    """Whether each delivery is reported (see `conductor.run.report_lines`)."""
    auditing: bool = False
    """Whether what the guests change is reported (see `conductor.run.report_lines`)."""
    reserved: tuple[str, ...] = ()
    """Names of MCP servers that only their owners may use (`Router`)."""
    owned: dict[str, list[str]] = {}
    """After it has been started again: addresses of MCP, by the guest whose they are; by the empty
    name those of everybody else in the chain."""


class Fired(msgspec.Struct):
    """What a host reads of `timer/fired`."""

    timer: str = ""


class Recovered(msgspec.Struct, frozen=True):
    """What a child did about a guest that failed: `action` is `restart` or `bypass`."""

    component: str
    action: str
    text: str


class Hop(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message that a guest sends or gets, as the child reports it: `conductor.core.Trace`, and
    when it was. With `client` at one end it comes into the child there, or leaves it.
    """

    kind: str
    source: str
    target: str
    at: float
    """When, by the machine's monotonic clock, in seconds."""
    size: int
    """Bytes of the payload, which is left out where it would not fit in a line, and where the
    parent has it."""
    number: int
    id: str | None = None
    method: str | None = None
    is_error: bool = False
    request: int = 0
    passes: int = 0
    past: bool = False
    own: bool = False
    lost: bool = False
    payload: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class Relayed(msgspec.Struct):
    """What a host passes on from a guest, and to one."""

    component: str
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")
