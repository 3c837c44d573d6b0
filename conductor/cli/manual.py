"""The manual of the commands: the help, the man page and the completion of shells, all from the
tables of commands, options and topics.

typer has declared the commands of the tables; `page_of` reads typer's command. No other module
makes pages of help, or lists of words for a command line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import typer

from conductor.cli import commands, options, pages, report, topics
from conductor.cli.commands import RARE, Command
from conductor.cli.meant import meant, nearly_meant
from conductor.cli.pages import Entry, Page, Section, gist
from conductor.cli.typer_options import argument, paragraphs
from conductor.errors import UsageError, did_you_mean, hint_of
from conductor.spec import catalog, component_options
from conductor.spec.limits import LIMITS
from conductor.spec.option_table import LISTED

Foreign: TypeAlias = Any
"""An object of typer's parser. Its classes have no public names."""

# -- the pages of commands -------------------------------------------------------------------------


def show(command: Foreign, context: Foreign) -> NoReturn:
    """Shows the page of a command instead of returning it: typer would print it past `report`."""
    report.page(pages.laid_out(page_of(command, str(context.command_path))))
    raise typer.Exit


def listed(root: Foreign) -> Iterator[tuple[Command, Foreign]]:
    """The commands that pages show, each with typer's command."""
    for row in commands.TABLE.values():
        if not row.is_hidden:
            yield row, _found(root, row.path.split())


def _found(root: Foreign, words: Iterable[str]) -> Foreign | None:
    """Typer's command for these words; None: there is no such command."""
    for word in words:
        root = getattr(root, "commands", {}).get(word)
    return root


def page_of(command: Foreign, path: str, *, whole: bool = False) -> Page:
    """The page of a command.

    Args:
        command: Typer's command.
        path: The words that call it: `conductor log show`.
        whole: With every command. Else rare commands have only their names, and the options
            of a command that runs a chain have a sentence each.
    """
    name = path.removeprefix("conductor").strip()
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    below = commands.below(name)
    rare = [] if whole or name else [row for row in below if RARE in row.traits]
    sections = [
        Section("", tuple(Entry(_metavar(p), p.help or "") for p in arguments)),
        *topics.headed(row for row in below if row not in rare),
        *_options(command, name, whole=whole),
    ]
    names = ", ".join(sorted(row.path for row in rare))
    more = f"More: {names}; see `conductor help commands`.\n\n" if rare else ""
    return Page(
        usage(command, path),
        command.help or "",
        tuple(section for section in sections if section.entries),
        more + (command.epilog or ""),
    )


def usage(command: Foreign, path: str) -> str:
    """The form of a command: `conductor log show [OPTIONS] FILE [FILTER]`."""
    pieces = [path, "[OPTIONS]"]
    for parameter in command.params:
        if not parameter.opts[0].startswith("-"):
            word = _metavar(parameter)
            word += "…" if parameter.nargs == -1 and not word.startswith("[") else ""
            is_optional = not parameter.required and not word.startswith("[")
            pieces.append(f"[{word}]" if is_optional else word)
    if hasattr(command, "commands"):
        pieces.append("[COMMAND]" if command.invoke_without_command else "COMMAND")
    return " ".join(pieces)


def _metavar(parameter: Foreign) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _options(command: Foreign, name: str, *, whole: bool) -> Iterator[Section]:
    rows = {row.flags.split()[0]: row for row in options.of(name)}
    short = not whole and name in LISTED
    panels: dict[str, list[Entry]] = {}
    for parameter in command.params:
        flag = parameter.opts[0]
        if not flag.startswith("-") or parameter.hidden:
            continue
        row = rows.get(flag)
        panel = row.panel if row is not None and whole else "Options"
        panels.setdefault(panel, []).append(_option(parameter, short=short))
    more = "; more: `conductor help options`" if short else ""
    meaning = f"Show this page{more}."
    panels.setdefault("Options", []).append(Entry("-h, --help", meaning))
    for panel, entries in panels.items():
        yield Section(panel, tuple(entries))


def _option(parameter: Foreign, *, short: bool) -> Entry:
    flags = options.in_order([*parameter.opts, *parameter.secondary_opts])
    word = ", ".join(flags) + ("" if parameter.is_flag else f" {parameter.metavar}")
    what, _, default = str(parameter.help or "").partition(" Default: ")
    if not default and parameter.show_default and parameter.default and not parameter.is_flag:
        default = f"{parameter.default}."
    if short:
        what = f"{gist(what)}."
    return Entry(word, f"{what} Default: {default}" if default else what)


# -- `conductor help` ------------------------------------------------------------------------------

HELP_HELP: Final = paragraphs(
    "Explain a command, or a topic of several commands.",
    "`conductor help` lists the topics; `conductor help COMMAND` is `conductor COMMAND --help`.",
)
HELP_EPILOG: Final = paragraphs(
    "Examples:",
    "  conductor help component",
    "  conductor help log show",
    "  conductor help rights answer:prompts",
    "  conductor help --man | man -l -",
)


def help_(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        argument("[TOPIC|COMMAND]", "A command or a topic. Default: the list of topics."),
    ] = None,
    man: Annotated[
        bool, typer.Option("--man", help="Print the man page of conductor, for `man -l -`.")
    ] = False,
) -> int:
    """Prints a page of help. Raises `UsageError`."""
    root: Any = context.find_root().command
    report.page(man_page(root) if man else pages.laid_out(_page(words or [], root)))
    return 0


def _page(words: list[str], root: Foreign) -> Page:
    if not words:
        rows = tuple(Entry(name, topic.what) for name, topic in topics.TOPICS.items())
        end = "`conductor --help` lists the commands."
        return Page("conductor help [TOPIC|COMMAND]", "", (Section("Topics", rows),), end)
    if (command := _found(root, words)) is not None:
        return page_of(command, " ".join(["conductor", *words]))
    name = " ".join(words)
    found = topics.TOPICS.get(topics.OTHER_NAMES.get(name, name))
    if found is not None:
        return found.page()
    topic, _, right = name.partition(" ")
    if right and topics.OTHER_NAMES.get(topic, topic) == "rights":
        try:
            return topics.right(right)
        except ValueError as error:
            hint = hint_of(error) or "`conductor help rights` lists the words"
            raise UsageError(str(error), hint) from None
    names = [row.path for row in commands.below("") if not row.is_hidden]
    hint = f"topics are: {', '.join(topics.TOPICS)}; `conductor --help` lists the commands"
    hint = did_you_mean(name, [*topics.TOPICS, *names], hint, prefix="conductor help ")
    if (known := meant(name) or nearly_meant(name)) is not None:
        hint = f"did you mean `conductor {known if '-' in known else f'{known} --help'}`?"
    raise UsageError(f"no help on `{name}`", hint)


# -- the man page ----------------------------------------------------------------------------------


def man_page(root: Foreign) -> str:
    """The man page; the wheel installs it from docs/conductor.1. `root`: the command `conductor` as
    typer has made it."""
    front = page_of(root, "conductor", whole=True)
    lines = [
        '.TH CONDUCTOR 1 "" conductor "conductor"',
        ".SH NAME",
        f"conductor \\- {_roff(gist(front.text))}",
        ".SH SYNOPSIS",
        f".B {_roff('conductor [OPTIONS] COMMAND')}",
        ".SH DESCRIPTION",
        *_man_body(front._replace(usage="")),
    ]
    for row, command in listed(root):
        path = f"conductor {row.path}"
        lines += [f".SH {_roff(path.upper())}", *_man_body(page_of(command, path))]
    for topic in topics.TOPICS.values():
        lines += [f".SH {_roff(gist(topic.what).upper())}", *_man_body(topic.page())]
    return "\n".join(lines)


def _man_body(page: Page) -> Iterator[str]:
    if page.usage:
        yield from (".PP", f".B {_roff(page.usage)}")
    yield from _man_paragraphs(page.text)
    for section in page.sections:
        if section.heading:
            yield f".SS {_roff(section.heading)}"
        for word, meaning in section.entries:
            yield from (".TP", f".B {_roff(word)}", _roff(meaning))
    yield from _man_paragraphs(page.end)


def _man_paragraphs(text: str) -> Iterator[str]:
    for paragraph in filter(str.strip, text.split("\n\n")):
        if paragraph.startswith("  "):
            yield from (".PP", ".nf", *map(_roff, paragraph.split("\n")), ".fi")
        else:
            yield from (".PP", _roff(" ".join(paragraph.split())))


_ROFF: Final = str.maketrans(
    {"\\": "\\e", "-": "\\-", "…": "...", "'": "\\(aq", '"': "\\(dq", "`": "\\(ga"}
    | {"^": "\\(ha", "~": "\\(ti", "•": "\\(bu"}
)


def _roff(text: str) -> str:
    """Text that `man` shows as it is: nothing in it is a request, a quote or a hyphen."""
    return re.sub(r"^(?=\.)", r"\\&", text.translate(_ROFF))


# -- `conductor completion` ------------------------------------------------------------------------

COMPLETION_HELP: Final = paragraphs(
    "Print a script that completes command lines in a shell.",
    "The script knows commands, options and their values, bundled components and their options.",
)
COMPLETION_EPILOG: Final = paragraphs(
    "Add one of these to the shell's start-up file:",
    '  eval "$(conductor completion bash)"           # ~/.bashrc',
    '  eval "$(conductor completion zsh)"            # ~/.zshrc, after compinit',
    "  conductor completion fish | source            # ~/.config/fish/config.fish",
)
SHELLS: Final = {
    "bash": ("words.sh", "bash.sh"),
    "zsh": ("words.sh", "zsh.zsh"),
    "fish": ("fish.fish",),
}
"""The files of `conductor/cli/shells/` of which the script of each shell consists."""
_SCRIPTS: Final = Path(__file__).parent / "shells"

Words: TypeAlias = "dict[str, str]"
"""The words for a place, with their meanings."""


def completion(
    shell: Annotated[
        str,
        argument("bash|zsh|fish", "The shell."),
    ],
    context: typer.Context,
) -> int:
    """Prints the script. It holds all words, so that no key press starts a program. Raises
    `UsageError`."""
    if shell not in SHELLS:
        known = f"shells are: {', '.join(SHELLS)}"
        raise UsageError(f"no completion for `{shell}`", did_you_mean(shell, SHELLS, known))
    script = "\n".join((_SCRIPTS / name).read_text(encoding="utf-8") for name in SHELLS[shell])
    cases = _cases(context.find_root().command, fish=shell == "fish")
    report.page(script.replace("@CASES@", "\n".join(cases)).rstrip("\n"))
    return 0


def _cases(root: Foreign, *, fish: bool) -> Iterator[str]:
    """The cases of a shell's function that prints the words of a place: one a set of words."""
    same: dict[tuple[str, ...], list[str]] = {}
    for place, words in _places(root):
        said = (f"{word}\t{what}" if fish and what else word for word, what in words.items())
        same.setdefault(tuple(said), []).append(place)
    for lines, places in same.items():
        if not lines:
            continue
        if fish:
            yield f"        case {' '.join(map(_fish_quoted, places))}"
            yield f"            printf '%s\\n' {' '.join(map(_fish_quoted, lines))}"
        else:
            patterns = " | ".join(map(shlex.quote, places))
            yield f"    {patterns}) printf '%s\\n' {shlex.join(lines)} ;;"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _lines(group: str) -> Words:
    return {
        entry.word: entry.meaning
        for section in topics.headed(commands.below(group))
        for entry in section.entries
    }


def _places(root: Foreign) -> Iterator[tuple[str, Words]]:
    """The words for each place: behind a command (`log show`), as an option of it (`log show -`),
    as the value of an option (`log show --turn`), as a component (`@component`), as an option of a
    component (`@component,`), as the value of such an option (`@component,name=`). A word that
    begins with `@` stands for words that the shell knows, and `@any` for words that nobody can
    guess."""
    for path, command in [("", root), *((row.path, each) for row, each in listed(root))]:
        flags: Words = {"-h": "Show help", "--help": "Show help"}
        words = _lines(path)
        if path == "help":
            words = {name: topic.what for name, topic in topics.TOPICS.items()} | _lines("")
        for parameter in command.params:
            if not parameter.opts[0].startswith("-"):
                words |= dict.fromkeys(_values(parameter, path), "")
                continue
            for flag in (*parameter.opts, *parameter.secondary_opts):
                flags[flag] = gist(parameter.help or "")
                if not parameter.is_flag:
                    yield f"{path} {flag}", dict.fromkeys(_values(parameter, path), "")
        yield path, words
        yield f"{path} -", flags
    yield "@component", dict.fromkeys(catalog.bundled(), "")
    keys: Words = {}
    for option in component_options.OPTIONS:
        name, dot, _ = option.name.partition(".KEY")
        if dot and name != "limit":
            continue  # any setting
        key = "limit." if dot else f"{name}="
        keys[key] = gist(pages.plain(option.help))
        values = [f"{each}=" for each in LIMITS] if dot else component_options.choices(option)
        yield f"@component,{key}", dict.fromkeys(values, "")
    yield "@component,", keys


_STANDING: Final = {
    "COMPONENT": ["@component", "@files"],
    "FOLDER|COMPONENT|FILE": ["@component", "@files"],
    "FILE": ["@files"],
    "TRACE": ["@files"],
    "FILE|none": ["@files"],
    "FOLDER": ["@folders"],
    "REFERENCE] [FOLDER": ["@folders"],
}
"""The names of values in the help that stand for words, with these words."""


def _values(parameter: Foreign, path: str) -> list[str]:
    """The words for the value of an option or an argument, by its name in the help."""
    metavar = str(parameter.metavar or parameter.name).strip("[]…")
    row = {row.flags.split()[0]: row for row in options.of(path)}.get(parameter.opts[0])
    if row is not None and row.kind.choices:
        return list(row.kind.choices)
    if metavar == "LANGUAGE":
        from conductor.author.project import languages

        return languages()
    if metavar == "CHECK":
        from conductor.author.check.table import CHECKS

        return [check.name for check in CHECKS]
    is_list = "|" in metavar and metavar.islower()
    return _STANDING.get(metavar, metavar.split("|") if is_list else ["@any"])
