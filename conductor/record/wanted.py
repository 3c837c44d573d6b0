"""Opens a chain: what it is to leave on disk, its lock file, its processes.

The start path loads this module; what a chain does not want is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from conductor.errors import ConductorError, UsageError
from conductor.run.launch import Launcher
from conductor.run.plan import Options, Planned, Stderr
from conductor.spec.model import Spec

if TYPE_CHECKING:
    from conductor.record.audit.auditor import Auditor
    from conductor.record.trace.sinks import Sink
    from conductor.run.log import Sink as EntrySink


Log = Callable[[str, str, str], None]
"""Writes a line: level, component name, text."""


class Sinking(NamedTuple):
    """A chain whose log gets sinks; its members are as `opened` takes them."""

    specs: Sequence[Spec]
    options: Options
    log: Log
    sinks: Sequence[Sink]
    watching: Sequence[Sink]
    agent_last: bool


class Opened(NamedTuple):
    """A chain that is ready for its event loop."""

    entry_sinks: list[EntrySink]
    """Of its log."""
    auditor: Auditor | None
    launcher: Launcher
    planned: list[Planned]


def opened(
    specs: list[Spec],
    options: Options,
    log: Log,
    *,
    mode: str,
    on_stderr: Stderr,
    sinks: Sequence[Sink] = (),
    watching: Sequence[Sink] = (),
) -> Opened:
    """Opens a chain, in the order that puts a refusal on the audit, and that runs nothing before
    the lock file allows it. Raises `ConductorError`.

    Args:
        specs: The components.
        options: How the chain is run.
        log: Writes a line: level, component name, text.
        mode: `agent`, `proxy` or `auto`.
        on_stderr: Takes what components write to standard error.
        sinks: Take the lines of the trace too.
        watching: Take lines with the whole content of every message, and keep them in memory: who
            is the client of the chain sees that content anyway.
    """
    agent_last = mode != "proxy"
    chain = Sinking(specs, options, log, sinks, watching, agent_last)
    entry_sinks = [sink for opens in SINKS if (sink := opens(chain)) is not None]
    auditing = _auditor(options, log, mode, specs)
    try:
        specs = locked(specs, options, log, agent_last=agent_last)
        if any(sink.watches for sink in entry_sinks):
            options = msgspec.structs.replace(options, recording=True)
        launcher = Launcher(options, agent_last=agent_last, on_stderr=on_stderr)
        return Opened(entry_sinks, auditing, launcher, launcher.plan(specs))
    except ConductorError as error:
        if auditing is not None:
            auditing.end(error.text)
        raise


def _trace(chain: Sinking) -> EntrySink | None:
    """The trace, its file open. Raises `UsageError`."""
    options, content = chain.options, chain.options.trace_content
    if options.trace is None and not chain.sinks:
        return None
    from conductor.record.trace.chain import described
    from conductor.record.trace.file import TraceFile
    from conductor.record.trace.sinks import Several
    from conductor.record.trace.tracer import Tracer

    path, most = options.trace, options.trace_size
    file = [TraceFile.create(path, chain.log, most)] if path is not None else []
    every: list[Sink] = [*file, *chain.sinks]
    # Without content nothing can be replayed, and where components lie is nobody's business.
    is_told = content != "none"
    components = described(chain.specs, content, agent_last=chain.agent_last) if is_told else []
    return Tracer(every[0] if len(every) == 1 else Several(every), content, chain=components)


def _watched(chain: Sinking) -> EntrySink | None:
    """What a page shows of a chat."""
    if not chain.watching:
        return None
    from conductor.record.trace.sinks import Several
    from conductor.record.trace.tracer import Tracer

    return Tracer(Several(chain.watching), "all")


SINKS: Final[tuple[Callable[[Sinking], EntrySink | None], ...]] = (_trace, _watched)
"""Each opens a sink for the log of a chain, if one is wanted."""


def _auditor(options: Options, log: Log, mode: str, specs: Sequence[Spec]) -> Auditor | None:
    """The audit, with a record of what is about to run; None if none is wanted.

    Raises `UsageError`.
    """
    if options.audit is None:
        return None
    from conductor.record.audit.auditor import Auditor
    from conductor.record.audit.file import AuditFile
    from conductor.version import version

    content = options.audit_content or options.trace_content
    try:
        file = AuditFile.open(options.audit, log)
    except UsageError as error:
        raise UsageError(error.text, options.audit_rule or error.hint) from None
    auditor = Auditor(file, content)
    auditor.begin(version(), mode, specs, agent_last=mode != "proxy", isolation=options.isolation)
    return auditor


def locked(specs: list[Spec], options: Options, log: Log, *, agent_last: bool) -> list[Spec]:
    """The components, held to the lock file if there is one to enforce. Raises `UsageError`."""
    if options.lock is None:
        return specs
    from conductor.record.redaction import redacted
    from conductor.spec.lock import compare

    return compare.enforce(
        specs,
        options.lock,
        redacted,
        agent_last=agent_last,
        isolation=options.isolation,
        warn=lambda name, text: log("warning", name, text),
    )
