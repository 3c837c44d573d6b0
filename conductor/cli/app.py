"""Every command with its help and its errors, on typer.

Loaded only when there is something to explain or a person waits: a command that another program
starts goes through `conductor.cli.fast` unless that declines. Of the commands' modules only the
module of the running command is loaded: all of them together take longer than most commands.
Commands return the exit code.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from conductor.cli import commands, report, silence, surroundings, usage
from conductor.cli.commands import Command, Trait
from conductor.cli.typer_options import paragraphs, typed_by_typer
from conductor.errors import ConductorError
from conductor.spec.option_table import given_twice
from conductor.version import version

_EXPLAIN_OTHERS: Final = ("help", "completion")
_SHORT: Final = re.compile(r"-\w=")
"""The beginning of a word that is a short option with its value."""
_NONE: Final = ("--version", "-V")
"""Words that need no command."""
_HELP: Final = "Runs proxies between an editor and its AI agent, untrusted proxies in a sandbox."
_EXAMPLES: Final = paragraphs(
    "Try a chain, then put the chain into your editor, with your own agent:",
    '  conductor exec datetime demo -p "what day is it?"',
    "  conductor setup zed datetime claude",
)


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
    """The command without words, whose options typer reads."""


class _Command(TyperCommand):
    def get_help(self, ctx: usage.Foreign) -> str:
        from conductor.cli import manual  # only help needs it

        manual.show(self, ctx)

    def parse_args(self, ctx: usage.Foreign, args: list[str]) -> list[str]:
        # The parser would take `=x` for the value of `-o=x`.
        parted = (word.split("=", 1) if _SHORT.match(word) else [word] for word in args)
        args = [part for parts in parted for part in parts]
        # The parser keeps the last value of an option, and would drop the others in silence.
        for option, times in Counter(self.make_parser(ctx).parse_args([*args])[2]).items():
            may_repeat = option.multiple or getattr(option, "is_flag", False)
            if times > 1 and not may_repeat:
                raise given_twice(max(option.opts, key=len))
        return super().parse_args(ctx, args)


class _Group(TyperGroup):
    def get_help(self, ctx: usage.Foreign) -> str:
        from conductor.cli import manual

        manual.show(self, ctx)


def command(*typed: str) -> Any:
    """The parser of command lines that begin with these words: it knows the command that they name,
    or all below their group. It knows all commands if the words name none, or name a command that
    explains others."""
    app = typer.Typer(
        name="conductor",
        cls=_Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_HELP, epilog=_EXAMPLES)(_conductor)
    groups = {"": app}
    for row in _wanted(typed):
        _add(row, groups)
    return typer.main.get_command(app)


def _wanted(typed: Sequence[str]) -> list[Command]:
    if typed and typed[0] in _NONE:
        return []
    row = commands.row_of(typed)
    if row is None or row.path in _EXPLAIN_OTHERS:
        return [*commands.TABLE.values()]
    group = [commands.TABLE[row.above]] if row.above else []
    return [*group, row, *commands.below(row.path)]


def _add(row: Command, groups: dict[str, typer.Typer]) -> None:
    """Adds a command to the group that it is in, and a group to `groups`."""
    above, _, name = row.path.rpartition(" ")
    texts: dict[str, Any] = {
        "name": name,
        "help": row.text("HELP"),
        "epilog": row.text("EPILOG"),
    }
    function: Any = typed_by_typer(row) if Trait.STARTED in row.traits else row.function()
    if not row.is_group:
        groups[above].command(cls=_Command, hidden=row.is_hidden, **texts)(function)
        return
    group = groups[row.path] = typer.Typer(no_args_is_help=function is None)
    if function is not None:
        group.callback(invoke_without_command=True)(function)
    groups[above].add_typer(group, cls=_Group, **texts)


def _failed(error: ConductorError, arguments: list[str]) -> int:
    """Reports a command line that cannot be run, also to an editor that waits for an answer."""
    report.error(error.text, error.hint)
    if arguments[0] in ("agent", "proxy"):
        from conductor.cli import run

        run.tell_client(error)
    return error.exit_code


def main(arguments: list[str]) -> int:
    """Runs one command line; the exit code."""
    root = command(*arguments[:2])
    typed, rest = arguments, None
    if commands.has(arguments, Trait.DASHES) and "--" in arguments:
        # The parser would take the words behind `--` for more components.
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
