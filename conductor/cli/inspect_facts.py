"""What `conductor inspect` has to say of a component, as `--json` prints it."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.cli.inspect_policy import PolicyFacts
from conductor.spec.manifest.reading import Setting
from wasm_host.harden import Layer


class Service(msgspec.Struct, frozen=True):
    """One service of the conductor. `reason`: why the component wants it, as its author says."""

    name: str
    granted: bool
    reason: str | None = None


class Wants(msgspec.Struct, frozen=True, kw_only=True):
    """What it asks for. `services`: with the reason its author gives."""

    source: str = "manifest"
    """Where it asks: in its `manifest`, or in its `source` (Python without a manifest)."""

    profile: str | None = None
    reason: str = ""
    """Why it needs that profile."""
    services: dict[str, str] = {}
    rights: dict[str, str] = {}
    grants: dict[str, str] = {}
    """What it wants by name."""
    not_granted: list[str] = []
    """Of the services, those it will not get."""
    rights_not_granted: list[str] = []
    grants_not_given: list[str] = []
    profile_granted: bool = True
    """Whether the policy it is given allows all that the profile asked for would."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a component. `problems`: why it is refused, or should not be trusted."""

    component: str
    name: str
    kind: str
    """`bundled component`, `module`, `command` or `in-process code`."""
    role: str
    sandboxed: bool
    version: str | None = None
    description: str | None = None
    command: list[str] | None = None
    file: str | None = None
    sha256: str | None = None
    recorded_sha256: str | None = None
    size: int | None = None
    carrier: str | None = None
    abi: int | None = None
    memory_pages: tuple[int, int | None] | None = None
    imports: list[str] | None = None
    exports: list[str] | None = None
    wasi: list[str] | None = None
    forbidden: list[str] | None = None
    dialect: str
    """Its name, or that it is found out when it starts."""
    services: list[Service] = []
    settings: dict[str, Setting] = {}
    """The settings it knows."""
    config: dict[str, Any] = {}
    limits: dict[str, int | None] | None = None
    isolation: str
    cage: list[Layer] = []
    """What keeps the process of sandboxed components in, as tried out on this machine."""
    policy: PolicyFacts | None = None
    """What it may do to the conversation, as a proxy; None for what can only be an agent."""
    wants: Wants = Wants()
    on_failure: str = "fail"
    timeout: float | None = None
    notes: list[str] = []
    problems: list[str] = []
    hint: str = ""
