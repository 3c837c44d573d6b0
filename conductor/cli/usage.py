"""Says what is wrong with a command line: `error: …`, a blank line, `hint: …`, exit code 2."""

from __future__ import annotations

import difflib
from typing import Any, Final

import typer

from conductor.cli import report
from conductor.errors import ConductorError

EXIT_USAGE: Final = 2

# typer brings these classes along under a private name; what it exports leads to them.
COMPLAINT: Final = typer.BadParameter.__mro__[2]
"""What the parser raises for a command line it does not take (`typer.BadParameter` and others)."""

_QUOTE: Final = 'a command with arguments is one component: put it in quotes, "python proxy.py --x"'


def explain(error: Any) -> int:
    """Reports an exception of the parser; the exit code."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "conductor"
    text, hint = _worded(error, context, path)
    report.error(text, hint or f"`{path} --help` explains its arguments")
    return EXIT_USAGE


def explain_own(error: ConductorError) -> int:
    """Reports one of our own errors; the exit code."""
    report.error(error.text, error.hint)
    return error.exit_code


def _worded(error: Any, context: Any, path: str) -> tuple[str, str]:
    parameter = getattr(error, "param", None)
    option = getattr(error, "option_name", None)
    match type(error).__name__:
        case "NoSuchOption":
            return f"unknown option `{option}` for `{path}`", _options_like(str(option), context)
        case "MissingParameter" if parameter is not None:
            if parameter.param_type_name == "argument":
                return f"`{path}` needs {_article(parameter.human_readable_name)}", ""
            return f"`{path}` needs `{parameter.opts[-1]}`", ""
        case "BadOptionUsage":
            return f"option `{option}` of `{path}` is not used right", str(error.message)
        case "NoSuchCommand" | "UsageError" if context is not None and _commands(context):
            name = _last_word(str(error.message))
            return f"unknown command `{name}`", _commands_like(name, context)
        case _:
            return str(error.format_message()).rstrip("."), ""


def _article(name: str) -> str:
    word = name.strip("[].…").rstrip(".")
    return f"{'an' if word[:1] in 'AEIOU' else 'a'} {word}"


def _commands(context: Any) -> list[str]:
    commands = getattr(context.command, "commands", {})
    return [name for name, command in commands.items() if not command.hidden]


def _last_word(message: str) -> str:
    """The command's name out of "No such command 'x'."; the parser keeps it nowhere else."""
    return message.partition("'")[2].partition("'")[0] or message


def _commands_like(name: str, context: Any) -> str:
    known = _commands(context)
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return f"did you mean `conductor {close[0]}`?"
    return f"commands are: {', '.join(known)}; to run a chain: `conductor agent {name} …`"


def _options_like(option: str, context: Any) -> str:
    known = [] if context is None else [o for p in context.command.params for o in p.opts]
    close = difflib.get_close_matches(option, [o for o in known if o.startswith("-")], 1)
    if close:
        return f"did you mean `{close[0]}`?"
    return _QUOTE if getattr(context, "args", None) is not None else ""
