"""What is not there in the sandbox, and what to ask the conductor for instead.

WebAssembly keeps a proxy in; this only makes sure that what it lacks fails with a sentence that
helps, rather than with a trap or, worse, with a clock that stands still.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import linecache
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NoReturn

_NETWORK: Final = (
    "there is no network; ask the conductor: `await proxy.fetch(url)`, grant=fetch:HOST"
)
_TIME: Final = "there is no clock; ask the conductor: `await proxy.clock.now()`, grant=clock"
_SLEEP: Final = "nothing can wait; ask the conductor: `await proxy.timer.sleep(s)`, grant=timer"
_FILES: Final = (
    "there are no files; ask the conductor: `await proxy.files.read(path)`, grant=files:GLOB"
)
_STORE: Final = (
    "there are no files to write; ask the conductor: `await proxy.kv.set(key, value)`, grant=kv"
)
_RANDOM: Final = (
    "there is no randomness; ask the conductor: `await proxy.random.bytes(16)`, grant=random"
)
_THREADS: Final = (
    "there are no threads; run several things with `await gather(…)`, or later with `proxy.timer`"
)
_PROCESSES: Final = "there are no other programs"
_LOOP: Final = (
    "there is no event loop: await what the SDK gives you, e.g. `gather`, `proxy.timer.sleep`"
)

MISSING: Final = {
    **dict.fromkeys(
        ("socket", "ssl", "select", "selectors", "socketserver", "ftplib", "smtplib", "imaplib",
         "poplib", "telnetlib", "xmlrpc", "http", "urllib.request", "urllib.error", "requests",
         "httpx", "aiohttp", "urllib3", "websockets"),
        _NETWORK,
    ),
    **dict.fromkeys(("threading", "multiprocessing", "_thread", "concurrent.futures.thread"),
                    _THREADS),
    **dict.fromkeys(("subprocess", "pty", "ctypes"), _PROCESSES),
    **dict.fromkeys(("asyncio", "trio", "anyio", "uvloop"), _LOOP),
    **dict.fromkeys(("sqlite3", "dbm", "shelve"), _STORE),
    **dict.fromkeys(("tempfile", "shutil", "glob", "mmap", "fileinput"), _FILES),
    **dict.fromkeys(("zoneinfo",), "there is no database of time zones here"),
}  # fmt: skip
"""Modules that are not there, and what to do about it."""

_CLOCKS: Final = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
    "localtime", "gmtime", "ctime", "process_time", "process_time_ns",
)  # fmt: skip
_READING: Final = ("read_text", "read_bytes", "open", "iterdir", "glob", "rglob", "exists",
                   "is_file", "is_dir", "stat")  # fmt: skip
_WRITING: Final = ("write_text", "write_bytes", "mkdir", "unlink", "touch")
_LISTING: Final = ("open", "listdir", "scandir", "stat", "mkdir", "remove")
_STARTING: Final = ("system", "popen", "fork", "execv", "spawnv")

_REFUSED: Final = {
    "builtins.open": _FILES,
    "io.open": _FILES,
    "builtins.input": "there is nobody to ask but the client: `await proxy.ask_client(…)`",
    "time.sleep": _SLEEP,
    "os.urandom": _RANDOM,
    "os.getrandom": _RANDOM,
    "random.SystemRandom.random": _RANDOM,
    **{f"uuid.uuid{one}": f"{_RANDOM} (`proxy.random.uuid()`)" for one in (1, 4, 6, 7)},
    **{f"time.{name}": _TIME for name in _CLOCKS},
    **{f"pathlib.Path.{name}": _FILES for name in _READING},
    **{f"pathlib.Path.{name}": _STORE for name in _WRITING},
    **{f"os.{name}": _FILES for name in _LISTING},
    **{f"os.{name}": _PROCESSES for name in _STARTING},
}
"""Functions that are not there, and what to do about it."""


class Missing(OSError):  # noqa: N818 - what it says
    """Something that is not there in the sandbox."""


class MissingModule(ImportError):  # noqa: N818 - what it says
    """A module that is not there in the sandbox."""


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of an author's files; explains those that are missing."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The author's module of this name. Raises `ImportError` for what cannot be had."""
        del path, target
        stem = fullname.replace(".", "/")
        for file, package in ((f"{stem}/__init__.py", True), (f"{stem}.py", False)):
            if file in self.files:
                spec = ModuleSpec(fullname, self, origin=file, is_package=package)
                spec.has_location = True
                return spec
        if any(name.startswith(stem + "/") for name in self.files):
            spec = ModuleSpec(fullname, None, is_package=True)  # a folder without __init__.py
            spec.submodule_search_locations = [stem]
            return spec
        if sys.platform == "wasi":
            raise MissingModule(_why(fullname), name=fullname)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """An ordinary module."""
        del spec
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Runs the author's code, so that tracebacks show its lines."""
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        source = self.files[spec.origin]
        linecache.cache[spec.origin] = (
            len(source), None, source.splitlines(keepends=True), spec.origin
        )  # fmt: skip
        module.__file__ = spec.origin
        exec(compile(source, spec.origin, "exec", dont_inherit=True), vars(module))  # noqa: S102


def _why(name: str) -> str:
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        known = MISSING.get(".".join(parts[:length]))
        if known is not None:
            return f"`import {name}`: in the sandbox {known}"
    return (
        f"`import {name}`: there is no such module in the sandbox; a pure-Python module can lie "
        "beside the proxy (give conductor the folder), what needs compiled code cannot be had"
    )


_finder = Finder()


def serve(files: dict[str, str]) -> None:
    """Makes the author's files importable; the standard library is found before them."""
    _finder.files = files
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)


def run(main: str) -> ModuleType:
    """Runs one of the files, whatever its name is; the module."""
    # Not a name that anything else has: the file may be called like a module of the library.
    name = "sandboxed_" + main.removesuffix(".py").replace(".", "_")
    spec = ModuleSpec(name, _finder, origin=main)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    _finder.exec_module(module)
    return module


def close() -> None:
    """Replaces what is not there by what explains itself. Once, when the guest is built."""
    import datetime
    import random
    import time

    for name, why in _REFUSED.items():
        module, *path, function = name.split(".")
        owner: Any = importlib.import_module(module)
        for part in path:
            owner = getattr(owner, part)
        shown = name.removeprefix("builtins.").removeprefix("io.").removeprefix("pathlib.")
        setattr(owner, function, _refusing(f"{shown}()", why))
    _without_clock(datetime)
    form: Any = time.strftime
    told: Any = lambda said, *given: form(said, *given) if given else time.localtime()  # noqa: E731
    time.strftime = told
    random.seed(0)
    _forget()


def _refusing(what: str, why: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise Missing(f"`{what}`: in the sandbox {why}")

    return refuse


def _without_clock(datetime: Any) -> None:
    """Dates and times that can be computed with, but not asked for."""
    whole, day = datetime.datetime, datetime.date

    class Kind(type):
        """Lets `isinstance` take the real classes for these."""

        real: type

        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, cls.real)

        def __subclasscheck__(cls, subclass: type) -> bool:
            return issubclass(subclass, cls.real)

    def make(name: str, base: type, *asking: str) -> Any:
        refused = {one: staticmethod(_refusing(f"{name}.{one}()", _TIME)) for one in asking}
        return Kind(name, (base,), {"real": base, "__module__": "datetime", **refused})

    datetime.datetime = make("datetime", whole, "now", "utcnow", "today")
    datetime.date = make("date", day, "today")


def _forget() -> None:
    """Drops modules that can do nothing here, so that importing them explains why."""
    for name in list(sys.modules):
        parts = name.split(".")
        if any(".".join(parts[: n + 1]) in MISSING for n in range(len(parts))):
            del sys.modules[name]
