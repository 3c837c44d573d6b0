"""Keeps the code of all modules that a program loads in one file, for its next start.

Python searches the folders of its path for each module and opens a file for each: 80 µs a module,
and an editor waits for more than 200. In one file a module is found in a quarter of that time.

The file lies beside Python's own in `__pycache__`, and the same rules hold. Whoever may write there
writes it. A module is taken from it while the size and the time of its source stay the same. The
file is not used where Python searches other folders, as with `PYTHONPATH`, nor with
`PYTHONDONTWRITEBYTECODE`. Each part begins with its hash: a damaged module is loaded from its
folder, and kept anew.

Imports nothing that a fresh interpreter has not imported already.
"""

from __future__ import annotations

import marshal
import os
import sys
from _imp import source_hash
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import CodeType, ModuleType
    from typing import Final

    State = tuple[int, int] | None
    Kept = tuple[str, State, int, int]
    """The source of a module and its state; where its code begins, and how many bytes it has."""

_HEAD: Final = 8
"""Bytes that tell how long the table behind them is. The code of the modules follows the table."""

_BARE: Final = ("conductor", "wasm_host")
"""Packages whose modules and functions are kept without docstrings: nobody asks for these. Modules
of others may show their docstrings, or write some anew from those of other modules."""

_ANNOTATED: Final = "conductor.cli"
"""The package whose functions keep their annotations: typer reads these."""

_ANNOTATIONS: Final = 4
_CLOSURE: Final = 8
"""Bits of MAKE_FUNCTION: the function has annotations, and variables of another function."""

_MOST_UNITS: Final = 8
"""Code units, of two bytes, that an entry of a table of lines covers."""
_NO_COLUMNS: Final = 0x80 | 13 << 3
_NOWHERE: Final = 0x80 | 15 << 3
"""The first bytes of entries: one with a line alone, and one without."""

_HASH: Final = 8
"""Bytes of a hash."""

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_KIND: Final = 0o170000
_FILE: Final = 0o100000
"""The bits of a mode that give the kind of a file, and the bits of a plain file."""


class CodeCache:
    """The modules of one program, which Python finds here before it searches folders."""

    def __init__(self, program: str) -> None:
        """
        Args:
            program: Names the file.
        """
        assert __spec__.cached is not None
        self._file = f"{__spec__.cached.removesuffix('.pyc')}.{program}"
        self._path = list(sys.path)
        self._loaded_before = set(sys.modules)
        self.fd = -1
        """The open file; -1: there is none."""
        self._begin = 0
        self._kept: dict[str, bytes] = {}
        """The modules that nothing has imported yet, each a marshalled `Kept`: a user of many
        commands has hundreds, and objects take three times as much memory."""
        self._held: frozenset[str] = frozenset()
        """The modules that come from here, also after changes of their sources."""
        if sys.dont_write_bytecode:
            return
        try:
            self.fd = _opened(self._file)
        except (OSError, ValueError):
            pass  # there is no file, or none of ours
        else:
            self._kept = self._table()
        sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A module whose code is kept, as it would be found in the folders."""
        if name not in self._kept or sys.path != self._path:
            return None
        kept: Kept = marshal.loads(self._kept[name])  # noqa: S302
        source = kept[0]
        if path is not None and not source.startswith(f"{path[0]}/"):
            return None
        del self._kept[name]
        code = self._code(name, kept)
        if code is None:
            return None
        folder, _, file = source.rpartition("/")
        is_package = file == "__init__.py"
        spec = ModuleSpec(name, _Loader(name, source, code), origin=source, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [folder]
        return spec

    def keep(self) -> None:
        """Writes the file anew if modules were loaded from the folders."""
        if sys.dont_write_bytecode or not os.access(self._file.rpartition("/")[0], os.W_OK):
            return
        if os.path.isdir(self._file):  # nothing can replace a folder
            return
        new = self._new()
        if not new:
            return
        known = {
            name: (*kept[:2], code)
            for name, found in self._table().items()
            if (kept := marshal.loads(found))  # noqa: S302
            if (code := self._code(name, kept)) is not None
        }
        table: dict[str, bytes] = {}
        codes = bytearray()
        for name, (source, state, code) in (known | new).items():
            begin = len(codes)
            codes += _hashed(code)
            table[name] = marshal.dumps((source, state, begin, len(codes) - begin))
        head = _hashed(marshal.dumps((*self._made_for(), len(codes), table)))
        _replace(self._file, len(head).to_bytes(_HEAD, "little") + head + codes)

    def hold(self, packages: Sequence[str], names: Iterable[str]) -> None:
        """From now on these modules, and all modules of the packages that they import, come from
        here as they are now, also if no file can be opened. A module that is not kept is loaded
        now, with its imports. A second call changes nothing."""
        if self._held:
            return
        begins = tuple(f"{package}." for package in packages)
        inside = frozenset(name for name in self._kept if f"{name}.".startswith(begins))
        # A changed module may be an import of others.
        whole = all(
            self._code(name, marshal.loads(self._kept[name])) is not None  # noqa: S302
            for name in inside
        )
        held = inside if whole else frozenset()
        for name in names:
            if name not in held:
                __import__(name)
        self._held = held

    def close(self) -> None:
        """Further imports come from the folders."""
        self._kept = {}
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _table(self) -> dict[str, bytes]:
        """All modules in the file; none if it is not such a file, or made for other folders."""
        try:
            size = os.fstat(self.fd).st_size
            length = int.from_bytes(os.pread(self.fd, _HEAD, 0), "little")
            head = _whole(os.pread(self.fd, min(length, size), _HEAD))
            *found, kept = marshal.loads(head)  # noqa: S302 - Python's own files are no safer
        except (OSError, ValueError):
            return {}
        self._begin = _HEAD + length
        table: dict[str, bytes] = kept
        return table if found == [*self._made_for(), size - self._begin] else {}

    def _made_for(self) -> tuple[str, list[str], State]:
        """What must be as it was when the file was written: another version of this module may
        write another one."""
        return sys.version, self._path, _state(__file__)

    def _code(self, name: str, kept: Kept) -> bytes | None:
        """The code of a module; None: its source has changed since, or the code is damaged."""
        source, state, offset, length = kept
        if name not in self._held and _state(source) != state:
            return None
        try:
            return _whole(os.pread(self.fd, length, self._begin + offset))
        except (OSError, ValueError):
            return None

    def _new(self) -> dict[str, tuple[str, State, bytes]]:
        """The modules that were loaded from the folders of the path since this was made."""
        new: dict[str, tuple[str, State, bytes]] = {}
        for name, module in list(sys.modules.items()):
            loader = getattr(module, "__loader__", None)
            if name in self._loaded_before or type(loader) is not SourceFileLoader:
                continue
            source = loader.path
            state = _state(source)
            inside = any(source.startswith(f"{folder}/") for folder in self._path if folder)
            if state is not None and inside and (code := loader.get_code(name)) is not None:
                if name.partition(".")[0] in _BARE:
                    code = small(code, annotated=name.startswith(_ANNOTATED))
                new[name] = source, state, marshal.dumps(code)
        return new


class _Loader(SourceFileLoader):
    """As of any source; its code comes from the cache."""

    def __init__(self, name: str, source: str, code: bytes) -> None:
        super().__init__(name, source)
        self._code: bytes | None = code

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if module.__name__.partition(".")[0] in _BARE:
            module.__doc__ = None

    def get_code(self, fullname: str) -> CodeType | None:
        found, self._code = self._code, None
        if found is None:  # somebody asks again, though the module is loaded
            return super().get_code(fullname)
        code: CodeType = marshal.loads(found)  # noqa: S302
        return code


def _opened(file: str) -> int:
    """A descriptor of the file, if it is a plain one of this user or of who installed this."""
    fd = os.open(file, _FLAGS)
    found = os.fstat(fd)
    owners = (os.geteuid(), os.stat(__file__).st_uid)
    # In place of a closed standard stream it would be taken for that.
    if fd > 2 and found.st_mode & _KIND == _FILE and found.st_uid in owners:
        return fd
    os.close(fd)
    raise ValueError(file)


def _hashed(data: bytes) -> bytes:
    return source_hash(0, data) + data


def _whole(hashed: bytes) -> bytes:
    """What follows the hash.

    Raises:
        ValueError: It is damaged.
    """
    data = hashed[_HASH:]
    if source_hash(0, data) != hashed[:_HASH]:
        raise ValueError
    return data


def small(code: CodeType, *, annotated: bool) -> CodeType:
    """The code of a module, where functions have no docstrings, and instructions have lines but no
    columns: a traceback has no carets then. Both take a tenth of a program's memory.

    A docstring is the first constant of a function. No instruction loads the docstring, unless the
    function also uses the same text: then the text stays. Unless they are to stay (`annotated`),
    annotations go too: in Python 3.11 and 3.12 one instruction loads them before the function's
    code. A function with variables of another, or with far constants, keeps its annotations.
    """
    from opcode import hasconst, opmap

    consts = [
        small(const, annotated=annotated) if isinstance(const, type(code)) else const
        for const in code.co_consts
    ]
    steps = list(zip(code.co_code[::2], code.co_code[1::2], strict=True))
    loaded = [at for step, at in steps if step in hasconst]
    if consts and isinstance(consts[0], str) and 0 not in loaded:
        consts[0] = None
    if not annotated:
        makes, loads = opmap["MAKE_FUNCTION"], opmap["LOAD_CONST"]
        for (step, at), (then, _), (last, parts) in zip(steps, steps[1:], steps[2:], strict=False):
            sequence = step, then, last, parts & (_ANNOTATIONS | _CLOSURE)
            if sequence == (loads, loads, makes, _ANNOTATIONS) and loaded.count(at) == 1:
                consts[at] = ()
    return code.replace(co_consts=tuple(consts), co_linetable=_lines(code))


def _lines(code: CodeType) -> bytes:
    """The table of a code's lines without columns, as Python's Objects/locations.md has it."""
    from itertools import groupby
    from operator import itemgetter

    table = bytearray()
    last = code.co_firstlineno
    for line, parts in groupby(code.co_lines(), key=itemgetter(2)):
        units = sum(end - begin for begin, end, _ in parts) // 2
        while units > 0:
            table.append((_NOWHERE if line is None else _NO_COLUMNS) | min(units, _MOST_UNITS) - 1)
            units -= _MOST_UNITS
            if line is not None:
                step, last = line - last, line
                value = 2 * step if step >= 0 else 1 - 2 * step
                while value > 63:
                    table.append(64 | value & 63)
                    value >>= 6
                table.append(value)
    return bytes(table)


def _state(source: str) -> State:
    """A state that changes when a file does; None: there is no such file."""
    try:
        found = os.stat(source)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _replace(file: str, data: bytes) -> None:
    """Writes a file at once, if this user may; as Python does with its own."""
    new = f"{file}.{os.getpid()}"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        try:
            with os.fdopen(fd, "wb") as writer:
                os.fchmod(fd, os.stat(__file__).st_mode)  # a host's umask lets nobody read
                writer.write(data)
                writer.flush()
                os.fsync(fd)  # a torn file would fail each start: a sealed host reads no source
            os.replace(new, file)
        except OSError:
            os.unlink(new)
    except OSError:
        pass  # the next start is as this one


def of_script(program: str) -> CodeCache | None:
    """The cache for a process that runs an installed script; None: it runs something else, whose
    path depends on the current folder (`python -m`)."""
    main = sys.modules.get("__main__")
    if main is None or main.__spec__ is not None or not hasattr(main, "__file__"):
        return None
    return CodeCache(program)


def hold(packages: Sequence[str], names: Sequence[str]) -> None:
    """See `CodeCache.hold`. A process without a cache loads these modules now."""
    for finder in sys.meta_path:
        if isinstance(finder, CodeCache):
            return finder.hold(packages, names)
    for name in names:
        __import__(name)
    return None
