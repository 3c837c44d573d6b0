"""An end that keeps to no rule gets named errors, and costs no more memory than the limits say."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.link import Limits, Link, LinkError, Reason, State
from tests.link.support import footprint, written

LIMITS: Final = Limits(packet=4096, window=64 * 1024, frame=64 * 1024, queue=32 * 1024)
EMPTY: Final = 8 * 1024
"""Bytes that a link takes which keeps nothing, at most."""
HUGE: Final = 10**18 - 1


def attacked() -> Link:
    """A link whose other end has greeted properly, and allows all."""
    link = Link("e", LIMITS)
    link.linked()
    link.received(b"hello e 1 0 %d 1" % HUGE)
    link.received(b"welcome e 1 0 %d 1" % HUGE)
    written(link)
    return link


def endured(link: Link, packets: Iterator[bytes], most: int) -> LinkError:
    """The error that ends an attack, which costs `most` bytes beside an empty link."""
    assert footprint(link) < EMPTY
    highest = 0
    for number, packet in enumerate(packets):
        if caught(partial(link.received, packet)):
            break
        if number % 64 == 0:
            written(link)
            highest = max(highest, footprint(link))
    assert highest < most + EMPTY
    assert link.state is State.FAILED
    assert link.failure is not None
    assert footprint(link) < EMPTY
    return link.failure


def caught(call: Callable[[], Any]) -> LinkError | None:
    """The named error of a call."""
    try:
        call()
    except LinkError as error:
        return error
    return None


def test_a_frame_that_never_ends() -> None:
    packets = (b"part e %d 0 0 1 x" % number for number in count(1))
    error = endured(attacked(), packets, LIMITS.frame + LIMITS.frame // 8)
    assert error.reason is Reason.FRAME


@pytest.mark.parametrize("step", [2, 3, 10])
def test_packets_with_holes_between_them(step: int) -> None:
    packets = (b"frame e %d 0 0 1 x" % number for number in count(2, step))
    assert endured(attacked(), packets, 2 * LIMITS.window).reason is Reason.WINDOW


@pytest.mark.parametrize("sequence", [2, 2**31, 10**17])
def test_packets_from_far_ahead(sequence: int) -> None:
    packets = (b"frame e %d 0 0 3000 " % number + b"x" * 3000 for number in count(sequence))
    assert endured(attacked(), packets, 2 * LIMITS.window).reason is Reason.WINDOW


def test_packets_to_an_end_that_takes_no_more() -> None:
    link = attacked()
    link.pause()
    packets = (b"part e %d 0 0 700 " % number + b"x" * 700 for number in count(1))
    assert endured(link, packets, 2 * LIMITS.window).reason is Reason.WINDOW


def test_greetings_without_end_are_answered_once_each_time_there_is_room_to_write() -> None:
    link = attacked()
    for number in range(2, 2000):
        link.received(b"hello e %d 0 0 1" % number)
        link.received(b"welcome e 1 0 0 1")
    assert written(link) == [b"welcome e 1999 0 %d 1" % LIMITS.window]
    link.received(b"hello e %d 0 0 1" % HUGE)
    assert written(link) == [b"welcome e %d 0 %d 1" % (HUGE, LIMITS.window)]
    assert footprint(link) < EMPTY


def test_the_same_packet_without_end_is_answered_once_each_time_there_is_room_to_write() -> None:
    link = attacked()
    assert link.received(b"frame e 1 0 0 1 x") == [b"x"]
    for _ in range(2000):
        assert link.received(b"frame e 1 0 0 1 x") == []
    assert written(link) == [b"ack e 1 %d" % (LIMITS.window + 257)]
    assert footprint(link) < EMPTY


def test_an_end_that_takes_all_and_acknowledges_nothing() -> None:
    link = attacked()
    while (error := caught(partial(link.send, b"x"))) is None:
        written(link)
    assert error.reason is Reason.FULL
    assert footprint(link) < 2 * LIMITS.queue + EMPTY


def test_an_end_that_rewinds_without_end_is_sent_no_more_than_it_asks_for() -> None:
    """A `hello` makes an end say what it has; it resends only for the answer to its own."""
    link = attacked()
    for _ in range(50):
        link.send(b"x")
    written(link)
    for number in range(2, 500):
        link.received(b"hello e %d 0 0 1" % number)
        assert len(written(link)) == 1


def test_a_link_that_fails_forgets_all() -> None:
    link = attacked()
    for _ in range(4):
        link.send(b"x" * 6000)
    link.received(b"part e 1 0 0 3000 " + b"x" * 3000)
    link.received(b"part e 3 0 0 3000 " + b"x" * 3000)
    assert footprint(link) > 30_000
    assert caught(partial(link.received, b"ack e 1 0")) is link.failure
    assert footprint(link) < EMPTY


def test_a_window_of_zero_stops_all_and_breaks_nothing() -> None:
    link = Link("e", LIMITS)
    link.linked()
    link.received(b"hello e 1 0 0 1")
    link.received(b"welcome e 1 0 0 1")
    written(link)
    link.send(b"x")
    for _ in range(100):
        link.received(b"ack e 0 256")
        assert written(link) == []
    link.received(b"ack e 0 257")
    assert len(written(link)) == 1


NUMBERS: Final = st.sampled_from(
    (0, 1, 2, 3, 4, 5, 250, 255, 256, 257, 70_000, 2**32, HUGE, 10**18)
)
WORDS: Final = st.sampled_from((b"hello", b"welcome", b"frame", b"part", b"ack", b"other"))
EPOCHS: Final = st.sampled_from((b"e", b"e", b"e", b"e", b"f", b"", b"\xff", b"e" * 5000))
PAYLOADS: Final = st.sampled_from(
    (b"", b"x", b"ack e 1 1", b"\xc3\xa9", b"\xc3", b"x y\nz", b"x" * 3900)
)


@st.composite
def likely(draw: st.DrawFn) -> bytes:
    """Bytes that look like a packet, and may be a packet."""
    word, payload = draw(WORDS), draw(PAYLOADS)
    numbers = draw(st.lists(NUMBERS, min_size=2, max_size=4))
    fields = [word, draw(EPOCHS), *(b"%d" % number for number in numbers)]
    if word in (b"frame", b"part"):
        fields[5:] = [b"%d" % (len(payload) + draw(st.sampled_from((0, 0, 0, 0, 1)))), payload]
    return b" ".join(fields)


OWNER: Final = st.sampled_from(
    ("linked", "overdue", "cut", "ack", "pause", "go_on", "take", "send")
)


@settings(max_examples=150)
@given(
    st.lists(st.one_of(likely(), likely(), likely(), OWNER, st.binary(max_size=20)), max_size=80)
)
def test_nothing_that_comes_breaks_a_link(steps: list[bytes | str]) -> None:
    link = attacked()
    for step in steps:
        if isinstance(step, bytes):
            caught(partial(link.received, step))
        elif step == "send":
            caught(partial(link.send, b"x" * 5000))
        else:
            getattr(link, step)()
        assert footprint(link) < LIMITS.window + LIMITS.frame + 3 * LIMITS.queue + EMPTY
    if link.failure is None:  # whatever came, what the owner sends can go
        link.linked()
        assert link.take() is not None
