"""The files of a project, and the packages that its manifests list.

`[[choose]]` and the entries of chains are judged by it (`when`), each condition once: an agent may
write in the project, and its files must not rid a running chain of a component.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from conductor.core.policy import scopes
from conductor.errors import one_line, visible_path
from conductor.spec import paths, untrusted_files
from conductor.spec.config import dependencies
from conductor.spec.config.dependencies import BrokenError, Manifest
from conductor.spec.config.model import When, Written
from conductor.spec.untrusted_files import MOST_ENTRIES

Warn: TypeAlias = Callable[[str], None]
"""Called with a sentence about a file that could not be judged."""
Say: TypeAlias = Callable[[str, str], None]
"""Called with a level and a sentence."""

_SKIPPED: Final = frozenset({"node_modules", "target", "venv", "__pycache__"})
"""Folders with files of others, besides those whose names begin with a dot."""

_MANIFESTS: Final = 500
"""Manifests that are looked at."""

_WORK: Final = 10_000_000
"""Steps that reading them may take, in all."""

_BROKEN: Final = 1_000_000
"""The steps counted for a manifest that cannot be read."""


class Project:
    """A project's folder, with the findings about it."""

    def __init__(self, folder: str, warn: Warn) -> None:
        """`folder` is absolute; empty: there is none. `warn` hears why a project cannot be
        judged."""
        self.folder = folder
        self._warn = warn
        self._found: dict[When, str] = {}
        self._read: dict[str, Manifest | None] = {}
        self._left = _WORK
        self._is_full = False

    @property
    def is_judged(self) -> bool:
        """Whether anything was asked of it."""
        return bool(self._found)

    def fits(self, when: When) -> str:
        """Why the project meets the conditions; empty if it does not, or if it cannot be judged."""
        if when not in self._found:
            self._found[when] = self._fits(when)
        return self._found[when]

    def _fits(self, when: When) -> str:
        if when.file is None and when.dependency is None:
            return "it fits every project"
        if not self.folder:
            return ""
        files: list[str] = []
        if when.file is not None:
            try:
                most = 1 if when.dependency is None else _MANIFESTS
                files = [*itertools.islice(_files(when.file, self.folder), most)]
            except OSError as error:
                self._warn(
                    f"cannot look for `{when.file}` in {visible_path(self.folder)}: "
                    f"{error.strerror}"
                )
            if not files:
                return ""
        if when.dependency is None:
            return f"there is {visible_path(files[0])}"
        manifest = self._manifest_with(when.dependency, files)
        return f"{visible_path(manifest)} lists `{when.dependency}`" if manifest else ""

    def _manifest_with(self, package: str, files: list[str]) -> str:
        """The first manifest that lists a package; empty if none does.

        The search begins with the manifests among the named files, or else with all manifests of
        the project. It goes on with the manifests of the members of each.
        """
        waiting = [path for path in files if dependencies.kind_of(path) is not None]
        if not waiting:
            known = (os.path.join(self.folder, name) for name in dependencies.KINDS)
            waiting = [path for path in known if os.path.lexists(path)]
        seen = set(waiting)
        while waiting:
            path = waiting.pop(0)
            manifest = self._manifest(path)
            if manifest is None:
                continue
            if manifest.lists(package):
                return path
            members = [each for each in self._members(path, manifest) if each not in seen]
            seen.update(members)
            waiting += members
        return ""

    def _manifest(self, path: str) -> Manifest | None:
        """A manifest, read once; None if it cannot be read."""
        if path not in self._read:
            if self._left < 0 or len(self._read) >= _MANIFESTS:
                if not self._is_full:
                    self._is_full = True
                    folder = visible_path(self.folder)
                    self._warn(f"{folder}: there are too many manifests; the rest is passed over")
                return None
            try:
                manifest = self._read[path] = self._fresh(path)
                self._left -= manifest.cost
            except BrokenError as error:
                self._read[path] = None
                self._left -= _BROKEN
                self._warn(f"{visible_path(path)} is passed over: {one_line(error)}")
        return self._read[path]

    def _fresh(self, path: str) -> Manifest:
        """Reads a manifest. Raises `BrokenError`."""
        if not paths.within(os.path.realpath(path), os.path.realpath(self.folder)):
            raise BrokenError("it leads out of the project")
        return dependencies.read(path)

    def _members(self, path: str, manifest: Manifest) -> list[str]:
        """The manifests of a workspace's members."""
        above, name = os.path.split(path)
        try:
            folders = _folders(above, manifest.members)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self._warn(f"{visible_path(path)}: its members are passed over: {one_line(why)}")
            return []
        found = (os.path.join(folder, name) for folder in folders)
        return [each for each in found if os.path.lexists(each)]


# -- folders ---------------------------------------------------------------------------------------


def _files(pattern: str, folder: str) -> Iterator[str]:
    """The paths in the folder that a pattern stands for. Raises `OSError`."""
    glob = scopes.compile_glob(pattern)
    if not any(character in pattern for character in "*?"):
        path = os.path.join(folder, pattern)
        if os.path.exists(path):
            yield path
        return
    inside = untrusted_files.below(folder, _is_own) if "/" in pattern else iter(_within(folder))
    yield from (os.path.join(folder, name) for name in inside if glob.fullmatch(name))


def _within(folder: str) -> list[str]:
    """The names in a folder. Raises `OSError` if there are too many to look at."""
    with os.scandir(folder) as entries:
        listed = [entry.name for entry in itertools.islice(entries, MOST_ENTRIES + 1)]
    if len(listed) > MOST_ENTRIES:
        raise untrusted_files.TooLargeError(folder, "it holds too many files")
    return sorted(listed)


def _is_own(name: str) -> bool:
    return name[0] != "." and name not in _SKIPPED


def _folders(above: str, patterns: list[str]) -> list[str]:
    """The folders below another folder that match patterns; `!` leaves folders out.

    Raises `OSError`, and `ValueError` for a pattern that is invalid or leads elsewhere.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        bare = pattern.removeprefix("!").removeprefix("./").rstrip("/")
        scopes.compile_glob(bare)
        for folder in _matching(above, bare.split("/")):
            if pattern.startswith("!"):
                found.pop(folder, None)
            elif len(found) < _MANIFESTS:
                found[folder] = None
    return [*found]


def _matching(above: str, parts: list[str]) -> list[str]:
    """The folders that the parts of a pattern stand for; `**` is any folder within, or none."""
    folders = [above]
    for part in parts:
        inner: list[str] = []
        for folder in folders:
            if part == "**":
                inner += _deep(folder)
            elif "*" in part or "?" in part:
                inner += _inner(folder, part)
            else:
                inner.append(os.path.join(folder, part))
        folders = inner[:MOST_ENTRIES]
    return folders


def _deep(folder: str) -> list[str]:
    """A folder and those within it, the nearest first."""
    found = [folder]
    for each in found:  # it grows meanwhile
        if len(found) < MOST_ENTRIES:
            found += _inner(each, "*")
    return found


def _inner(folder: str, part: str) -> list[str]:
    """The folders within another folder whose names match a pattern."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return []
    glob = scopes.compile_glob(part)
    names = (name for name in _within(folder) if _is_own(name) and glob.fullmatch(name))
    inner = (os.path.join(folder, name) for name in names)
    return [each for each in inner if os.path.isdir(each) and not os.path.islink(each)]


# -- the entries of chains that are for a project --------------------------------------------------


class Entries:
    """Judges entries by a project, and says at level `info` whether each is used."""

    def __init__(self, project: Project, say: Say) -> None:
        self._project = project
        self._say = say
        self._said: set[str] = set()

    def __call__(self, entry: Written) -> bool:
        """Whether an entry is for the project."""
        if entry.when is None:
            return True
        why = self._project.fits(entry.when)
        name = f"`{_label(entry.what)}` ({entry.origin})"
        verdict = f"is in the chain: {why}" if why else f"is left out: {_lacks(entry.when)}"
        text = f"{name} {verdict}"
        if text not in self._said:
            self._said.add(text)
            self._say("info", text)
        return bool(why)


def _label(what: str | dict[str, Any] | list[str]) -> str:
    """The name of an entry in the log."""
    if isinstance(what, dict):
        keys = ("name", "component", "wasm", "command")
        what = next((str(what[key]) for key in keys if key in what), "a component")
    return what if isinstance(what, str) else what[0]


def _lacks(when: When) -> str:
    """The file or dependency that a project lacks."""
    where = f" `{when.file}`" if when.file is not None else ""
    if when.dependency is None:
        return f"there is no{where}"
    manifest = f"no{where}" if where else "no manifest"
    return f"{manifest} lists `{when.dependency}`"
