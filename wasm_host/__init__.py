"""Runs untrusted guest modules: frames in, frames out, and no power beyond that.

A guest is WebAssembly in one of three carriers (docs/channel-abi.md). It gets lines and returns
lines; it has no files, environment, network, clock or randomness, and runs under
:class:`Limits`. This package knows nothing of the protocol inside the lines::

    module = wasm_host.load("proxy.wasm")
    guest = module.instantiate("proxy")
    out = guest.start(b"")
    out = guest.deliver(b'p{"jsonrpc":"2.0","method":"hello"}\\n')
    guest.close()
"""

from .abi import too_deep
from .errors import GuestError, LimitRefused, LoadError
from .guest import Guest
from .info import ModuleInfo, describe
from .limits import Limits
from .module import Module, load

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
