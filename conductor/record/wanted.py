"""Opens a chain: its files on disk, its lock file, its processes.

The start path loads this module; a sink that a chain does not want is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.errors import ConductorError, UsageError
from conductor.run.launch import Launcher
from conductor.run.planned import Planned, Stderr
from conductor.spec.origins import blamed
from conductor.spec.plan import Plan

if TYPE_CHECKING:
    from conductor.record.turns.line import Line
    from conductor.run.log import Item, Sink
    from conductor.run.ring import Ring, Saved


Log = Callable[[str, str, str], None]
"""Writes a line: level, component name, text."""


class Sinking(msgspec.Struct, frozen=True):
    """A chain whose log gets sinks; its members are as `opened` takes them."""

    plan: Plan
    log: Log
    sinks: Sequence[Sink[Line]]
    watching: Sequence[Sink[Line]]
    messages: bool


class Opened(msgspec.Struct, frozen=True):
    """A chain that is ready for its event loop."""

    sinks: list[Sink[Item]]
    """Of its log."""
    launcher: Launcher
    planned: list[Planned]


def opened(
    plan: Plan,
    log: Log,
    *,
    on_stderr: Stderr,
    sinks: Sequence[Sink[Line]] = (),
    watching: Sequence[Sink[Line]] = (),
    messages: bool = False,
) -> Opened:
    """Opens a chain. The order puts a refusal on the audit, and runs nothing before
    the gates allow it. Raises `ConductorError`.

    Args:
        plan: The chain.
        log: Writes a line: level, component name, text.
        on_stderr: Takes lines that components write to standard error.
        sinks: Take the lines of the trace too.
        watching: Take lines with the whole content of every message, and keep them in memory: who
            is the client of the chain sees this content anyway.
        messages: The log gets a line for each message.
    """
    from conductor.run.log import ChainLog

    chain = Sinking(plan, log, sinks, watching, messages)
    opened_sinks = [sink for opens in SINKS if (sink := opens(chain)) is not None]
    entries = ChainLog(opened_sinks, log)
    try:
        if entries.watches:
            plan = plan.with_options(recording=True)
        launcher = Launcher(plan, on_stderr, lambda name, text: log("warning", name, text))
        return Opened(opened_sinks, launcher, launcher.plan(plan.components))
    except ConductorError as error:
        entries.end(error.text)
        entries.close()
        raise


def _audit(chain: Sinking) -> Sink[Item] | None:
    """Opens the audit, with a record of the components that are about to run. Raises
    `UsageError`."""
    plan, options = chain.plan, chain.plan.options
    if options.audit is None:
        return None
    from conductor.record.audit.auditor import Auditor
    from conductor.record.audit.file import AuditFile
    from conductor.version import version

    content = options.audit_content or options.trace_content
    try:
        file = AuditFile.open(options.audit, chain.log)
    except UsageError as error:
        error = UsageError(error.text, options.audit_rule or error.hint)
        raise blamed(error, plan.origin("audit")) from None
    auditor = Auditor(file, content)
    auditor.begin(version(), plan)
    return auditor


def _ring(chain: Sinking) -> Sink[Item] | None:
    """The last messages, in memory."""
    options = chain.plan.options
    if not options.ring:
        return None
    from conductor.run.ring import Ring

    def save(ring: Ring, why: str, mode: Callable[[], str]) -> Saved:
        from conductor.record.ring.file import saved  # only once there is something to write

        return saved(ring, why, mode, options.trace_content, chain.log)

    return Ring(options.ring, save)


def _messages(chain: Sinking) -> Sink[Item] | None:
    """A line of the log for each message."""
    if not chain.messages:
        return None
    from conductor.run.message_log import MessageLog

    return MessageLog(chain.log)


def _trace(chain: Sinking) -> Sink[Item] | None:
    """The trace, its file open. Raises `UsageError`."""
    plan, options = chain.plan, chain.plan.options
    content = options.trace_content
    if options.trace is None and not chain.sinks:
        return None
    from conductor.record.trace.chain import described
    from conductor.record.trace.file import TraceFile
    from conductor.record.trace.tracer import Tracer

    path, most = options.trace, options.trace_size
    try:
        file = TraceFile.create(path, chain.log, most) if path is not None else None
    except UsageError as error:
        raise blamed(error, plan.origin("trace")) from None
    # Without content nothing can be replayed, and where components lie is nobody's business.
    is_told = content != "none"
    components = described(plan, content) if is_told else []
    return Tracer([*([file] if file is not None else []), *chain.sinks], content, chain=components)


def _watched(chain: Sinking) -> Sink[Item] | None:
    """Opens the sink for the page of a chat."""
    if not chain.watching:
        return None
    from conductor.record.trace.tracer import Tracer

    return Tracer(chain.watching, "all")


SINKS: Final[tuple[Callable[[Sinking], Sink[Item] | None], ...]] = (
    _messages,
    _trace,
    _watched,
    _audit,
    _ring,
)
"""Functions that each open a sink for the log of a chain, if the chain wants the sink."""
