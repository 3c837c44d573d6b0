"""Entries that the journal has not acknowledged: each comes, within bounds, and is read once and in
order, over a journal that loses, refuses and stands still."""

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.fleet import unwritten
from conductor.fleet.bus import Stored
from conductor.fleet.journal import AT, MORE, NUMBER
from conductor.fleet.journal_reader import Order, Written
from conductor.fleet.unwritten import PATIENCE, PROBE, Entry, Unwritten


def entry(number: int, size: int = 1, part: int = 0, more: int = 0, epoch: int = 7) -> Entry:
    id_ = f"{epoch}-abc-d-c2a-{number}" + (f".{part}" if part or more else "")
    headers = {"Nats-Msg-Id": id_, NUMBER: str(number), AT: "1.0"}
    if part or more:
        headers[MORE] = str(more)
    return Entry("journal.r.abc-d.c2a", headers, b"%d" % (1 + number % 9) * size, 0.0)


class Stream:
    """A stream that stores each message once, even if the message comes twice."""

    def __init__(self) -> None:
        self.stored: list[Entry] = []
        self._ids: set[str] = set()

    def take(self, one: Entry) -> None:
        if (id_ := one.headers["Nats-Msg-Id"]) not in self._ids:
            self._ids.add(id_)
            self.stored.append(one)

    def read(self) -> list[bytes]:
        order = Order()
        read: list[Written] = []
        for one in self.stored:
            read += order.take(Stored(one.subject, one.headers, one.payload))
        return [one.frame for one in (*read, *order.rest()) if not one.disputed]


STEPS = st.lists(
    st.sampled_from(["add", "split", "send", "come", "lose", "mute", "refuse", "cut", "wait"]),
    max_size=120,
)


@given(STEPS)
def test_each_entry_is_written_once_and_read_in_order(steps: list[str]) -> None:
    queue, stream, now, number = Unwritten(), Stream(), 0.0, 0
    wire: list[tuple[int, Entry]] = []
    frames = []

    def come(answers: bool) -> None:
        if wire:
            at, one = wire.pop(0)
            stream.take(one)
            if answers:
                queue.written(at)

    for step in [*steps, *["wait", "send", "come"] * 400]:
        if step == "add":
            number += 1
            queue.add(entry(number))
            frames.append(entry(number).payload)
        elif step == "split":
            number += 1
            for part in range(3):
                queue.add(entry(number, 1, part, 2 - part))
            frames.append(entry(number).payload * 3)
        elif step == "send" and (taken := queue.take(now)) is not None:
            wire.append(taken)
        elif step in ("come", "mute"):
            come(step == "come")
        elif step == "lose" and wire:
            wire.pop(0)
        elif step == "refuse" and wire:
            queue.refused(wire.pop(0)[0], now)
        elif step == "cut":
            queue.cut(now)
        elif step == "wait":
            now += PROBE + PATIENCE / 3
            queue.look(now)
    assert (len(queue), queue.kept) == (0, 0)
    assert stream.read() == frames


def test_only_so_much_is_on_its_way() -> None:
    queue = Unwritten()
    for number in range(20):
        queue.add(entry(number, 1024 * 1024))
    sent = []
    while (taken := queue.take(0.0)) is not None:
        sent.append(taken[0])
    assert len(sent) == unwritten.WINDOW // (1024 * 1024)
    assert queue.written(sent[0])
    assert not queue.written(sent[0])
    assert queue.take(0.0) is not None
    assert queue.take(0.0) is None


def test_while_nothing_is_taken_one_a_second_asks() -> None:
    queue = Unwritten()
    for number in range(5):
        queue.add(entry(number))
    first = queue.take(0.0)
    assert first is not None
    assert queue.take(0.0) is not None
    queue.refused(first[0], 0.0)
    assert queue.away
    assert queue.take(PROBE / 2) is None
    probe = queue.take(PROBE)
    assert probe is not None
    assert probe[0] == first[0]
    assert queue.take(PROBE) is None
    assert not queue.look(PROBE + PATIENCE / 2)
    assert queue.look(PROBE + PATIENCE)
    assert queue.take(PROBE + PATIENCE) is None
    probe = queue.take(PROBE + PATIENCE + PROBE)
    assert probe is not None
    queue.written(probe[0])
    assert queue.take(99.0) is not None
    assert queue.take(99.0) is not None
    assert queue.age(99.0) == 99.0


def test_what_is_missing_shows_as_a_gap() -> None:
    order = Order()
    read: list[Written] = []
    for number in (1, 2, 5, 4, 9):
        one = entry(number)
        read += order.take(Stored(one.subject, one.headers, one.payload))
    assert [one.number for one in read] == [1, 2]
    read += order.rest()
    assert [(one.number, one.gap) for one in read] == [(1, 0), (2, 0), (4, 1), (5, 0), (9, 3)]


def test_what_a_dead_epoch_says_late_is_disputed() -> None:
    order = Order()
    read: list[Written] = []
    for epoch, number in ((7, 1), (7, 2), (8, 1), (7, 3), (8, 2), (7, 4)):
        one = entry(number, epoch=epoch)
        read += order.take(Stored(one.subject, one.headers, one.payload))
    read += order.rest()
    believed = [(one.epoch, one.number) for one in read if not one.disputed]
    assert believed == [(7, 1), (7, 2), (8, 1), (8, 2)]
    assert [(one.epoch, one.number) for one in read if one.disputed] == [(7, 3), (7, 4)]


FORGED: Final = {
    "an epoch of the future": [entry(1, epoch=2**40)],
    "the next place": [entry(3, 2)],
    "a place before": [entry(2, 2)],
    "a place far ahead, and so much that nothing waits": [
        entry(10**9 + at, 9 * 1024 * 1024) for at in range(3)
    ],
    "a beginning of the next": [entry(3, 2, more=5)],
    "a part of the next": [entry(4, 2, part=1), entry(4, 2, part=2)],
    "the end of the next": [entry(4, 3, part=2, more=0)],
    "an epoch that is no number of anybody": [entry(1, epoch=10**400)],
}


@pytest.mark.proves("an entry of a fleet's journal")
@pytest.mark.parametrize("name", FORGED)
def test_an_entry_that_is_made_up_hides_no_other(name: str) -> None:
    """Whatever somebody writes in between: all that the worker has written is read, whole or in
    pieces, and nothing else without a mark."""
    honest = [entry(1), entry(2), entry(3), entry(4, more=1), entry(4, 1, part=1), entry(5)]
    order = Order()
    read: list[Written] = []
    for one in (*honest[:2], *FORGED[name], *honest[2:]):
        read += order.take(Stored(one.subject, one.headers, one.payload))
    read += order.rest()
    text = b"".join(one.frame for one in read if one.epoch == 7)
    assert [text.count(one.payload) > 0 for one in honest] == [True] * len(honest)
