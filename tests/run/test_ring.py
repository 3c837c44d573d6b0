"""The ring in memory: what it keeps, for how long, and that it never grows."""

import sys

import pytest
from msgspec import Raw

from conductor.core import UPSTREAM, Entry, Violated
from conductor.core.component import Side
from conductor.run.log import Chain, Item
from conductor.run.ring import AGE, Held, Ring, Saved

KIB = 1024
MIB = 1024 * KIB


class Kept:
    """A ring that is never written, and a clock that stands still until it is set."""

    def __init__(self, most: int = MIB) -> None:
        self.now = 100.0
        self.ring = Ring(most, lambda ring, why, mode: Saved("", iter(())), clock=lambda: self.now)

    def takes(self, *items: Item) -> None:
        """Something happens now."""
        for item in items:
            self.ring.take(item, self.now, "agent")


def sent(payload: bytes, source: str = "agent", target: str = UPSTREAM) -> Entry:
    """A notification."""
    return Entry("notification", source, Side.P, target, Side.P, 1, "_n", payload)


def payloads(held: Held) -> list[bytes]:
    """The payloads of all messages that are kept."""
    items = (one.item for one in held.kept)
    return [bytes(one.payload or b"") for one in items if isinstance(one, Entry)]


def weight(held: Held) -> int:
    """Bytes that Python says entries take, with all that is theirs alone."""
    own = [one for one in held.kept if isinstance(one.item, Entry)]
    parts: list[object] = [part for one in own for part in (one, one.item, one.at)]
    texts = {id(one): one for one in payloads(held)}
    return sum(map(sys.getsizeof, [*parts, *texts.values()]))


def test_it_keeps_what_passes_in_order() -> None:
    kept = Kept()
    kept.takes(sent(b"1", UPSTREAM, "agent"), sent(b"2", "", "agent"), sent(b"3", "agent", ""))
    assert not kept.ring.begun, "no component has sent anything to others so far"
    kept.takes(sent(b"4"))
    assert kept.ring.begun
    held = kept.ring.held()
    assert payloads(held) == [b"1", b"2", b"3", b"4"]
    assert not held.forgotten


def test_what_goes_on_as_it_is_takes_memory_once_and_none_of_its_line() -> None:
    kept = Kept()
    kept.takes(sent(Raw(b"[1]")), sent(bytes(bytearray(b"[1]"))), sent(b"[2]"))
    first, second, third = kept.ring.held().kept
    assert isinstance(first.item, Entry)
    assert isinstance(second.item, Entry)
    assert first.item.payload is second.item.payload
    assert type(first.item.payload) is bytes
    assert (first.size - second.size, third.size - first.size) == (3, 0)


@pytest.mark.parametrize("length", [1, 400, 20 * KIB, 3 * MIB])
def test_300_mb_stay_within_its_bound(length: int) -> None:
    kept, passed, number = Kept(), 0, 0
    total = 300 * MIB if length > 1 else MIB // 4  # to make those takes long
    while passed < total:
        payload = b"%0*d" % (length, number)
        kept.takes(sent(payload, "agent", "p"), sent(payload, "p", UPSTREAM))
        passed += 2 * max(length, 20)
        number += 1
        assert kept.ring.size <= MIB
    held = kept.ring.held()
    assert held.forgotten is (length < 3 * MIB)  # of these the beginnings are kept
    assert weight(held) <= MIB
    assert kept.ring.size == sum(one.size for one in held.kept)
    assert held.kept, "the newest are there"


def test_of_a_payload_that_is_too_long_session_and_size_are_kept() -> None:
    kept = Kept()
    long = b'{"x":"%b","sessionId":"s"}' % (b"x" * 100 * KIB)
    kept.takes(sent(b"before"), sent(long), sent(b"[%b]" % long), sent(b"behind"))
    cut = [b'{"sessionId":"s","_meta":{"conductor":{"cut":%d}}}' % len(long),
           b'{"_meta":{"conductor":{"cut":%d}}}' % (len(long) + 2)]  # fmt: skip
    held = kept.ring.held()
    assert payloads(held) == [b"before", *cut, b"behind"]
    wholes = [one.item.whole for one in held.kept if isinstance(one.item, Entry)]
    assert wholes == [0, len(long), len(long) + 2, 0]


def test_what_is_old_is_forgotten_but_not_which_chain_it_is() -> None:
    kept = Kept()
    kept.takes(Chain([("a", (), None), ("b", (), None)]), sent(b"1"))
    kept.now += AGE - 1
    kept.takes(sent(b"2"))
    assert not kept.ring.held().forgotten
    kept.now += 2
    held = kept.ring.held()
    assert payloads(held) == [b"2"]
    assert held.forgotten
    assert [name for name, _, _ in held.chain.peers] == ["a", "b"]
    kept.now += AGE
    assert kept.ring.held().kept == []
    assert kept.ring.size == 0


def test_what_happens_to_the_chain_has_a_place_in_it() -> None:
    kept = Kept()
    violation = Violated("a", "rights", "up", "session/update", "", "no", False)
    kept.takes(Chain([("a", (), None)]), violation)
    first, second = kept.ring.held().kept
    assert isinstance(first.item, Chain)
    assert (second.at, second.item) == (100.0, violation)


def test_components_that_fail_again_and_again_write_one_file_a_minute() -> None:
    kept = Kept()
    assert kept.ring.may_save()
    kept.ring.save("it failed", lambda: "agent")
    kept.now += 59
    assert not kept.ring.may_save()
    kept.now += 1
    assert kept.ring.may_save()
