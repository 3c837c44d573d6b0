"""Imports packages without modules that they merely look up, or use only for errors.

During the import stand-ins take the places of such modules. A stand-in has the names that the
package takes from the module at once; for all others, then and later, it loads the real module.
Whoever imports such a module later gets the real one, too.

A small `poll` loop of our own, in Python, was tried in place of asyncio and uvloop. A chain without
proxies was ready after 79 ms, not 98. A chain with four sandboxed proxies was ready after 101, not
112, since its host is ready no sooner. A round trip took 2 µs more: uvloop is compiled. Stand-ins
gain half of that, without a second loop. With stand-ins, asyncio and uvloop take 10 ms of CPU until
the first answer, of 52: another loop could gain less than that.

Imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any, Final

_CO_COROUTINE: Final = 0x80
_FUNCTION: Final = type(lambda: None)


class _Unknown:
    """A type of which there are no values."""

    unknown = None


class _Late:
    """Stands for an attribute of a module, which is loaded at the first use of the attribute.

    With `arguments` it stands for the attribute's result for them.
    """

    def __init__(self, module: str, name: str, *arguments: object) -> None:
        self._place = module, name, arguments

    def _real(self) -> Any:
        module, name, arguments = self._place
        found = getattr(_imported(module), name)
        return found(*arguments) if arguments else found

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._real()(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)


class _StandIn(type(sys)):  # type: ignore[misc]  # `types` is not imported yet
    """Has some attributes of a module, and loads the module for the others."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import itself looks whether it is a package
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(_imported(self.__name__), name)


def _late(module: str, *names: str) -> dict[str, object]:
    return {name: _Late(module, name) for name in names}


def _types(*names: str) -> dict[str, object]:
    return {name: type(name, (_Unknown,), {}) for name in names}


def _is_coroutine_function(function: Any) -> bool:
    """As `inspect.iscoroutinefunction`: uvloop asks it about each handler of a signal."""
    from functools import partial

    while isinstance(function, partial):
        function = function.func
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    is_one = code is not None and bool(code.co_flags & _CO_COROUTINE)
    return is_one or hasattr(function, "_is_coroutine_mark")


def _unwrapped(function: Any) -> Any:
    """As `inspect.unwrap`, by which asyncio describes a task. `signal` has the task of asyncio's
    handler of SIGINT described, in an error that nobody sees."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


_STAND_INS: dict[str, dict[str, dict[str, object] | str | None]] = {
    # Its C part wants to recognise types of values that conductor never passes to it. Of `datetime`
    # it needs the C part only.
    "msgspec": {
        "uuid": _types("UUID", "SafeUUID"),
        "decimal": _types("Decimal"),
        "typing_extensions": None,
        "datetime": "_datetime",
        "msgspec.inspect": {},
        "msgspec._json_schema": _late("msgspec._json_schema", "schema", "schema_components"),
    },
    # Decodes texts of programs; ours are bytes.
    "subprocess": {"locale": {}},
    # It and asyncio encrypt connections only for Python components of others and for components at
    # an address. A chain that starts with such a component loads all; a component that joins later
    # has no such TLS. Nobody races connections. The other modules describe code and failures.
    "uvloop": {
        "ssl": {
            **dict.fromkeys(("SSLContext", "MemoryBIO", "create_default_context"), object),
            **dict.fromkeys(("SSLError", "SSLZeroReturnError", "CertificateError"), OSError),
            **dict.fromkeys(("SSLWantReadError", "SSLSyscallError"), OSError),
            "SSL_ERROR_WANT_READ": 0,
            "SSL_ERROR_WANT_WRITE": 0,
            "SSL_ERROR_SYSCALL": 0,
        },
        "asyncio.sslproto": {},
        "asyncio.staggered": {},
        "inspect": {
            "iscoroutinefunction": _is_coroutine_function,
            "isfunction": lambda function: isinstance(function, _FUNCTION),
            "unwrap": _unwrapped,
            **_late("inspect", "isgenerator"),
        },
        "linecache": {},
        "logging": {"DEBUG": 10, "getLogger": lambda name: _Late("logging", "getLogger", name)},
        "traceback": _late(
            "traceback", "StackSummary", "extract_stack", "format_list", "walk_stack"
        ),
    },
}
"""By package the modules that have a stand-in: with these attributes, or another module, or None
for an error as if there were no such module."""
_without_tls: list[bool] = []


def load(package: str) -> None:
    """Imports a package with its stand-ins, unless it is imported already."""
    if package in sys.modules:
        return
    put: dict[str, ModuleType | None] = {}
    for name, has in _STAND_INS[package].items():
        if name not in sys.modules:
            put[name] = _stand_in(name, has)
    sys.modules.update(put)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        _imported(package)
    finally:
        for name, module in put.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]


def load_loop() -> None:
    """Imports asyncio and uvloop without TLS, unless they are imported already."""
    if "asyncio" not in sys.modules and "ssl" not in sys.modules:
        load("uvloop")
        _without_tls.append("ssl" not in sys.modules)


def is_without_tls() -> bool:
    """Whether the event loop was imported so that it cannot encrypt connections."""
    return any(_without_tls)


def _stand_in(name: str, has: Mapping[str, object] | str | None) -> ModuleType | None:
    if has is None:
        return None
    try:
        found = _imported(has) if isinstance(has, str) else _StandIn(name)
    except ImportError:  # this Python has no such C part
        return _imported(name)
    if not isinstance(has, str):
        found.__dict__.update(has)
    return found


def _imported(name: str) -> ModuleType:
    __import__(name)
    return sys.modules[name]
