"""Runs a chain between this process's standard input and output.

The order matters: components are started before the event loop's modules are imported, so that
both happen at the same time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import report
from conductor.cli.fast import Parsed
from conductor.core.dialects import DIALECTS
from conductor.errors import ConductorError
from conductor.run import spawn
from conductor.run.launch import Options, Planned, plan
from conductor.spec.catalog import resolve_all
from conductor.transports.process_groups import Guardian, adopt_orphans, end_strays

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from conductor.record.audit.auditor import Auditor
    from conductor.record.trace.tracer import Tracer
    from conductor.run.runtime import Runtime
    from conductor.services.log_lines import LogLines
    from conductor.spec.catalog import Spec

_FIRST_REQUEST: Final = 2.0
"""Seconds a client has to send the request that a failed start is reported to."""


def chain(parsed: Parsed) -> int:
    """Runs the chain; the exit code."""
    try:
        specs = resolve_all(parsed.components, agent_last=parsed.mode != "proxy")
        tell_first_use(specs)
        tracer = start_trace(parsed.options, parsed.log)
        auditor = start_audit(parsed.options, parsed.log, parsed.mode, specs)
        with refusals(auditor):
            specs = locked(specs, parsed.options, parsed.log, agent_last=parsed.mode != "proxy")
            planned, guardian = plan(
                specs,
                parsed.options,
                agent_last=parsed.mode != "proxy",
                on_stderr=report.relay(parsed.log, lines := report.lines(parsed.log, specs)),
            )
    except ConductorError as error:
        spawn.discard()
        report.error(error.text, error.hint)
        tell_client(error)
        return error.exit_code
    del specs
    return _run(parsed, planned, guardian, lines, tracer, auditor)


def tell_first_use(specs: Sequence[Spec]) -> None:
    """Tells what components ask for that are used for the first time."""
    if any(spec.older or spec.asked or (spec.sandboxed and not spec.bundled) for spec in specs):
        from conductor.cli import first_use

        first_use.tell(specs)


def start_trace(options: Options, log: str) -> Tracer | None:
    """The trace that was asked for, its file open. Raises `UsageError` where that cannot be."""
    if options.trace is None:
        return None
    from conductor.record.trace.file import TraceFile
    from conductor.record.trace.tracer import Tracer

    file = TraceFile.create(options.trace, report.logger(log))
    return Tracer(file, options.trace_content)


def start_audit(options: Options, log: str, mode: str, specs: Sequence[Spec]) -> Auditor | None:
    """The audit that was asked for, with what is about to run on record. Raises `UsageError`."""
    if options.audit is None:
        return None
    from conductor.cli.version import version
    from conductor.record.audit.auditor import Auditor
    from conductor.record.audit.file import AuditFile

    file = AuditFile.open(options.audit, report.logger(log))
    auditor = Auditor(file, options.trace_content)
    auditor.begin(version(), mode, specs, agent_last=mode != "proxy", isolation=options.isolation)
    return auditor


def locked(specs: list[Spec], options: Options, log: str, *, agent_last: bool) -> list[Spec]:
    """The components, held to the lock file if one was asked for. Raises `UsageError`."""
    if options.lock is None:
        return specs
    from conductor.spec.lock import enforcement

    logger = report.logger(log)
    return enforcement.enforce(
        specs,
        options.lock,
        agent_last=agent_last,
        isolation=options.isolation,
        warn=lambda name, text: logger("warning", name, text),
    )


@contextlib.contextmanager
def refusals(auditor: Auditor | None) -> Iterator[None]:
    """Puts on record that a chain was refused; the error goes on."""
    try:
        yield
    except ConductorError as error:
        if auditor is not None:
            auditor.end(error.text)
        raise


def _run(
    parsed: Parsed,
    planned: list[Planned],
    guardian: Guardian,
    lines: LogLines,
    tracer: Tracer | None,
    auditor: Auditor | None,
) -> int:
    import gc

    from conductor.run.runtime import Runtime
    from conductor.transports.stdio import StdioTransport

    runtime = Runtime(
        planned,
        parsed.mode,
        StdioTransport(line_limit=parsed.options.line_limit),
        parsed.options,
        log=lines.say,
        on_failure=lambda reason: report.error(reason.text, reason.hint),
        outer_dialect=DIALECTS.get(parsed.dialect) if parsed.dialect else None,
        tracer=tracer,
        auditor=auditor,
    )
    # What exists now lives as long as the process; collecting it again and again costs latency.
    gc.freeze()
    gc.set_threshold(20_000, 50, 50)
    gc.enable()
    stopped: list[int] = []
    code = run_loop(_until_done(runtime, stopped))
    lines.close()
    guardian.release()
    end_strays()
    return 128 + stopped[0] if stopped else code


async def _until_done(runtime: Runtime, stopped: list[int]) -> int:
    import asyncio

    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped:
            os._exit(128 + number)  # the guardian ends what we started
        stopped.append(number)
        runtime.stop()

    if sys.platform != "win32":
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGHUP, runtime.reload)
        loop.add_signal_handler(signal.SIGUSR1, tell_health, runtime)
    adopt_orphans()
    return await runtime.run()


def tell_health(runtime: Runtime) -> None:
    """Writes how each component is to standard error."""
    for name, text in runtime.health():
        report.write(f"health: {name}: {text}")


def run_loop(work: Coroutine[Any, Any, int]) -> int:
    """Runs `work` on uvloop where there is one."""
    if sys.platform == "win32":
        import asyncio

        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def tell_client(error: ConductorError) -> None:
    """Answers the client's first request with why the chain could not be started.

    An editor shows that; an exit without an answer it can only call a crash. Not on a terminal.
    """
    if sys.stdin is None or sys.stdin.closed or os.isatty(0):
        return
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([0], [], [], _FIRST_REQUEST)[0]:
            return
        more = os.read(0, 65536)
        if not more:
            break
        line += more
    from conductor.core import jsonrpc

    try:
        message = jsonrpc.parse(line.split(b"\n", 1)[0])
    except jsonrpc.Malformed:
        return
    if not isinstance(message, jsonrpc.Message) or not isinstance(message.id, msgspec.Raw):
        return
    text = f"{error.text}\nhint: {error.hint}" if error.hint else error.text
    body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, text, error.data or None)
    os.write(1, jsonrpc.answer(bytes(message.id), b"error", body))
