"""How a chain runs: its options, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import msgspec

from conductor.spec.paths import LOCK_FILE
from conductor.transports.framing import LINE_LIMIT

ISOLATIONS: Final = ("process", "inline", "separate")
ASKS: Final = ("auto", "never", "always")
"""`auto`: once for each version of a component; `always`: also where the user has agreed."""

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
    """Sources wait while a peer has more than this unsent."""
    low_water: int = 1024 * 1024
    """Waiting sources go on once a peer has less than this unsent."""
    hard_water: int = 32 * 1024 * 1024
    """Above this even proxies wait."""
    stall: float = 300.0
    """A peer that takes nothing for this long while others wait for it is closed."""
    grace: float = 2.0
    """Before each harder step of ending a process."""
    drain: float = 10.0
    """After the client's end of file, while requests are open: the longest time without a message
    of the chain."""
    drain_total: float = 600.0
    """After the client's end of file: the longest time for all open requests."""
    verbose: bool = False
    reload: bool = False
    """Replace a proxy by its new build as soon as its file changes."""
    require_hardening: bool = False
    """Refuse to host guests unless the kernel's restrictions are in force."""
    require_sandbox: bool = False
    """Refuse a chain with a proxy that is not sandboxed."""
    audit: str | None = None
    """File for records of violations and failures (`conductor.record.audit`); None: no records."""
    audit_content: str | None = None
    """The part of changed messages that an audit holds; None: as `trace_content` says."""
    audit_rule: str = ""
    """The rule that requires the audit, for people: the chain ends with its audit. Empty: none."""
    trace: str | None = None
    """File that every message is written to (`conductor.record.trace`); None: no trace."""
    trace_content: str = "redacted"
    """The part of each message that is written: `all`, `redacted` (no secrets), or `none`."""
    trace_size: int = 1024 * 1024 * 1024
    """The most bytes of the trace; a full trace ends with a line that says so; 0: no bound."""
    recording: bool = False
    """Have hosts report the messages between their guests; a trace implies it."""
    deliveries: bool = False
    """Have hosts also report the input and output of each guest: for a transcript."""
    ring: int = 2 * 1024 * 1024
    """The most bytes of the last messages in memory (`conductor.run.ring`); 0: none."""
    reserved: tuple[str, ...] = msgspec.field(default_factory=_bundled)
    """Names that only an MCP server of their owner may have; default: the bundled components."""
    mcp_bridge: str = "auto"
    """How the agent receives MCP servers of ACP transport (`conductor.mcp.KINDS`)."""
    pin_mcp: bool = False
    """Whether the client's MCP servers are reached in the agent's place, so that their tools are
    compared."""
    changed_tools: str = "ask"
    """The reaction to a change of an MCP server's tools (`conductor.mcp.ON_CHANGE`)."""
    ask: str = "auto"
    """Whether the user is asked for the rights that components want beyond the default (`ASKS`)."""
    locked: bool = False
    """Refuse a chain that the lock file does not allow (docs/configuration.md, "Locks")."""
    values: str | None = None
    """The file of the values that components keep (`kv`); None: the user's file."""
    keeper: Any = None
    """The keeper of these values in place of a file: a `conductor.services.kv.Values`."""
    keeping: Literal["file", "memory", "nowhere"] = "file"
    """Where the additions of components to prompts are kept (`conductor.run.kept_prompts`): in a
    `file` of the user's, in `memory`, or `nowhere`."""
    keep_values: int = 180
    """The days until a value is removed that its component does not use; 0: for ever."""
    metrics: str | None = None
    """The file for the numbers of the chain and of its proxies; None: none."""
    relays: bool = False
    """Hosts of guests perform no service, and relay every call: a replay answers it."""
    prometheus: int | None = None
    """Port at which Prometheus reads the same numbers, on this machine alone; None: none."""
    otlp: str | None = None
    """The collector that gets spans and numbers: its address, or `env`, the address of the
    variables OTEL_…; None or `none`: none."""
    propagate: bool = False
    """The agent gets the trace context of each request, and programs get the trace context of the
    run; needs `otlp`.
    """
    traceparent: str = ""
    """The variable TRACEPARENT of programs; empty: as in conductor's own environment."""
    control: str = "on"
    """Whether the chain has a control socket: `on` or `off`."""
    log_file: str | None = None
    """The log file; `none`: no log file; None: a new file in the user's folder of logs."""
    log_format: str = "text"
    """How standard error gets the log: `text` for people, or `json`."""
    peer: tuple[str, ...] = ()
    """The peer agents: `NAME=COMMAND` each (`conductor.spec.peer_agents`)."""
    branch: tuple[str, ...] = ()
    """The peer agents that are chains with an agent like this chain's: `NAME=PROXIES` each."""
    logins: bool = True
    """Whether the client can start this command line again, for a login by terminal."""
    lock_file: str | None = None
    """The lock file, if it is not `LOCK_FILE`; then `locked` need not be set."""
    set_by: Mapping[str, str] = {}
    """Who set each option; of the options that are not here the default holds."""

    @property
    def sends(self) -> bool:
        """Whether spans and numbers go to a collector."""
        return self.otlp not in (None, "none")

    @property
    def measures(self) -> bool:
        """Whether there are numbers or spans of the chain (`conductor.telemetry`)."""
        numbers = self.metrics is not None or self.prometheus is not None
        return self.sends or numbers or self.propagate

    @property
    def lock(self) -> str | None:
        """The lock file to enforce; None: none."""
        if self.lock_file is not None:
            return self.lock_file
        return LOCK_FILE if self.locked else None
