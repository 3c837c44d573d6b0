"""Guests that mean harm, or are merely broken: each dies alone, with an error that says why."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import wasm_host
from tests.places import HOSTILE
from tests.wasm_host.support import CARRIERS, assemble, core, wasm
from wasm_host import GuestError, Limits, LoadError

QUICK = Limits(cpu_ms=200)
"""Only for what never ends: on a busy machine anything else might take as long."""
AMPLE = Limits()
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Harm:
    """The outcome of a hostile guest: the phase in which it fails, the limit, and the words."""

    phase: str
    limit: str | None
    says: str
    limits: Limits = AMPLE


HARM = {
    "abi_2": Harm("load", None, "speaks channel ABI 2, this host speaks 1"),
    "abi_computed": Harm("instantiate", None, "speaks channel ABI 2, this host speaks 1"),
    "bare_side": Harm("deliver", None, "a side byte without a message"),
    "deep_json": Harm(
        "deliver", "json_depth", "60000 levels of JSON, 59872 over the limit of 128"
    ),
    "empty_line": Harm("deliver", None, "an empty line"),
    "garbage_binary": Harm("deliver", None, r"began a line with '\x00' instead of a side byte"),
    "garbage_second_line": Harm("deliver", None, "began a line with 'q' instead of a side byte"),
    "garbage_side": Harm("deliver", None, "began a line with '{' instead of a side byte"),
    "grow_and_loop": Harm("deliver", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "grow_forever": Harm("deliver", "memory_bytes", "its limit memory_bytes is 67108864"),
    "huge_line": Harm(
        "deliver", "message_bytes", "60000000 bytes in a line, 58951424 over the limit of 1048576",
        Limits(message_bytes=MIB),
    ),
    "huge_outbox": Harm(
        "deliver", "outbox_bytes", "60000000 bytes at once, 58951424 over the limit of 1048576",
        Limits(outbox_bytes=MIB),
    ),
    "import_host": Harm(
        "load", None,
        "has imports that no guest may have: env.system, wasi_snapshot_preview1.path_open, "
        "env.table",
    ),
    "import_memory": Harm("load", None, "has imports that no guest may have: env.memory"),
    "loop_abi": Harm("instantiate", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "loop_deliver": Harm("deliver", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "loop_initialize": Harm("instantiate", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "loop_reserve": Harm("deliver", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "loop_start": Harm("instantiate", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "memory_declared": Harm(
        "instantiate", "memory_bytes", "of 67108864 bytes: 1310720000, 1243611136 too many"
    ),
    "missing_exports": Harm(
        "load", None,
        "exports no memory; exports no function channel_reserve; "
        "exports channel_deliver as (i32, i32) -> i32 instead of (i32, i32) -> i64",
    ),
    "no_guest": Harm("load", None, "(it exports: memory, add)"),
    "no_newline": Harm("deliver", None, """left its last line without a newline: 's{"id":1}'"""),
    "recursion": Harm("deliver", "stack_bytes", "its limit stack_bytes of 524288 bytes"),
    "table_declared": Harm(
        "instantiate", "table_elements", "of 100000 elements: 1000000, 900000 too many"
    ),
    "table_grow": Harm("deliver", None, "unreachable"),
    "too_many_messages": Harm(
        "deliver", "messages_per_delivery", "200000 lines at once, 100000 over"
    ),
    "trap_deliver": Harm("deliver", None, "trapped: wasm `unreachable` instruction executed"),
    "trap_divide": Harm("deliver", None, "trapped: integer divide by zero"),
    "trap_out_of_bounds": Harm("deliver", None, "trapped: out of bounds memory access"),
    "trap_start": Harm("instantiate", None, "trapped: wasm `unreachable` instruction executed"),
    "wasi_exit_3": Harm("deliver", None, "exited with code 3"),
    "wasi_flood": Harm(
        "deliver", "outbox_bytes", "exceeded outbox_bytes", Limits(outbox_bytes=999)
    ),
    "wasi_half_line": Harm(
        "deliver", "outbox_bytes", "exceeded outbox_bytes", Limits(outbox_bytes=MIB)
    ),
    "wasi_loop": Harm("deliver", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "wasi_many_vectors": Harm("deliver", "outbox_bytes", "62914560000 bytes at once"),
    "wasi_poll_loop": Harm("start", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "wasi_random_loop": Harm("start", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "wasi_sleeps": Harm("start", "cpu_ms", "its limit cpu_ms of 200 ms", QUICK),
    "wild_length": Harm("deliver", None, "channel_deliver names bytes 0 to 4294967295, 4294836223"),
    "wild_negative": Harm("deliver", None, "names bytes 4294967295 to 8589934590"),
    "wild_outbox": Harm("deliver", None, "names bytes 131056 to 131088, 16 beyond its memory"),
    "wild_outbox_far": Harm("deliver", None, "names bytes 4294967280 to 4294967284"),
    "wild_outbox_wraps": Harm("deliver", None, "names bytes 4294967295 to 4294967297"),
    "wild_reserve": Harm("deliver", None, "channel_reserve names bytes 131070 to 131074, 2 beyond"),
    "wild_reserve_negative": Harm("deliver", None, "channel_reserve names bytes 4294967295"),
    "wild_reserve_wraps": Harm("deliver", None, "names bytes 4294967292 to 4294967296"),
}  # fmt: skip

#: Not harmful after all: tests of their own follow.
HARMLESS = {"wasi_exit_0", "wasi_ignores_end", "wasi_reach", "wasi_return", "wasi_wild_vectors"}


def test_every_hostile_guest_is_tested() -> None:
    assert {path.stem for path in HOSTILE.glob("*.wat")} == HARM.keys() | HARMLESS


@pytest.mark.proves("around a guest", "exceeding a limit ends that guest")
@pytest.mark.parametrize("name", sorted(HARM))
def test_harm_is_contained(name: str) -> None:
    harm = HARM[name]
    bystander = CARRIERS[0].start(AMPLE).guest
    with pytest.raises(GuestError) as caught:
        _run(name, harm.limits)
    error = caught.value
    assert (error.phase, error.limit) == (harm.phase, harm.limit)
    assert harm.says in str(error)
    assert "\n" not in str(error)
    assert error.hint
    assert isinstance(error, LoadError) == (harm.phase == "load")
    assert bystander.deliver(b"p1\n") == b"s1\n"
    bystander.close()


def test_sleep_is_bounded_in_all_of_a_delivery_s_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    passed = [0.0]

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        passed[0] += seconds

    clock = SimpleNamespace(sleep=sleep, monotonic=lambda: passed[0])
    monkeypatch.setattr("wasm_host.carriers.wasi.time", clock)
    text = (HOSTILE / "wasi_sleeps.wat").read_text("utf-8")
    forty = assemble(text.replace("1000000000", "40000000"))  # milliseconds, instead of 1000
    module = wasm_host.load(forty, limits=Limits(cpu_ms=100), grants=frozenset({"clock"}))
    guest = module.instantiate("sleeper")
    with pytest.raises(GuestError, match="its limit cpu_ms of 100 ms"):
        guest.start(b"")
    assert slept[:3] == pytest.approx([0.04, 0.04, 0.02])
    assert not any(slept[3:])
    guest.close()


FOR_EVER = """
(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $time (param i32 i64 i32) (result i32)))
  (memory (export "memory") 1)
  (func $sleep
    (drop (call $poll (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 2048))))
  (func (export "_start")
    (i64.store (i32.const 24) (i64.const -1))
    (call $sleep)
    (call $sleep)
    (drop (call $time (i32.const 0) (i64.const 0) (i32.const 512)))))
"""
"""Sleeps until the end of all time, twice, then asks for the time."""


def test_no_sleep_is_longer_than_the_pretended_clock_can_tell() -> None:
    guest = wasm_host.load(assemble(FOR_EVER)).instantiate("sleeper")
    assert guest.start(b"") == b""
    guest.close()


def _run(name: str, limits: Limits) -> None:
    loaded = wasm_host.load(
        wasm(HOSTILE / f"{name}.wat"), limits=limits, grants=frozenset({"clock"})
    )
    guest = loaded.instantiate(name)
    try:
        assert guest.start(b"") == b""
        guest.deliver(b"p{}\n")
    except GuestError:
        assert guest.dead
        assert guest.memory_bytes == 0
        raise
    finally:
        guest.close()


def test_the_same_guest_loops_in_a_later_delivery() -> None:
    """The deadline is renewed for each delivery, and ends each of them."""
    guest = wasm_host.load(
        core("(if (i32.eq (i32.load8_u (local.get $at)) (i32.const 115)) "
             "(then (loop $forever (br $forever)))) (i64.const 0)"),
        limits=Limits(cpu_ms=500),
    ).instantiate("late")  # fmt: skip
    guest.start(b"")
    for _ in range(100):
        assert guest.deliver(b"p1\n") == b""
    with pytest.raises(GuestError, match="cpu_ms"):
        guest.deliver(b"s1\n")


def test_a_program_that_fails_hands_over_what_it_said_before() -> None:
    guest = wasm_host.load(wasm(HOSTILE / "wasi_exit_3.wat")).instantiate("three")
    guest.start(b"")
    with pytest.raises(GuestError, match="three exited with code 3") as caught:
        guest.deliver(b"1\n")
    assert caught.value.outbox == b"{}\n"
    assert "it went wrong" in caught.value.detail
    assert "standard error" in caught.value.hint
    assert guest.stderr == "it went wrong\n"


@pytest.mark.parametrize("name", ["wasi_exit_0", "wasi_return"])
def test_a_program_may_end(name: str) -> None:
    guest = wasm_host.load(wasm(HOSTILE / f"{name}.wat")).instantiate("brief")
    assert guest.start(b"") == b""
    assert guest.deliver(b"1\n") == b"{}\n"
    assert guest.dead
    with pytest.raises(GuestError, match="brief is dead: exited with code 0"):
        guest.deliver(b"2\n")
    guest.close()


def test_wild_vectors_are_refused_by_number() -> None:
    guest = wasm_host.load(wasm(HOSTILE / "wasi_wild_vectors.wat")).instantiate("wild")
    guest.start(b"")
    assert guest.deliver(b"1\n") == b"{}\n"
    guest.close()


def test_a_program_that_ignores_the_end_of_input_is_stopped() -> None:
    guest = wasm_host.load(wasm(HOSTILE / "wasi_ignores_end.wat")).instantiate("stubborn")
    assert guest.start(b"") == b""
    assert guest.deliver(b"1\n") == b""
    guest.close()
    assert guest.dead
    assert guest.memory_bytes == 0
