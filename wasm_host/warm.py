"""Everything guests need that is made or imported on first use, made beforehand.

A sealed process can import nothing and make no executable memory (`harden.seal`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .module import Module

__all__ = ["warm"]


def warm(modules: Iterable[Module]) -> None:
    """Prepare what these modules need in order to be instantiated, called and explained."""
    from . import engine, traps  # noqa: F401

    # Chooses, and imports, the way in which core modules are called.
    engine.host_functions()
    for module in modules:
        wasi = bool(module.info.wasi)
        if module.carrier == "core":
            from . import core_guest  # noqa: F401
        elif module.carrier == "wasi":
            from . import wasi_guest  # noqa: F401
        else:
            from . import component_guest  # noqa: F401
        if wasi and module.carrier == "component":
            from . import preview2  # noqa: F401
        elif wasi:
            from . import preview1  # noqa: F401
