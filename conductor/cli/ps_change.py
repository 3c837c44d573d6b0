"""`conductor ps pause`, `resume` and `reload`: they change a chain that runs."""

from __future__ import annotations

import contextlib
from typing import Annotated, Final

from conductor.cli import report
from conductor.cli.typer_options import argument, option, paragraphs
from conductor.control import client
from conductor.errors import one_line

PAUSE_HELP: Final = paragraphs(
    "Pause one component of a running chain: every message goes past it until it is resumed.",
    "The pause begins between two turns, when no request is open in the chain; meanwhile new "
    "prompts wait. Ctrl-C gives up. MCP servers of the component still answer. You cannot pause "
    "the agent, or a component that a managed policy requires.",
)
PAUSE_EPILOG: Final = paragraphs(
    "Examples:", "  conductor ps pause datetime", "  conductor ps pause datetime --pid 4711"
)
RESUME_HELP: Final = paragraphs(
    "Resume a component that is paused: messages go through it again, from the next turn on."
)
RESUME_EPILOG: Final = paragraphs("Example:", "  conductor ps resume datetime")
RELOAD_HELP: Final = paragraphs(
    "Reload a running chain: the chain gets the components of its present configuration, and the "
    "new builds of all components. The change waits until no request is open. The signal SIGHUP "
    "does the same.",
    "The log of the chain tells the result.",
)
RELOAD_EPILOG: Final = paragraphs("Example:", "  conductor ps reload")

_Name = Annotated[
    str,
    argument("NAME", "The component, as `conductor ps` names it."),
]
_Pid = Annotated[
    str | None,
    option(
        "--pid",
        "PID",
        "The process of the chain; for a server's chain also its number, as in 4711-2. Default: "
        "the only chain, or the chain that was started in this folder.",
    ),
]


def pause(name: _Name, pid: _Pid = None) -> int:
    """Pauses a component."""
    return _switched("pause", name, pid)


def resume(name: _Name, pid: _Pid = None) -> int:
    """Resumes a component."""
    return _switched("resume", name, pid)


def _switched(do: str, name: str, pid: str | None) -> int:
    control, chain = client.chosen(client.read_id(pid), name)

    def waits(text: str) -> None:
        report.write(f"the chain waits {one_line(text, 200)}; Ctrl-C gives up")

    with contextlib.closing(control):
        control.ask(do, name, patient=True, waits=waits)
    words = "is paused: every message goes past it" if do == "pause" else "takes part again"
    report.say(f"`{one_line(name, 80)}` of process {chain.id} {words}")
    return 0


def reload(pid: _Pid = None) -> int:
    """Reloads a chain."""
    control, chain = client.chosen(client.read_id(pid))
    with contextlib.closing(control):
        control.ask("reload")
    report.say(f"the chain of process {chain.id} reloads")
    return 0
