"""`conductor exec COMPONENT… -p PROMPT`: one prompt through a chain, from the terminal.

The chain runs in this process, with `conductor.cli.client` where an editor would be.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from conductor.cli import report
from conductor.cli.client import (
    PERMISSION,
    UNSUPPORTED_VERSION,
    ChainEnded,
    Client,
    Handler,
    RpcError,
)
from conductor.cli.client_files import Files
from conductor.cli.client_output import JsonView, Output, OutputClosed, TextView, View
from conductor.cli.client_permissions import CANCELLED, Permissions, ask_terminal
from conductor.cli.run import (
    locked,
    refusals,
    run_loop,
    start_audit,
    start_trace,
    tell_first_use,
)
from conductor.cli.version import version
from conductor.errors import ConductorError
from conductor.run.launch import plan
from conductor.run.plan import Options
from conductor.run.runtime import Runtime
from conductor.spec.catalog import resolve_all
from conductor.transports.memory import MemoryTransport

FORMATS: Final = ("text", "json")

EXIT_FAILED: Final = 1
EXIT_TIMEOUT: Final = 3
EXIT_NO_SESSION: Final = 4
EXIT_REFUSED: Final = 5
EXIT_INTERRUPTED: Final = 130

_CANCEL_GRACE: Final = 2.0
"""Seconds an agent has to end a turn that ran out of time."""

_LOOK: Final = "run it again with --log debug to see what the chain does"

_STOPS: Final[dict[str, tuple[int, str, str]]] = {
    "end_turn": (0, "", ""),
    "refusal": (EXIT_REFUSED, "the agent refused to go on", "ask in other words"),
    "max_tokens": (
        EXIT_FAILED,
        "the answer is cut off: the agent ran out of tokens",
        "ask for less, or give the agent a higher limit",
    ),
    "max_turn_requests": (
        EXIT_FAILED,
        "the turn was cut off: the agent made as many model requests as it may",
        "ask for less, or give the agent a higher limit",
    ),
    "cancelled": (EXIT_FAILED, "the turn was cancelled from within the chain", _LOOK),
}
"""Stop reason -> exit code, error, hint."""

_ADVICE: Final = {
    -32000: "log in with the agent's own command first, then run this again",
    UNSUPPORTED_VERSION: "use a version of the agent that speaks ACP version 1",
}
"""Error code -> hint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What to run. `cwd`: absolute folder of the session. `timeout`: seconds, None: no limit."""

    components: list[str]
    prompt: str
    cwd: str
    format: str = "text"
    permissions: str = "deny"
    fs: str = "none"
    timeout: float | None = None
    log: str = "warning"
    options: Options = field(default_factory=Options)


def execute(turn: Turn) -> int:
    """Runs the turn; the exit code: see `conductor exec --help`."""
    # Once the turn is over nothing of it is left to wait for.
    options = msgspec.structs.replace(turn.options, drain=0.0)
    try:
        specs = resolve_all(turn.components)
        tell_first_use(specs)
        tracer = start_trace(options, turn.log)
        auditor = start_audit(options, turn.log, "agent", specs)
        with refusals(auditor):
            specs = locked(specs, options, turn.log, agent_last=True)
            lines = report.lines(turn.log, specs)
            planned, guardian = plan(
                specs, options, agent_last=True, on_stderr=report.relay(turn.log, lines)
            )
    except ConductorError as error:
        report.error(error.text, error.hint)
        return error.exit_code
    output = Output()
    view: View = JsonView(output) if turn.format == "json" else TextView(output)
    client = _client(turn, view)
    runtime = Runtime(
        planned,
        "agent",
        MemoryTransport(client.run),
        options,
        log=lines.say,
        tracer=tracer,
        auditor=auditor,
    )
    control = _Control(client, runtime, view, turn.timeout)
    try:
        run_loop(control.run())
    finally:
        guardian.release()
        lines.close()
    if client.defect is not None:
        raise client.defect
    if output.line_open and output.terminal:
        report.write("")
    return _report(control, client, runtime)


def _client(turn: Turn, view: View) -> Client:
    files = Files(Path(turn.cwd), turn.fs)
    permissions = Permissions(turn.permissions, view.note, ask_terminal)
    handlers: dict[str, Handler] = {PERMISSION: permissions.request}
    if files.reads:
        handlers["fs/read_text_file"] = files.read
    if files.writes:
        handlers["fs/write_text_file"] = files.write
    return Client(
        prompt=turn.prompt,
        cwd=turn.cwd,
        info={"name": "conductor-exec", "title": "conductor exec", "version": version()},
        capabilities={"fs": files.capability(), "terminal": False},
        view=view,
        handlers=handlers,
        cancelled_permission=CANCELLED,
    )


class _Control:
    """Ends the turn before it ends itself: signals and the time limit."""

    def __init__(self, client: Client, runtime: Runtime, view: View, timeout: float | None) -> None:
        self._client = client
        self._runtime = runtime
        self._view = view
        self.timeout = timeout
        self.timed_out = False
        self.signal = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._terminate, number)
        if self.timeout is not None:
            loop.call_later(self.timeout, self._expire)
        return await self._runtime.run()

    def _interrupt(self) -> None:
        again = self.signal == signal.SIGINT
        self.signal = self.signal or signal.SIGINT
        if not again and self._client.cancel():
            self._view.note("cancelling the turn; Ctrl-C again ends it at once")
        else:
            self._runtime.stop()

    def _terminate(self, number: int) -> None:
        self.signal = self.signal or number
        self._runtime.stop()

    def _expire(self) -> None:
        if self.signal or self._client.over:
            return
        self.timed_out = True
        if self._client.cancel():
            asyncio.get_running_loop().call_later(_CANCEL_GRACE, self._runtime.stop)
        else:
            self._runtime.stop()


def _report(control: _Control, client: Client, runtime: Runtime) -> int:
    """Says what went wrong, once, and finds the exit code."""
    if control.signal:
        return 128 + control.signal
    if control.timed_out:
        report.error(
            f"no end of the turn within {control.timeout:g} s",
            "give it longer with --timeout SECONDS",
        )
        return EXIT_TIMEOUT
    if client.stop_reason is not None:
        code, text, hint = _STOPS.get(
            client.stop_reason,
            (EXIT_FAILED, f"the turn ended with `{client.stop_reason}`", _LOOK),
        )
        if text:
            report.error(text, hint)
        return code
    if runtime.failure is not None:
        report.error(runtime.failure.text, runtime.failure.hint)
        return EXIT_FAILED
    return _report_error(client)


def _report_error(client: Client) -> int:
    match client.error:
        case RpcError(code=code, message=message):
            # Of a hint in it nobody can tell whether it is ours: all of it is quoted.
            report.error(f"{client.stage} failed: {message}", _ADVICE.get(code, _LOOK))
            return EXIT_NO_SESSION if client.stage == "session/new" else EXIT_FAILED
        case OutputClosed():
            report.error(f"standard output cannot be written: {client.error}", "read it to its end")
        case ChainEnded() | None:
            report.error("the chain ended without an answer", _LOOK)
    return EXIT_FAILED
