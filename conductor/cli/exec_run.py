"""Runs the chain of `conductor exec`, with `conductor.cli.exec_turn` in the editor's place."""

from __future__ import annotations

import asyncio
import signal
from functools import partial
from typing import TYPE_CHECKING, Final

from conductor import signals
from conductor.cli import error_details, exec_prompt, report
from conductor.cli.exec_ import EXIT_FAILED, EXIT_NO_SESSION, EXIT_REFUSED, EXIT_TIMEOUT
from conductor.cli.exec_output import JsonView, Output, OutputClosed, TextView, View
from conductor.cli.exec_turn import ExecTurn
from conductor.cli.loop import RingOnDemand, run_loop, settled_memory
from conductor.core.jsonrpc import REFUSED
from conductor.errors import RequestError, one_line, with_log
from conductor.transports.memory import MemoryTransport

if TYPE_CHECKING:
    from conductor.cli.exec_ import Asked
    from conductor.cli.started import Started
    from conductor.run.runtime import Runtime

_CANCEL_GRACE: Final = 2.0
"""Seconds that an agent gets to end a turn that ran out of time."""

_DEBUG: Final = "run it again with --log debug to see each step of the chain"
_DEBUGGED: Final = "`--trace FILE` records the messages"

_STOPS: Final[dict[str, tuple[int, str, str]]] = {
    "end_turn": (0, "", ""),
    "refusal": (EXIT_REFUSED, "{} refused to continue", "rephrase the prompt"),
    "max_tokens": (
        EXIT_FAILED,
        "the answer is cut off: the agent ran out of tokens",
        "ask for less, or give the agent a higher limit",
    ),
    "max_turn_requests": (
        EXIT_FAILED,
        "the turn was cut off: the agent reached its limit of model requests",
        "ask for less, or give the agent a higher limit",
    ),
    "cancelled": (EXIT_FAILED, "a component of the chain cancelled the turn", ""),
}
"""Stop reason -> exit code, error, hint; without a hint, the log says more."""


def run(started: Started, asked: Asked) -> int:
    """Runs one turn through a chain that was started; the exit code."""
    output = Output()
    view: View = JsonView(output) if asked.json else TextView(output)
    turn = ExecTurn(asked, view, ask=partial(_ask, started), answers=started.answers)
    runtime = started.runtime(MemoryTransport(turn.run))
    turn.agent_command = runtime.agent_command
    started.follow("line" if report.can_cover() else "once")
    control = _Control(turn, started, runtime, view, asked.timeout)
    settled_memory()
    try:
        run_loop(control.run)
    finally:
        started.close()
    if turn.defect is not None:
        raise turn.defect
    if output.line_open and output.terminal:
        report.write("")
    if not asked.reads_input and exec_prompt.is_unread():
        # As a diff is that was sent to standard input.
        text = "nobody reads standard input: the prompt is on the command line; `-p -` reads it"
        report.write(text, word="warning")
    return _report(control, turn, started, runtime)


async def _ask(started: Started, question: str) -> str:
    from conductor.cli.attach_typing import Typing  # few turns ask

    with started.hushed():
        return await Typing.once(question)


class _Control:
    """Ends the turn early: on a signal, or at the time limit."""

    def __init__(
        self,
        turn: ExecTurn,
        started: Started,
        runtime: Runtime,
        view: View,
        timeout: float | None,
    ) -> None:
        self._turn = turn
        self._started = started
        self._runtime = runtime
        self._view = view
        self.timeout = timeout
        self.timed_out = False
        self.waited_for = ""
        """The stage of the chain when the time was over."""
        self.signal = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        signals.call(loop, signal.SIGINT, self._interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signals.call(loop, number, self._terminate, number)
        signals.call(loop, signal.SIGUSR2, RingOnDemand(self._runtime))
        if self.timeout is not None:
            loop.call_later(self.timeout, self._expire)
        return await self._runtime.run()

    def _interrupt(self) -> None:
        again = self.signal == signal.SIGINT
        self.signal = self.signal or signal.SIGINT
        if not again and self._turn.interrupt():
            self._view.note("cancelling the turn; press Ctrl-C again to end it at once")
        else:
            self._runtime.stop()

    def _terminate(self, number: int) -> None:
        self.signal = self.signal or number
        self._runtime.stop()

    def _expire(self) -> None:
        if self.signal or self._turn.stop_reason or self._turn.error:
            return
        self.timed_out = True
        self.waited_for = self._started.waits()
        if self._turn.interrupt():
            asyncio.get_running_loop().call_later(_CANCEL_GRACE, self._runtime.stop)
        else:
            self._runtime.stop()


def _report(control: _Control, turn: ExecTurn, started: Started, runtime: Runtime) -> int:
    """Reports one error at most; returns the exit code."""
    if control.signal:
        return 128 + control.signal
    if turn.stop_reason not in ("end_turn", "refusal"):
        error = runtime.failure if runtime.failure is not None else turn.error
        text = getattr(error, "text", "")
        started.log.tell(error_details.shown(text, getattr(error, "details", None)))
    if control.timed_out:
        limit = f"{control.timeout:g} s"
        waits = f": {control.waited_for}" if control.waited_for else ""
        _fail(
            started,
            f"the turn did not end within {limit}{waits}",
            f"allow more: --timeout above {limit}",
        )
        return EXIT_TIMEOUT
    if turn.stop_reason is not None:
        code, text, hint = _STOPS.get(
            turn.stop_reason, (EXIT_FAILED, f"the turn ended with `{turn.stop_reason}`", "")
        )
        if text:
            _fail(started, text.format(_refuser(turn, started)), hint)
        return code
    if runtime.failure is not None:
        report.error(runtime.failure.text, runtime.failure.hint)
        return EXIT_FAILED
    return _report_error(turn, started)


def _refuser(turn: ExecTurn, started: Started) -> str:
    """Who has ended the turn with a refusal: a trusted component cannot be told from the agent."""
    if turn.refused_by:
        return f"`{one_line(turn.refused_by)}`"
    return "the agent" if started.alone else "the agent, or a trusted component before it,"


def _fail(started: Started, text: str, hint: str) -> None:
    """Reports an error; without a hint that belongs to it, where to see more."""
    if not hint:
        hint = _DEBUGGED if started.parsed.log == "debug" else _DEBUG
    report.error(text, with_log(hint, started.log.path))


def _report_error(turn: ExecTurn, started: Started) -> int:
    match turn.error:
        case RequestError(code=code, text=text, hint=hint, method=method, details=details):
            _fail(started, error_details.shown(text, details), hint)
            if code == REFUSED:
                return EXIT_REFUSED
            return EXIT_NO_SESSION if method == "session/new" else EXIT_FAILED
        case OutputClosed():
            failed = report.unwritable(str(turn.error))
            report.error(failed.text, failed.hint)
        case _:
            _fail(started, "the chain ended without an answer", "")
    return EXIT_FAILED
