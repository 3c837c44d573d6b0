"""`conductor completion SHELL`: the script by which a shell completes conductor's command lines.

The script holds all words, from the tables that the program obeys, so that no key press starts a
program. What is shell in it is in `conductor/cli/shells/`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from conductor.cli import options, pages, report, topics
from conductor.cli.typer_options import paragraphs
from conductor.errors import UsageError, did_you_mean
from conductor.spec import catalog, component_options
from conductor.spec.limits import LIMITS

HELP: Final = paragraphs(
    "Print a script that completes command lines in a shell.",
    "It knows commands, options and their values, bundled components and what may follow them.",
)
EPILOG: Final = paragraphs(
    "Add one of these to the shell's start-up file:",
    '  eval "$(conductor completion bash)"           # ~/.bashrc',
    '  eval "$(conductor completion zsh)"            # ~/.zshrc, after compinit',
    "  conductor completion fish | source            # ~/.config/fish/config.fish",
)
SHELLS: Final = ("bash", "zsh", "fish")

_SHELLS: Final = Path(__file__).parent / "shells"
_COMPONENT: Final = "@component"
_FILES: Final = "@files"
_FOLDERS: Final = "@folders"
_ANY: Final = "@any"
"""A value that nobody can guess."""


class Command(NamedTuple):
    """What may follow a command."""

    path: str
    what: str
    options: list[tuple[list[str], str, list[str]]]
    """Flags, meaning, and what their value may be; empty for a switch."""
    arguments: list[str]


def completion(
    shell: Annotated[
        str,
        typer.Argument(metavar="bash|zsh|fish", help="The shell.", show_default=False),
    ],
    context: typer.Context,
) -> int:
    """Prints the script. Raises `UsageError`."""
    if shell not in SHELLS:
        known = f"shells are: {', '.join(SHELLS)}"
        raise UsageError(f"no completion for `{shell}`", did_you_mean(shell, SHELLS, known))
    root: Any = context.find_root().command
    known_commands = list(_commands(root, "", root))
    script = _fish(known_commands) if shell == "fish" else _posix(shell, known_commands)
    report.page(script.rstrip("\n"))
    return 0


# -- what may follow what --------------------------------------------------------------------------


def _commands(command: Any, path: str, root: Any) -> Iterator[Command]:
    inner = {n: c for n, c in getattr(command, "commands", {}).items() if not c.hidden}
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    words = [word for argument in arguments for word in _values(argument, path)]
    flags = [
        (
            pages.in_order(*p.opts, *p.secondary_opts),
            pages.gist(p.help or ""),
            [] if p.is_flag else _values(p, path),
        )
        for p in command.params
        if p.opts[0].startswith("-")
    ]
    flags.append((["-h", "--help"], "Show help", []))
    if path == "help":
        words = [*topics.TOPICS, *(n for n, c in root.commands.items() if not c.hidden)]
    yield Command(path, pages.gist(command.help or ""), flags, [*inner, *dict.fromkeys(words)])
    for name, each in inner.items():
        yield from _commands(each, f"{path} {name}".strip(), root)


def _values(parameter: Any, path: str) -> list[str]:
    """What the value of an option or an argument may be, by its name in the help."""
    metavar = str(parameter.metavar or parameter.name).strip("[]…")
    rows = {row.flags.split()[0]: row for row in options.of(path)}
    row = rows.get(parameter.opts[0])
    if row is not None and row.kind.choices:
        return list(row.kind.choices)
    match metavar:
        case "COMPONENT" | "FOLDER|COMPONENT|FILE":
            return [_COMPONENT, _FILES]
        case "FILE" | "TRACE" | "FILE|none":
            return [_FILES]
        case "FOLDER" | "REFERENCE] [FOLDER":
            return [_FOLDERS]
        case "LANGUAGE":
            from conductor.author.project import languages

            return languages()
        case "CHECK":
            from conductor.author.check.table import CHECKS

            return [check.name for check in CHECKS]
        case _ if "|" in metavar and metavar.islower():
            return metavar.split("|")
        case _:
            return [_ANY]


def _component_words() -> Iterator[tuple[str, list[str]]]:
    """What may follow each option of a component, as `profile=` and its values."""
    for option in component_options.OPTIONS:
        key, dot, _ = option.name.partition(".KEY")
        if key == "limit":
            yield "limit.", [f"{name}=" for name in LIMITS]
        elif not dot:
            yield f"{key}=", list(component_options.choices(option))


# -- scripts ---------------------------------------------------------------------------------------


def _posix(shell: str, commands: list[Command]) -> str:
    values = [
        (f"{command.path} {flag}", words)
        for command in commands
        for flags, _, words in command.options
        if words
        for flag in flags
    ]
    flags = [
        (command.path, [flag for names, _, _ in command.options for flag in names])
        for command in commands
    ]
    tables = [
        _table("_conductor_options", '"$1"', flags),
        _table("_conductor_values", '"$1 $2"', values),
        _table("_conductor_arguments", '"$1"', [(c.path, c.arguments) for c in commands]),
        _component_function(),
    ]
    paths = (c.path.rpartition(" ") for c in commands if c.path)
    known = " | ".join(shlex.quote(f"{before}/{name}") for before, _, name in paths)
    words = _text("words.sh").replace("@TABLES@", "\n\n".join(tables)).replace("@COMMANDS@", known)
    head = "#compdef conductor\n" if shell == "zsh" else ""
    return f"{head}{words}\n{_text('zsh.zsh' if shell == 'zsh' else 'bash.sh')}"


def _table(name: str, of: str, rows: Iterable[tuple[str, list[str]]]) -> str:
    """A function that prints the words of its row."""
    same: dict[tuple[str, ...], list[str]] = {}
    for key, words in rows:
        same.setdefault(tuple(words), []).append(key)
    lines = [f"{name}() {{", f"  case {of} in"]
    for printed, keys in same.items():
        if printed:
            patterns = " | ".join(map(shlex.quote, keys))
            lines.append(f"    {patterns}) printf '%s\\n' {shlex.join(printed)} ;;")
    return "\n".join([*lines, "  esac", "}"])


def _component_function() -> str:
    """A function that prints the component that its argument may become."""
    before, lines = '"${1%,*},', []
    for key, words in _component_words():
        if words:
            lines.append(f'    {key}*) _conductor_each {before}{key}" {shlex.join(words)} ;;')
    keys = [key for key, _ in _component_words()]
    return "\n".join(
        [
            "_conductor_component() {",
            "  case $1 in",
            "    *,*) ;;",
            f"    *) _conductor_each '' {shlex.join(catalog.bundled())}; return ;;",
            "  esac",
            "  case ${1##*,} in",
            *lines,
            "    *=*) ;;",
            f'    *) _conductor_each {before}" {shlex.join(keys)} ;;',
            "  esac",
            "}",
        ]
    )


def _fish(commands: list[Command]) -> str:
    lines = [line for command in commands for line in _fish_command(command)]
    cases = []
    for key, words in _component_words():
        listed = " ".join(f"$before{_fish_quoted(key + word)}" for word in words)
        if listed:
            cases += [f"        case ',{key}*'", f"            printf '%s\\n' {listed}"]
    keys = " ".join(f"$before{_fish_quoted(key)}" for key, _ in _component_words())
    cases += ["        case ',*=*'", "        case ',*'", f"            printf '%s\\n' {keys}"]
    cases += ["        case '*'", f"            printf '%s\\n' {shlex.join(catalog.bundled())}"]
    text = _text("fish.fish").replace("@COMPONENT@", "\n".join(cases))
    return text.replace("@TABLES@", "\n".join(lines))


def _fish_command(command: Command) -> Iterator[str]:
    start = f"complete -c conductor -n {_fish_quoted(f'__conductor_in {command.path}'.strip())}"
    for flags, what, words in command.options:
        names = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in flags)
        value = f" {_fish_words(words)}" if words else ""
        yield f"{start} {names}{value} -d {_fish_quoted(what)}"
    if command.arguments:
        yield f"{start} {_fish_words(command.arguments).removeprefix('-r ').removeprefix('-x ')}"


def _fish_words(words: list[str]) -> str:
    if _FILES in words:
        return "-r -F" + (" -a '(__conductor_component)'" if _COMPONENT in words else "")
    if words == [_FOLDERS]:
        return "-x -a '(__fish_complete_directories)'"
    if words == [_ANY]:
        return "-x"
    return f"-x -a {_fish_quoted(' '.join(word for word in words if word != _ANY))}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _text(name: str) -> str:
    return (_SHELLS / name).read_text(encoding="utf-8")
