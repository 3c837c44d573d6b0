"""One component: its program, its rights, its limits.

`Spec` is the only model of a component. `conductor.spec.catalog` makes it from a user's words.
Everything else is a projection of it. `Hosted` is the part that the host of a guest receives
(`conductor.run.segment_spec.GuestSpec`), a lock's entry the part that a lock file pins
(`conductor.spec.lock.entries`), `configuration` the part that the component itself receives
(`conductor.spec.settings`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from conductor.core.policy import words
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.words import TRUSTED

if TYPE_CHECKING:
    from conductor.spec.installed import Receipt
    from conductor.spec.manifest.reading import Manifest, Setting
    from conductor.spec.python_guest.facts import Declared


Kind = Literal["module", "script", "command", "python", "remote"]
"""The kind of a component: a WebAssembly module or Python source in the sandbox, a program, an
object of this process, or a component at an address."""


class Hosted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a sandboxed component that its host needs.

    A base of `Spec` and of `GuestSpec`, so that each of these fields is declared once.
    """

    name: str
    wasm: str | None = None
    """Path of the module."""
    sha256: str = ""
    """The digest the module's file must have, if it is known."""
    script: str = ""
    """Python source that the guest in `wasm` runs: a `.py` file or a folder."""
    script_sha256: str = ""
    """The digest `script` must have, if it is known."""
    locked: str = ""
    """The lock file that the digests come from, or `digests.AGREED`; empty: a manifest."""
    dialect: str | None = None
    limits: dict[str, int] = {}
    """Limits that differ from `conductor.spec.limits.DEFAULT_LIMITS`."""
    on_failure: str = "fail"
    """The actions on its failure (`conductor.core.restart_state.CHOICES`)."""
    timeout: float | None = None
    """Seconds it may take to answer a request other than a prompt; None: no limit, but for
    `initialize`."""
    policy: PolicyWords = PolicyWords((TRUSTED,))
    """Its rights. By default a sandboxed component has `context`, or less if its manifest requests
    less, and a bundled component has the rights that its manifest requests."""

    @property
    def peers(self) -> tuple[str, ...]:
        """The peer agents that it reaches, by name."""
        return words.agents(self.policy.rights, "peer")

    @property
    def ports(self) -> dict[str, bool]:
        """The peer agents that it reaches, and whether it has a policy there."""
        names = self.peers
        return dict.fromkeys(names, bool(names) and self.policy.policy() is not None)

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents beside the chain with which it may have sessions go on, by name."""
        return words.agents(self.policy.rights, "agent")


class Spec(Hosted, frozen=True, kw_only=True):
    """One component, resolved.

    Exactly one of `command` (subprocess), `wasm` (path of a module, sandboxed), `attribute`
    (`module:attribute`, in process) and `address` (elsewhere) is set.
    """

    command: list[str] | None = None
    env: dict[str, str] | None = None
    variables: dict[str, str] = {}
    """The variables of its environment that the user wrote; of a secret its reference."""
    secrets: dict[str, str] = {}
    """The variables whose values are secrets: they are not in `env` (`conductor.spec.secrets`)."""
    attribute: str | None = None
    address: str | None = None
    """The address where it is reached (`conductor.transports.remote.address`)."""
    token: str = ""
    """The reference of the secret for the address (`conductor.spec.secrets`); empty: none."""
    ca: str = ""
    """The file of the certificates to trust at the address; empty: the system's."""
    retries: int = 0
    """How often a connection is tried again, until the component says something."""
    source: str = ""
    """The user's word for the component: a path, a name, a program."""
    bundled: str | None = None
    """Its name among the components that come with conductor, if it is bundled."""
    receipt: Receipt | None = None
    """The receipt of its installation, if `conductor add` has installed it."""
    manifest: Manifest | None = None
    """Its declarations: in its `component.toml`, within its module, or in its Python source."""
    manifest_path: str = ""
    """Its `component.toml`, if it has one and is not bundled."""
    unreadable_rights: bool = False
    """Whether its Python source may name rights in a form that cannot be read from the source."""
    declared: Declared | None = None
    """The declarations in its Python source, as far as they can be read; None of a bundled one."""
    pins: dict[str, str] = {}
    """Digests by path: files and folders that a lock compares whenever the component starts."""
    required: bool = False
    """Whether the managed policy requires it as it is: then its user need agree to nothing."""
    asked: bool = False
    """Whether its user is about to be asked for its lacking rights, which it has not yet."""
    denied: tuple[str, ...] = ()
    """Rights that the user denies it: it is not asked about them."""
    config: dict[str, Any] = {}
    config_file: str | None = None
    """A file with more of its settings (`conductor.spec.settings`)."""
    chosen: bool = False
    """Whether the user named all the rights of `policy`."""
    quiet: float | None = None
    """Of an agent: seconds without a message from it after which its turns are cancelled."""
    peer_agent: bool = False
    """Whether it is a peer agent: an agent beside the chain, of which one component is the client.
    """
    mcp_bridge: str | None = None
    """For an agent: how it receives MCP servers of proxies (`conductor.mcp.KINDS`)."""
    below: Spec | None = None
    """The component before its uppermost layer (`conductor.spec.origins`)."""
    written: str = ""
    """The file and the line that name it; empty: the command line names it."""
    set_by: str = ""
    """Who set this layer: a file and its line, the command line, the user's consent …"""

    @property
    def kind(self) -> Kind:
        """The kind, as the word that traces, audits, locks and telemetry have for it."""
        if self.sandboxed:
            return "script" if self.script else "module"
        if self.address is not None:
            return "remote"
        return "command" if self.command is not None else "python"

    @property
    def sandboxed(self) -> bool:
        """Whether it runs as a WASM guest."""
        return self.wasm is not None

    @property
    def has_machine(self) -> bool:
        """Whether it runs here with all rights of the user, so that services add nothing."""
        return not self.sandboxed and self.address is None

    @property
    def grants(self) -> frozenset[str] | None:
        """Services it may use; None: all, as a program that has the machine anyway."""
        return None if self.has_machine else words.services(self.policy.rights)

    @property
    def schema(self) -> dict[str, Setting]:
        """The settings its manifest declares."""
        return self.manifest.settings if self.manifest is not None else {}

    @property
    def defaults(self) -> dict[str, Any]:
        """The settings that its manifest gives defaults, with these."""
        return {key: s.default for key, s in self.schema.items() if s.default is not None}

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other names of its own, which its MCP servers may have."""
        return (self.bundled,) if self.bundled else ()

    @property
    def what(self) -> str:
        """The command, path, address or attribute that runs, as a person would type it."""
        if self.command is not None:
            import shlex  # a host of guests has none

            return shlex.join(self.command)
        return self.address or self.script or self.wasm or f"py:{self.attribute}"

    def label(self, role: str) -> str:
        """The name of the component in errors, e.g. "proxy `date` (python date.py)"."""
        what = self.what if self.wasm is None else os.path.basename(self.what)
        return f"{role} `{self.name}`" + ("" if what == self.name else f" ({what})")


def role_of(spec: Spec, *, last: bool) -> Literal["proxy", "agent"]:
    """The role of a component; `last`: it is where a chain has its agent."""
    return "agent" if last or spec.peer_agent else "proxy"
