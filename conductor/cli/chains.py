"""`conductor agent`, `proxy`, `exec` and `chat` as typer sees them.

The first two arrive here only when `conductor.cli.fast` leaves a command line to be explained.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from conductor.cli import options
from conductor.cli.log_view import NoOpen, Port
from conductor.cli.typer_options import paragraphs, takes

_SEE: Final = "`conductor help component` explains how to write one."

Components = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help=f"The proxies from the editor's side on, then the agent. {_SEE}",
        show_default=False,
    ),
]
Proxies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="The proxies from the editor's side on; without any, the conductor passes every "
        f"message on unchanged. {_SEE}",
        show_default=False,
    ),
]

Prompted = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help=f"The proxies, then the agent, then the prompt. {_SEE}",
        show_default=False,
    ),
]

Attach = Annotated[
    str | None,
    typer.Option(
        "--attach",
        metavar="SESSION",
        help="Show this live session of others. The agent is the address of its server.",
        show_default=False,
    ),
]
View = Annotated[bool, typer.Option("--view", help="Only watch the session of `--attach`.")]

AGENT_HELP: Final = "Run a chain of proxies and an agent. An editor starts this."
AGENT_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor agent datetime claude",
    '  conductor agent ./a.wasm "python b.py" claude',
    "In Zed's settings.json:",
    '  "agent_servers": {"Conductor": {"type": "custom", "command": "conductor",\n'
    '    "args": ["agent", "datetime", "claude"]}}',
)

PROXY_HELP: Final = "Run a chain that is itself a proxy of another conductor."
PROXY_EPILOG: Final = 'Example:\n\n  conductor agent "conductor proxy ./a.wasm ./b.wasm" demo'

EXEC_HELP: Final = "Send one prompt through a chain and print the answer."
EXEC_EPILOG: Final = paragraphs(
    "Examples:",
    '  conductor exec datetime demo "what day is it?"',
    "  git diff | conductor exec claude --fs read",
    "`conductor help exit-codes` lists the exit codes.",
)

CHAT_HELP: Final = paragraphs(
    "Talk to a chain in the browser; beside each turn, what each component did.",
    "The page is served on this machine alone, until Ctrl-C, which ends the chain too; only its "
    "whole address, with the secret, opens it. The agent's questions wait for your answer there.",
)
CHAT_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor chat datetime redact claude",
    "  conductor chat --fs read --trace today.jsons demo",
    "  conductor chat ws://127.0.0.1:8790 --attach SESSION --view",
)


@takes("agent")
def agent(context: typer.Context, components: Components = None, **values: Any) -> int:
    """Runs a chain of proxies and an agent."""
    return _run("agent", components, context, values)


@takes("proxy")
def proxy(context: typer.Context, components: Proxies = None, **values: Any) -> int:
    """Runs a chain of proxies that is itself a proxy."""
    return _run("proxy", components, context, values)


def _run(
    command: str, components: list[str] | None, context: typer.Context, values: dict[str, Any]
) -> int:
    from conductor.cli import run  # --help does not need it

    return run.chain(options.assemble(command, components or [], context.obj, **values))


@takes("exec")
def exec_(context: typer.Context, components: Prompted = None, **values: Any) -> int:
    """Sends one prompt through a chain and prints the answer."""
    from conductor.cli import exec_ as turns

    return turns.command(components or [], context.obj, values)


@takes("chat")
def chat(
    context: typer.Context,
    components: Components = None,
    no_open: NoOpen = False,
    port: Port = 0,
    attach: Attach = None,
    view: View = False,
    **values: Any,
) -> int:
    """Serves a page that is the client of a chain."""
    from conductor.cli import chat as talking
    from conductor.cli import configured

    parsed = options.assemble("chat", components or [], context.obj, **values)
    parsed = configured.applied(parsed)
    return talking.execute(
        parsed, port=port, opens=not no_open, attach=attach, view=view, **parsed.values
    )
