"""Gives typer commands their parameters from `conductor.cli.options.TABLE`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from conductor.cli import options
from conductor.cli.commands import Command, Trait
from conductor.spec import option_layers
from conductor.spec.option_table import SERVE, Option, read


def switch(flags: str, what: str) -> Any:
    """An option without a value. `flags`: as typed, separated by spaces; `what`: the help."""
    return typer.Option(*flags.split(), help=what)


def option(flags: str, metavar: str, what: str, **bounds: Any) -> Any:
    """An option with a value; `bounds`: `min` and `max` of a number."""
    return typer.Option(*flags.split(), metavar=metavar, help=what, **bounds)


def argument(metavar: str, what: str) -> Any:
    """An argument; `what`: the help."""
    return typer.Argument(metavar=metavar, help=what, show_default=False)


def output_option(what: str, metavar: str = "FILE") -> Any:
    """The option `--output`; `what`: the help."""
    return option("--output -o", metavar, what)


def paragraphs(*texts: str) -> str:
    """Help text; typer wraps each paragraph by itself."""
    return "\n\n".join(texts)


Json = Annotated[bool, switch("--json", "Print one JSON object.")]
JsonArray = Annotated[bool, switch("--json", "Print one JSON array.")]
Replace = Annotated[bool, switch("--replace", "Let the tag name this, if it names something else.")]


def _parameter(option: Option) -> inspect.Parameter:
    declared = typer.Option(
        *option.flags.split(),
        help=option.help,
        metavar=option.kind.metavar or None,
        rich_help_panel=option.panel,
        show_default=False,
    )
    switch = option.kind.read is None
    value = list[str] | None if option.kind.many else str | None
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if switch else None,
        annotation=Annotated[bool if switch else value, declared],
    )


def _each(row: Option, texts: list[str]) -> tuple[Any, ...]:
    """The values of an option that may be repeated. Raises `UsageError`."""
    assert row.kind.read is not None
    return tuple(read(row.flags, text, row.kind.read) for text in texts)


def takes(name: str) -> Callable[[Callable[..., int]], Any]:
    """Gives the command `name` its options of the table, as typer parameters.

    The decorated function gets the values that the user has set, read as the table says, by
    keyword. Typer sees a parameter for each option, after the function's own.
    """
    rows = options.of(name)
    typed_alone = [row for row in rows if row not in SERVE]  # options of a server may be in a file

    def decorate(command: Callable[..., int]) -> Any:
        @functools.wraps(command)
        def run(**values: Any) -> int:
            for row in rows:
                value = values.pop(row.name)
                if row.kind.many:
                    if value:
                        values[row.name] = _each(row, value)
                elif row.kind.read is not None and value is not None:
                    values[row.name] = read(row.flags.split()[0], value, row.kind.read)
                elif value:
                    values[row.name] = value
            option_layers.refuse_alone(typed_alone, values)
            return command(**values)

        signature = inspect.signature(command, eval_str=True)
        names = {row.name for row in rows}
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.name not in names and parameter.kind is not parameter.VAR_KEYWORD
        ]
        parameters = [*own, *map(_parameter, rows)]
        run.__dict__["__signature__"] = signature.replace(parameters=parameters)
        return run

    return decorate


def typed_by_typer(row: Command) -> Callable[..., int]:
    """The function from which typer makes a command that starts without it otherwise."""
    words, what = row.text("WORDS")
    many = Trait.ONE_WORD not in row.traits
    function = row.function()
    assert function is not None

    def run(context: typer.Context, words: Any = None, **values: Any) -> int:
        if Trait.BARE in row.traits:
            return int(function([words]))
        return int(function(words or [] if many else [words], context.obj, values))

    declared = typer.Argument(metavar=words, help=what, show_default=False)
    kind = Annotated[list[str] | None if many else str, declared]  # type: ignore[valid-type]
    argument = inspect.Parameter(
        "words",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=None if many else inspect.Parameter.empty,
        annotation=kind,
    )
    signature = inspect.signature(run, eval_str=True)
    context = signature.parameters["context"]
    run.__dict__["__signature__"] = signature.replace(parameters=[context, argument])
    run.__doc__ = None
    return takes(row.path)(run)  # type: ignore[no-any-return]
