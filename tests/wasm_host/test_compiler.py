"""The cost of a module before it runs: bounded by its bytes, then in a process of its own."""

import errno
import fcntl
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import IO

import pytest

import wasm_host
from tests.wasm_host import cages
from tests.wasm_host.support import CARRIERS, GUESTS, Carrier, assemble, core, wasm
from wasm_host import LoadError
from wasm_host.cache import compile_process, store
from wasm_host.format import bare, parts
from wasm_host.harden import kernel
from wasm_host.limits import Limits

MIB = 1024 * 1024
MANY = 2**32 - 1


def leb(number: int) -> bytes:
    """A number as modules write it."""
    found = b""
    while number > 0x7F:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def section(code: int, content: bytes) -> bytes:
    return bytes([code]) + leb(len(content)) + content


def module(*sections: bytes) -> bytes:
    return b"\0asm\x01\0\0\0" + b"".join(sections)


def component(*sections: bytes) -> bytes:
    return b"\0asm\x0d\0\x01\0" + b"".join(sections)


def guest(body: str, *, parameters: int = 0) -> bytes:
    """A core guest with one function more."""
    kind = f"(param{' i32' * parameters}) (result{' i32' * parameters})" if parameters else ""
    return assemble(
        f"""(module (memory (export "memory") 2) (type $t (func {kind}))
        (func (export "channel_abi") (result i32) (i32.const 1))
        (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
        (func (export "channel_deliver") (param i32 i32) (result i64) (i64.const 0))
        (func (param i32) {body}))"""
    )


def nested(depth: int) -> str:
    return "loop " * depth + "end " * depth


def wide() -> bytes:
    """5 KB that take 13 s and 4 GB to compile."""
    many = 400
    loops = "loop (type $t) " * 600 + "end " * 600
    return guest("local.get 0 " * many + loops + "drop " * many, parameters=many)


def refused(data: bytes | Path, limits: Limits | None = None) -> LoadError:
    with pytest.raises(LoadError) as caught:
        wasm_host.load(data, limits=limits)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("limit", "data"),
    [
        ("sections", module(section(0, b"\0") * 10_001)),
        ("sections", component(section(1, module(section(0, b"\0") * 9_999)), section(0, b"\0"))),
        ("sections", component(*([section(4, component())] * 10_001))),
        ("functions", module(section(3, leb(MANY)))),
        ("functions", module(section(1, leb(MANY)))),
        ("functions", module(section(1, b"\x01\x60" + leb(MANY)))),
        ("functions", module(section(6, leb(MANY)))),
        ("functions", module(section(5, leb(MANY)))),
        ("functions", module(section(10, leb(MANY)))),
        ("functions", component(section(1, module(section(3, leb(100_001)))))),
        ("functions", component(section(4, component(section(1, module(section(3, leb(MANY)))))))),
        ("functions", component(section(8, leb(MANY)))),
        ("exports", module(section(7, leb(MANY)))),
        ("exports", module(section(2, leb(5_001)), section(7, leb(5_000)))),
        ("exports", component(section(10, leb(MANY)))),
        ("exports", component(section(11, leb(MANY)))),
    ],
)
def test_what_has_too_many_parts_is_refused_before_they_are_read(limit: str, data: bytes) -> None:
    assert refused(data).limit == limit
    with pytest.raises(LoadError):
        wasm_host.describe(data)


@pytest.mark.parametrize(
    "data",
    [
        module(section(2, b"\x01" + leb(MANY))),
        module(section(7, b"\x01" + leb(2_000) + b"x" * 2_000)),
        module(b"\x03" + leb(MANY)),
        module(b"\x03" + b"\xff" * 20),
        component(b"\x01\x08" + module()[:7]),
        component(section(1, b"\0asm")),
    ],
)
def test_damage_is_refused(data: bytes) -> None:
    assert refused(data).limit is None


def test_what_toolchains_say_of_themselves_need_not_make_sense() -> None:
    producers = leb(9) + b"producers" + leb(MANY) + b"\x08language" + leb(MANY)
    data = core() + section(0, producers + b"\0" * 1000) + section(0, leb(70_000) + b"x" * 70_000)
    assert wasm_host.load(data).info.language is None


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.wasm"
    with path.open("wb") as file:
        file.truncate(40 << 30)
    error = refused(path)
    assert error.limit == "module_bytes"
    assert str(40 << 30) in str(error)
    assert refused(core(), Limits(module_bytes=100)).limit == "module_bytes"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "pipe.wasm"
    os.mkfifo(path)
    assert "no regular file" in str(refused(path))
    assert "no regular file" in str(refused(Path("/dev/zero")))


def test_blocks_nest_up_to_their_limit() -> None:
    limits = Limits(blocks=5)
    assert wasm_host.load(guest(nested(5)), limits=limits)
    # Closed blocks do not count, and a branch table is no block.
    assert wasm_host.load(guest(nested(5) * 3 + "(br_table 0 0 0 (local.get 0))"), limits=limits)
    error = refused(guest(nested(6)), limits)
    assert error.limit == "blocks"
    assert "nests 6 blocks" in str(error)
    assert refused(guest(nested(15_000))).limit == "blocks"


def test_a_component_s_modules_are_judged_alike() -> None:
    inner = guest(nested(15_000))
    assert refused(component(section(1, inner), exported())).limit == "blocks"


def exported() -> bytes:
    """Enough of a component's exports to be taken for a guest: an instance."""
    empty = section(5, b"\x01\x01\x00")
    return empty + section(11, b"\x01\x00\x01a\x05\x00\x00")


def test_locals_of_one_function_are_added_up() -> None:
    limits = Limits(locals=10)
    types = " ".join(f"(local {'i32' if index % 2 else 'i64'})" for index in range(11))
    assert refused(guest(types), limits).limit == "locals"
    assert wasm_host.load(guest(types.rpartition(" (")[0]), limits=limits)
    body = b"\x01" + leb(MANY) + b"\x7f\x0b"
    huge = module(section(10, b"\x01" + leb(len(body)) + body))
    with pytest.raises(LoadError, match="4294967295 locals"):
        compile_process.check_bodies(huge, limits)


def test_code_with_instructions_nobody_has_is_refused() -> None:
    data = guest("i32.const 7 drop unreachable")
    unknown = data.replace(b"\x41\x07\x1a\x00", b"\xff\x07\x1a\x00")
    assert unknown != data
    assert "instruction that this host does not know" in str(refused(unknown))


BODIES = {
    "memory": "(drop (i32.load offset=70000 (local.get 0))) (i64.store8 (local.get 0)"
    " (i64.const -9223372036854775808))",
    "floats": "(drop (f32.const 0.1)) (drop (f64.const 0.1))",
    "table": "block block (br_table 0 1 1 0 (local.get 0)) end end",
    "select": "(drop (select (result i64) (i64.const 1) (i64.const 2) (local.get 0)))",
    "references": "(drop (ref.is_null (ref.null func)))",
    "bulk": "(memory.copy (local.get 0) (local.get 0) (i32.const 9)) (memory.fill (local.get 0)"
    " (local.get 0) (i32.const 1000000))",
    "truncation": "(drop (i64.trunc_sat_f64_u (f64.const 3)))",
    "vectors": "(drop (i8x16.shuffle 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 31"
    " (v128.const i64x2 1 2) (v128.load offset=9 (local.get 0))))"
    " (drop (i32x4.extract_lane 3 (v128.load16_lane 7 (local.get 0) (v128.const i64x2 1 2))))"
    " (drop (f64x2.convert_low_i32x4_u (v128.const i64x2 0 0)))"
    " (drop (i32x4.relaxed_trunc_f32x4_s (v128.const i64x2 0 0)))",
    "if": "(if (local.get 0) (then (local.set 0 (i32.const 128))) (else (nop)))",
    "calls": "(call_indirect (type $t) (i32.const 0))",
    "tail": "(return_call 0) drop",
}


@pytest.mark.parametrize("name", BODIES)
def test_what_compilers_make_is_understood(name: str) -> None:
    table = "(table 1 funcref) " if name == "calls" else ""
    body = BODIES[name] if name != "tail" else "(return_call 3 (local.get 0))"
    data = assemble(
        f"""(module (memory (export "memory") 2) {table}(type $t (func))
        (func (export "channel_abi") (result i32) (i32.const 1))
        (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
        (func (export "channel_deliver") (param i32 i32) (result i64) (i64.const 0))
        (func (param i32) {body}))"""
    )
    assert wasm_host.load(data).carrier == "core"


_ELSEWHERE = """
import json, sys, threading
from pathlib import Path
import wasm_host
from wasm_host.cache import compile_process
from wasm_host.harden.kernel import thread_count
way, file, folder, limits, patience = json.loads(sys.argv[1])
if way == "interpreter":
    threading.Thread(target=threading.Event().wait, daemon=True).start()
if patience:
    compile_process.seconds = lambda limits: patience
assert (thread_count() == 1) == (way == "fork")
try:
    wasm_host.load(
        file, limits=wasm_host.Limits(**limits), cache_dir=Path(folder) if folder else None
    )
except wasm_host.LoadError as error:
    print(json.dumps([str(error), error.limit, error.detail, error.hint]))
else:
    print("[]")
"""


class Loader:
    """Loads modules in a process of its own, which forks, or cannot since it has threads."""

    def __init__(self, way: str, folder: Path) -> None:
        self.way = way
        self.cache = folder / "cache"
        self._file = folder / "guest.wasm"

    def __call__(
        self, data: bytes, *, cached: bool = False, patience: float = 0, **limits: int
    ) -> list[str]:
        """The complaint against a module, its limit, detail and hint; empty: the module was
        loaded."""
        self._file.write_bytes(data)
        folder = str(self.cache) if cached else ""
        asked = json.dumps([self.way, str(self._file), folder, limits, patience])
        done = subprocess.run(
            [*cages.code(_ELSEWHERE), asked], capture_output=True, check=True, timeout=90
        )
        found: list[str] = json.loads(done.stdout)
        return found


@pytest.fixture(params=["fork", "interpreter"])
def loader(request: pytest.FixtureRequest, tmp_path: Path) -> Loader:
    if request.param == "fork" and not kernel.LINUX:
        pytest.skip("only Linux forks")
    return Loader(str(request.param), tmp_path)


@pytest.mark.proves("modules that are expensive to")
@pytest.mark.parametrize("cached", [True, False])
def test_memory_to_compile_is_bounded(cached: bool, loader: Loader) -> None:
    _, limit, _, hint = loader(wide(), compile_bytes=128 * MIB, cached=cached)
    assert (limit, bool(hint)) == ("compile_bytes", True)
    assert not cached or list(loader.cache.iterdir()) == []


@pytest.mark.proves("modules that are expensive to")
def test_time_to_compile_is_bounded(loader: Loader) -> None:
    _, limit, _, hint = loader(wide(), compile_ms=1, compile_bytes=8192 * MIB)
    assert (limit, bool(hint)) == ("compile_ms", True)


def test_time_by_the_clock_is_bounded_too(loader: Loader) -> None:
    text, limit, _, _ = loader(wide(), patience=0.05)
    assert (limit, "more than 0.05 s" in text) == ("compile_ms", True)


def test_code_that_does_not_validate_is_refused_by_a_child(loader: Loader) -> None:
    data = core("(i64.const 0)") + section(0, b"\x04none" + bytes(5_000))
    broken = data.replace(b"\x42\x00\x0b", b"\x41\x00\x0b")
    assert broken != data
    text, limit, detail, _ = loader(broken)
    assert "does not compile" in text
    assert "type mismatch" in detail
    assert not limit


@pytest.mark.parametrize("found", CARRIERS, ids=lambda carrier: carrier.name)
def test_what_a_child_compiled_runs_here(found: Carrier, loader: Loader) -> None:
    data = wasm(GUESTS / found.file) + section(0, b"\x04none" + bytes(5_000))
    assert loader(data) == loader(data, cached=True) == []
    made = wasm_host.load(data, cache_dir=loader.cache)
    assert made.cache_report == "hit"
    one = made.instantiate("it")
    one.start(b"")
    assert one.deliver(found.line(b"1")) == found.answer(found.line(b"1"))
    one.close()


def test_only_what_is_tiny_is_compiled_here(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere: list[bytes] = []

    def run(command: list[str], *, stdin: IO[bytes], **_: object) -> object:
        elsewhere.append(stdin.read().partition(b"\n")[2])
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    go = threading.Event()
    second = threading.Thread(target=go.wait)
    second.start()  # a process with two threads does not fork
    try:
        assert wasm_host.load(core())
        large = core() + section(0, b"\x04none" + bytes(5_000))
        others = [large, wide(), wasm(GUESTS / "flip_component.wat")]
        for data in others:
            refused(data)
    finally:
        go.set()
        second.join()
    assert elsewhere == others


@pytest.mark.proves("modules that are expensive to")
def test_another_module_does_not_wait(tmp_path: Path) -> None:
    folder, begun, go = tmp_path / "cache", threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert go.wait(60)

    first = threading.Thread(
        target=wasm_host.load, args=(core(),), kwargs={"cache_dir": folder, "compiling": slow}
    )
    first.start()
    assert begun.wait(60)
    # Would wait for ever if there were one lock for all.
    assert wasm_host.load(wasm(GUESTS / "flip.wat"), cache_dir=folder).cache_report == "stored"
    go.set()
    first.join(60)
    assert {path.suffix for path in folder.iterdir()} == {".cwasm"}, "locks are taken away"


def test_who_waits_too_long_for_another_s_compile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, begun, go = tmp_path / "cache", threading.Event(), threading.Event()

    def slow() -> None:
        begun.set()
        assert go.wait(60)

    first = threading.Thread(
        target=wasm_host.load, args=(core(),), kwargs={"cache_dir": folder, "compiling": slow}
    )
    first.start()
    assert begun.wait(60)
    monkeypatch.setattr(compile_process, "seconds", lambda limits: 0.05)
    with pytest.raises(LoadError, match="another process has been compiling it") as caught:
        wasm_host.load(core(), cache_dir=folder)
    assert caught.value.hint
    go.set()
    first.join(60)


@pytest.mark.skipif(not kernel.LINUX, reason="only Linux forks")
def test_a_compile_ends_with_the_process_it_is_for(tmp_path: Path) -> None:
    path = tmp_path / "wide.wasm"
    path.write_bytes(wide())
    code = (
        "import os\n"
        "import wasm_host\n"
        "real = os.fork\n"
        "def fork():\n"
        "    child = real()\n"
        "    child or os.write(1, b'begun\\n')\n"
        "    return child\n"
        "os.fork = fork\n"
        f"wasm_host.load({str(path)!r})\n"
    )
    with subprocess.Popen(cages.code(code), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        # The end of the pipe that both have: neither is left.
        assert process.stdout.read() == b""


def test_a_lock_that_cannot_be_made_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_lock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "this file system has no locks")

    monkeypatch.setattr(fcntl, "flock", no_lock)
    assert wasm_host.load(core(), cache_dir=tmp_path / "cache").cache_report == "stored"
    assert store.Cache(tmp_path / "cache", "other").holds("none") is False


# -- what strangers call things --------------------------------------------------------------------


def test_names_that_strangers_give_never_reach_the_engine(loader: Loader) -> None:
    """The engine undoes the mangling of each name in a trap, and such names double with each
    level."""
    text = """(module (memory (export "memory") 1)
      (func (export "channel_abi") (result i32) (i32.const 1))
      (func (export "channel_reserve") (param i32) (result i32) (i32.const 1024))
      (func $_Z4boomv (export "channel_deliver") (param i32 i32) (result i64) unreachable))"""
    data = assemble(text)
    assert b"_Z4boomv" in data
    guest = wasm_host.load(data).instantiate("it")
    guest.start(b"")
    with pytest.raises(wasm_host.GuestError, match="unreachable") as caught:
        guest.deliver(b"p{}\n")
    assert "boom" not in f"{caught.value} {caught.value.detail}"


@pytest.mark.parametrize("file", sorted({one.file for one in CARRIERS}))
def test_what_is_compiled_has_no_custom_sections(file: str) -> None:
    data = wasm(GUESTS / file)
    stripped = bare(data)
    found = [sections for _, sections in parts(stripped, Limits())]
    assert len(found) == len(list(parts(data, Limits())))
    assert all(code for sections in found for code, _ in sections)
    assert bare(stripped) == stripped


def test_what_compiling_makes_of_a_few_bytes_is_bounded(loader: Loader) -> None:
    """Each table is written out in full, however few of its entries are used."""
    tables = "".join(
        f"(table $t{n} 1000000 funcref) (elem (table $t{n}) (i32.const 999999) func $f)"
        for n in range(12)
    )
    data = assemble(f'(module (memory (export "memory") 1) (func $f (export "_start")) {tables})')
    with pytest.raises(LoadError, match="fail"):
        wasm_host.load(data, cache_dir=None)
