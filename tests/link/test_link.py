"""The packets of a link, the frames it keeps, and the input it refuses: by examples."""

import re

import pytest

from conductor import link as package
from conductor.link import Limits, Link, LinkError, Reason, State
from conductor.link.link import MOVES, Event
from tests.link.support import SMALL, exchange, opened, seen, written


def greeted(limits: Limits = SMALL) -> Link:
    """A link whose other end is this test, which has said `hello` and `welcome`."""
    link = Link("e", limits)
    link.linked()
    link.received(b"hello e 1 0 2048 1")
    link.received(b"welcome e 1 0 2048 1")
    assert [seen(packet).word for packet in written(link)] == ["welcome", "hello"]
    assert link.state is State.OPEN
    return link


def refused(link: Link, packet: bytes) -> LinkError:
    """The error for a packet."""
    with pytest.raises(LinkError) as caught:
        link.received(packet)
    error = caught.value
    assert error.text
    assert error.hint
    assert error.data == {"reason": error.reason.value}
    return error


# Packets and frames


def test_frames_go_in_both_directions_once_both_ends_have_greeted() -> None:
    one, other = Link("e"), Link("e")
    one.send(b"early")
    assert one.take() is None
    one.linked()
    other.linked()
    assert (one.state, one.waits) == (State.GREETING, True)
    other.send(b"back")
    assert exchange(one, other) == ([b"back"], [b"early"])
    assert (one.state, other.state) == (State.OPEN, State.OPEN)


def test_the_example_of_the_wire_is_what_two_ends_write() -> None:
    """The docstring's example, line by line: what stands left is the client's."""
    example = (package.__doc__ or "").partition("server\n")[2]
    client, server = Link("c7"), Link("c7")
    client.linked()
    server.linked()
    client.send(b'{"id":1}')
    got: list[bytes] = []
    for row in example.splitlines():
        texts = row[4:42].strip(), row[42:].removesuffix("lost: it is cut").strip()
        packets = [
            end.take() if text else None for end, text in zip((client, server), texts, strict=True)
        ]
        assert packets == [text.encode() or None for text in texts]
        if row.endswith("cut"):
            for end in (client, server):
                end.cut()
                end.linked()
            continue
        for packet, end in zip(packets, (server, client), strict=True):
            for frame in end.received(packet) if packet else ():
                got.append(frame)
                if end is server:
                    server.send(frame)
                else:
                    client.ack()
    assert got == [b'{"id":1}', b'{"id":1}']
    assert (client.kept, server.kept) == (0, 0)


def test_nothing_is_lost_or_doubled_when_the_connection_is_cut() -> None:
    one, other = opened()
    frames = [b"%d" % number for number in range(6)]
    for frame in frames:
        one.send(frame)
    packets = written(one)
    got = [frame for packet in packets[:3] for frame in other.received(packet)]
    for end in (one, other):
        end.cut()
        assert end.take() is None
        assert end.received(b"anything") == []
    one.send(b"meanwhile")
    for end in (one, other):
        end.linked()
    got += exchange(one, other)[1]
    assert got == [*frames, b"meanwhile"]


def test_a_resumed_link_resends_only_what_the_other_end_does_not_have() -> None:
    one, other = opened()
    for frame in (b"a", b"b", b"c"):
        one.send(frame)
    for packet in written(one)[:2]:
        other.received(packet)
    for end in (one, other):
        end.cut()
        end.linked()
    for end, far in ((one, other), (other, one), (one, other)):
        packets = written(end)
        texts = [seen(packet).text for packet in packets]
        for packet in packets:
            far.received(packet)
    assert [text for text in texts if text] == ["c"]


def test_packets_that_come_in_another_order_or_twice_are_put_right() -> None:
    one, other = opened()
    frames = [b"%d" % number for number in range(7)]
    for frame in frames:
        one.send(frame)
    packets = written(one)
    got = [frame for packet in reversed(packets * 2) for frame in other.received(packet)]
    assert got == frames


def test_lost_packets_are_sent_again_when_they_are_overdue() -> None:
    one, other = opened()
    for frame in (b"a", b"b", b"c"):
        one.send(frame)
    _, second, _ = written(one)
    assert other.received(second) == []
    assert one.waits
    one.overdue()
    assert exchange(one, other) == ([], [b"a", b"b", b"c"])
    other.ack()
    exchange(one, other)
    assert not one.waits


def test_a_slow_answer_to_hello_counts_though_hello_was_said_again() -> None:
    """Otherwise a network slower than the owner's patience would never open."""
    one, other = Link("e"), Link("e")
    one.linked()
    other.linked()
    for packet in written(one):
        other.received(packet)
    answers = written(other)
    for _ in range(3):
        one.overdue()
        written(one)
    for packet in answers:
        one.received(packet)
    assert one.state is State.OPEN


def test_a_hello_of_before_is_not_answered() -> None:
    link = greeted()
    link.received(b"hello e 3 0 2048 1")
    link.received(b"hello e 2 0 2048 1")
    assert written(link) == [b"welcome e 3 0 2048 1"]
    link.received(b"hello e 2 0 2048 1")
    assert written(link) == []
    link.received(b"hello e 3 0 2048 1")  # said again: the answer may be lost
    assert written(link) == [b"welcome e 3 0 2048 1"]


def test_an_answer_to_a_hello_of_before_says_nothing() -> None:
    link = greeted()
    link.send(b"x")
    written(link)
    link.received(b"ack e 1 2048")
    link.overdue()
    assert link.received(b"welcome e 1 0 2048 1") == []  # it was on its way for long
    assert (link.state, link.failure) == (State.GREETING, None)


def test_a_second_answer_to_one_hello_resends_nothing() -> None:
    link = greeted()
    link.send(b"x")
    assert len(written(link)) == 1
    link.received(b"welcome e 1 0 2048 1")
    assert written(link) == []


def test_what_is_acknowledged_before_it_is_sent_again_is_left_out() -> None:
    link = greeted()
    for frame in (b"a", b"b", b"c"):
        link.send(frame)
    written(link)
    link.overdue()
    link.received(b"welcome e 2 0 2048 1")
    link.received(b"ack e 2 2048")  # sent before the answer, but it came later
    assert [seen(packet).text for packet in written(link)[1:]] == ["c"]


def test_an_acknowledgement_that_comes_late_takes_nothing_back() -> None:
    link = greeted()
    for _ in range(9):
        link.send(b"x")
    for have, credit in ((3, 2500), (1, 2048), (5, 3000), (0, 2048)):
        written(link)
        link.received(b"ack e %d %d" % (have, credit))
    assert link.kept == 4 * 257
    assert written(link) == []
    link.received(b"ack e 9 3000")
    assert link.kept == 0
    link.send(b"x")
    link.send(b"x")
    link.received(b"ack e 9 2048")
    assert len(written(link)) == 2


def test_a_frame_above_the_packet_limit_is_split_between_characters() -> None:
    one, other = opened()
    for character in ("a", "é", "€", "😀"):
        frame = ("x" + character * (3500 // len(character.encode()))).encode()
        one.send(frame)
        packets = written(one)
        got = []
        while packets:
            assert all(len(packet) <= SMALL.packet for packet in packets)
            words = [seen(packet).word for packet in packets]
            got += [frame for packet in packets for frame in other.received(packet)]
            for packet in written(other):
                one.received(packet)
            packets = written(one)
        assert words[-1] == "frame"
        assert got == [frame]


@pytest.mark.parametrize("length", [0, 575, 576, 577, 4000])
def test_frames_of_every_length_come_whole(length: int) -> None:
    one, other = opened()
    one.send(b"x" * length)
    one.send(b"next")
    assert exchange(one, other)[1] == [b"x" * length, b"next"]


def test_a_frame_goes_on_in_the_middle_when_the_connection_is_cut_there() -> None:
    one, other = opened()
    one.send(b"x" * 3000)
    assert other.received(written(one)[0]) == []
    for end in (one, other):
        end.cut()
        end.linked()
    assert exchange(one, other)[1] == [b"x" * 3000]


# Acknowledgement and window


def test_an_idle_direction_acknowledges_after_so_many_packets() -> None:
    one, other = opened(other=Limits(acked=SMALL.acked))
    for _ in range(SMALL.acked - 1):
        one.send(b"x")
    assert exchange(one, other)[1] == [b"x"] * (SMALL.acked - 1)
    assert one.kept > 0
    one.send(b"x")
    exchange(one, other)
    assert one.kept == 0


def test_an_idle_direction_acknowledges_after_a_part_of_the_window() -> None:
    one, other = opened()
    one.send(b"x" * (SMALL.window // 4))
    exchange(one, other)
    assert one.kept == 0
    one.send(b"x")
    exchange(one, other)
    assert one.kept > 0


def test_the_owner_asks_for_an_acknowledgement_and_gets_it_once() -> None:
    one, other = opened()
    one.send(b"x")
    exchange(one, other)
    other.ack()
    assert [seen(packet).word for packet in written(other)] == ["ack"]
    other.ack()
    assert written(other) == []


def test_a_frame_brings_the_acknowledgement_along() -> None:
    one, other = opened()
    one.send(b"question")
    exchange(one, other)
    other.send(b"answer")
    exchange(one, other)
    assert one.kept == 0
    one.ack()
    other.ack()
    assert [seen(packet).word for packet in written(one)] == ["ack"]
    assert written(other) == []


def test_a_packet_that_came_before_is_acknowledged_again() -> None:
    one, other = opened()
    one.send(b"x")
    packet = written(one)[0]
    other.received(packet)
    other.ack()
    written(other)
    assert other.received(packet) == []
    assert [seen(packet).have for packet in written(other)] == [1]


def test_a_full_window_makes_frames_wait_and_the_owner_sees_it() -> None:
    link = greeted()
    sent = 0
    while not link.full:
        link.send(b"x" * 100)
        sent += 1
    costs = [seen(packet).cost for packet in written(link)]
    assert sum(costs) <= 2048 < sum(costs) + 356
    link.received(b"ack e 2 %d" % (2048 + 2 * 356))
    assert [seen(packet).sequence for packet in written(link)] == [len(costs) + 1, len(costs) + 2]
    assert not link.full


def test_a_paused_end_gets_one_window_more_and_nothing_beyond() -> None:
    one, other = opened()
    other.pause()
    for _ in range(7):
        one.send(b"x" * 300)
    assert len(exchange(one, other)[1]) == 2048 // 556
    other.ack()
    one.ack()
    assert exchange(one, other)[1] == []
    other.go_on()
    assert len(exchange(one, other)[1]) == 7 - 2048 // 556


def test_an_end_that_is_paused_from_the_start_gets_nothing() -> None:
    one, other = Link("e", SMALL), Link("e", SMALL)
    other.pause()
    one.linked()
    other.linked()
    one.send(b"x")
    assert exchange(one, other)[1] == []
    other.go_on()
    assert exchange(one, other)[1] == [b"x"]


# Refusals


def test_a_frame_beyond_twice_the_queue_is_refused() -> None:
    link = Link("e", SMALL)
    while link.kept < 2 * SMALL.queue:
        link.send(b"x" * 300)
    with pytest.raises(LinkError, match="keeps 6116 bytes") as caught:
        link.send(b"x")
    assert caught.value.reason is Reason.FULL
    assert link.failure is None


def test_a_frame_that_is_too_long_or_no_text_is_refused_and_the_link_goes_on() -> None:
    one, other = opened()
    with pytest.raises(LinkError, match="this end of a link sends a frame of 4001 bytes") as long:
        one.send(b"x" * 4001)
    with pytest.raises(LinkError, match="no UTF-8") as broken:
        one.send(b"\xff")
    assert (long.value.reason, broken.value.reason) == (Reason.FRAME, Reason.TEXT)
    one.send(b"x")
    assert exchange(one, other)[1] == [b"x"]


def test_a_packet_of_another_epoch_is_refused_and_the_link_goes_on() -> None:
    link = greeted()
    for packet in (b"frame dead 1 0 9 1 x", b"hello dead 1 0 9 1", b"ack dead 1 9"):
        assert refused(link, packet).reason is Reason.EPOCH
    assert str(refused(link, b"ack dead 1 9")) == "a packet of the epoch dead came on a link of e"
    assert link.received(b"frame e 1 0 2048 1 x") == [b"x"]


@pytest.mark.parametrize(
    "packet",
    [
        *(b"", b" ", b"\x00", b"hello", b"hello e", b"HELLO e 1 0 9 1", b"goodbye e 1 9"),
        *(b"hello e 1 0 9", b"hello e 1 0 9 1 1", b"hello e 0 0 9 1", b"hello e 1 0 9 0"),
        *(b"hello  e 1 0 9 1", b"hello e 1 0 9 1 ", b"ack e 1 9\n", b"ack e  9", b"ack e 1 9 x"),
        *(b"ack e -1 9", b"ack e +1 9", b"ack e 01 9", b"ack e 1_0 9", b"ack e 1.0 9"),
        *(b"ack e 1 \xc2\xb2", b"ack e 1 " + b"9" * 19, b"ack e 1 " + b"9" * 5000),
        *(b"frame e 1 0 9 1", b"frame e 1 0 9 2 x", b"frame e 1 0 9 0 x", b"frame e 0 0 9 1 x"),
        *(b"frame e 1 0 9 1 \xff", b"part e 1 0 9 0 ", b"part e 1 0 9 1", b"frame e 1 0 9"),
    ],
)
def test_what_is_no_packet_is_refused_and_the_link_goes_on(packet: bytes) -> None:
    link = greeted(Limits())
    assert refused(link, packet).reason is Reason.MALFORMED
    assert link.received(b"frame e 1 0 2048 1 x") == [b"x"]


def test_a_packet_above_the_limit_is_refused_and_the_link_goes_on() -> None:
    link = greeted()
    packet = b"frame e 1 0 2048 800 " + b"x" * 800
    assert refused(link, packet).reason is Reason.LARGE
    assert link.failure is None


@pytest.mark.parametrize("packet", [b"frame e 1 0 9 1 x", b"part e 1 0 9 1 x", b"ack e 0 9"])
def test_what_comes_before_hello_is_refused(packet: bytes) -> None:
    link = Link("e", SMALL)
    link.linked()
    written(link)
    assert refused(link, packet).reason is Reason.EARLY
    link.received(b"welcome e 1 0 9 1")  # the network may put it before the other end's hello
    assert refused(link, packet).reason is Reason.EARLY
    assert link.state is State.OPEN


@pytest.mark.parametrize("packet", [b"ack e 2 2048", b"hello e 2 2 9 1", b"frame e 1 2 9 1 x"])
def test_who_has_what_was_never_sent_ends_the_link(packet: bytes) -> None:
    link = greeted()
    link.send(b"x")
    link.send(b"never taken")
    assert link.take() is not None
    error = refused(link, packet)
    assert error.reason is Reason.AHEAD
    assert (link.state, link.failure, link.kept) == (State.FAILED, error, 0)


def test_an_end_that_has_lost_what_it_had_ends_the_link() -> None:
    link = greeted()
    link.send(b"x")
    written(link)
    link.received(b"ack e 1 2048")
    link.cut()
    link.linked()
    assert link.received(b"hello e 2 0 2048 1") == []  # it may have been on its way for long
    error = refused(link, b"welcome e 2 0 2048 1")
    assert error.reason is Reason.GAP
    assert error.text == "a link needs packet 1, and this end keeps none before 2"


@pytest.mark.parametrize("word", ["hello", "welcome"])
def test_an_end_that_has_forgotten_what_this_one_lacks_ends_the_link(word: str) -> None:
    link = greeted()
    link.overdue()
    link.received(b"frame e 1 0 2048 1 x")
    link.received(f"{word} e 2 0 2048 2".encode())
    link.overdue()
    error = refused(link, f"{word} e {3 if word == 'welcome' else 2} 0 2048 3".encode())
    assert error.reason is Reason.GAP
    assert error.text == "a link needs packet 2, and the other end keeps none before 3"


def test_two_ends_of_which_one_began_anew_in_the_same_epoch_both_say_so() -> None:
    one, other = opened()
    for _ in range(4):
        one.send(b"x")
    exchange(one, other)
    again = Link("e", SMALL)
    one.cut()
    one.linked()
    again.linked()
    greetings = written(one), written(again)
    assert [refused(again, packet).reason for packet in greetings[0]] == [Reason.GAP]
    assert [one.received(packet) for packet in greetings[1]] == [[]]
    assert refused(one, b"welcome e 2 0 2048 1").reason is Reason.GAP


@pytest.mark.parametrize(
    "packet",
    [
        b"frame e 100 0 2048 1 x",
        b"frame e 999999999999999999 0 2048 1 x",
        b"part e 7 0 2048 500 " + b"x" * 500,
    ],
)
def test_who_sends_more_than_the_window_ends_the_link(packet: bytes) -> None:
    link = greeted()
    assert refused(link, packet).reason is Reason.WINDOW
    assert link.state is State.FAILED


def test_packets_that_come_early_count_for_the_window() -> None:
    link = greeted()
    packets = [b"part e %d 0 2048 500 " % number + b"x" * 500 for number in (2, 3, 4)]
    for packet in packets[:2] * 100:  # … once each, however often they come
        link.received(packet)
    assert refused(link, packets[2]).reason is Reason.WINDOW


def test_a_frame_of_the_other_end_above_the_limit_ends_the_link() -> None:
    link = greeted()
    for number in range(1, 9):
        assert link.received(b"part e %d 0 2048 500 " % number + b"x" * 500) == []
        written(link)
    error = refused(link, b"frame e 9 0 2048 1 x")
    assert error.reason is Reason.FRAME
    assert error.text == "the other end of a link sends a frame of 4001 bytes; the limit is 4000"


def test_a_link_that_has_failed_says_so_to_all() -> None:
    link = greeted()
    error = refused(link, b"ack e 9 9")
    assert refused(link, b"ack e 0 2048") is error
    with pytest.raises(LinkError) as caught:
        link.send(b"x")
    assert caught.value is error
    link.cut()
    link.linked()
    link.overdue()
    assert (link.take(), link.full, link.waits, link.state) == (None, False, False, State.FAILED)


# The table, and what an owner may set


def test_each_move_of_the_table_is_made() -> None:
    """From each state, by each event: where the table has a move, there; else nothing changes."""

    def fresh(state: State) -> Link:
        link = Link("e", SMALL)
        link.received(b"")
        if state is not State.CUT:
            link.linked()
            link.received(b"hello e 1 0 2048 1")
        if state in (State.OPEN, State.FAILED):
            link.received(b"welcome e 1 0 2048 1")
        if state is State.FAILED:
            refused(link, b"ack e 1 9")
        assert link.state is state
        return link

    for state in State:
        for event in Event:
            link = fresh(state)
            try:
                match event:
                    case Event.LINKED:
                        link.linked()
                    case Event.OVERDUE:
                        link.overdue()
                    case Event.WELCOMED:
                        link.received(b"welcome e 1 0 2048 1")
                    case Event.CUT:
                        link.cut()
                    case Event.FAILED:
                        link.received(b"ack e 1 9")
            except LinkError:
                assert link.state is State.FAILED
            assert (link.state, event) == (MOVES.get((state, event), state), event)


@pytest.mark.parametrize("epoch", ["", "a b", "é", "x" * 65, "a\n", "a/b"])
def test_what_cannot_be_an_epoch_is_refused(epoch: str) -> None:
    with pytest.raises(ValueError, match="an epoch is 1 to 64 of"):
        Link(epoch)


def test_limits_that_could_not_work_are_refused() -> None:
    for limits in ({"packet": 767}, {"packet": 768, "window": 2047}):
        with pytest.raises(ValueError, match=re.escape("a packet has 768 bytes or more")):
            Limits(**limits)
