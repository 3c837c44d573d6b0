"""`conductor agent`, `proxy` and `exec` as typer sees them: what runs a chain.

The first two get here only when `conductor.cli.fast` leaves them to be explained.
"""

from __future__ import annotations

from typing import Annotated, Final

import typer

from conductor.cli import chain_options, fast, options
from conductor.cli.chain_options import ChainOptions
from conductor.cli.options import paragraphs
from conductor.core.policy.rules import PROFILE_NAMES
from conductor.spec.component_options import NAMES

_EXPLAINED: Final = {
    "grant": "grant (a service: clock, kv, fetch …)",
    "profile": f"profile (what it may do to the conversation: {', '.join(PROFILE_NAMES)})",
}
_KEYS: Final = ", ".join(_EXPLAINED.get(key, key) for key in NAMES if key != "grants")

_COMPONENT: Final = paragraphs(
    "How to write a COMPONENT:",
    "• [bold]datetime[/] — a name: a bundled component (see `conductor components`), else a "
    "program on PATH.",
    "• [bold]./proxy.wasm[/] — a path to a WebAssembly module: it runs sandboxed, with no files, "
    "network, environment, clock or randomness.",
    "• [bold]./proxy.py[/] — a path to Python source, or to a folder of it: it runs sandboxed as "
    "well.",
    "• [bold]./my-proxy[/] — a path to a folder with a component.toml: what that says.",
    '• [bold]"python my_proxy.py --fast"[/] — a command in quotes: a subprocess, with your rights.',
    """• [bold]'{"command":"node","args":\\["p.js"],"env":{}}'[/] — the same as a JSON object; """
    'also {"wasm":PATH} and {"component":NAME}.',
    "• [bold]py:package.module:function[/] — Python code in this very process, trusted.",
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
    "An editor starts this and speaks ACP on its standard input and output, e.g. in Zed's "
    'settings.json: "agent_servers": {"Conductor": {"type": "custom", "command": "conductor", '
    '"args": \\["agent", "datetime", "claude-code-acp"]}}',
)

PROXY_HELP: Final = paragraphs(
    "Run a chain of proxies, itself a proxy of another conductor.", _COMPONENT
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


@chain_options.taken()
def agent(
    components: options.Components,
    proxy: options.AsProxy = False,
    *,
    given: ChainOptions,
) -> int:
    """Runs a chain of proxies and an agent."""
    return _run(given.parsed("proxy" if proxy else "auto", components))


@chain_options.taken()
def proxy(
    components: options.Proxies = None,
    dialect: options.Dialect = None,
    *,
    given: ChainOptions,
) -> int:
    """Runs a chain of proxies that is itself a proxy."""
    return _run(given.parsed("proxy", components or [], dialect))


def _run(parsed: fast.Parsed) -> int:
    from conductor.cli import run  # whoever asks for help needs no event loop

    return run.chain(parsed)


@chain_options.taken(without=("stall", "drain", "drain_total", "watch"))
def exec_(
    components: options.Components,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt", "-p", metavar="TEXT", help="The prompt; `-` reads it from standard input."
        ),
    ],
    cwd: Annotated[
        str,
        typer.Option("--cwd", metavar="FOLDER", help="The session's working directory."),
    ] = ".",
    permissions: Annotated[
        str | None,
        typer.Option(
            "--permissions",
            "--allow",
            metavar="deny|ask|allow-once",
            help="How the agent's requests for permission are answered; `none` and `once` are "
            "other names of the first and last. Default: ask on a terminal, else deny.",
        ),
    ] = None,
    fs: Annotated[
        str,
        typer.Option(
            "--fs",
            metavar="none|read|write",
            help="Which access to files under the working directory the chain is offered.",
        ),
    ] = "none",
    timeout: Annotated[
        str | None,
        typer.Option("--timeout", metavar="SECONDS", help="Give up after this time."),
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="text|json",
            help="`text` streams the answer; `json` prints every message received, one a line.",
        ),
    ] = "text",
    json_: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    *,
    given: ChainOptions,
) -> int:
    """Sends one prompt through a chain and prints the answer."""
    from conductor.cli import exec_ as turns
    from conductor.cli import exec_options

    parsed = given.parsed("agent", components)
    return turns.execute(
        turns.Turn(
            components=components,
            prompt=exec_options.prompt(prompt),
            cwd=exec_options.folder(cwd),
            permissions=exec_options.permissions(permissions, prompt_from_stdin=prompt == "-"),
            fs=options.read("--fs", fs, exec_options.FS),
            timeout=exec_options.time_limit(timeout),
            format="json" if json_ else options.read("--format", format_, exec_options.FORMAT),
            log=parsed.log,
            options=parsed.options,
        )
    )
