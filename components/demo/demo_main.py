"""Puts the agent on stdin and stdout, and plays the misbehaviours the flags ask for."""

import os
import signal
import sys
import threading
from typing import NoReturn

from demo_agent import Agent
from demo_flags import Flags, Help, UsageError, help_text, parse
from demo_outbox import FrameLog, Outbox
from demo_rpc import Connection

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_CHILD_SECONDS = "600"
"""How long the child of --child lives when nobody ends it, so that a failed test leaves no
orphan for ever."""


def main() -> NoReturn:
    """Run until stdin ends; exits the process."""
    try:
        flags = parse(sys.argv[1:])
        log = FrameLog(flags.log) if flags.log else None
    except Help:
        print(help_text())
        sys.exit(0)
    except (UsageError, OSError) as error:
        _tell(f"demo: {error}")
        sys.exit(2)
    # A signal ends it at once: nothing here needs unwinding, and a traceback helps nobody.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if flags.ignore_term else signal.SIG_DFL)
    if flags.exit_at_start is not None:
        _tell(f"demo: exiting with code {flags.exit_at_start} at start as asked")
        os._exit(flags.exit_at_start & 0xFF)
    if os.isatty(_STDIN):
        _tell("demo: an ACP agent, waiting for JSON-RPC (hint: conductor exec demo -p hello)")
    _serve(flags, log)


def _serve(flags: Flags, log: FrameLog | None) -> NoReturn:
    if flags.child:
        _start_child()
    outbox = Outbox(_STDOUT, log)
    connection = Connection(outbox, log)
    for at in range(flags.junk_start):
        outbox.send(f"demo: junk line {at + 1} of {flags.junk_start}\n".encode())
    agent = Agent(connection, flags)
    connection.serve(_STDIN, agent.handle)
    if flags.ignore_eof:
        threading.Event().wait()
    agent.close()
    outbox.drain()
    # Not sys.exit: threads may wait for a client that is gone, and there is nothing to unwind.
    os._exit(0)


def _start_child() -> None:
    child = os.posix_spawnp("sleep", ["sleep", _CHILD_SECONDS], os.environ)
    _tell(f"demo: child pid {child}")


def _tell(text: str) -> None:
    os.write(_STDERR, f"{text}\n".encode())
