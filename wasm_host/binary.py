"""The facts of a WebAssembly binary, enough to know its kind before anything compiles it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from wasm_host.errors import LoadError, over
from wasm_host.format import COMPONENT_VERSION, CORE_VERSION, MAGIC, Reader, Sections, parts

if TYPE_CHECKING:
    from wasm_host.limits import Limits


_KINDS = {0: "func", 1: "table", 2: "memory", 3: "global", 4: "tag"}
_COMPONENT_KINDS = {0: "core", 1: "func", 2: "value", 3: "type", 4: "component", 5: "instance"}
_IMPORTS_OR_EXPORTS: Final = {False: (2, 7), True: (10, 11)}
"""Sections of a core module, and of a component, with bounded entries, by their content."""
_PORTS: Final = "imports and exports"
_COUNTED: Final = {
    False: {1: "types", 3: "functions", 5: "memories", 6: "globals", 10: "function bodies"},
    True: {
        2: "core instances",
        3: "core types",
        5: "instances",
        6: "aliases",
        7: "types",
        8: "functions",
    },
}
_MOST_PRODUCERS: Final = 65536
"""Bytes of `producers` sections; further bytes are not read."""

_LOOKS = (
    (b"\x7fELF", "a native ELF file or precompiled module", "give the .wasm it was made from"),
    (b"MZ", "a Windows program", "compile it for a wasm target"),
    (b"\xcf\xfa\xed\xfe", "a macOS program", "compile it for a wasm target"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"\x1f\x8b", "a gzip file", "unpack it first"),
    (b"#!", "a script", "start it as a command instead of as a .wasm file"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the file itself with: git lfs pull"),
    (b"(module", "WebAssembly text", "assemble it first, for example with: wasm-tools parse"),
    (b"(component", "WebAssembly text", "assemble it first, for example with: wasm-tools parse"),
    (b"<", "an HTML or XML page", "the download probably failed"),
    (b"{", "JSON text", "name the .wasm file itself"),
)
"""First bytes of files that get mistaken for modules -> their kind, advice."""


def looks_like(data: bytes) -> tuple[str, str]:
    """The probable kind of a file that is not WebAssembly, and advice."""
    if not data:
        return "an empty file", "build the module again"
    head = data[:4096].lstrip()
    while head.startswith(b";;"):
        head = head.partition(b"\n")[2].lstrip()
    for mark, what, advice in _LOOKS:
        if head.startswith(mark):
            return what, advice
    try:
        text = data[:512].decode("utf-8")
    except UnicodeDecodeError:
        return "unknown binary data", "build the module again"
    if text.isprintable() or text.replace("\n", "").replace("\t", "").isprintable():
        return "a text file", "name the compiled .wasm file"
    return "unknown data", "build the module again"


class Binary(msgspec.Struct):
    """The facts that `parse` read of a file; of a component only imports and exports."""

    component: bool
    """A component rather than a core module."""
    imports: list[tuple[str, str, str]] = []
    """`(module, name, kind)`; imports of a component have an empty module name."""
    exports: list[tuple[str, str]] = []
    """`(name, kind)`."""
    signatures: dict[str, str] = {}
    """Text such as `(i32, i32) -> i64` of each exported function."""
    import_signatures: dict[tuple[str, str], str] = {}
    """The same of each imported function, by `(module, name)`."""
    memory: tuple[int, int | None] | None = None
    """Minimum and maximum pages of the first memory; maximum `None`: without a bound."""
    constants: dict[str, int] = {}
    """Value of each exported function whose body is one `i32.const`."""
    language: str | None = None
    """The language that it was written in, if its toolchain recorded that."""
    memories: int = 0
    tables: int = 0
    widest: int = 0
    """Most parameters and results of one type."""


def parse(data: bytes, limits: Limits) -> Binary:
    """Read a module's or component's imports and exports without validating the rest.

    Raises:
        LoadError: it is not WebAssembly, is damaged, or is beyond a limit.
    """
    if data[:4] != MAGIC:
        what, advice = looks_like(data)
        raise LoadError(f"not a WebAssembly module: it looks like {what}", hint=advice)
    version = data[4:8]
    if version not in (CORE_VERSION, COMPONENT_VERSION):
        raise LoadError(
            f"WebAssembly of unknown version {version.hex(' ') or '(missing)'}",
            hint="build it with a current toolchain",
        )
    binary = Binary(version == COMPONENT_VERSION)
    try:
        outermost: Sections = []
        for component, sections in parts(data, limits):
            _check(component, sections, limits)
            outermost = outermost or sections
        if binary.component:
            _parse_component(outermost, binary)
        else:
            _Core(binary, limits).parse(outermost)
    except (IndexError, ValueError) as error:
        raise LoadError(
            f"a damaged WebAssembly file: {error}", hint="build or download it again"
        ) from None
    return binary


def _check(component: bool, sections: Sections, limits: Limits) -> None:
    """Refuse a part that announces more entries than the limits allow, before any is read."""
    seen = dict.fromkeys((*_COUNTED[component].values(), _PORTS), 0)
    for code, reader in sections:
        what = _COUNTED[component].get(code)
        if code in _IMPORTS_OR_EXPORTS[component]:
            what = _PORTS
        if what is not None:
            seen[what] += Reader(reader.data, reader.at, reader.end).number()
    for what, count in seen.items():
        limit = "exports" if what is _PORTS else "functions"
        bound: int = getattr(limits, limit)
        if count > bound:
            raise over(limit, f"it has {count} {what}", bound)


def _parse_component(sections: Sections, binary: Binary) -> None:
    for code, reader in sections:
        if code == 10:
            for _ in range(reader.number()):
                reader.byte()
                name = reader.text()
                kind = reader.byte()
                binary.imports.append((name, "", _COMPONENT_KINDS.get(kind, "?")))
                _skip_extern(reader, kind)
        elif code == 11:
            for _ in range(reader.number()):
                reader.byte()
                name = reader.text()
                kind = reader.byte()
                if kind == 0:
                    reader.byte()
                reader.number()
                binary.exports.append((name, _COMPONENT_KINDS.get(kind, "?")))
                if reader.byte():
                    _skip_extern(reader, reader.byte())


def _skip_extern(reader: Reader, kind: int) -> None:
    """Skip the rest of a component's extern description whose first byte was `kind`."""
    if kind == 0 or (kind in (2, 3) and reader.byte() == 0):
        if kind == 0:
            reader.byte()
        reader.number()
    elif kind in (1, 4, 5):
        reader.number()


class _Core:
    """State while a core module's sections are read in order."""

    def __init__(self, binary: Binary, limits: Limits) -> None:
        self.binary = binary
        self.limits = limits
        # Values that may still occur in types.
        self.room = limits.functions
        self.types: list[str] = []
        self.functions: list[int] = []
        self.imported = 0
        self.function_exports: dict[str, int] = {}
        # Bytes of `producers` sections that may still be read.
        self.producers = _MOST_PRODUCERS

    def parse(self, sections: Sections) -> None:
        steps = {1: self._types, 2: self._imports, 3: self._functions, 4: self._tables,
                 5: self._memories, 7: self._exports, 10: self._code}  # fmt: skip
        for code, reader in sections:
            step = steps.get(code)
            if step is not None:
                step(reader)
            elif code == 0:
                self._custom(reader)
        for name, index in self.function_exports.items():
            if index < len(self.functions):
                self.binary.signatures[name] = self._signature(self.functions[index])

    def _signature(self, index: int) -> str:
        return self.types[index] if index < len(self.types) else "?"

    def _types(self, reader: Reader) -> None:
        for _ in range(reader.number()):
            if reader.byte() != 0x60:
                raise LoadError(
                    "it has types of garbage collection or stack switching",
                    hint="build it without these features, which this host leaves out",
                )
            params, results = self._values(reader), self._values(reader)
            self.binary.widest = max(self.binary.widest, len(params) + len(results))
            inside = f"({', '.join(params)})"
            self.types.append(f"{inside} -> {', '.join(results)}" if results else inside)

    def _values(self, reader: Reader) -> list[str]:
        count = reader.number()
        self.room -= count
        if self.room < 0:
            raise over("functions", "its types are too long", self.limits.functions)
        return [reader.value_type() for _ in range(count)]

    def _imports(self, reader: Reader) -> None:
        for _ in range(reader.number()):
            module, name, kind = reader.text(), reader.text(), reader.byte()
            self.binary.imports.append((module, name, _KINDS.get(kind, "?")))
            if kind == 0:
                index = reader.number()
                self.functions.append(index)
                self.binary.import_signatures[module, name] = self._signature(index)
            elif kind == 1:
                self.binary.tables += 1
                reader.value_type()
                reader.limits()
            elif kind == 2:
                self._memory(reader)
            elif kind == 3:
                reader.value_type()
                reader.byte()
            else:
                reader.byte()
                reader.number()
        self.imported = len(self.functions)

    def _functions(self, reader: Reader) -> None:
        self.functions += [reader.number() for _ in range(reader.number())]

    def _tables(self, reader: Reader) -> None:
        self.binary.tables += reader.number()

    def _memories(self, reader: Reader) -> None:
        for _ in range(reader.number()):
            self._memory(reader)

    def _memory(self, reader: Reader) -> None:
        limits = reader.limits()
        self.binary.memories += 1
        self.binary.memory = self.binary.memory or limits

    def _exports(self, reader: Reader) -> None:
        for _ in range(reader.number()):
            name, kind, index = reader.text(), reader.byte(), reader.number()
            self.binary.exports.append((name, _KINDS.get(kind, "?")))
            if kind == 0:
                self.function_exports[name] = index

    def _custom(self, reader: Reader) -> None:
        """Learn the language; a custom section may hold anything, so nothing in it is an error."""
        try:
            name = reader.text()
            if name == "go:buildid":
                self.binary.language = "Go"
            elif name == "producers" and reader.end - reader.at <= self.producers:
                self.producers -= reader.end - reader.at
                for _ in range(reader.number()):
                    field = reader.text()
                    values = [(reader.text(), reader.text()) for _ in range(reader.number())]
                    if field == "language" and values:
                        self.binary.language = values[0][0]
        except (IndexError, ValueError):
            return

    def _code(self, reader: Reader) -> None:
        wanted = {index - self.imported: name for name, index in self.function_exports.items()}
        for index in range(reader.number()):
            size = reader.number()
            body = Reader(reader.data, reader.at, reader.at + size)
            reader.take(size)
            name = wanted.get(index)
            # No locals, i32.const, one number, end.
            if name is not None and size >= 4 and body.byte() == 0 and body.byte() == 0x41:
                value = body.number(signed=True)
                if body.at == body.end - 1 and body.byte() == 0x0B:
                    self.binary.constants[name] = value
