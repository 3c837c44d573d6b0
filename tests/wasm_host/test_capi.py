"""wasmtime's C interface as `wasm_host.capi` has it, compared with the package `wasmtime`."""

import ctypes
import gc
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import wasmtime
from wasmtime import _ffi as ffi

import wasm_host
from tests.places import ROOT
from tests.wasm_host.support import CARRIERS, GUESTS, assemble, core, wasm
from wasm_host import GuestError, Limits, LoadError, capi, engine
from wasm_host.calls import capi_component
from wasm_host.capi import layouts, library
from wasm_host.engine import engine_for, wasmtime_version
from wasm_host.ticker import TICKER

APIS: list[Any] = [capi, wasmtime]

INTEGERS = {
    ctypes.c_bool: "bool",
    ctypes.c_uint8: "u8",
    ctypes.c_int64: "i64",
    ctypes.c_uint64: "u64",
}


def shape(kind: Any) -> str:
    """The machine's form of a C type: nothing, a pointer, or a kind of integer."""
    if kind is None:
        return "nothing"
    return INTEGERS.get(kind, "pointer")


@pytest.mark.parametrize("name", library.FUNCTIONS)
def test_functions_have_the_types_that_the_package_gives_them(name: str) -> None:
    theirs = getattr(ffi.dll, name)
    result, *arguments = library.FUNCTIONS[name]
    assert shape(result) == shape(theirs.restype)
    assert [shape(item) for item in arguments] == [shape(item) for item in theirs.argtypes]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (layouts.Bytes, ffi.wasm_byte_vec_t),
        (layouts.Pointers, ffi.wasm_importtype_vec_t),
        (layouts.Pointers, ffi.wasm_valtype_vec_t),
        (layouts.FunctionHandle, ffi.wasmtime_func_t),
        (layouts.MemoryHandle, ffi.wasmtime_memory_t),
        (layouts.InstanceHandle, ffi.wasmtime_instance_t),
        (layouts.Extern, ffi.wasmtime_extern_t),
        (layouts.Value, ffi.wasmtime_val_t),
    ],
    ids=lambda kind: kind.__name__,
)
def test_structures_lie_as_in_the_package(ours: Any, theirs: Any) -> None:
    assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
    assert ctypes.alignment(ours) == ctypes.alignment(theirs)
    for (mine, *_), (other, *_) in zip(ours._fields_, theirs._fields_, strict=False):
        assert getattr(ours, mine).offset == getattr(theirs, other).offset


@pytest.mark.parametrize("ours", [capi_component.Argument, capi_component.Result])
def test_a_string_of_a_component_lies_as_in_the_package(ours: Any) -> None:
    value: Any = ffi.wasmtime_component_val_t
    string: Any = ffi.wasm_name_t
    inside = value.of.offset + ffi.wasmtime_component_valunion_t.string.offset
    assert ctypes.sizeof(ours) == ctypes.sizeof(value)
    assert (ours.kind.offset, ours.kind.size) == (value.kind.offset, value.kind.size)
    for field in ("size", "data"):
        mine, theirs = getattr(ours, field), getattr(string, field)
        assert (mine.offset, mine.size) == (inside + theirs.offset, theirs.size)


def test_two_raw_values_fit_the_buffer_of_a_call() -> None:
    assert ctypes.sizeof(layouts.RawValues) == 2 * ctypes.sizeof(ffi.wasmtime_val_raw)


def test_constants_are_those_of_the_package() -> None:
    assert ffi.WASMTIME_EXTERN_FUNC.value == layouts.FUNCTION
    assert ffi.WASMTIME_EXTERN_MEMORY.value == layouts.MEMORY
    assert ffi.WASMTIME_I32.value == layouts.I32
    assert ffi.WASMTIME_I64.value == layouts.I64
    names = {getattr(ffi, f"WASM_{name}").value: name.lower() for name in ("I32", "I64", "F32")}
    assert {kind: layouts.TYPES[kind] for kind in names} == names


def test_a_callback_gets_what_the_package_says() -> None:
    theirs: Any = ffi.wasmtime_func_callback_t
    ours: Any = layouts.Callback
    assert [shape(item) for item in ours._argtypes_] == [shape(item) for item in theirs._argtypes_]


def test_it_is_the_minor_version_that_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (asked,) = (item for item in project["dependencies"] if item.startswith("wasmtime"))
    assert f">={library.VERSION}," in asked
    assert wasmtime_version().startswith(f"{library.VERSION}.")


@pytest.mark.parametrize(
    ("part", "value", "named"),
    [
        ("version", lambda: "50.1.0", "version 50.0"),
        ("folder", lambda: "", "its package"),
        ("folder", lambda: "/nowhere", "a library for this system"),
    ],
)
def test_what_is_missing_is_named(
    part: str, value: Any, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = library.missing.__wrapped__
    loaded = library._loaded.__wrapped__
    monkeypatch.setattr(library, "version", library.version)
    monkeypatch.setattr(library, part, value)
    monkeypatch.setattr(library, "_loaded", loaded)
    assert missing() == (named,)


def test_a_module_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capi, "missing", lambda: ("version 50.0",))
    monkeypatch.setattr(engine, "_engines", {})
    with pytest.raises(LoadError, match=r"wasmtime lacks version 50\.0") as caught:
        wasm_host.load(core())
    assert "pip install" in caught.value.hint


def test_it_is_found_without_executing_the_package(tmp_path: Path) -> None:
    """Another minor version is recognised by its metadata, and nothing of it runs."""
    package = tmp_path / "wasmtime"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('executed')\n")
    (tmp_path / "wasmtime-49.0.2.dist-info").mkdir()
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]\n"
        "from wasm_host.capi import library\n"
        "print(library.version(), *library.missing())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"49.0.2 version 50.0\n"


# -- the same objects from both ------------------------------------------------------------------

STORED = (1 << 20, 100, 1, 1, 1)


def started(api: Any, wat: str, limits: tuple[int, ...] = STORED) -> tuple[Any, Any]:
    """A store and the exports of a module without imports."""
    engine = engine_for(Limits(), api)
    store = api.Store(engine)
    store.set_limits(*limits)
    store.set_epoch_deadline(3)
    instance = api.Instance(store, api.Module(engine, assemble(wat)), [])
    return store, instance.exports(store)


def failure(api: Any, wat: str, name: str = "") -> tuple[str, str]:
    """The class and text of what a module's start, or a call of a function, raises."""

    def run() -> None:
        store, exports = started(api, wat)
        exports[name](store)

    TICKER.running.add(run)
    TICKER.wake()
    try:
        with pytest.raises((api.Trap, api.WasmtimeError)) as caught:
            run()
    finally:
        TICKER.running.discard(run)
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize(
    ("wat", "name"),
    [
        ('(module (func (export "f") unreachable))', "f"),
        ('(module (func (export "f") (loop (br 0))))', "f"),
        ('(module (func $f (export "f") (call $f)))', "f"),
        ('(module (func (export "f") (param i32 i64)))', "f"),
        ('(module (memory 1) (func (export "f") (drop (i32.load (i32.const -1)))))', "f"),
        ("(module (func $f unreachable) (start $f))", ""),
        ("(module (memory 100))", ""),
        ("(module (table 1000 funcref))", ""),
        ('(module (import "a" "b" (func)))', ""),
        ("(module (memory 1) (memory 1))", ""),
    ],
)
def test_failures_have_the_words_of_the_package(wat: str, name: str) -> None:
    assert failure(capi, wat, name) == failure(wasmtime, wat, name)


@pytest.mark.parametrize(
    "data", [b"\0asm\1\0\0", b"\0asm\1\0\0\0\1\1\xff", b"\0asm\x0d\0\1\0", b"\0" * 10]
)
def test_refused_modules_have_the_words_of_the_package(data: bytes) -> None:
    words = []
    for api in APIS:
        with pytest.raises(api.WasmtimeError) as caught:
            api.Module(engine_for(Limits(), api), data)
        words.append(str(caught.value))
    assert words[0] == words[1]


RESULTS = """(module
  (func (export "none"))
  (func (export "small") (result i32) (i32.const -1))
  (func (export "large") (result i64) (i64.const -2))
  (func (export "two") (param f32 f64) (result i32 i64) (unreachable))
  (func (export "held") (result externref) (ref.null extern))
  (global (export "number") i32 (i32.const 1))
  (table (export "table") 1 funcref)
  (memory (export "memory") 2))"""


def test_results_and_types() -> None:
    for api in APIS:
        store, exports = started(api, RESULTS)
        assert [exports[name](store) for name in ("none", "small", "large")] == [None, -1, -2]
        kind = exports["two"].type(store)
        assert [str(item) for item in kind.params] == ["f32", "f64"]
        assert [str(item) for item in kind.results] == ["i32", "i64"]
        assert exports["memory"].data_len(store) == 2 * 65536
        assert exports.get("absent") is None
    store, exports = started(capi, RESULTS)
    assert exports["held"](store) is None
    # No carrier wants these, so they count as absent.
    assert exports.get("number") is None
    assert exports.get("table") is None
    with pytest.raises(KeyError):
        exports["number"]


IMPORTS = """(module
  (import "m" "first" (func (param i32 i64) (result i32)))
  (import "m" "ż" (func))
  (import "m" "memory" (memory 1)))"""


def test_imports_outlive_the_list_they_came_in() -> None:
    module = capi.Module(engine_for(Limits(), capi), assemble(IMPORTS))
    first, second, third = module.imports
    module.close()
    gc.collect()
    assert (first.name, second.name, third.name, third.type) == ("first", "ż", "memory", None)
    assert first.type is not None
    assert (first.type.params, first.type.results) == (["i32", "i64"], ["i32"])


def test_code_goes_from_one_to_the_other() -> None:
    data = wasm(GUESTS / "flip.wat")
    mine, theirs = (api.Module(engine_for(Limits(), api), data) for api in APIS)
    for api, code in ((wasmtime, mine.serialize()), (capi, bytes(theirs.serialize()))):
        engine = engine_for(Limits(), api)
        store = api.Store(engine)
        store.set_epoch_deadline(3)
        instance = api.Instance(store, api.Module.deserialize(engine, code), [])
        assert instance.exports(store)["channel_abi"](store) == 1


def test_foreign_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.cwasm"
    path.write_bytes(b"no code")
    engine = engine_for(Limits(), capi)
    with pytest.raises(capi.WasmtimeError):
        capi.Module.deserialize_file(engine, str(path))
    with pytest.raises(capi.WasmtimeError):
        capi.Module.deserialize(engine, b"no code")


# -- ownership ---------------------------------------------------------------------------------


def test_what_is_closed_is_not_used_again() -> None:
    store, exports = started(capi, RESULTS)
    store.close()
    store.close()
    uses: list[Callable[[], object]] = [
        lambda: store.set_epoch_deadline(1),
        lambda: store.set_fuel(1),
        lambda: exports["none"],
        lambda: store.pointer,
    ]
    for use in uses:
        with pytest.raises(ValueError, match="already closed"):
            use()


def resident() -> int:
    """Bytes of memory of this process."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts a process's memory in /proc")
@pytest.mark.parametrize("way", ["closed", "dropped", "trapped", "failing to start", "refused"])
def test_thousands_of_instances_leave_nothing_behind(way: str) -> None:
    starting = "(func $s unreachable) (start $s)" if way == "failing to start" else ""
    module = wasm_host.load(core("(unreachable)", data=starting))
    engine = engine_for(Limits(), capi)

    def once() -> None:
        if way == "refused":
            with pytest.raises(capi.WasmtimeError):
                capi.Module(engine, b"\0asm\1\0\0\0\1\1\xff")
            return
        if way == "failing to start":
            with pytest.raises(GuestError):
                module.instantiate("it")
            return
        guest = module.instantiate("it")
        if way == "trapped":
            with pytest.raises(GuestError):
                guest.deliver(b"p1\n")
        elif way != "dropped":
            guest.close()

    for _ in range(300):
        once()
    gc.collect()
    before = resident()
    for _ in range(1500):
        once()
    gc.collect()
    # An error or a trap that stays takes 200 bytes at least, a store 10 KB.
    assert resident() - before < 1500 * 200


def test_dropping_an_instance_frees_its_store(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    own = capi.Store._own

    def counted(self: capi.Store, pointer: int, free: Any) -> None:
        def free_and_count(address: int) -> None:
            freed.append(address)
            free(address)

        own(self, pointer, free_and_count)

    monkeypatch.setattr(capi.Store, "_own", counted)
    guests = [CARRIERS[0].load().instantiate("it") for _ in range(3)]
    guests.pop().close()
    assert len(freed) == 1
    guests.clear()
    gc.collect()
    assert len(freed) == 3
