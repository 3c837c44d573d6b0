"""Limits as values, and the odd corner of each that the contract suite does not reach."""

import pytest

import wasm_host
from tests.wasm_host.support import CARRIERS, Carrier, core, saying
from wasm_host import GuestError, Limits

PAGE = 65536


@pytest.mark.parametrize("name", Limits.__struct_fields__)
@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1"])
def test_a_limit_is_a_positive_integer(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"limit {name} must be a positive integer"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_a_stack_has_to_fit_a_thread() -> None:
    with pytest.raises(ValueError, match="stack_bytes is at most 1048576"):
        Limits(stack_bytes=1 << 21)


def test_limits_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Limits().cpu_ms = 5  # type: ignore[misc]


def test_ticks_are_rounded_up() -> None:
    assert [Limits(cpu_ms=ms).ticks for ms in (1, 10, 11, 1000)] == [2, 2, 3, 101]


def test_memory_may_grow_up_to_its_limit() -> None:
    grow = "(i64.extend_i32_u (memory.grow (i32.const {})))"
    at_limit = wasm_host.load(core(grow.format(8)), limits=Limits(memory_bytes=10 * PAGE))
    guest = at_limit.instantiate("grows")
    guest.start(b"")
    assert guest.memory_bytes == 2 * PAGE
    # The old size, 2 pages, comes back as an outbox of two bytes: not a line, but it did grow.
    with pytest.raises(GuestError, match="without a newline"):
        guest.deliver(b"p1\n")
    beyond = wasm_host.load(core(grow.format(9)), limits=Limits(memory_bytes=10 * PAGE))
    guest = beyond.instantiate("grows")
    guest.start(b"")
    with pytest.raises(GuestError, match=r"names bytes 0 to 4294967295, .* 131072 bytes"):
        guest.deliver(b"p1\n")


@pytest.mark.parametrize("carrier", CARRIERS[:2], ids=lambda carrier: carrier.name)
def test_a_line_that_does_not_fit_the_memory_says_so(carrier: Carrier) -> None:
    guest = carrier.start(Limits(memory_bytes=4 * PAGE)).guest
    line = carrier.line(b"1" * 100_000)
    assert guest.deliver(line) == carrier.answer(line)
    with pytest.raises(GuestError, match="trapped") as caught:
        guest.deliver(carrier.line(b"1" * 1_000_000))
    assert guest.dead
    assert caught.value.hint


def test_limits_apply_to_the_first_lines_too() -> None:
    guest = wasm_host.load(saying(b"p1\n" * 3), limits=Limits(messages_per_delivery=2))
    with pytest.raises(GuestError, match="messages_per_delivery") as caught:
        guest.instantiate("chatty").start(b"c{}\n")
    assert caught.value.phase == "start"


def test_two_engines_side_by_side() -> None:
    """Fuel and stack size select another engine; guests of both run in turns."""
    plain = CARRIERS[0].start().guest
    fueled = CARRIERS[0].start(Limits(fuel=10_000_000, stack_bytes=256 * 1024)).guest
    for _ in range(10):
        assert plain.deliver(b"p1\n") == fueled.deliver(b"p1\n") == b"s1\n"
