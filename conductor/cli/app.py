"""Every command with its help and its errors, on typer.

Loaded only when it has something to explain or a person is waiting: `agent` and `proxy` go through
`conductor.cli.fast` unless that declines. Of the commands' modules only that of the command that
runs is loaded: all of them together take longer than most commands. Commands return the exit code.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from conductor.cli import options, pages, report, silence, surroundings, usage
from conductor.cli.typer_options import paragraphs
from conductor.errors import ConductorError
from conductor.version import version

_EXAMPLES: Final = paragraphs(
    "Try it, then put it into your editor, with your own agent:",
    '  conductor exec datetime demo -p "what day is it?"',
    "  conductor setup zed datetime claude",
)
_RUN, _SET_UP, _LOOK, _MAKE = pages.HEADINGS


def _print_version(wanted: bool) -> None:
    if wanted:
        report.say(f"conductor {version()}")
        raise typer.Exit


def _conductor(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Show the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Runs proxies between an editor and its AI agent, untrusted proxies in a sandbox."""


JOIN_HELP: Final = "Carry a proxy's successor traffic. Proxies start this themselves."


def join(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The conductor's socket.")],
) -> int:
    """Joins the conductor that listens at PATH."""
    from conductor.cli import join as joining

    return joining.main([path])


MCP_HELP: Final = "Be an MCP server over stdio. Agents start this themselves."


def mcp(
    address: Annotated[
        str,
        typer.Argument(metavar="ADDRESS", help="The conductor's socket, or its port on 127.0.0.1."),
    ],
) -> int:
    """Carries an agent's MCP messages to the conductor that listens at ADDRESS."""
    from conductor.mcp.doors import shim

    return shim.main([address])


class _Command(NamedTuple):
    """Where a command is written.

    Attributes:
        heading: Of its page; empty: no page shows it.
        module: Of `conductor.cli`.
        name: Of the function there, or of the group of commands.
        texts: What the names of its `HELP` and `EPILOG` begin with there.
        brief: Its help in lists of commands; None: the first sentence of its help.
    """

    heading: str
    module: str
    name: str
    texts: str = ""
    brief: str | None = None

    def add_to(self, app: typer.Typer, name: str) -> None:
        """Adds the command, under its name, to an app."""
        module = import_module(f"conductor.cli.{self.module}")
        command = getattr(module, self.name)
        heading = self.heading or None
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=heading, short_help=self.brief)
            return
        app.command(
            name=name,
            help=getattr(module, f"{self.texts}HELP"),
            epilog=getattr(module, f"{self.texts}EPILOG", None),
            short_help=self.brief,
            rich_help_panel=heading,
            hidden=not heading,
        )(command)


_COMMANDS: Final = {
    "agent": _Command(_RUN, "chains", "agent", "AGENT_"),
    "proxy": _Command(_RUN, "chains", "proxy", "PROXY_"),
    "exec": _Command(_RUN, "chains", "exec_", "EXEC_"),
    "chat": _Command(_RUN, "chains", "chat", "CHAT_", "Talk to a chain in the browser"),
    "connect": _Command(
        _RUN, "connect", "connect", brief="Connect an editor to a chain that runs elsewhere"
    ),
    "serve": _Command(_RUN, "serve", "serve", brief="Serve chains to many clients at addresses"),
    "attach": _Command(_RUN, "attach", "attach", brief="Attach to a session that others have"),
    "fleet": _Command(_RUN, "fleet", "app", brief="Serve chains from many machines"),
    "setup": _Command(_SET_UP, "setup", "setup", brief="Put a chain into an editor"),
    "add": _Command(_SET_UP, "add", "add"),
    "list": _Command(_SET_UP, "list_", "list_"),
    "update": _Command(
        _SET_UP,
        "update",
        "update",
        brief="Replace installed components by newer versions, where you agree",
    ),
    "remove": _Command(_SET_UP, "remove", "remove"),
    "ps": _Command(_LOOK, "ps", "app", brief="Show the chains of yours that run"),
    "inspect": _Command(_LOOK, "inspect_", "inspect"),
    "lock": _Command(_SET_UP, "lock", "lock"),
    "agents": _Command(
        _SET_UP, "agents", "agents", brief="Show which agents are here, and how to get the others"
    ),
    "doctor": _Command(_LOOK, "doctor", "doctor"),
    "log": _Command(
        _LOOK, "log_", "app", brief="Show what is on record: who changed what, how long each took"
    ),
    "new": _Command(_MAKE, "new_", "new"),
    "dev": _Command(_MAKE, "dev", "dev"),
    "test": _Command(
        _MAKE, "test_", "run_tests", brief="Play a component's transcripts, and check its rules"
    ),
    "publish": _Command(
        _MAKE, "publish", "publish", brief="Put a component into a registry, or make its archive"
    ),
    "trust": _Command(_SET_UP, "trust_", "trust_"),
    "config": _Command(_SET_UP, "config_", "app", brief="Show and check the configuration"),
    "help": _Command(_LOOK, "help_", "help_"),
    "completion": _Command(_LOOK, "completion", "completion"),
    "join": _Command("", "app", "join", "JOIN_"),
    "mcp": _Command("", "app", "mcp", "MCP_"),
}
"""In the order of their pages."""
_EXPLAIN_OTHERS: Final = ("help", "completion")
_WORKER: Final = ["fleet", "worker"]
_NONE: Final = ("--version", "-V")
"""Words that need no command."""


def command(typed: str = "") -> Any:
    """The parser of command lines that begin with a word: it knows the command of that name alone.
    It knows all commands where none has the name, or where that command explains others."""
    app = typer.Typer(
        name="conductor",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=_EXAMPLES)(_conductor)
    names = tuple(_COMMANDS)
    if typed in _NONE:
        names = ()
    elif typed in _COMMANDS and typed not in _EXPLAIN_OTHERS:
        names = (typed,)
    for name in names:
        _COMMANDS[name].add_to(app, name)
    pages.dress(app)
    return typer.main.get_command(app)


def _failed(error: ConductorError, arguments: list[str]) -> int:
    """Reports a command line that cannot be run, also to an editor that waits for an answer."""
    report.error(error.text, error.hint)
    if arguments[0] in ("agent", "proxy"):
        from conductor.cli import run

        run.tell_client(error)
    return error.exit_code


def main(arguments: list[str]) -> int:
    """Runs one command line; the exit code."""
    root = command(arguments[0] if arguments else "")
    typed, rest = arguments, None
    if (
        arguments
        and (arguments[0] in (*options.ALL, "serve", "setup") or arguments[:2] == _WORKER)
        and "--" in arguments
    ):
        # The parser would take what follows for more components.
        end = arguments.index("--")
        typed, rest = arguments[:end], arguments[end + 1 :]
    try:
        if arguments and (unfit := surroundings.unfit(arguments)) is not None:
            raise unfit
        with silence.of(arguments):
            code = root.main(
                typed or ["--help"], prog_name="conductor", standalone_mode=False, obj=rest
            )
    except usage.COMPLAINT as error:
        return _failed(usage.explained(error, arguments, root.commands), arguments)
    except ConductorError as error:
        return _failed(error, arguments)
    except BrokenPipeError:
        report.forget_output()  # its reader has gone
        return 1
    except typer.Abort:
        return 130
    return code if isinstance(code, int) else 0
