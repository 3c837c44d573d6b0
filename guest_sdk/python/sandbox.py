"""The sandbox from within: the author's modules, and what is not there made to say so.

WebAssembly keeps a proxy in; this only makes sure that what it lacks fails with a sentence that
helps, rather than with a trap or, worse, with a clock that stands still.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import io
import json
import linecache
import posixpath
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final, NoReturn

from .failures import MAIN
from .jsontext import nests_deeper
from .missing import FILES, INPUT, MISSING, REFUSED, SHOWN, STORE, TIME, VARIABLES, ZONES

DEEPEST_JSON: Final = 500
"""Levels that JSON may nest; more than a thousand do not fit on the stack."""


class Missing(OSError):  # noqa: N818 - what it says
    """Something that is not there in the sandbox."""


class MissingVariable(KeyError):  # noqa: N818 - what it says
    """A variable of an environment that is not there."""

    def __str__(self) -> str:
        return str(self.args[0])


class MissingModule(ModuleNotFoundError):  # noqa: N818 - what it says
    """A module that is not there in the sandbox."""


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of an author's files; explains those that are missing."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The author's module of this name. Raises `ImportError` for another module."""
        del path, target
        for folder in ("", *self._folders()):
            stem = folder + fullname.replace(".", "/")
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
            known = _known(fullname)
            # With its name, `from urllib import request` would not say why that is missing: names
            # that are neither there nor modules are taken for misspelt ones.
            raise MissingModule(_why(fullname, known), name=None if known else fullname)
        return None

    def _folders(self) -> list[str]:
        """Folders of the author's that were put on `sys.path`, each with a slash."""
        found = [posixpath.normpath(one).lstrip("/") + "/" for one in sys.path]
        return [one for one in found if any(name.startswith(one) for name in self.files)]

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


def _known(name: str) -> str | None:
    """Why a module is missing, if that is in the table."""
    parts = name.split(".")
    ways = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((MISSING[one] for one in ways if one in MISSING), None)


def _why(name: str, known: str | None) -> str:
    if known is not None:
        return f"`import {name}`: in the sandbox {known}"
    if name.partition(".")[0] in sys.stdlib_module_names:
        return (
            f"`import {name}`: this module of the standard library is not in the sandbox; those "
            "that only compute are, see guest_sdk/python/README.md"
        )
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
    name = MAIN + main.removesuffix(".py").replace(".", "_")
    spec = ModuleSpec(name, _finder, origin=main)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if sys.platform == "wasi":
        sys.argv = [main]  # empty else, where `argparse` looks for the name of the program
    _finder.exec_module(module)
    return module


def close() -> None:
    """Replaces what is not there by what explains itself. Once, when the guest is built."""
    import datetime
    import random
    import time

    for name, why in REFUSED.items():
        module, *path, function = name.split(".")
        owner: Any = importlib.import_module(module)
        for part in path:
            owner = getattr(owner, part)
        shown = SHOWN.get(name, name.removeprefix("builtins.").removeprefix("pathlib."))
        setattr(owner, function, _refusing(f"{shown}()", why))
    _without_files()
    _without_data()
    _without_clock(datetime)
    _bound_json()
    form: Any = time.strftime
    told: Any = lambda said, *given: form(said, *given) if given else time.localtime()  # noqa: E731
    time.strftime = told
    random.seed(0)
    _forget()


def _bound_json() -> None:
    """JSON that nests deep is a `RecursionError`, as elsewhere: the stack here overflows before
    Python sees it, which would end the proxy."""
    decoders: Any = json.JSONDecoder
    plain = decoders.raw_decode

    def raw_decode(decoder: json.JSONDecoder, s: str, idx: int = 0) -> Any:
        if nests_deeper(s, DEEPEST_JSON, idx):
            raise RecursionError(f"JSON nests deeper than {DEEPEST_JSON} levels")
        return plain(decoder, s, idx)

    decoders.raw_decode = raw_decode


def _without_files() -> None:
    """Opening says whether it is to read or to write; the environment and the input are empty."""
    import builtins
    import os

    def opening(file: Any, mode: Any = "r", *_: Any, **__: Any) -> NoReturn:
        del file
        writes = isinstance(mode, str) and not set(mode).isdisjoint("wax+")
        raise Missing(f"`open()`: in the sandbox {STORE if writes else FILES}")

    def there(path: Any) -> bool:
        # `inspect` looks for sources in this way.
        if path in linecache.cache:
            return True
        raise Missing(f"`os.path.exists()`: in the sandbox {FILES}")

    def absolute(path: Any, **_: Any) -> Any:
        return posixpath.normpath(posixpath.join("/", os.fspath(path)))

    builtins.open = io.open = opening
    paths: Any = os.path
    for name in ("exists", "isfile", "isdir", "lexists", "islink"):
        setattr(paths, name, there)
    paths.abspath = paths.realpath = absolute
    surroundings: Any = os
    surroundings.environ = Environment()
    surroundings.getenv = os.environ.get
    sys.stdin = Input()


def _without_data() -> None:
    """Ends searches of the library in files of the system: modules, time zones, types of files."""
    import mimetypes
    import zoneinfo

    def looking(name: str, package: str | None = None) -> ModuleSpec | None:
        try:
            return find(name, package)
        except MissingModule:
            return None

    def zone(key: str) -> NoReturn:
        raise zoneinfo.ZoneInfoNotFoundError(f"`ZoneInfo({key!r})`: in the sandbox {ZONES}")

    find, util = importlib.util.find_spec, importlib.util
    util.find_spec = looking
    mimetypes.knownfiles = []
    zones: Any = importlib.import_module("zoneinfo._common")
    zones.load_tzdata = zone
    folders: Any = importlib.import_module("zoneinfo._tzpath")
    folders.TZPATH = ()


class Environment(dict[str, str]):
    """`os.environ`, which is empty: asking for what must be there says so."""

    def __missing__(self, name: str) -> NoReturn:
        raise MissingVariable(f"`os.environ[{name!r}]`: in the sandbox {VARIABLES}")

    def copy(self) -> Environment:
        """The variables that the proxy has set."""
        return Environment(self)


class Input(io.TextIOBase):
    """`sys.stdin`, where nothing comes from."""

    def readable(self) -> bool:
        """True, as of a usual input."""
        return True

    def read(self, *_: Any) -> NoReturn:
        """Refuses."""
        raise Missing(f"`sys.stdin`: in the sandbox {INPUT}")

    readline = readlines = __next__ = read


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
        refused = {one: staticmethod(_refusing(f"{name}.{one}()", TIME)) for one in asking}
        return Kind(name, (base,), {"real": base, "__module__": "datetime", **refused})

    datetime.datetime = make("datetime", whole, "now", "utcnow", "today")
    datetime.date = make("date", day, "today")


def _forget() -> None:
    """Drops modules that can do nothing here, so that importing them explains why."""
    for name in list(sys.modules):
        parts = name.split(".")
        if any(".".join(parts[: n + 1]) in MISSING for n in range(len(parts))):
            del sys.modules[name]
