"""Explains the mistake in a command line, in the form of all other errors."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, TypeAlias, cast

import typer

from conductor import installation
from conductor.cli import commands as table
from conductor.cli import options
from conductor.cli.meant import meant, nearly_meant
from conductor.core import logins
from conductor.errors import UsageError, a, did_you_mean
from conductor.spec.catalog import may_be
from conductor.spec.option_table import SERVE

Foreign: TypeAlias = Any
"""An object of typer's parser. Its classes have no public names."""

# typer has a private copy of click; the classes that it exports derive from this one.
COMPLAINT: Final = cast("type[Exception]", typer.BadParameter.__mro__[2])
"""The base of all errors that the parser raises (`typer.BadParameter` and others)."""

_QUOTE: Final = 'a command with arguments is one component: put it in quotes, "python proxy.py --x"'


def explained(error: Foreign, arguments: list[str], commands: Collection[str]) -> UsageError:
    """Makes a `UsageError` of an error of the parser."""
    command = arguments[0] if arguments and arguments[0] in commands else ""
    context = getattr(error, "ctx", None)
    # Some errors of the parser do not name the command.
    path = f"conductor {command}".rstrip() if context is None else str(context.command_path)
    text, hint = _worded(error, context, path, arguments)
    return UsageError(text, hint or f"see `{path} --help`")


def _worded(error: Foreign, context: Foreign, path: str, arguments: list[str]) -> tuple[str, str]:
    option = getattr(error, "option_name", None)
    match type(error).__name__:
        case "NoSuchOption":
            return f"unknown option `{option}` for `{path}`", _options_like(str(option), context)
        case "MissingParameter" if getattr(error, "param", None) is not None:
            return f"`{path}` needs {_parameter(error.param)}", ""
        case "NoSuchCommand" | "UsageError" if context is not None and _commands(context):
            name = _quoted(str(error.message))
            if not name:
                return f"`{path}` needs a command", f"commands are: {', '.join(_commands(context))}"
            following = arguments[len(path.split()) :]
            return f"unknown command `{name}`", _commands_like(name, context, path, following)
        case _:
            text = str(error.format_message()).rstrip(".")
            return text[:1].lower() + text[1:], ""


def _parameter(parameter: Foreign) -> str:
    """An option by its longest name, an argument by its name in the help."""
    name = max(parameter.opts, key=len)
    if name.startswith("-"):
        return f"`{name}`"
    *others, last = (parameter.metavar or name.upper()).split("|")
    if not others:
        return a(last)
    named = f"{', '.join(others)} or {last}"
    return a(named) if last.isupper() else named


def _commands(context: Foreign) -> list[str]:
    commands = getattr(context.command, "commands", {})
    return [name for name, command in commands.items() if not command.hidden]


def _quoted(message: str) -> str:
    """The name in "No such command 'x'.": the parser has no field for it."""
    return message.partition("'")[2].partition("'")[0]


def _commands_like(name: str, context: Foreign, path: str, following: list[str]) -> str:
    known = _commands(context)
    command = meant(name, *following[:1])
    if "agent" not in known:
        if command is not None and command.startswith(f"{path} ".removeprefix("conductor ")):
            return f"did you mean `conductor {command}`?"
        return did_you_mean(
            name, known, f"commands are: {', '.join(known)}", prefix=f"{path} ", likeness=0.7
        )
    if command is not None:
        return f"did you mean `{path} {command}`?"
    if name == "self":  # uv has `self update`
        return f"`{installation.newer()}` brings a newer conductor"
    from conductor.cli import topics

    topic = topics.OTHER_NAMES.get(name.lower(), name.lower())
    if topic in topics.TOPICS:
        return f"did you mean `{path} help {topic}`?"
    text = f"`{path} --help` lists the commands"
    if may_be(name):
        text += f"; to run a chain: `{path} agent {name} …`"
    elif (command := nearly_meant(name)) is not None:
        text = f"did you mean `{path} {command}`?"
    # Stricter than the default of 0.6: `edit` is near `audit`.
    return did_you_mean(name, known, text, prefix=f"{path} ", likeness=0.7)


def _options_like(option: str, context: Foreign) -> str:
    known = [] if context is None else [o for p in context.command.params for o in p.opts]
    known = [name for name in known if name.startswith("-")]
    key = option.lstrip("-").removeprefix("no-")
    row = next((r for r in options.TABLE if r.key == key and r.configures(*r.commands)), None)
    if row is not None:
        off = {"", "none", "off"}.intersection(row.kind.metavar.split("|"))
        value = (off.pop() or "false") if off and option.startswith("--no-") else "VALUE"
        return f"write `-c {key}={value}`; `conductor help options` explains it"
    command = [] if context is None else context.command_path.split()[1:]
    served = next((row for row in SERVE if row.key == key), None)
    if served is not None and " ".join(command) in served.commands:
        return f"write `-c serve.{key}=VALUE`, or put it into `[serve]` of conductor.toml"
    if option == "--chain" and table.has(command, table.PATHS):
        return "write `@NAME` in place of the components"
    if served is not None and not served.is_flag:
        return f"it is of `conductor serve`: `-c serve.{key}=VALUE`, or `[serve]` of conductor.toml"
    rows = [row for row in options.TABLE if option in row.flags.split()]
    others = dict.fromkeys(name for row in rows for name in row.commands)
    if others:
        *most, last = (f"`conductor {name}`" for name in others)
        named = f"{', '.join(most)} and {last}" if most else last
        said = f"`{option}` is an option of {named}"
        is_elsewhere = context is not None and context.command_path.endswith("connect")
        is_login = f"{option}=" == logins.FLAG
        return f"{said}; log in where the agent runs" if is_login and is_elsewhere else said
    quote = _QUOTE if context is None or table.has(command, table.PATHS) else ""
    # Without the dashes, which make all alike; and stricter where an option may belong to a
    # command without quotes, and is no typing error.
    words = {name.strip("-"): name for name in known}
    import difflib

    close = difflib.get_close_matches(option.strip("-"), words, 1, 0.7 if quote else 0.6)
    return f"did you mean `{words[close[0]]}`?" if close else quote
