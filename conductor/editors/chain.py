"""The chain of an entry: the words behind `conductor agent` that mean the same wherever an editor
starts it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from typing import Final

from conductor.errors import UsageError, visible_path
from conductor.spec import paths, syntax
from conductor.spec.config import anchors, names
from conductor.spec.config.model import Config

_SCRIPTS: Final = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh", ".rb")
"""The endings of files that an interpreter runs."""


def words(
    components: Sequence[str], chain: str, config: Config | None, project: str, here: str
) -> list[str]:
    """The components of an entry, as words of a command line.

    Args:
        components: As the user typed them.
        chain: The name of a chain of the configuration; empty: `components` count.
        config: The configuration.
        project: The folder of `--project`; empty without.
        here: The current folder: relative paths are made absolute.

    Raises:
        UsageError: There is no such chain, or only where the editor will not look.
    """
    config = config or Config()
    if chain and components:
        raise UsageError(
            f"`--chain {chain}` and components exclude each other",
            "a chain of the configuration has its own components",
        )
    if chain:
        name = chain.removeprefix("@")
        if name not in config.chains:
            raise names.no_chain(name, config)
        _refuse_project(f"chain `{name}`", config.chains[name].origin, project)
        return [f"@{name}"]
    if not components:
        _refuse_no_choice(config, project)
    return [_anchored(each, config, project, here) for each in components]


def _refuse_no_choice(config: Config, project: str) -> None:
    """Raises `UsageError` where nothing chooses a chain for the project that is open."""
    if not config.choose:
        raise UsageError(
            "which chain is the editor to start?",
            "name its components, as in `conductor setup zed datetime claude`, or a chain "
            "of your configuration, as in `conductor setup zed --chain work`",
        )
    if all(_is_project(each.origin) for each in config.choose):
        _refuse_project("choice of a chain", config.choose[0].origin, project)


def _is_project(origin: str) -> bool:
    """Whether something is written in another file than the user's."""
    return origin.rpartition(", line ")[0] != paths.user_config()


def _refuse_project(what: str, origin: str, project: str) -> None:
    """Raises `UsageError` for an entry that only the file of one project has."""
    if project or not _is_project(origin):
        return
    raise UsageError(
        f"the {what} is of a project ({visible_path(origin)}), and an editor starts the conductor "
        "in others as well",
        f"`--project {shlex.quote(os.path.dirname(origin.rpartition(', line ')[0]))}` has the "
        f"entry use that file everywhere; or write it into {visible_path(paths.user_config())}",
    )


def _anchored(text: str, config: Config, project: str, here: str) -> str:
    """A component with absolute paths. Raises `UsageError`."""
    if text.lstrip().startswith("{"):
        return _anchored_object(text, here)
    base, options = syntax.split(text)
    name = base.strip().removeprefix("@")
    written = config.chains.get(name) or config.components.get(name)
    if written is not None:
        _refuse_project(f"name `{name}`", written.origin, project)
        return text
    try:
        words = shlex.split(base)
    except ValueError:
        return text  # its resolution reports the mistake
    if len(words) == 1 or os.path.exists(os.path.join(here, base)):
        placed = anchors.word(base.strip() if len(words) != 1 else words[0], here)
        if len(words) != 1 or " " in placed:
            placed = shlex.quote(placed)
    else:
        absolute = command(words, here)
        placed = base if absolute == words else shlex.join(absolute)
    tail = text[len(base) :]
    fixed = anchors.options(options, here)
    if fixed != options:
        tail = "".join(f",{key}={value}" for key, value in fixed)
    return placed + tail


def command(words: Sequence[str], here: str) -> list[str]:
    """A command with absolute paths: its program, the arguments marked as paths, and scripts that
    are there."""
    program, *arguments = anchors.command([*words], here)
    return [program, *(_script(each, here) for each in arguments)]


def _script(argument: str, here: str) -> str:
    path = os.path.join(here, argument)
    is_one = argument.endswith(_SCRIPTS) and not argument.startswith("-") and os.path.isfile(path)
    return path if is_one else argument


def _anchored_object(text: str, here: str) -> str:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return text  # its resolution reports the mistake
    if not isinstance(given, dict):
        return text
    for key in ("wasm", "config"):
        if isinstance(given.get(key), str):
            given[key] = anchors.path(given[key], here)
    if isinstance(given.get("command"), str) and isinstance(given.get("args", []), list):
        whole = [given["command"], *map(str, given.get("args", []))]
        given["command"], *given["args"] = command(whole, here)
    return json.dumps(given, ensure_ascii=False)
