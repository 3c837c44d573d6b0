"""Every command with its help and its errors, on typer.

Loaded only when it has something to explain or a person is waiting: `agent` and `proxy` go through
`conductor.cli.fast` unless that declines. Commands return the exit code.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import typer

from conductor.cli import (
    audit_commands,
    build_,
    cache_,
    chains,
    check_,
    new_,
    options,
    replay,
    report,
    test_,
    usage,
)
from conductor.cli.chain_options import ChainOptions
from conductor.cli.options import paragraphs
from conductor.cli.version import version
from conductor.errors import ConductorError
from conductor.spec.paths import LOCK_FILE

_EXAMPLES: Final = paragraphs(
    "One prompt through a bundled proxy to the bundled demo agent, here in the terminal:",
    '  conductor exec datetime demo -p "what day is it?"',
    "What an editor starts instead of the agent alone:",
    "  conductor agent datetime claude-code-acp",
    "What a module can do, without running it:",
    "  conductor inspect ./proxy.wasm",
    "Whether everything is there:",
    "  conductor doctor",
    "`conductor COMMAND --help` says more.",
)

app = typer.Typer(
    name="conductor",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        report.say(f"conductor {version()}")
        raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def _conductor(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Show the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Puts proxies between an editor and its AI coding agent, untrusted ones in a sandbox.

    Speaks the Agent Client Protocol (ACP).

    Each proxy sees the conversation and may change it; a WebAssembly module can do nothing else.
    """


app.command(help=chains.AGENT_HELP, epilog=chains.AGENT_EPILOG)(chains.agent)
app.command(help=chains.PROXY_HELP, epilog=chains.PROXY_EPILOG)(chains.proxy)
app.command(name="exec", help=chains.EXEC_HELP, epilog=chains.EXEC_EPILOG)(chains.exec_)


@app.command(
    epilog="Example:\n\n  conductor inspect ./proxy.wasm,profile=context --json",
    help="Say what a component is and what it can do, without running it: what it may see, change, "
    "answer and send, and what it may never do.\n\n"
    "Exit code 1 when it is a module that would be refused.",
)
def inspect(
    component: Annotated[
        str,
        typer.Argument(
            metavar="COMPONENT",
            help="A module's path, a bundled name or a command; options may follow a comma.",
            show_default=False,
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Says what a component is and what it can do."""
    from conductor.cli import inspect_

    return inspect_.show(component, as_json=json_)


@app.command(
    epilog="Examples:\n\n  conductor lock datetime ./proxy.wasm,grant=clock claude-code-acp\n\n"
    "  conductor agent --locked datetime ./proxy.wasm,grant=clock claude-code-acp",
    help=paragraphs(
        "Write down what the components of a chain are and what each may do at most. With "
        "--locked, `agent`, `proxy` and `exec` refuse one that has changed or may do more.",
        "Exit code 1 with --check, when the file would change.",
    ),
)
def lock(
    components: options.Lockable = None,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write."),
    ] = LOCK_FILE,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the file would change.")
    ] = False,
    proxy: Annotated[
        bool, typer.Option("--proxy", help="For `conductor proxy`: the last one is no agent.")
    ] = False,
    lock_agent: Annotated[
        bool | None,
        typer.Option(
            "--lock-agent/--no-lock-agent",
            help="Refuse an agent whose program has changed, instead of reporting it. "
            "Default: as the file says so far, at first no.",
            show_default=False,
        ),
    ] = None,
    isolation: options.Isolation = None,
    upgrade: Annotated[
        bool,
        typer.Option(
            "--upgrade", help="Rewrite a file of an older version in today's words; no components."
        ),
    ] = False,
) -> int:
    """Writes down what a chain is and may do."""
    from conductor.cli import lock as locking

    given = ChainOptions(isolation=isolation).fields()
    wanted = locking.LockOptions(
        components=components or [],
        path=output,
        check=check,
        proxy=proxy,
        pin_agent=lock_agent,
        upgrade=upgrade,
        **given,
    )
    return locking.run(wanted)


@app.command(help="List the components that come with conductor.")
def components(
    json_: Annotated[bool, typer.Option("--json", help="As one JSON array.")] = False,
) -> int:
    """Lists the bundled components."""
    from conductor.cli import components as listing

    return listing.show(as_json=json_)


@app.command(
    help="Check this machine and this installation: what is there, what is missing, and whether "
    "the process of sandboxed proxies can be locked up.\n\nExit code 1 when something needed is "
    "missing.",
)
def doctor(
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    cache: options.Cache = None,
) -> int:
    """Checks this machine and this installation."""
    from conductor.cli.doctor import checks as examination

    found = examination.checks(cache)
    if json_:
        report.say_json(examination.as_json(found))
    else:
        report.say(*examination.lines(found))
    return examination.exit_code(found)


app.add_typer(cache_.app, name="cache")
app.command(name="new", help=new_.HELP, epilog=new_.EPILOG)(new_.new)
app.command(name="build", help=build_.HELP, epilog=build_.EPILOG)(build_.build)
app.command(name="test", help=test_.HELP, epilog=test_.EPILOG)(test_.transcripts)
app.command(name="check", help=check_.HELP, epilog=check_.EPILOG)(check_.check)
app.command(name="replay", help=replay.HELP, epilog=replay.EPILOG)(replay.replay)

app.add_typer(audit_commands.audit_app, name="audit")


@app.command(hidden=True, help="Carry a proxy's successor traffic; proxies start this themselves.")
def join(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The conductor's socket.")],
) -> int:
    """Joins the conductor that listens at PATH."""
    from conductor.cli import join as joining

    return joining.main([path])


@app.command(hidden=True, help="Be an MCP server over stdio; agents start this themselves.")
def mcp(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="The conductor's socket, or its port on 127.0.0.1."),
    ],
) -> int:
    """Carries an agent's MCP messages to the conductor that listens at ADDRESS."""
    from conductor.mcp.doors import shim

    return shim.main([address])


def _failed(error: ConductorError, arguments: list[str]) -> int:
    """Reports a command line that cannot be run, also to an editor that waits for an answer."""
    report.error(error.text, error.hint)
    if arguments[0] in ("agent", "proxy"):
        from conductor.cli import run

        run.tell_client(error)
    return error.exit_code


def main(arguments: list[str]) -> int:
    """Runs one command line; the exit code."""
    command: Any = typer.main.get_command(app)
    try:
        code = command.main(arguments or ["--help"], prog_name="conductor", standalone_mode=False)
        sys.stdout.flush()
    except usage.COMPLAINT as error:
        return _failed(usage.explained(error, arguments, command.commands), arguments)
    except ConductorError as error:
        return _failed(error, arguments)
    except BrokenPipeError:
        # Whoever read our output has enough; nothing is left to say it to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except typer.Abort:
        return 130
    return code if isinstance(code, int) else 0
