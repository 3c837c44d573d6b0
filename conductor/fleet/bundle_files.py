"""The files of a folder that belong into a bundle: those that its configuration needs, no more."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from typing import Any, Final

from conductor.errors import ConductorError, UsageError, visible_path
from conductor.fleet.bundle import MOST, POLICY
from conductor.packages import pack
from conductor.packages.pack import File
from conductor.spec import catalog, digests, paths, untrusted_files
from conductor.spec.config import reading
from conductor.spec.config.model import Config
from conductor.spec.lock import file as locks
from conductor.spec.lock.file import Entry
from conductor.spec.python_guest import scripts

_LOCK: Final = "lock-file"
_CODE: Final = ("module", "script")
"""The kinds of components that consist of files which a bundle may carry."""


def collected(
    folder: str, *, policy: str = "", components: bool = False, others: Iterable[str] = ()
) -> dict[str, File]:
    """The files of a bundle, by path.

    Args:
        folder: Holds `conductor.toml`, the lock files that it names, and the settings of locked
            components.
        policy: The file of a managed policy; empty: none.
        components: Whether the sandboxed components that the lock files name come along.
        others: Further files of the folder.

    Raises:
        ConductorError: One of them is missing, wrong, or outside of the folder.
    """
    return _Collection(folder).all(policy, components, others)


class _Collection:
    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        self._files: dict[str, File] = {}

    def all(self, policy: str, components: bool, others: Iterable[str]) -> dict[str, File]:
        place = os.path.join(self._folder, paths.CONFIG)
        if not os.path.lexists(place):
            raise UsageError(
                f"there is no {paths.CONFIG} in `{visible_path(self._folder)}`",
                "docs/configuration.md explains the file; a bundle is made of the folder of "
                "conductor.toml",
            )
        content = reading.content(place, links=False)
        config = reading.parse(content, place)
        self._files[paths.CONFIG] = File(content)
        if policy:
            self._take_policy(policy)
        for path in self._locks(config):
            self._lock(path, components)
        for path in others:
            self._take(os.path.join(self._folder, path), "`--include`")
        return self._files

    def _locks(self, config: Config) -> Iterator[str]:
        """The lock files of the folder, and those that the configuration names."""
        own = os.path.join(self._folder, paths.LOCK_FILE)
        found = [own] if os.path.lexists(own) else []
        tables = [config.options, *(chain.options for chain in config.chains.values())]
        for written in (table[_LOCK] for table in tables if _LOCK in table):
            if not isinstance(written.value, str):
                raise UsageError(f"{written.origin}: `{_LOCK}` is a path", "as a text")
            found.append(os.path.join(self._folder, written.value))
        yield from dict.fromkeys(found)

    def _take_policy(self, path: str) -> None:
        from conductor.spec.managed import file

        try:
            content = untrusted_files.read(path, MOST)
            file.parse(content, path)
        except OSError as error:
            raise UsageError(f"the policy `{path}`: {error.strerror}", "check the path") from None
        self._files[POLICY] = File(content)

    def _lock(self, path: str, components: bool) -> None:
        self._take(path, "a lock file")
        for entry in locks.read(path).component:
            if entry.config_file is not None and not os.path.isabs(entry.config_file):
                self._take(self._beside(path, entry.config_file), f"`{entry.name}`")
            if components and entry.kind in _CODE and self._is_path(path, entry):
                self._component(self._beside(path, entry.source), entry)

    @staticmethod
    def _beside(lock: str, path: str) -> str:
        return os.path.normpath(os.path.join(os.path.dirname(lock), path))

    def _is_path(self, lock: str, entry: Entry) -> bool:
        """Whether a component is named by its path: else it is installed, and its source a name."""
        return os.sep in entry.source or os.path.exists(self._beside(lock, entry.source))

    def _component(self, path: str, entry: Entry) -> None:
        """The files of a component. Raises `ConductorError` if it differs from its lock entry."""
        spec = catalog.at(f"{path}/" if os.path.isdir(path) else path)
        try:
            script = scripts.read(spec.script) if spec.script else None
            now = script.sha256 if script is not None else digests.of(spec.wasm or path)
        except OSError as error:
            raise _unreadable(path, error) from None
        if now != entry.sha256:
            raise UsageError(
                f"`{entry.name}`: {digests.changed(path, 'its lock file', str(entry.sha256), now)}",
                digests.ACCEPT,
            )
        if spec.manifest_path:
            above = os.path.dirname(spec.manifest_path)
            for name, file in pack.pack(above).files.items():
                self._put(os.path.join(above, name), file, f"`{entry.name}`")
        elif script is not None and script.folder:
            for name in script.files:
                self._take(os.path.join(spec.script, name), f"`{entry.name}`")
        else:
            self._take(path, f"`{entry.name}`")

    def _take(self, path: str, whose: str) -> None:
        try:
            with untrusted_files.ordinary(path, links=False) as file:
                executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
                content = file.read(MOST + 1)
        except OSError as error:
            raise _unreadable(path, error) from None
        self._put(path, File(content, executable), whose)

    def _put(self, path: str, file: File, whose: str) -> None:
        real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if not paths.within(real, self._folder):
            raise UsageError(
                f"{whose}: `{visible_path(path)}` lies outside of `{visible_path(self._folder)}`",
                "a bundle holds files of its folder alone: put a copy there",
            )
        name = os.path.relpath(real, self._folder).replace(os.sep, "/")
        before: Any = self._files.get(name)
        if before is not None and before.content != file.content:
            raise UsageError(f"`{name}` is in the bundle twice", "name it once")
        self._files.setdefault(name, file)


def _unreadable(path: str, error: OSError) -> ConductorError:
    return UsageError(
        f"`{visible_path(path)}` cannot be bundled: {error.strerror or error}", "check the path"
    )
