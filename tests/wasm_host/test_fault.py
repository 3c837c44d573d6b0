"""The words of a guest about a trap of its own (`channel_fault`), and of the system it runs on."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import wasm_host
from tests.wasm_host.support import assemble
from wasm_host import GuestError, Limits, LoadError

FAULTY = """(module (memory (export "memory") 1) (data (i32.const 8) "index 3 of 2")
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 1024))
  (func (export "channel_deliver") (param i32 i32) (result i64) unreachable)
  (func (export "channel_fault") FAULT))"""


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("(result i64) (i64.const 0x80000000c)", "index 3 of 2"),
        ("(result i64) (i64.const 0x800000000)", ""),
        ("(result i64) (i64.const 0xfff000000100)", None),
        ("(result i64) (i64.const -1)", None),
        ("(result i64) unreachable", None),
        ("(result i64) (loop $ever (br $ever)) (unreachable)", None),
    ],
)
def test_what_a_guest_says_of_its_trap(fault: str, said: str | None) -> None:
    """The guest's words are shown if they make sense; the trap is told of either way."""
    module = wasm_host.load(assemble(FAULTY.replace("FAULT", fault)), limits=Limits(cpu_ms=50))
    guest = module.instantiate("faulty")
    guest.start(b"")
    with pytest.raises(GuestError, match=r"faulty trapped: .*unreachable") as caught:
        guest.deliver(b"p1\n")
    assert guest.dead
    assert guest.stderr == (said or "")
    assert ("stderr: index 3 of 2" in caught.value.detail) == bool(said)


@pytest.mark.parametrize(
    ("name", "function", "wrong"),
    [
        ("channel_fault", "(param i32) (result i64) (i64.const 0)", "(i32) -> i64"),
        ("channel_fault", "(result i32) (i32.const 8)", "() -> i32"),
        ("channel_fault", "", "()"),
        ("_initialize", "(param i32)", "(i32)"),
        # wasmtime ends the process, with all its guests, where it is asked for this type.
        ("_initialize", "(result v128) (v128.const i64x2 0 0)", "() -> v128"),
        ("channel_fault", "(result v128) (v128.const i64x2 0 0)", "() -> v128"),
    ],
)
def test_a_function_that_the_host_would_call_has_its_type(
    name: str, function: str, wrong: str
) -> None:
    text = FAULTY.replace('"channel_fault") FAULT', f'"{name}") {function}')
    with pytest.raises(LoadError, match=re.escape(f"exports {name} as {wrong} instead of ()")):
        wasm_host.load(assemble(text))


@pytest.mark.parametrize("name", ["_initialize", "channel_fault"])
def test_what_is_called_and_is_no_function_is_not_called(name: str) -> None:
    text = FAULTY.replace('(func (export "channel_fault") FAULT)', f'(export "{name}" (memory 0))')
    guest = wasm_host.load(assemble(text)).instantiate("faulty")
    guest.start(b"")
    with pytest.raises(GuestError, match=r"faulty trapped: .*unreachable"):
        guest.deliver(b"p1\n")


CRAMPED = """
import resource, sys, wasm_host
module = wasm_host.load(open(sys.argv[1], "rb").read())
module.instantiate("first").start(b"")  # loads all code that it needs
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used, used))
try:
    module.instantiate("fine").start(b"")
except wasm_host.GuestError as error:
    print(error, error.hint, sep="; ")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bound address space")
def test_a_system_without_memory_is_no_fault_of_the_guest(tmp_path: Path) -> None:
    (tmp_path / "fine.wasm").write_bytes(
        assemble(FAULTY.replace("FAULT", "(result i64) (i64.const 0)"))
    )
    command = [sys.executable, "-c", CRAMPED, str(tmp_path / "fine.wasm")]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "fine got no memory or file of this system: Cannot allocate memory" in told.stdout
    assert "`ulimit -a`" in told.stdout
    assert "fault in the guest" not in told.stdout
