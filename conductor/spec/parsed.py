"""A chain as a command line, files and variables describe it, and its plan.

An editor waits for this module. It looks for a file and for a variable; if there is neither, it
imports nothing more. `conductor.spec.layering` lays the layers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from conductor.errors import UsageError
from conductor.spec import option_table, paths, plan
from conductor.spec.option_table import TURNS
from conductor.spec.options import Options
from conductor.spec.origins import COMMAND_LINE

if TYPE_CHECKING:
    from conductor.spec.catalog import Note
    from conductor.spec.config.model import Config, Written
    from conductor.spec.config.project import Project, Say
    from conductor.spec.plan import Plan


class Only(msgspec.Struct, frozen=True):
    """The one file that configures chains: the file of a bundle, which a signature vouches for."""

    path: str
    content: bytes

    @property
    def folder(self) -> str:
        """The folder of the bundle's files."""
        return os.path.dirname(self.path)


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A chain to run, as the command line describes it."""

    command: str
    mode: str
    """`agent`, `proxy`, or `auto`: the first message received decides."""
    components: list[str | Written]
    """The last component is a `Written` if it is the command behind `--`."""
    dialect: str | None = None
    log: str = "warning"
    options: Options
    values: dict[str, Any]
    """All options of the command line, by their names, as they were set."""
    config: Config | None = None
    """The configuration of the files (`conductor.spec.layering`); None: no files, or not read."""
    chosen: tuple[str, str] | None = None
    """The folder by which `[[choose]]` chose the chain, and why; None: the command line named it.
    """
    project: Project | None = None
    """The project by which choices and entries of chains were judged; None: none were judged."""
    typed: Parsed | None = None
    """The command line alone, where files or variables add to it."""
    only: Only | None = None
    """The file that alone configures the chain; None: the files of the user and the project do."""


def assemble(
    command: str,
    typed: list[str],
    rest: list[str] | None = None,
    *,
    config: Config | None = None,
    **values: Any,
) -> Parsed:
    """The chain that a command line describes.

    Args:
        command: One of `ALL`.
        typed: The components before `--`.
        rest: The words after `--`; None: there is no `--`.
        config: The configuration of the files.
        values: The options that are set, by name.

    Raises:
        UsageError: Nothing follows `--`.
    """
    components: list[str | Written] = [*typed]
    if rest is not None:
        components.append(_command(command, rest))
    return assembled(command, components, values, config)


def assembled(
    command: str,
    components: Sequence[str | Written],
    values: dict[str, Any],
    config: Config | None = None,
    set_by: Mapping[str, str] | None = None,
) -> Parsed:
    """The chain of these components, with the options that are set, by name; `set_by`: who set each
    option, if files or variables add to the command line."""
    log = values.get("log") or ("debug" if values.get("verbose") else "warning")
    fields = {key: value for key, value in values.items() if key in Options.__struct_fields__}
    if set_by is None:
        set_by = dict.fromkeys(values, COMMAND_LINE)
    options = Options(**{**fields, "verbose": log in ("debug", "info"), "set_by": set_by})
    if command == "proxy":
        mode = "proxy"
    elif command in TURNS or options.require_sandbox or options.lock is not None:
        # Never `auto`: as a proxy of another conductor its last component would be a proxy too,
        # and these options exempt the last component as the agent.
        mode = "agent"
    else:
        mode = "auto"
    return Parsed(
        command=command,
        mode=mode,
        components=[*components],
        dialect=values.get("dialect"),
        log=log,
        options=options,
        values=values,
        config=config,
    )


def _command(command: str, rest: list[str]) -> Written:
    """The component behind `--`. Raises `UsageError`."""
    from conductor.spec.config.model import Written  # most command lines have no `--`

    if not rest:
        raise UsageError(
            "nothing follows `--`",
            f"all words after it are one command: `conductor {command} datetime -- "
            "claude-agent-acp`",
        )
    return Written(rest)


def planned(parsed: Parsed, note: Note | None = None) -> Plan:
    """The plan of a chain, before anybody is asked. `note` hears about names with another meaning.
    Raises `ConductorError`."""
    if parsed.mode != "proxy" and not parsed.components:
        raise nothing(parsed.command)
    return plan.made(
        parsed.components,
        parsed.options,
        mode=parsed.mode,
        config=parsed.config,
        note=note,
    )


def nothing(command: str) -> UsageError:
    """The error for a chain without any component."""
    return UsageError(
        f"`conductor {command}` needs a COMPONENT",
        f"see `conductor {command} --help`; or let `[[choose]]` in conductor.toml choose a chain "
        "by the project",
    )


# -- whether there are layers below ---------------------------------------------------------------


def layered(parsed: Parsed, say: Say = lambda level, text: None, *, served: bool = False) -> Parsed:
    """A command line with the options of files and variables. Raises `UsageError`.

    `say` hears which files are ignored, and the choice by the project. `served`: a server runs the
    chain.
    """
    if parsed.only is None and not anything(parsed.values):
        return parsed
    from conductor.spec import layering

    return layering.applied(parsed, say, served=served)


def read(values: Mapping[str, Any]) -> Config | None:
    """The same, without a report: the command line is to be read with it, and applied later."""
    if not anything(values):
        return None
    from conductor.spec import layering

    return layering.loaded(values)[1]


def anything(values: Mapping[str, Any]) -> bool:
    """Whether there is a file, a variable or a `-c` that counts, with any content."""
    if "c" in values:
        return True
    if option_table.is_isolated(values):
        return False
    if "project" in values or any(map(option_table.is_ours, os.environ)):
        return True
    user = paths.user_config()
    if user and paths.exists(user):
        return True
    try:
        return bool(paths.project_config(os.getcwd()))
    except OSError:  # somebody has removed the current folder
        return False
