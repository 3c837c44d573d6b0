"""`conductor exec COMPONENT… -p PROMPT`: sends one prompt through a chain, from the terminal.

The chain runs in this process, with `conductor.cli.exec_turn` in the editor's place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from conductor.cli import configured, error_details, exec_prompt, options, report, silence
from conductor.cli.exec_output import JsonView, Output, OutputClosed, TextView, View
from conductor.cli.exec_turn import ExecTurn
from conductor.cli.run import RingOnDemand, Started, run_loop, settled_memory
from conductor.client.connection import ChainEnded
from conductor.client.handlers import Files, Permissions, ask_terminal
from conductor.client.setup import folder
from conductor.core.jsonrpc import REFUSED
from conductor.core.policy.key_table import PERMISSION
from conductor.errors import ConductorError, RequestError, UsageError, one_line, with_log
from conductor.run import spawn
from conductor.run.runtime import Runtime
from conductor.spec.consent import Where
from conductor.transports.memory import MemoryTransport

if TYPE_CHECKING:
    from conductor.cli.options import Parsed

EXIT_FAILED: Final = 1
EXIT_TIMEOUT: Final = 3
EXIT_NO_SESSION: Final = 4
EXIT_REFUSED: Final = 5
EXIT_INTERRUPTED: Final = 130

_CANCEL_GRACE: Final = 2.0
"""Seconds that an agent gets to end a turn that ran out of time."""

_DEBUG: Final = "run it again with --log debug to see what the chain does"
_DEBUGGED: Final = "`--trace FILE` writes down what the messages hold"

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
"""Stop reason -> exit code, error, hint; without one, the log says more."""


def reported(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """As `command`, with its errors reported."""
    try:
        return command(words, rest, values)
    except ConductorError as error:
        report.error(error.text, error.hint)
        return error.exit_code
    except BrokenPipeError:
        report.forget_output()  # its reader has gone
        return EXIT_FAILED
    finally:
        spawn.discard()


def command(words: list[str], rest: list[str] | None, values: dict[str, Any]) -> int:
    """Sends the prompt of a command line through its chain; the exit code.

    Args:
        words: The words before `--`: components, and the prompt where `values` have none.
        rest: What follows `--`; None: there is no `--`.
        values: The options that are set.

    Raises:
        ConductorError: The command line is wrong, or the chain cannot be started.
    """
    if "prompt" not in values:
        config = configured.read(values)
        with silence.during("reading the chain"):
            found, prompt = exec_prompt.found(words, behind=rest is not None, config=config)
        words, values = found, {**values, "prompt": prompt}
    parsed = configured.applied(options.assemble("exec", words, rest, **values))
    return execute(parsed, **parsed.values)


def execute(
    parsed: Parsed,
    *,
    prompt: str,
    cwd: str = ".",
    permissions: str | None = None,
    fs: str = "none",
    timeout: float | None = None,
    json: bool = False,
    **_: Any,
) -> int:
    """Runs one turn; the exit code: see `conductor exec --help`. Raises `ConductorError`.

    The parameters behind `parsed` are the options of `conductor exec`; `parsed` holds those that
    `agent` has too.
    """
    # drain: once the turn is over no request is open that the chain would have to wait for.
    chain = msgspec.structs.replace(parsed.options, drain=0.0)
    parsed = msgspec.structs.replace(parsed, options=chain)
    if timeout == 0:
        raise UsageError("`--timeout 0` leaves no time for an answer", "leave it out for no limit")
    output = Output()
    view: View = JsonView(output) if json else TextView(output)
    lend_terminal()
    text, answers = _prompt(prompt), _permissions(permissions, prompt)
    session = folder(cwd, "--cwd")
    with silence.during("preparing the chain"):
        started = Started(parsed, Where.TERMINAL if _on_terminal(prompt) else Where.NOWHERE)
    spawn.discard()  # nobody took the host: a word of the prompt looked like a guest
    turn = _turn(text, session, answers, fs, view, started)
    runtime = started.runtime(MemoryTransport(turn.run))
    turn.knows(runtime.agent_command)
    started.follow("line" if report.can_cover() else "once")
    control = _Control(turn, started, runtime, view, timeout)
    settled_memory()
    try:
        run_loop(control.run())
    finally:
        started.close()
    if turn.defect is not None:
        raise turn.defect
    if output.line_open and output.terminal:
        report.write("")
    _warn_of_unread(prompt)
    return _report(control, turn, started, runtime)


def lend_terminal() -> None:
    """Names the user's terminal to programs of the chain: a debugger in one of them may use it."""
    with contextlib.suppress(OSError, AttributeError):
        os.environ.setdefault("CONDUCTOR_TERMINAL", os.ttyname(2))


def _prompt(text: str) -> str:
    """The prompt's text, read from standard input for `-`. Raises `UsageError`."""
    if text == exec_prompt.STDIN:
        text = sys.stdin.buffer.read().decode(errors="replace")
    if not text.strip():
        raise UsageError("the prompt is empty", 'write one: -p "what day is it?"')
    return text


def _warn_of_unread(prompt: str) -> None:
    """Says that the chain gets nothing of what was sent to standard input, as a diff is."""
    if prompt != exec_prompt.STDIN and exec_prompt.is_unread():
        text = "nobody reads standard input: the prompt is on the command line; `-p -` reads it"
        report.write(text, word="warning")


def _permissions(mode: str | None, prompt: str) -> str:
    """`deny`, `ask` or `allow-once`; by default `ask` on a terminal. Raises `UsageError`."""
    terminal = _on_terminal(prompt) and hasattr(os, "ttyname")
    if mode is None:
        return "ask" if terminal else "deny"
    if mode == "ask" and not terminal:
        raise UsageError(
            "there is no terminal to ask for permission on",
            "use --permissions deny or --permissions allow-once",
        )
    return {"none": "deny", "once": "allow-once"}.get(mode, mode)


def _on_terminal(prompt: str) -> bool:
    """Whether somebody can be asked; a prompt from standard input leaves nobody to answer."""
    return os.isatty(0) and os.isatty(2) and prompt != exec_prompt.STDIN and not report.is_json()


def _turn(
    prompt: str,
    cwd: str,
    permissions: str,
    fs: str,
    view: View,
    started: Started,
) -> ExecTurn:
    async def ask(question: str) -> str:
        with started.hushed():
            return await ask_terminal(question)

    permission = Permissions(permissions, view.note, ask).request
    handlers = {PERMISSION: permission, **Files(Path(cwd), fs).handlers()}
    return ExecTurn(
        prompt=prompt,
        cwd=cwd,
        view=view,
        handlers=handlers,
        answers=started.answers,
    )


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
        """What the chain waited for when the time was over."""
        self.signal = 0

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        if sys.platform != "win32":
            loop.add_signal_handler(signal.SIGINT, self._interrupt)
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(number, self._terminate, number)
            loop.add_signal_handler(signal.SIGUSR2, RingOnDemand(self._runtime))
        if self.timeout is not None:
            loop.call_later(self.timeout, self._expire)
        return await self._runtime.run()

    def _interrupt(self) -> None:
        again = self.signal == signal.SIGINT
        self.signal = self.signal or signal.SIGINT
        if not again and self._turn.cancel():
            self._view.note("cancelling the turn; press Ctrl-C again to end it at once")
        else:
            self._runtime.stop()

    def _terminate(self, number: int) -> None:
        self.signal = self.signal or number
        self._runtime.stop()

    def _expire(self) -> None:
        if self.signal or self._turn.over:
            return
        self.timed_out = True
        self.waited_for = self._started.waits()
        if self._turn.cancel():
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
    """Who has ended the turn with a refusal: of a trusted component nobody can tell it."""
    if turn.refused_by:
        return f"`{one_line(turn.refused_by)}`"
    return "the agent" if started.alone else "the agent, or a trusted component before it,"


def _fail(started: Started, text: str, hint: str) -> None:
    """Reports an error; without a hint that belongs to it, where to see more."""
    if not hint:
        hint = _DEBUGGED if started.parsed.log == "debug" else _DEBUG
    report.error(text, with_log(hint, started.log.path) if started.log.path else hint)


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
        case ChainEnded() | None:
            _fail(started, "the chain ended without an answer", "")
    return EXIT_FAILED
