"""Imports msgspec without modules it only looks up, in half the time.

Its C part imports `uuid` (and that `platform`), `decimal` and `typing_extensions`, only to
recognise their types. conductor never passes it a value of those types, so stand-ins take their
places during the import. Later imports of those modules get the real ones.

Imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from types import ModuleType


class _Unknown:
    """A type of which there are no values."""

    unknown = None


_STAND_INS = {"uuid": ("UUID", "SafeUUID"), "decimal": ("Decimal",), "typing_extensions": ()}
"""Modules that msgspec looks up, and the types it takes from them; it can do without the last."""


def load() -> None:
    """Imports msgspec, unless that has happened.

    A msgspec that needs more than the stand-ins have gets the real modules.
    """
    if "msgspec" in sys.modules:
        return
    put: dict[str, ModuleType | None] = {}
    for name, types in _STAND_INS.items():
        if name not in sys.modules:
            put[name] = module = type(sys)(name) if types else None
            for name_of_type in types:
                setattr(module, name_of_type, type(name_of_type, (_Unknown,), {}))
    sys.modules.update(put)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        import msgspec  # noqa: F401
    except (ImportError, AttributeError):
        for name in [name for name in sys.modules if name.partition(".")[0] == "msgspec"]:
            del sys.modules[name]
    finally:
        for name, module in put.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]
