"""`conductor agent`, `proxy` and `exec` as typer sees them.

The first two arrive here only when `conductor.cli.fast` leaves a command line to be explained.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from conductor.cli import options
from conductor.cli.typer_options import paragraphs, takes
from conductor.core.policy.rules import PROFILE_NAMES
from conductor.spec.component_options import NAMES

Components = Annotated[
    list[str],
    typer.Argument(
        metavar="COMPONENT",
        help="The proxies from the editor's side on, then the agent, written as above.",
        show_default=False,
    ),
]
Proxies = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="The proxies from the editor's side on, written as above. Without any, the conductor "
        "passes every message on unchanged.",
        show_default=False,
    ),
]

_EXPLAINED: Final = {
    "grant": "grant (a service: clock, kv, fetch …)",
    "profile": f"profile (what it may do to the conversation: {', '.join(PROFILE_NAMES)})",
}
_KEYS: Final = ", ".join(_EXPLAINED.get(key, key) for key in NAMES if key != "grants")

_COMPONENT: Final = paragraphs(
    "How to write a COMPONENT:",
    "• [bold]datetime[/] — a bundled component (see `conductor components`), or a program on PATH.",
    "• [bold]./proxy.wasm[/] — a WebAssembly module. It runs sandboxed: no files, network, "
    "environment, clock or randomness.",
    "• [bold]./proxy.py[/] — Python source, or a folder of it. It runs sandboxed too.",
    "• [bold]./my-proxy[/] — a folder with a component.toml, which says what to run.",
    '• [bold]"python my_proxy.py --fast"[/] — a command in quotes. It runs with your rights.',
    """• [bold]'{"command":"node","args":\\["p.js"],"env":{}}'[/] — the same as a JSON object; """
    'also {"wasm":PATH} and {"component":NAME}.',
    "• [bold]py:package.module:function[/] — Python code in this process, trusted.",
    "Options follow a comma: "
    "[bold]./p.wasm,name=filter,profile=context,grant=clock,config.mode=strict,cpu=50ms[/]. Keys: "
    f"{_KEYS}; docs/cli.md explains them.",
)

AGENT_HELP: Final = paragraphs("Run a chain of proxies and an agent.", _COMPONENT)
AGENT_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor agent datetime claude-code-acp",
    '  conductor agent ./a.wasm "python b.py" claude-code-acp',
    '  conductor agent "conductor proxy a.wasm b.wasm" demo',
    "An editor starts this command and speaks ACP on its standard input and output. In Zed's "
    'settings.json: "agent_servers": {"Conductor": {"type": "custom", "command": "conductor", '
    '"args": \\["agent", "datetime", "claude-code-acp"]}}',
)

PROXY_HELP: Final = paragraphs(
    "Run a chain of proxies that is itself a proxy of another conductor.", _COMPONENT
)
PROXY_EPILOG: Final = 'Example:\n\n  conductor agent "conductor proxy ./a.wasm ./b.wasm" demo'

EXEC_HELP: Final = paragraphs("Send one prompt through a chain and print the answer.", _COMPONENT)
EXEC_EPILOG: Final = paragraphs(
    "Examples:",
    '  conductor exec datetime demo -p "what day is it?"',
    "  git diff | conductor exec claude-code-acp -p - --fs read",
    "Exit codes: 0 the turn ended; 1 the chain failed; 2 wrong usage; 3 out of time; "
    "4 no session; 5 the agent refused; 130 interrupted.",
)


@takes("agent")
def agent(components: Components, **values: Any) -> int:
    """Runs a chain of proxies and an agent."""
    return _run("agent", components, values)


@takes("proxy")
def proxy(components: Proxies = None, **values: Any) -> int:
    """Runs a chain of proxies that is itself a proxy."""
    return _run("proxy", components or [], values)


def _run(command: str, components: list[str], values: dict[str, Any]) -> int:
    from conductor.cli import run  # --help does not need it

    return run.chain(options.assemble(command, components, **values))


@takes("exec")
def exec_(components: Components, **values: Any) -> int:
    """Sends one prompt through a chain and prints the answer."""
    from conductor.cli import configured
    from conductor.cli import exec_ as turns

    values, config = configured.layered("exec", components, values)
    return turns.execute(components, config=config, **values)
