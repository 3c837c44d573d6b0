"""Imports msgspec without modules it only looks up, in a third of the time.

Its C part imports `uuid` (and that `platform`), `decimal` and `typing_extensions`, only to
recognise their types. conductor never passes it a value of those types, so stand-ins take their
places during the import. Of `datetime` it needs the C part only, and of its own modules not
those that describe types. Later imports of all these get the real ones.

Imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any


class _Unknown:
    """A type of which there are no values."""

    unknown = None


_STAND_INS = {"uuid": ("UUID", "SafeUUID"), "decimal": ("Decimal",), "typing_extensions": ()}
"""Modules that msgspec looks up, and the types it takes from them; it can do without the last."""

_SCHEMA = ("schema", "schema_components")
"""Functions of msgspec's own that no chain calls: they are loaded at their first call."""


def _late(function: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        from msgspec import _json_schema

        return getattr(_json_schema, function)(*args, **options)

    return call


def _attribute(name: str) -> ModuleType:
    """The attributes of msgspec that it does not have yet."""
    if name != "inspect":
        raise AttributeError(f"module `msgspec` has no attribute `{name}`")
    import importlib

    return importlib.import_module("msgspec.inspect")


def load() -> None:
    """Imports msgspec, unless that has happened.

    A msgspec that needs more than the stand-ins have gets the real modules.
    """
    if "msgspec" in sys.modules:
        return
    put: dict[str, ModuleType | None] = {}
    for name, types in _STAND_INS.items():
        put[name] = module = type(sys)(name) if types else None
        for name_of_type in types:
            setattr(module, name_of_type, type(name_of_type, (_Unknown,), {}))
    put["msgspec.inspect"] = type(sys)("msgspec.inspect")
    put["msgspec._json_schema"] = module = type(sys)("msgspec._json_schema")
    for function in _SCHEMA:
        setattr(module, function, _late(function))
    try:
        import _datetime  # type: ignore[import-not-found]

        put["datetime"] = _datetime
    except ImportError:
        pass  # it has no C part
    put = {name: module for name, module in put.items() if name not in sys.modules}
    sys.modules.update(put)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        import msgspec

        del msgspec.inspect
        msgspec.__getattr__ = _attribute  # type: ignore[method-assign]
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "msgspec"]:
            del sys.modules[name]
    finally:
        for name, module in put.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]
