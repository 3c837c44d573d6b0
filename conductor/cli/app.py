"""Every command with its help and its errors, on typer.

Loaded only when it has something to explain or a person is waiting: `agent` and `proxy` go through
`conductor.cli.fast` unless that declines. Commands return the exit code.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer

from conductor.cli import (
    add,
    audit,
    build_,
    cache,
    chains,
    check_,
    completion,
    config_,
    data,
    dev,
    help_,
    list_,
    new_,
    options,
    pack,
    pages,
    pause,
    ps,
    publish,
    remove,
    replay,
    report,
    report_,
    setup,
    surroundings,
    test_,
    trace_,
    trust_,
    update,
    usage,
)
from conductor.cli.typer_options import Json, paragraphs, takes
from conductor.errors import ConductorError
from conductor.spec.paths import LOCK_FILE
from conductor.version import version

_EXAMPLES: Final = paragraphs(
    "Try it, then put it into your editor, with your own agent:",
    '  conductor exec datetime demo -p "what day is it?"',
    "  conductor setup zed datetime claude",
)
_RUN, _SET_UP, _LOOK, _TRUST, _MAKE = pages.HEADINGS

app = typer.Typer(
    name="conductor",
    add_completion=False,
    rich_markup_mode=None,
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
    """Runs proxies between an editor and its AI agent, untrusted proxies in a sandbox."""


_running: Final = partial(app.command, rich_help_panel=_RUN)
_running(help=chains.AGENT_HELP, epilog=chains.AGENT_EPILOG)(chains.agent)
_running(help=chains.PROXY_HELP, epilog=chains.PROXY_EPILOG)(chains.proxy)
_running(name="exec", help=chains.EXEC_HELP, epilog=chains.EXEC_EPILOG)(chains.exec_)
_running(
    name="chat",
    help=chains.CHAT_HELP,
    epilog=chains.CHAT_EPILOG,
    short_help="Talk to a chain in the browser",
)(chains.chat)
_running(name="pause", help=pause.HELP, epilog=pause.EPILOG)(pause.pause)
_running(name="resume", help=pause.RESUME_HELP, epilog=pause.RESUME_EPILOG)(pause.resume)
_running(name="reload", help=pause.RELOAD_HELP, epilog=pause.RELOAD_EPILOG)(pause.reload)
_keeping: Final = partial(app.command, rich_help_panel=_SET_UP)
_keeping(
    name="setup", help=setup.HELP, epilog=setup.EPILOG, short_help="Put a chain into an editor"
)(setup.setup)
_keeping(name="add", help=add.HELP, epilog=add.EPILOG)(add.add)
_keeping(name="list", help=list_.HELP, epilog=list_.EPILOG)(list_.list_)
_keeping(
    name="update",
    help=update.HELP,
    epilog=update.EPILOG,
    short_help="Replace installed components by newer versions, where you agree",
)(update.update)
_keeping(name="remove", help=remove.HELP, epilog=remove.EPILOG)(remove.remove)


_looking: Final = partial(app.command, rich_help_panel=_LOOK)
_looking(name="ps", help=ps.HELP, epilog=ps.EPILOG)(ps.ps)


@app.command(
    rich_help_panel=_LOOK,
    epilog="Example:\n\n  conductor inspect ./proxy.wasm,profile=context --json",
    help=paragraphs(
        "Show what a component is and what it may do, without running it: what it may see, "
        "change, answer and send, and what it may never do.",
        "Exit code 1 when conductor would refuse the module.",
    ),
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
    all_: Annotated[
        bool, typer.Option("--all", help="Show all that is known, instead of a card.")
    ] = False,
    json_: Json = False,
) -> int:
    """Shows what a component is and what it may do."""
    from conductor.cli import inspect_

    return inspect_.show(component, as_json=json_, whole=all_)


_Lockable = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="COMPONENT",
        help="The components as `agent`, `proxy` and `exec` take them.",
        show_default=False,
    ),
]
_LockFile = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")
]
_Check = Annotated[
    bool, typer.Option("--check", help="Write nothing; fail if the file would change.")
]
_ForProxy = Annotated[
    bool,
    typer.Option(
        "--proxy",
        help="Lock a chain for `conductor proxy`: its last component is no agent. "
        "Default: the last component is the agent, unless it is sandboxed.",
    ),
]
_LockAgent = Annotated[
    bool | None,
    typer.Option(
        "--lock-agent/--no-lock-agent",
        help="Refuse an agent whose program has changed, instead of reporting it. "
        "Default: keep the lock file's setting; off in a new one.",
        show_default=False,
    ),
]
_Upgrade = Annotated[
    bool,
    typer.Option(
        "--upgrade",
        help="Rewrite a lock file of an older version in today's words, and show what changed. "
        "Takes no components.",
    ),
]


@app.command(
    rich_help_panel=_TRUST,
    epilog="Examples:\n\n  conductor lock datetime ./proxy.wasm,grant=clock claude\n\n"
    "  conductor agent --locked datetime ./proxy.wasm,grant=clock claude",
    help=paragraphs(
        "Write a lock file: what the components of a chain are, and the most that each may do. "
        "With --locked, `agent`, `proxy` and `exec` refuse a component that has changed or may do "
        "more.",
        "Exit code 1 with --check, when the file would change.",
    ),
)
@takes("lock")
def lock(
    components: _Lockable = None,
    output: _LockFile = LOCK_FILE,
    check: _Check = False,
    proxy: _ForProxy = False,
    lock_agent: _LockAgent = None,
    upgrade: _Upgrade = False,
    **values: Any,
) -> int:
    """Writes the lock file of a chain."""
    from conductor.cli import configured
    from conductor.cli import lock as locking

    parsed = options.assemble("proxy" if proxy else "agent", components or [], **values)
    if not upgrade:
        parsed = configured.applied(parsed)
    wanted = locking.LockOptions(
        components=components or [],
        chain=parsed.components,
        path=output,
        check=check,
        proxy=proxy,
        pin_agent=lock_agent,
        upgrade=upgrade,
        isolation=parsed.options.isolation,
        config=parsed.config,
    )
    return locking.run(wanted)


@app.command(
    rich_help_panel=_SET_UP,
    short_help="Show which agents are here, and how to get the others",
    epilog="Examples:\n\n  conductor agents\n\n  conductor agents opencode",
    help=paragraphs(
        "Show which agents conductor knows, and of each: where it is or how to install it, "
        "whether it answers, whether somebody is logged in.",
        "Each that is installed is started in an empty folder, asked to open a session, and ended. "
        "Exit code 1 when one that is named is not installed or does not answer.",
    ),
)
def agents(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="Agents to show in detail; default: all.", show_default=False
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", min=1.0, max=600.0, help="For all of them together."
        ),
    ] = 20.0,
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> int:
    """Shows the known agents."""
    from conductor.cli import agents as listing

    return listing.show(names or [], timeout=timeout, as_json=json_)


@app.command(rich_help_panel=_LOOK, help="List the components that come with conductor.")
def components(
    json_: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> int:
    """Lists the bundled components."""
    from conductor.cli import components as listing

    return listing.show(as_json=json_)


@app.command(
    rich_help_panel=_LOOK,
    help=paragraphs(
        "Check this machine and this installation: what is there, what is missing, and whether "
        "the system can lock up the process of sandboxed proxies.",
        "Exit code 1 when something that conductor needs is missing.",
    ),
)
@takes("doctor")
def doctor(json_: Json = False, cache: str | None = None) -> int:
    """Checks this machine and this installation."""
    from conductor.cli import doctor as examination

    return examination.show(cache, as_json=json_)


app.add_typer(
    trace_.app,
    name="trace",
    rich_help_panel=_LOOK,
    short_help="Show who changed which message, and how long each took",
)
app.command(
    name="report",
    rich_help_panel=_LOOK,
    help=report_.HELP,
    epilog=report_.EPILOG,
    short_help="Write a text for a bug report, without secrets",
)(report_.report_)
app.add_typer(cache.app, name="cache", rich_help_panel=_LOOK)
app.add_typer(data.app, name="data", rich_help_panel=_LOOK)
_making: Final = partial(app.command, rich_help_panel=_MAKE)
_making(name="new", help=new_.HELP, epilog=new_.EPILOG)(new_.new)
_making(name="dev", help=dev.HELP, epilog=dev.EPILOG)(dev.dev)
_making(name="build", help=build_.HELP, epilog=build_.EPILOG)(build_.build)
_making(name="test", help=test_.HELP, epilog=test_.EPILOG)(test_.transcripts)
_making(name="check", help=check_.HELP, epilog=check_.EPILOG)(check_.check)
_making(name="pack", help=pack.HELP, epilog=pack.EPILOG)(pack.pack)
_making(name="publish", help=publish.HELP, epilog=publish.EPILOG)(publish.publish)
_making(name="replay", help=replay.HELP, epilog=replay.EPILOG)(replay.replay)

_trusting: Final = partial(app.command, rich_help_panel=_TRUST)
_trusting(name="trust", help=trust_.TRUST_HELP, epilog=trust_.TRUST_EPILOG)(trust_.trust_)
_trusting(name="untrust", help=trust_.UNTRUST_HELP, epilog=trust_.UNTRUST_EPILOG)(trust_.untrust)
_trusting(name="trusted", help=trust_.TRUSTED_HELP)(trust_.trusted)
app.add_typer(audit.audit_app, name="audit", rich_help_panel=_TRUST)
app.add_typer(
    config_.app,
    name="config",
    rich_help_panel=_SET_UP,
    short_help="Show and check the configuration",
)
app.command(name="help", rich_help_panel=_LOOK, help=help_.HELP, epilog=help_.EPILOG)(help_.help_)
app.command(
    name="completion", rich_help_panel=_LOOK, help=completion.HELP, epilog=completion.EPILOG
)(completion.completion)


@app.command(hidden=True, help="Carry a proxy's successor traffic. Proxies start this themselves.")
def join(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The conductor's socket.")],
) -> int:
    """Joins the conductor that listens at PATH."""
    from conductor.cli import join as joining

    return joining.main([path])


@app.command(hidden=True, help="Be an MCP server over stdio. Agents start this themselves.")
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
    pages.dress(app)
    command: Any = typer.main.get_command(app)
    typed, rest = arguments, None
    if arguments and arguments[0] in (*options.ALL, "setup") and "--" in arguments:
        # The parser would take what follows for more components.
        end = arguments.index("--")
        typed, rest = arguments[:end], arguments[end + 1 :]
    try:
        if arguments and (unfit := surroundings.unfit(arguments)) is not None:
            raise unfit
        code = command.main(
            typed or ["--help"], prog_name="conductor", standalone_mode=False, obj=rest
        )
    except usage.COMPLAINT as error:
        return _failed(usage.explained(error, arguments, command.commands), arguments)
    except ConductorError as error:
        return _failed(error, arguments)
    except BrokenPipeError:
        report.forget_output()  # its reader has gone
        return 1
    except typer.Abort:
        return 130
    return code if isinstance(code, int) else 0
