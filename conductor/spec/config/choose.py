"""Chooses the chain of a command line that names none: `[[choose]]`, by the project's folder."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from conductor.errors import UsageError, one_line, visible_path
from conductor.services import scopes
from conductor.spec import untrusted_files
from conductor.spec.config import dependencies, names
from conductor.spec.config.model import Config, Written, WrittenChoice
from conductor.spec.untrusted_files import MOST_ENTRIES

Warn: TypeAlias = Callable[[str], None]
"""Called with a sentence about a file that could not be judged."""

_SKIPPED: Final = frozenset({"node_modules", "target", "venv", "__pycache__"})
"""Folders of what others made, besides those whose names begin with a dot."""


class Chosen(msgspec.Struct, frozen=True):
    """The chain that fits a project."""

    components: list[str | Written]
    """The whole chain: the name of the chosen one, and the command behind `--`."""
    why: str
    """What was chosen, by which choice, and why; for the log."""


def is_asked(components: Sequence[str | Written]) -> bool:
    """Whether a command line names no component: it has none, or the command behind `--` alone."""
    return all(not isinstance(one, str) and isinstance(one.what, list) for one in components)


def chosen(
    components: Sequence[str | Written], config: Config, folder: str, warn: Warn
) -> Chosen | None:
    """The chain of the first choice that fits the folder; None if none does.

    Args:
        components: What the command line names; `is_asked` holds for it.
        config: Has the choices.
        folder: The project's; absolute, or empty if there is none.
        warn: Called for what cannot be judged; that fits no choice.

    Raises:
        UsageError: A choice names no chain.
    """
    for written in config.choose:
        use, at = written.choice.use, f" ({written.origin})" if written.origin else ""
        if use not in config.chains:
            error = names.no_chain(use, config)
            raise UsageError(f"{written.origin}: {error.text}", error.hint)
        why = _fits(written, folder, warn)
        if why:
            first = Written(f"@{use}", origin=written.origin)
            return Chosen([first, *components], f"chose the chain `{use}`{at}: {why}")
    return None


def _fits(written: WrittenChoice, folder: str, warn: Warn) -> str:
    """Why a choice fits; empty if it does not."""
    when = written.choice.when
    if when.file is None and when.dependency is None:
        return "it fits every project"
    if not folder:
        return ""
    try:
        file = None if when.file is None else _first_file(when.file, folder)
    except OSError as error:
        warn(f"cannot look for `{when.file}` in {visible_path(folder)}: {error.strerror}")
        return ""
    if when.file is not None and file is None:
        return ""
    if when.dependency is None:
        return f"there is {visible_path(file or '')}"
    manifest = _manifest_with(when.dependency, _manifests(file, folder), warn)
    return f"{visible_path(manifest)} lists `{when.dependency}`" if manifest else ""


def _first_file(pattern: str, folder: str) -> str | None:
    """The first path in the folder that a pattern stands for. Raises `OSError`."""
    glob = scopes.compile_glob(pattern)
    if not any(character in pattern for character in "*?"):
        path = os.path.join(folder, pattern)
        return path if os.path.exists(path) else None
    inside = _below(folder) if "/" in pattern else _within(folder)
    first = next((name for name in inside if glob.fullmatch(name)), None)
    return None if first is None else os.path.join(folder, first)


def _within(folder: str) -> Iterator[str]:
    """The names in a folder. Raises `OSError` if there are too many to look at."""
    with os.scandir(folder) as entries:
        listed = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES + 1)]
    if len(listed) > MOST_ENTRIES:
        raise untrusted_files.TooLargeError(folder, "it holds too many files")
    return iter(sorted(listed))


def _below(folder: str) -> Iterator[str]:
    return untrusted_files.below(folder, lambda name: name[0] != "." and name not in _SKIPPED)


def _manifests(file: str | None, folder: str) -> list[str]:
    """The manifests that may list the dependency: the file that the choice names, if that is one,
    else all that are known."""
    if file is not None and dependencies.kind_of(file) is not None:
        return [file]
    paths = (os.path.join(folder, name) for name in dependencies.KINDS)
    return [path for path in paths if os.path.lexists(path)]


def _manifest_with(package: str, manifests: list[str], warn: Warn) -> str:
    """The first manifest that lists a package; empty if none does."""
    for path in manifests:
        try:
            if dependencies.lists(path, package):
                return path
        except dependencies.BrokenError as error:
            warn(f"{visible_path(path)} fits no choice: {one_line(error)}")
    return ""
