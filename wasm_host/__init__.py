"""Runs untrusted guest modules: frames in, frames out, and no other power.

A guest is WebAssembly in one of three carriers (docs/architecture.md). It gets lines and returns
lines; it has no files, environment, network, clock or randomness, and runs under
`Limits`. This package knows nothing of the protocol inside the lines::

    module = wasm_host.load("proxy.wasm")
    guest = module.instantiate("proxy")
    out = guest.start(b"")
    out = guest.deliver(b'p{"jsonrpc":"2.0","method":"hello"}\\n')
    guest.close()
"""

from wasm_host.carriers import Guest
from wasm_host.carriers.abi import too_deep
from wasm_host.errors import GuestError, LimitRefused, LoadError
from wasm_host.info import ModuleInfo, describe
from wasm_host.limits import Limits
from wasm_host.module import Module, load

__all__ = [
    "Guest",
    "GuestError",
    "LimitRefused",
    "Limits",
    "LoadError",
    "Module",
    "ModuleInfo",
    "describe",
    "load",
    "too_deep",
]
