"""Components that are Python code in this process: `py:module:attribute`."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from types import CodeType, ModuleType
from typing import Any

from conductor.errors import ComponentError, UsageError
from conductor.spec import digests, origins
from conductor.spec.model import Spec


def load(spec: Spec) -> Callable[..., Any]:
    """The component a spec's `attribute` names. Raises `UsageError`; `ComponentError` where a lock
    pins the module's file and it has changed."""
    assert spec.attribute is not None
    module, _, name = spec.attribute.partition(":")
    named = origins.by(spec.written)
    try:
        component = getattr(_imported(module, spec), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot load `py:{spec.attribute}`: {error}{named}",
            "write py:MODULE:ATTRIBUTE, with the module importable from here",
        ) from None
    if not callable(component):
        raise UsageError(
            f"`py:{spec.attribute}` is not callable{named}",
            "name an async function that takes a channel",
        )
    return component  # type: ignore[no-any-return]


class _Pinned(SourceFileLoader):
    """Runs the very bytes that were compared with the lock, and nothing compiled earlier."""

    def __init__(self, name: str, path: str, spec: Spec) -> None:
        super().__init__(name, path)
        self._spec = spec

    def get_code(self, fullname: str) -> CodeType:
        """The module's code. Raises `ComponentError` if it is not the locked code."""
        data = self.get_data(self.path)
        digest, locked = hashlib.sha256(data).hexdigest(), self._spec.pins[self.path]
        if digest != locked:
            changed = digests.changed(self.path, self._spec.locked, locked, digest)
            raise ComponentError(f"{self._spec.label('component')}: {changed}", digests.ACCEPT)
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
    module_spec = spec_from_file_location(module, path, loader=_Pinned(module, path, spec))
    assert module_spec is not None
    assert module_spec.loader is not None
    loaded = sys.modules[module] = module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(loaded)
    except BaseException:
        del sys.modules[module]  # as the import system does with a module that fails
        raise
    return loaded
