"""Runs a chain between this process's standard input and output.

The order matters: components are started before the event loop's modules are imported, so that
both happen at the same time.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.cli import configured, report
from conductor.cli.loop import run_loop, settled_memory, until_done
from conductor.cli.started import Started
from conductor.core.dialects import SCP
from conductor.errors import ConductorError
from conductor.run import spawn
from conductor.spec.consent import Where
from conductor.transports import descriptors

if TYPE_CHECKING:
    from conductor.spec.parsed import Parsed
    from conductor.transports.base import Transport

_FIRST_REQUEST: Final = 2.0
"""Seconds that a client has to send the request which reports a failed start to it."""


def chain(parsed: Parsed) -> int:
    """Runs the chain; the exit code."""
    early = _early()
    try:
        if "agent_login" in parsed.values:
            from conductor.cli import agent_login

            agent_login.execute(configured.applied(parsed))
        descriptors.raise_limit()
        parsed = configured.applied(parsed)
        if parsed.values.get("dry_run"):
            from conductor.cli import dry_run

            return dry_run.show(parsed)
        # A person at a terminal is no editor, and is asked there.
        terminal = os.isatty(0) and os.isatty(2) and not report.is_json()
        if parsed.dialect == SCP.name:
            return _participate(parsed, early)
        if "listen" in parsed.values:
            return _listen(parsed)
        started = Started(parsed, Where.TERMINAL if terminal else Where.EDITOR)
        spawn.discard()  # nobody took the host: files made something else of the command line
    except ConductorError as error:
        spawn.discard()
        report.error(error.text, error.hint)
        tell_client(error)
        return error.exit_code
    if os.isatty(0) and not report.is_json():
        _explain(parsed)
    return _run(started, early)


def _explain(parsed: Parsed) -> None:
    """Explains a chain whose client is a person at a terminal: most people have pasted a command
    for an editor's settings."""
    import shlex

    words = [""]
    behind = ""
    for component in (parsed.typed or parsed).components:
        if isinstance(component, str):
            words.append(shlex.quote(component))
        elif isinstance(component.what, list):
            behind = f" -- {shlex.join(component.what)}"
    chain = " ".join(words)
    for line in (
        "conductor waits for an editor's messages on standard input; Ctrl-D ends it",
        f'to talk to this chain here:  conductor exec{chain} -p "hi"{behind}',
        f"to put it into an editor:    conductor setup zed{chain}{behind}",
    ):
        report.write(line)


def _early() -> list[int]:
    """The SIGHUPs that come before there is anything to reload: without a handler one ends us."""
    seen: list[int] = []
    signal.signal(signal.SIGHUP, lambda number, frame: seen.append(number))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: None)
    return seen


def _listen(parsed: Parsed) -> int:
    """Runs the chain for clients at an address. Raises `ConductorError`."""
    from conductor.cli import serve

    return serve.agent(parsed, parsed.values["listen"])


def _participate(parsed: Parsed, early: list[int]) -> int:
    """Runs the chain whose agent a client of SCP names. Raises `ConductorError`."""
    from conductor.cli import scp

    scp.checked(parsed)
    stopped: list[int] = []
    code = run_loop(partial(scp.served, parsed, early, stopped))
    return 128 + stopped[0] if stopped else code


def _run(started: Started, early: list[int]) -> int:
    started.load_loop()
    from conductor.transports.stdio import StdioTransport

    parsed = started.parsed
    upstream: Transport = StdioTransport(line_limit=parsed.options.line_limit)
    drawn = os.isatty(0) and report.can_cover()
    if drawn:
        from conductor.cli.status import Uncovering

        upstream = Uncovering(upstream, started.answers)
    runtime = started.runtime(upstream, says_failure=True)
    started.follow("line" if drawn else "nowhere")
    settled_memory()
    stopped: list[int] = []
    code = run_loop(partial(until_done, runtime, stopped, early))
    started.close()
    return 128 + stopped[0] if stopped else code


def tell_client(error: ConductorError) -> None:
    """Answers the client's first request with the reason why the chain did not start.

    An editor shows that reason; an exit without an answer looks like a crash to it. Does nothing
    on a terminal, where a person reads standard error.
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

    message = jsonrpc.message_of(line.split(b"\n", 1)[0])
    if message is None or not isinstance(message.id, msgspec.Raw):
        return
    body = jsonrpc.error_object(jsonrpc.INTERNAL_ERROR, error.with_hint, error.data or None)
    os.write(1, jsonrpc.answer(bytes(message.id), b"error", body))
