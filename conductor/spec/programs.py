"""Finds the programs and Python modules that components run, and names for components.

The start path loads this module before the event loop's: it imports nothing heavy.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from conductor.errors import UsageError, did_you_mean
from conductor.patterns import lazy_pattern

AGENT: Final = "agent"
NAME_RULE: Final = "up to 64 of the letters a to z, digits and `._@+-`"
_NAME: Final = lazy_pattern(r"[A-Za-z0-9._@+-]{1,64}")
_VERSION: Final = lazy_pattern(r"[A-Za-z0-9.+_-]{1,64}")
_UNNAMEABLE: Final = lazy_pattern(r"[^A-Za-z0-9._@+-]+")
_LONGEST: Final = 60
"""Characters of a name that is made of another; it may still get a number."""

RESERVED: Final = frozenset(
    {
        # The first word of an entry in the log, or of an error.
        "debug", "info", "warning", "error", "hint", "note", "health",
        # Other speakers in the log.
        "conductor", "host", "trace", "audit", "mcp",
        # The ends of a chain in traces; of components only an agent may be called `agent`.
        "client", AGENT, "upstream",
    }
)  # fmt: skip
"""Names that no component has: it gets a number behind it, or is refused."""

_RUNNERS: Final = lazy_pattern(
    r"(python[\d.]*|node|npx|uvx|uv|run|sh|bash|env|exec|deno|bun|-.*|[A-Za-z_]\w*=.*)$", re.DOTALL
)
"""Words of a command before its program: interpreters, options, variables."""

_CODE: Final = lazy_pattern(r"(-[a-z]{0,2}[ce]|--eval)$")
"""Options of interpreters that have code as their next word."""

_READ_PROGRAMS: Final = lazy_pattern(r"(python[\d.]*|node|ruby|perl|php|lua|sh|bash|dash|zsh)$")
"""Interpreters that, without arguments, run the code on their standard input."""


def runnable(words: list[str], known: Callable[[str], Iterable[str]]) -> list[str]:
    """The command with the path of its program; `conductor` itself needs no PATH.

    `known` returns the names that a word may have meant, for the hint. Raises `UsageError`.
    """
    program = words[0]
    if len(words) == 1 and _READ_PROGRAMS.match(os.path.basename(program)):
        raise UsageError(
            f"`{program}` without arguments would run the messages of the chain as a program",
            "a command with its arguments is one component: put it in quotes, as in "
            f'"{program} FILE"',
        )
    path = which(program)
    if path is not None:
        return [path, *words[1:]]
    if program == "conductor":
        # -P: the current folder may be a stranger's, with a `conductor` of its own.
        return [sys.executable, "-P", "-m", "conductor", *words[1:]]
    if program in ("python", "python3"):
        return [sys.executable, *words[1:]]
    from conductor.spec import agents

    agent = agents.of_program(program)
    path = first_of(agent.all_programs) if agent is not None else None
    if path is not None:
        return [path, *words[1:]]
    names = [name for name in dict.fromkeys(known(program)) if name != program]
    if "/" in program:
        hint = "check the path, and that the file is executable"
    elif os.path.exists(program):
        hint = f"for a file or folder here, write its path: `./{program}`"
    elif program in ("agent", "proxy"):
        hint = f"components stand here without the word `{program}`: leave it out"
    elif agent is not None:
        hint = agents.missing(agent, program)[1]
    else:
        other = (
            "install the program, write its path, or define the name in conductor.toml (`conductor "
            "config show` names the file); `conductor list --bundled` lists bundled components"
        )
        hint = did_you_mean(program, names, other)
    raise UsageError(f"`{program}` is neither a component nor a program on PATH", hint)


def which(program: str) -> str | None:
    """The path of a program, as a shell would find it (`shutil.which` takes 5 ms to import)."""
    if os.path.dirname(program):
        candidates = [program]
    else:
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        candidates = [os.path.join(folder, program) for folder in folders if folder]
    for path in candidates:
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def first_of(programs: Iterable[str]) -> str | None:
    """The path of the first of these programs that is there."""
    return next((path for program in programs if (path := which(program))), None)


def name_of(words: Sequence[str]) -> str:
    """A name for a command: its script or program, not the interpreter that runs it.

    Neither code nor the value of a variable is used as a name: it may hold a secret.
    """
    for before, word in zip(("", *words), words, strict=False):
        if _CODE.match(before):
            break
        short = stem(word) or word
        if not _RUNNERS.match(short) and not _RUNNERS.match(word):
            return plain(short)
    return plain(stem(words[0]) or words[0])


def is_version(text: str) -> bool:
    """Whether a text can be a version: one word, since it is shown among other facts."""
    return _VERSION.fullmatch(text) is not None


def is_name(name: str) -> bool:
    """Whether it is a valid name: names are ASCII, so that no two look the same."""
    return _NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Whether a component of this name could be mistaken for another speaker in a log."""
    return "".join(filter(str.isalnum, name)).lower() in RESERVED


def looks_like(name: str, other: str) -> bool:
    """Whether people, or file systems, would take one name for the other."""
    from conductor.core.guards.names import folded  # a chain that starts compares no names

    return folded(name) == folded(other)


def plain(name: str) -> str:
    """A valid name made of any text: names are written into logs and records."""
    return _UNNAMEABLE.sub("-", name).strip("-")[:_LONGEST] or "component"


def stem(path: str) -> str:
    """The last part of a path, without its ending."""
    return os.path.splitext(os.path.basename(path))[0]


def module_file(module: str) -> str | None:
    """The file of a Python module. Runs no code of it or of the packages it is in."""
    from importlib.machinery import PathFinder

    path, file = None, None
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        try:
            spec = PathFinder.find_spec(".".join(names[:depth]), path)
        except (ImportError, KeyError, ValueError):
            return None
        if spec is None:
            return None
        file = spec.origin if spec.has_location else None
        try:
            path = list(spec.submodule_search_locations or ())
        except KeyError:  # a namespace in a namespace knows its folders only when imported
            return None
    return file
