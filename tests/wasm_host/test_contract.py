"""The contract of a guest, over every carrier and every way to call it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wasm_host
from tests.wasm_host.support import CARRIERS, Carrier
from wasm_host import GuestError, LimitRefused, Limits

MIB = 1024 * 1024

pytestmark = pytest.mark.parametrize("carrier", CARRIERS, ids=lambda carrier: carrier.name)


def test_is_a_guest_of_its_carrier(carrier: Carrier) -> None:
    guest = carrier.start().guest
    assert isinstance(guest, wasm_host.Guest)
    assert guest.carrier == carrier.name.split()[0] == carrier.load().carrier
    assert guest.name == "it"
    assert not guest.dead
    assert guest.denied == set()
    guest.close()


def test_starting_without_lines_says_nothing(carrier: Carrier) -> None:
    assert carrier.start().first == b""


def test_starting_delivers_the_configuration(carrier: Carrier) -> None:
    config = carrier.line(b'{"method":"configure"}')
    assert carrier.start(config=config).first == carrier.answer(config)


def test_a_guest_starts_once(carrier: Carrier) -> None:
    guest = carrier.start().guest
    with pytest.raises(GuestError, match="started already"):
        guest.start(b"")
    assert guest.deliver(carrier.line(b"1")) == carrier.answer(carrier.line(b"1"))


def test_one_line(carrier: Carrier) -> None:
    line = carrier.line(b'{"jsonrpc":"2.0","id":1,"method":"x"}')
    assert carrier.start().guest.deliver(line) == carrier.answer(line)


def test_both_directions_and_the_conductor_in_one_delivery(carrier: Carrier) -> None:
    lines = b'p{"id":1}\ns{"id":1}\nc{"method":"configure"}\np{"id":2}\n'
    assert carrier.start().guest.deliver(lines) == carrier.answer(lines)


def test_nothing_delivered_nothing_said(carrier: Carrier) -> None:
    assert carrier.start().guest.deliver(b"") == b""


def test_many_deliveries(carrier: Carrier) -> None:
    guest = carrier.start().guest
    for number in range(300):
        line = carrier.line(b'{"id":%d}' % number)
        assert guest.deliver(line) == carrier.answer(line)


def test_five_thousand_lines_at_once(carrier: Carrier) -> None:
    lines = b"".join(carrier.line(b'{"id":%d,"params":{"a":[]}}' % n) for n in range(5000))
    assert carrier.start().guest.deliver(lines) == carrier.answer(lines)


def test_ten_megabytes_in_a_line(carrier: Carrier) -> None:
    guest = carrier.start().guest
    line = carrier.line(b'{"text":"' + b"y" * (10 * MIB) + b'"}')
    assert guest.deliver(line) == carrier.answer(line)
    small = carrier.line(b"{}")
    assert guest.deliver(small) == carrier.answer(small)
    assert guest.memory_bytes is None or guest.memory_bytes >= (
        10 * MIB if carrier.side else 2 * 65536
    )


def test_any_unicode(carrier: Carrier) -> None:
    line = carrier.line('{"text":"zażółć 名前 🦀 \u2028 \\u0000"}'.encode())
    assert carrier.start().guest.deliver(line) == carrier.answer(line)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    texts=st.lists(
        st.text(
            st.characters(
                exclude_categories=["Cs"], exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85"
            ),
            min_size=1,
        ).filter(lambda text: not text.startswith("x"))
    )
)
def test_any_lines(carrier: Carrier, texts: list[str]) -> None:
    lines = b"".join(carrier.line(text.encode()) for text in texts)
    guest = carrier.start().guest
    try:
        answer = guest.deliver(lines)
        assert answer.count(b"\n") == len(texts)
        start = len(carrier.side)
        assert [line[start:] for line in answer.split(b"\n")[:-1]] == [t.encode() for t in texts]
    finally:
        guest.close()


def test_a_trap_kills_the_guest_and_no_other(carrier: Carrier) -> None:
    module = carrier.load()
    victim, other = module.instantiate("victim"), module.instantiate("other")
    for guest in (victim, other):
        guest.start(b"")
    with pytest.raises(GuestError, match=r"victim trapped: .*unreachable") as caught:
        victim.deliver(b"x\n")
    assert caught.value.phase == "deliver"
    assert caught.value.limit is None
    assert "wasm backtrace" in caught.value.detail
    assert caught.value.hint
    assert victim.dead
    line = carrier.line(b"1")
    assert other.deliver(line) == carrier.answer(line)
    other.close()
    victim.close()


def test_a_dead_guest_says_why(carrier: Carrier) -> None:
    guest = carrier.start().guest
    with pytest.raises(GuestError):
        guest.deliver(b"x\n")
    for _ in range(2):
        with pytest.raises(GuestError, match=r"it is dead: it trapped: .*unreachable") as caught:
            guest.deliver(carrier.line(b"1"))
        assert "instantiate" in caught.value.hint
    assert guest.memory_bytes == 0
    guest.close()


def test_closing_is_final_and_repeatable(carrier: Carrier) -> None:
    guest = carrier.start().guest
    guest.close()
    guest.close()
    assert guest.dead
    assert guest.memory_bytes == 0
    with pytest.raises(GuestError, match="dead: closed"):
        guest.deliver(carrier.line(b"1"))


def test_closing_before_starting(carrier: Carrier) -> None:
    guest = carrier.load().instantiate("unused")
    guest.close()
    with pytest.raises(GuestError, match="dead: closed"):
        guest.start(b"")


def test_instances_share_nothing_but_code(carrier: Carrier) -> None:
    module = carrier.load()
    guests = [module.instantiate(f"g{number}") for number in range(20)]
    for guest in guests:
        assert guest.start(b"") == b""
    for number, guest in enumerate(guests):
        line = carrier.line(b"%d" % number)
        assert guest.deliver(line) == carrier.answer(line)
        guest.close()


def test_a_line_nested_too_deep_is_refused_and_harmless(carrier: Carrier) -> None:
    guest = carrier.start(Limits(json_depth=10)).guest
    deep = carrier.line(b"[" * 11 + b"]" * 11)
    with pytest.raises(LimitRefused, match=r"nested 11 deep.*json_depth is 10") as caught:
        guest.deliver(carrier.line(b"[]") * 20 + deep)
    assert caught.value.limit == "json_depth"
    assert not guest.dead
    fine = carrier.line(b"[" * 10 + b"]" * 10) + carrier.line(b'"' + b"[" * 50 + b'"')
    assert guest.deliver(fine) == carrier.answer(fine)


def test_a_line_too_long_is_refused_and_harmless(carrier: Carrier) -> None:
    guest = carrier.start(Limits(message_bytes=100)).guest
    longest = carrier.line(b"1" * (99 - len(carrier.side)))
    assert len(longest) == 100
    assert guest.deliver(longest * 3) == carrier.answer(longest * 3)
    with pytest.raises(LimitRefused, match=r"line of 101 bytes.*message_bytes is 100") as caught:
        guest.deliver(longest + carrier.line(b"1" * (100 - len(carrier.side))))
    assert caught.value.limit == "message_bytes"
    assert guest.deliver(longest) == carrier.answer(longest)


def test_too_many_lines_kill(carrier: Carrier) -> None:
    guest = carrier.start(Limits(messages_per_delivery=5)).guest
    five = carrier.line(b"1") * 5
    assert guest.deliver(five) == carrier.answer(five)
    with pytest.raises(
        GuestError, match=r"exceeded messages_per_delivery: 6 lines at once, 1 over.* 5"
    ) as caught:
        guest.deliver(five + carrier.line(b"1"))
    assert caught.value.limit == "messages_per_delivery"
    assert guest.dead


def test_too_large_an_outbox_kills(carrier: Carrier) -> None:
    guest = carrier.start(Limits(outbox_bytes=1000)).guest
    line = carrier.line(b"1" * (99 - len(carrier.side)))
    assert guest.deliver(line * 10) == carrier.answer(line * 10)
    with pytest.raises(GuestError, match=r"exceeded outbox_bytes: 1100 bytes.* 100 over") as caught:
        guest.deliver(line * 11)
    assert caught.value.limit == "outbox_bytes"
    assert guest.dead
    guest.close()


def test_fuel_runs_out_deterministically(carrier: Carrier) -> None:
    limits = Limits(fuel=100_000)
    guest = carrier.start(limits).guest
    for _ in range(50):
        # Refilled for each delivery: fifty of them use more than the allowance together.
        line = carrier.line(b"1" * 300)
        assert guest.deliver(line) == carrier.answer(line)
    if carrier.name == "wasi":
        # Its own loop is short; reading line after line is what costs it.
        line = carrier.line(b"1") * 5_000_000
        limits = Limits(fuel=1000, messages_per_delivery=10_000_000)
        guest = carrier.start(limits).guest
    else:
        line = carrier.line(b"1" * 100_000)
    with pytest.raises(GuestError, match=f"limit fuel of {limits.fuel}") as caught:
        guest.deliver(line)
    assert caught.value.limit == "fuel"
    assert guest.dead
