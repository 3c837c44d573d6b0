"""Every command with its help and its errors, on typer.

Loaded only when it has something to explain or a person is waiting: `agent` and `proxy` go through
`conductor.cli.fast` unless that declines. Commands return nothing; `main` finds the exit code.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import typer

from conductor.cli import build_, check_, fast, new_, options, report, test_, usage
from conductor.cli.version import version
from conductor.errors import ConductorError
from conductor.planned import LOCK_FILE


def _paragraphs(*texts: str) -> str:
    """Help text; each paragraph is wrapped by itself."""
    return "\n\n".join(texts)


_COMPONENT: Final = _paragraphs(
    "How to write a COMPONENT:",
    "• [bold]datetime[/] — a name: a bundled component (see `conductor components`), else a "
    "program on PATH.",
    "• [bold]./proxy.wasm[/] — a path to a WebAssembly module: it runs sandboxed, with no files, "
    "network, environment, clock or randomness.",
    '• [bold]"python my_proxy.py --fast"[/] — a command in quotes: a subprocess, with your rights.',
    """• [bold]'{"command":"node","args":\\["p.js"],"env":{}}'[/] — the same as a JSON object; """
    'also {"wasm":PATH} and {"component":NAME}.',
    "• [bold]py:package.module:function[/] — Python code in this very process, trusted.",
    "Options follow a comma: "
    "[bold]./p.wasm,name=filter,profile=context,grant=clock,config.mode=strict,cpu=50ms[/]. Keys: "
    "name, dialect, grant (a service: clock, random, log), profile (what it may do to the "
    "conversation: observer, context, filter, tools, full, trusted), allow, unguard, on_violation, "
    "on_failure, timeout, config.KEY, memory, cpu and other limits; docs/cli.md explains them.",
)

_AGENT_EXAMPLES: Final = _paragraphs(
    "Examples:",
    "  conductor agent datetime claude-code-acp",
    '  conductor agent ./a.wasm "python b.py" claude-code-acp',
    '  conductor agent "conductor proxy a.wasm b.wasm" demo',
    "An editor starts this and speaks ACP on its standard input and output, e.g. in Zed's "
    'settings.json: "agent_servers": {"Conductor": {"type": "custom", "command": "conductor", '
    '"args": \\["agent", "datetime", "claude-code-acp"]}}',
)

_EXEC_EXAMPLES: Final = _paragraphs(
    "Examples:",
    '  conductor exec datetime demo -p "what day is it?"',
    "  git diff | conductor exec claude-code-acp -p - --fs read",
    "Exit codes: 0 the turn ended; 1 the chain failed; 2 wrong usage; 3 out of time; "
    "4 no session; 5 the agent refused; 130 interrupted.",
)

_EXAMPLES: Final = _paragraphs(
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
        sys.stdout.write(f"conductor {version()}\n")
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


@app.command(
    epilog=_AGENT_EXAMPLES, help=_paragraphs("Run a chain of proxies and an agent.", _COMPONENT)
)
def agent(
    components: options.Components,
    proxy: options.AsProxy = False,
    require_sandbox: options.RequireSandbox = False,
    require_hardening: options.RequireHardening = False,
    locked: options.Locked = False,
    lock_file: options.LockFile = None,
    isolation: options.Isolation = None,
    cache: options.Cache = None,
    clock: options.Clock = None,
    line_limit: options.LineLimit = None,
    stall: options.Stall = None,
    grace: options.Grace = None,
    drain: options.Drain = None,
    mcp_bridge: options.McpBridge = None,
    trace: options.Trace = None,
    trace_content: options.TraceContent = None,
    audit: options.Audit = None,
    metrics: options.Metrics = None,
    watch: options.Watch = False,
    log: options.Log = None,
    verbose: options.Verbose = False,
) -> int:
    """Runs a chain of proxies and an agent."""
    given = options.fields(
        require_sandbox=require_sandbox,
        require_hardening=require_hardening,
        locked=locked,
        lock_file=lock_file,
        isolation=isolation,
        cache=cache,
        clock=clock,
        line_limit=line_limit,
        stall=stall,
        grace=grace,
        drain=drain,
        mcp_bridge=mcp_bridge,
        trace=trace,
        trace_content=trace_content,
        audit=audit,
        metrics=metrics,
        watch=watch,
    )
    mode = "proxy" if proxy else "auto"
    return _chain(fast.assemble(mode, components, None, options.level(log, verbose), given))


@app.command(
    help=_paragraphs("Run a chain of proxies, itself a proxy of another conductor.", _COMPONENT),
    epilog='Example:\n\n  conductor agent "conductor proxy ./a.wasm ./b.wasm" demo',
)
def proxy(
    components: options.Proxies,
    dialect: options.Dialect = None,
    require_sandbox: options.RequireSandbox = False,
    require_hardening: options.RequireHardening = False,
    locked: options.Locked = False,
    lock_file: options.LockFile = None,
    isolation: options.Isolation = None,
    cache: options.Cache = None,
    clock: options.Clock = None,
    line_limit: options.LineLimit = None,
    stall: options.Stall = None,
    grace: options.Grace = None,
    drain: options.Drain = None,
    mcp_bridge: options.McpBridge = None,
    trace: options.Trace = None,
    trace_content: options.TraceContent = None,
    audit: options.Audit = None,
    metrics: options.Metrics = None,
    watch: options.Watch = False,
    log: options.Log = None,
    verbose: options.Verbose = False,
) -> int:
    """Runs a chain of proxies that is itself a proxy."""
    given = options.fields(
        require_sandbox=require_sandbox,
        require_hardening=require_hardening,
        locked=locked,
        lock_file=lock_file,
        isolation=isolation,
        cache=cache,
        clock=clock,
        line_limit=line_limit,
        stall=stall,
        grace=grace,
        drain=drain,
        mcp_bridge=mcp_bridge,
        trace=trace,
        trace_content=trace_content,
        audit=audit,
        metrics=metrics,
        watch=watch,
    )
    spoken = dialect and options.read("--dialect", dialect, fast.OTHERS["--dialect"])
    return _chain(fast.assemble("proxy", components, spoken, options.level(log, verbose), given))


def _chain(parsed: fast.Parsed) -> int:
    from conductor.cli import run  # whoever asks for help needs no event loop

    return run.chain(parsed)


@app.command(
    name="exec",
    epilog=_EXEC_EXAMPLES,
    help=_paragraphs("Send one prompt through a chain and print the answer.", _COMPONENT),
)
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
    require_sandbox: options.RequireSandbox = False,
    require_hardening: options.RequireHardening = False,
    locked: options.Locked = False,
    lock_file: options.LockFile = None,
    isolation: options.Isolation = None,
    cache: options.Cache = None,
    clock: options.Clock = None,
    line_limit: options.LineLimit = None,
    grace: options.Grace = None,
    mcp_bridge: options.McpBridge = None,
    trace: options.Trace = None,
    trace_content: options.TraceContent = None,
    audit: options.Audit = None,
    metrics: options.Metrics = None,
    log: options.Log = None,
    verbose: options.Verbose = False,
) -> int:
    """Sends one prompt through a chain and prints the answer."""
    from conductor.cli import exec_ as turns
    from conductor.cli import exec_options

    given = options.fields(
        require_sandbox=require_sandbox,
        require_hardening=require_hardening,
        locked=locked,
        lock_file=lock_file,
        isolation=isolation,
        cache=cache,
        clock=clock,
        line_limit=line_limit,
        grace=grace,
        mcp_bridge=mcp_bridge,
        trace=trace,
        trace_content=trace_content,
        audit=audit,
        metrics=metrics,
    )
    chosen = options.level(log, verbose)
    parsed = fast.assemble("agent", components, None, chosen, given)
    return turns.execute(
        turns.Turn(
            components=components,
            prompt=exec_options.prompt(prompt),
            cwd=exec_options.folder(cwd),
            permissions=exec_options.permissions(permissions, prompt_from_stdin=prompt == "-"),
            fs=options.read("--fs", fs, exec_options.FS),
            timeout=exec_options.time_limit(timeout),
            format="json" if json_ else options.read("--format", format_, exec_options.FORMAT),
            log=chosen,
            options=parsed.options,
        )
    )


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
    help=_paragraphs(
        "Write down what the components of a chain are and what each may do at most. With "
        "--locked, `agent`, `proxy` and `exec` refuse one that has changed or may do more.",
        "Exit code 1 with --check, when the file would change.",
    ),
)
def lock(
    components: options.Components,
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
) -> int:
    """Writes down what a chain is and may do."""
    from conductor.cli import lock as locking

    given = options.fields(isolation=isolation)
    wanted = locking.Wanted(
        components=components,
        path=output,
        check=check,
        proxy=proxy,
        pin_agent=lock_agent,
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
    from conductor import doctor as examination

    found = examination.checks(cache)
    render = examination.render_json if json_ else examination.render
    sys.stdout.write(render(found))
    return examination.exit_code(found)


app.command(name="new", help=new_.HELP, epilog=new_.EPILOG)(new_.new)
app.command(name="build", help=build_.HELP, epilog=build_.EPILOG)(build_.build)
app.command(name="test", help=test_.HELP, epilog=test_.EPILOG)(test_.transcripts)
app.command(name="check", help=check_.HELP, epilog=check_.EPILOG)(check_.check)

audit_app = typer.Typer(help="Work with the files that --audit writes.")
app.add_typer(audit_app, name="audit")


@audit_app.command(
    epilog="Example:\n\n  conductor audit verify audit.jsonl",
    help="Check that no line of an audit was altered, removed, added or moved.\n\nExit code 1, "
    "and the first line that is wrong, if one was. Lines cut off at the end leave no trace in the "
    "file itself: compare the last hash with one you noted, or give that with --head.",
)
def verify(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What --audit wrote.", show_default=False)
    ],
    head: Annotated[
        str | None,
        typer.Option(
            "--head",
            metavar="HASH",
            help="The last hash an earlier check printed: that line has to be there still.",
            show_default=False,
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
) -> int:
    """Checks the chain of an audit."""
    from conductor.cli import audit

    return audit.verify(file, head, as_json=json_)


def _filter(option: str, metavar: str, what: str) -> Any:
    """An option of `audit show` that may be given several times."""
    return typer.Option(option, metavar=metavar, help=what, show_default=False)


@audit_app.command(
    epilog=_paragraphs(
        "Examples:",
        "  conductor audit show audit.jsonl",
        "  conductor audit show --method session/prompt --component datetime audit.jsonl",
        "  conductor audit show --kind violation --kind dropped audit.jsonl",
    ),
    help=_paragraphs(
        "Tell who changed which message, and how.",
        "Each filter may be given several times. Exit code 1 if the audit was altered: only what "
        "stands before that is shown.",
    ),
)
def show(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="What --audit wrote.", show_default=False)
    ],
    component: Annotated[
        list[str] | None, _filter("--component", "NAME", "Only what this component did.")
    ] = None,
    method: Annotated[
        list[str] | None, _filter("--method", "PATTERN", "Only these messages; `*` fits anything.")
    ] = None,
    session: Annotated[
        list[str] | None, _filter("--session", "ID", "Only changes in this session.")
    ] = None,
    kind: Annotated[
        list[str] | None,
        _filter(
            "--kind",
            "KIND",
            "Only these records: change, violation, failure, …; of changes also modified, "
            "answered, originated, dropped, delayed.",
        ),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="The lines themselves, one JSON object each.")
    ] = False,
) -> int:
    """Tells what is in an audit."""
    from conductor.cli import audit_show

    wanted = audit_show.Filter(
        components=component or (),
        methods=method or (),
        sessions=session or (),
        kinds=kind or (),
    )
    return audit_show.show(file, wanted, as_json=json_)


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
    from conductor.mcp import shim

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
