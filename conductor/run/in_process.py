"""Components that are Python code in this process: `py:module:attribute`."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType
from typing import Any

from conductor.errors import ComponentError, UsageError
from conductor.spec import digests
from conductor.spec.catalog import Spec


def load(spec: Spec) -> Callable[..., Any]:
    """The component a spec's `attribute` names. Raises `UsageError`; `ComponentError` where a lock
    pins the module's file and it has changed."""
    assert spec.attribute is not None
    module, _, name = spec.attribute.partition(":")
    try:
        found = getattr(_imported(module, spec), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot load `py:{spec.attribute}`: {error}",
            "write py:MODULE:ATTRIBUTE, with the module importable from here",
        ) from None
    if not callable(found):
        raise UsageError(
            f"`py:{spec.attribute}` is not callable", "name an async function that takes a channel"
        )
    return found  # type: ignore[no-any-return]


def origin(module: str) -> str | None:
    """The file of a module, found without running any code of it or of the packages it is in."""
    path, file = None, None
    names = module.split(".")
    for depth in range(1, len(names) + 1):
        try:
            found = PathFinder.find_spec(".".join(names[:depth]), path)
        except (ImportError, KeyError, ValueError):
            return None
        if found is None:
            return None
        file = found.origin if found.has_location else None
        try:
            path = list(found.submodule_search_locations or ())
        except KeyError:  # a namespace in a namespace knows its folders only when imported
            return None
    return file


class _Pinned(SourceFileLoader):
    """Runs the very bytes that were compared with the lock, and nothing compiled earlier."""

    def __init__(self, name: str, path: str, spec: Spec) -> None:
        super().__init__(name, path)
        self._spec = spec

    def get_code(self, fullname: str) -> CodeType:
        """The module's code. Raises `ComponentError` where it is not what was locked."""
        data = self.get_data(self.path)
        digest, locked = hashlib.sha256(data).hexdigest(), self._spec.pins[self.path]
        if digest != locked:
            said = digests.changed(self.path, self._spec.locked, locked, digest)
            raise ComponentError(f"{self._spec.label('component')}: {said}", digests.ACCEPT)
        code: CodeType = self.source_to_code(data, self.path)
        return code


def _imported(module: str, spec: Spec) -> ModuleType:
    path = next(iter(spec.pins), "")
    if module in sys.modules or not path.endswith(".py"):
        digests.verify(spec.pins, spec.label("component"), spec.locked)
        return importlib.import_module(module)
    package = module.rpartition(".")[0]
    if package:
        importlib.import_module(package)
    found = spec_from_file_location(module, path, loader=_Pinned(module, path, spec))
    assert found is not None
    assert found.loader is not None
    made = sys.modules[module] = module_from_spec(found)
    try:
        found.loader.exec_module(made)
    except BaseException:
        del sys.modules[module]
        raise
    return made
