"""The baseline compiler: a first start that does not wait, and better code for the next one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import wasm_host
from tests.places import DEADLINE, ROOT
from tests.wasm_host.support import CARRIERS, GUESTS, Carrier, assemble, wasm
from tests.wasm_host.test_features import WORKS, guest
from wasm_host import Limits
from wasm_host.cache.digest import sha256
from wasm_host.cache.store import Cache
from wasm_host.engine import engine_identity, has_baseline
from wasm_host.module import optimise

pytestmark = pytest.mark.skipif(
    not has_baseline(Limits()), reason="wasmtime has no baseline compiler for this machine"
)


def load(folder: Path, data: bytes, **more: int) -> wasm_host.Module:
    """A module, by the baseline compiler if there is no other code."""
    (folder / "it.wasm").write_bytes(data)
    return wasm_host.load(
        folder / "it.wasm",
        limits=Limits(**more),
        cache_dir=folder / "modules",
        digest=sha256(data),
        baseline=True,
    )


def entries(folder: Path) -> int:
    return len(list((folder / "modules").glob("*.cwasm")))


@pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: carrier.name)
def test_its_code_does_the_same(carrier: Carrier, tmp_path: Path) -> None:
    data = wasm(GUESTS / carrier.file)
    line = carrier.line(b'{"x":1}')
    for report in ("stored", "hit"):
        module = load(tmp_path, data)
        assert (module.baseline, module.cache_report) == (True, report)
        one = module.instantiate("it")
        one.start(b"")
        assert one.deliver(line) == carrier.answer(line)
        one.close()


def test_the_next_start_has_better_code(tmp_path: Path) -> None:
    data = wasm(GUESTS / "flip.wat")
    assert load(tmp_path, data).baseline
    optimise(tmp_path / "it.wasm", sha256(data), Limits(), tmp_path / "modules")
    assert entries(tmp_path) == 1  # the other is of no use any more
    module = load(tmp_path, data)
    assert (module.baseline, module.cache_report) == (False, "hit")
    optimise(tmp_path / "it.wasm", sha256(data), Limits(), tmp_path / "modules")
    assert entries(tmp_path) == 1


def test_one_process_at_a_time_makes_it(tmp_path: Path) -> None:
    data = wasm(GUESTS / "flip.wat")
    load(tmp_path, data)
    cache = Cache(tmp_path / "modules", engine_identity(Limits()))
    with cache.lock(f"{sha256(data)} later", 10):
        optimise(tmp_path / "it.wasm", sha256(data), Limits(), tmp_path / "modules")
    assert load(tmp_path, data).baseline


def test_what_has_changed_meanwhile_is_not_compiled(tmp_path: Path) -> None:
    data = wasm(GUESTS / "flip.wat")
    load(tmp_path, data)
    (tmp_path / "it.wasm").write_bytes(assemble("(module)"))
    optimise(tmp_path / "it.wasm", sha256(data), Limits(), tmp_path / "modules")
    (tmp_path / "it.wasm").unlink()
    optimise(tmp_path / "it.wasm", sha256(data), Limits(), tmp_path / "modules")
    assert load(tmp_path, data).baseline


def test_what_it_does_not_know_is_compiled_as_usual(tmp_path: Path) -> None:
    module = load(tmp_path, guest(*WORKS["tail calls"]))
    assert (module.baseline, module.cache_report) == (False, "stored")
    assert module.instantiate().deliver(b"p1\n") == b"ps7\n"


def test_a_module_that_does_not_compile_is_refused_as_usual(tmp_path: Path) -> None:
    with pytest.raises(wasm_host.LoadError, match="does not compile"):
        load(tmp_path, guest("", "(i64.const 1)"))
    assert entries(tmp_path) == 0


def test_fuel_is_counted_in_the_usual_code(tmp_path: Path) -> None:
    assert not load(tmp_path, wasm(GUESTS / "flip.wat"), fuel=1_000_000).baseline


def test_limits_hold_in_its_code_too(tmp_path: Path) -> None:
    module = load(tmp_path, guest("", "(loop $forever (br $forever)) (i32.const 1)"), cpu_ms=50)
    assert module.baseline
    with pytest.raises(wasm_host.GuestError) as ended:
        module.instantiate().deliver(b"p1\n")
    assert ended.value.limit == "cpu_ms"
    deep = guest("(func $deep (result i32) (call $deep))", "(call $deep)")
    module = load(tmp_path, deep)
    assert module.baseline
    with pytest.raises(wasm_host.GuestError) as ended:
        module.instantiate().deliver(b"p1\n")
    assert ended.value.limit == "stack_bytes"


LATER: Final = """
import os, signal, sys
from wasm_host.cache import later
later._DELAY = 0.0
def work():
    os.write(int(sys.argv[1]), b"%d" % os.nice(0))
    if sys.argv[2] == "hangs":
        while True:
            signal.pause()
later.later(work)
print("on", flush=True)
sys.stdin.read()
"""


@pytest.mark.proves("a process beside it, which")
@pytest.mark.parametrize("how", ["ends", "hangs"])
def test_what_is_done_later_has_low_priority_and_ends_with_the_host(how: str) -> None:
    reader, writer = os.pipe()
    with (
        open(reader, "rb") as read,
        subprocess.Popen(
            [sys.executable, "-c", LATER, str(writer), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[writer],
            cwd=ROOT,
        ) as process,
    ):
        os.close(writer)
        assert read.read(2) == b"%d" % min(os.nice(0) + 10, 19)
        # Whatever it does, the conductor sees the end of the host at once.
        output, _ = process.communicate(timeout=DEADLINE)
        assert output == b"on\n"
        assert read.read() == b""  # nobody has the other end any more
