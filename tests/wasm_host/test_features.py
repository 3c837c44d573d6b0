"""WebAssembly feature by feature: each works alike each time, or is refused with a reason."""

from typing import Final

import pytest

import wasm_host
from tests.wasm_host.support import GUESTS, assemble, wasm
from wasm_host import Limits, LoadError

GUEST: Final = """
(module
  {fields}
  (memory (export "memory") 2)
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (i32.const 65536))
  (func (export "channel_deliver") (param $at i32) (param $size i32) (result i64)
    (i32.store (i32.const 0) (i32.const 0x0a007370))
    (i32.store8 (i32.const 2) (i32.add (i32.const 48) (call $try)))
    (i64.const 4))
  (func $try (result i32) {body}))
"""

#: Fields of a module, and a function that gives 7.
WORKS: Final = {
    "tail calls": ("(func $seven (result i32) (i32.const 7))", "(return_call $seven)"),
    "reference types": (
        "(table $t 2 externref) (func $f) (elem declare func $f)",
        (
            "(i32.add (i32.const 6) (i32.add (ref.is_null (table.get $t (i32.const 1)))"
            " (ref.is_null (ref.func $f))))"
        ),
    ),
    "SIMD": (
        "",
        "(i32x4.extract_lane 2 (i32x4.add (v128.const i32x4 1 2 3 4) (i32x4.splat (i32.const 4))))",
    ),
    "relaxed SIMD": (
        "",
        # Deterministic by the engine's setting: a lane that is out of range gives 0.
        (
            "(i32.add (i32.const 7) (i8x16.extract_lane_u 0 (i8x16.relaxed_swizzle"
            " (i8x16.splat (i32.const 9)) (i8x16.splat (i32.const 130)))))"
        ),
    ),
    "bulk memory": (
        "",
        (
            "(memory.fill (i32.const 100) (i32.const 7) (i32.const 9))"
            " (memory.copy (i32.const 200) (i32.const 100) (i32.const 9))"
            " (i32.load8_u (i32.const 208))"
        ),
    ),
    "several results": (
        "(func $two (result i32 i32) (i32.const 3) (i32.const 4))",
        "(i32.add (call $two))",
    ),
    "sign extension": ("", "(i32.add (i32.extend8_s (i32.const 255)) (i32.const 8))"),
    "saturating conversion": ("", "(i32.sub (i32.trunc_sat_f32_u (f32.const 7.9)) (i32.const 0))"),
    "exceptions": (
        "(tag $e (param i32))",
        (
            "(block $caught (result i32) (try_table (catch $e $caught) (throw $e (i32.const 7)))"
            " (unreachable))"
        ),
    ),
    "NaN": (
        "",
        # The same bit pattern on every machine.
        (
            "(i32.add (i32.const 7) (i32.ne (i32.const 0x7fc00000) (i32.reinterpret_f32"
            " (f32.div (f32.const 0) (f32.const 0)))))"
        ),
    ),
}

#: The same for what is refused, and what is said of it.
REFUSED: Final = {
    "shared memory": ("(global $g i32 (i32.const 1))", "(i32.const 7)", "threads"),
    "atomics": (
        "",
        "(i32.atomic.load (i32.const 0))",
        "an instruction that this host does not know",
    ),
    "memory64": ("(table $t i64 1 funcref)", "(i32.const 7)", "memory64"),
    "garbage collection": ("(type $s (struct (field i32)))", "(i32.const 7)", "garbage"),
    "references to structures": (
        "(type $s (struct (field i32)))",
        "(struct.get $s 0 (struct.new $s (i32.const 7)))",
        "garbage collection",
    ),
    "stack switching": (
        "(type $f (func)) (type $c (cont $f)) (func $g (param (ref null $c)))",
        "(i32.const 7)",
        "stack switching",
    ),
    "several memories": (
        "(memory $other 1)",
        "(i32.store $other (i32.const 0) (i32.const 7)) (i32.load $other (i32.const 0))",
        "has 2 memories instead of one",
    ),
}


def guest(fields: str, body: str) -> bytes:
    return assemble(GUEST.format(fields=fields, body=body))


@pytest.mark.proves("each feature of WebAssembly")
@pytest.mark.parametrize("name", WORKS)
def test_it_works_alike_each_time(name: str) -> None:
    module = wasm_host.load(guest(*WORKS[name]))
    for _ in range(2):
        one = module.instantiate(name)
        one.start(b"")
        assert one.deliver(b"p1\n") == b"ps7\n"
        one.close()


@pytest.mark.proves("each feature of WebAssembly")
@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_a_reason(name: str) -> None:
    fields, body, says = REFUSED[name]
    data = guest(fields, body)
    if name == "shared memory":
        plain = b"\x05\x03\x01\x00\x02"
        assert plain in data
        data = data.replace(plain, b"\x05\x04\x01\x03\x02\x02")
    with pytest.raises(LoadError) as caught:
        wasm_host.load(data)
    assert says in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("limits", [Limits(), Limits(fuel=10_000_000)])
def test_a_component_may_lend_its_host_several_handles_in_one_call(limits: Limits) -> None:
    one = wasm_host.load(wasm(GUESTS / "poll_component.wat"), limits=limits).instantiate("it")
    one.start(b"")
    assert [one.deliver(b"p1\n") for _ in range(3)] == [b"s2\n"] * 3


def test_a_component_with_calls_that_overlap_is_refused() -> None:
    text = (GUESTS / "poll_component.wat").read_text(encoding="utf-8")
    with pytest.raises(LoadError, match="async"):
        wasm_host.load(
            assemble(text.replace("(func $deliver (param", "(func $deliver async (param"))
        )
