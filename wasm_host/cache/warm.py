"""Everything guests need that is made or imported on first use, made beforehand.

A sealed process can import nothing and make no executable memory (`harden.seal`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wasm_host.module import Module


def warm(modules: Iterable[Module]) -> None:
    """Prepare what these modules need in order to be instantiated, called and explained."""
    from wasm_host import engine, traps  # noqa: F401

    # Chooses, and imports, the way in which core modules are called.
    engine.host_functions()
    for module in modules:
        uses_wasi = bool(module.info.wasi)
        if module.carrier == "core":
            from wasm_host.carriers import core  # noqa: F401
        elif module.carrier == "wasi":
            from wasm_host.carriers import wasi  # noqa: F401
        else:
            from wasm_host.carriers import component  # noqa: F401
        if uses_wasi and module.carrier == "component":
            from wasm_host.wasi import preview2  # noqa: F401
        elif uses_wasi:
            from wasm_host.wasi import preview1  # noqa: F401
