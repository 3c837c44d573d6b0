"""Whose turn it is in a host of guests, and who pays for it."""

import pytest

from conductor.core import CHANNEL, UPSTREAM, Component
from conductor.core.accounts import BURST, Account, Allowance
from conductor.core.router import Router, RouterOptions
from conductor.run.outboxes import HostOutboxes
from conductor.run.rounds import PIECE, SLICE, Round, Rounds

LONG = 1000.0
"""Seconds after which everything has come back."""


class Host:
    """A outboxes and rounds over guests `a`, `b` and `c` that are played here."""

    def __init__(self, **limits: int) -> None:
        components = [Component(name, dialect=CHANNEL) for name in "abc"]
        self.outboxes = HostOutboxes(
            Router(components, "proxy", options=RouterOptions(upstream=CHANNEL)),
            lambda effect: None,
        )
        allowance = Allowance(**limits)
        self.accounts = {name: Account(name, allowance) for name in "abc"}
        self.rounds = Rounds(self.outboxes, self.accounts)
        self.now = 0.0

    def outside(self, name: str, *frames: bytes) -> None:
        """Frames from outside for a guest."""
        for frame in frames:
            self.outboxes.put(name, frame, self.outboxes.outside)

    def own(self, payer: str, name: str, *frames: bytes) -> None:
        """Frames for a guest that another has sent of its own, or the conductor answers it."""
        cause = self.accounts[payer].caused[0]
        for frame in frames:
            self.outboxes.put(name, frame, cause, answer=payer == name)

    def turn(self) -> str | None:
        """Whose turn it is."""
        return self.rounds.next(self.now)[0]

    def deliver(self, name: str, *returned: bytes) -> bytes:
        """A piece of a guest's round, and what it returned to that."""
        found = self.rounds.begun(name)
        data, cause = found.piece()
        found.lines = list(returned)
        more = len(returned) > data.count(b"\n")
        found.cause = cause.passed(self.accounts[name], more=more)
        found.answering = cause.answered(self.accounts[name])
        if found.over:
            self.rounds.end(name)
        return data

    def waiting(self) -> dict[str, int]:
        """Bytes that wait, by account."""
        found = {name: account.waiting for name, account in self.accounts.items()}
        return {**found, "": self.outboxes.outside.account.waiting}


def test_what_comes_from_outside_is_first_and_in_turns() -> None:
    host = Host()
    host.own("c", "c", b"c\n")
    host.outside("a", b"1\n")
    host.outside("b", b"2\n")
    assert host.turn() == "a"
    host.deliver("a")
    host.outside("a", b"3\n")
    assert host.turn() == "b"
    host.deliver("b")
    assert host.turn() == "a"
    host.deliver("a")
    assert host.turn() == "c"
    host.deliver("c")
    assert host.rounds.next(0) == (None, None)
    assert not any(host.waiting().values())


def test_upstream_comes_before_everybody() -> None:
    host = Host()
    host.outside("a", b"1\n")
    host.outside(UPSTREAM, b"up\n")
    assert host.turn() == UPSTREAM


def test_what_is_own_waits_for_its_account_and_the_payer_is_who_caused_it() -> None:
    host = Host(own_share=10)
    host.own("a", "b", b"1\n")
    found = host.rounds.begun("b")
    assert found.payer is host.accounts["a"]
    host.accounts["a"].spend_time(0.1 * BURST + 0.2, 0)
    assert host.turn() is None
    assert host.rounds.next(0)[1] == pytest.approx(2.0)
    host.own("c", "c", b"2\n")
    assert host.turn() == "c"  # it has spent nothing yet
    host.deliver("c")
    assert host.rounds.next(3.0)[0] == "b"


def test_all_guests_together_have_a_share_too() -> None:
    host = Host(own_share=100)
    host.own("a", "a", b"1\n")
    host.own("b", "b", b"2\n")
    host.rounds.spend("c", 0.5 * BURST + 1, 0)
    assert host.turn() is None
    assert host.rounds.next(0)[1] == pytest.approx(2.0)


@pytest.mark.proves("guests that wake themselves")
def test_own_answers_hold_up_nothing_that_others_send() -> None:
    """However many wait for a guest that has nothing left on its account."""
    host = Host()
    host.own("a", "a", b"x" * 1000 + b"\n")
    host.accounts["a"].spend_time(100, 0)
    assert host.rounds.next(0)[0] is None
    host.outside("a", b"1\n")
    assert host.turn() == "a"
    assert host.deliver("a") == b"1\n"
    assert host.rounds.next(0)[0] is None
    assert host.rounds.next(LONG)[0] == "a"
    assert host.deliver("a") == b"x" * 1000 + b"\n"


def test_answers_for_what_came_from_outside_do_not_wait() -> None:
    """A guest asks the time for a prompt: it has the answer although it owes time."""
    host = Host()
    host.accounts["a"].spend_time(100, 0)
    host.outboxes.put("a", b"noon\n", host.accounts["a"].caused[4], answer=True)
    assert host.turn() == "a"
    host.own("b", "a", b"from b\n")
    assert host.deliver("a") == b"noon\n"


def test_order_is_kept_between_what_others_send_of_their_own_and_for_somebody() -> None:
    host = Host()
    host.own("a", "b", b"1\n")
    host.outside("b", b"2\n")
    host.own("a", "b", b"3\n")
    host.accounts["a"].spend_time(100, 0)
    found = []
    while (name := host.turn()) is not None:
        found.append(host.deliver(name))
    assert found == [b"1\n", b"2\n"]
    assert host.rounds.next(LONG)[0] == "b"
    assert host.deliver("b") == b"3\n"


def test_a_round_is_delivered_in_pieces_and_nothing_is_lost() -> None:
    host = Host()
    frames = [b"%06d" % number + b"x" * 9_000 + b"\n" for number in range(100)]
    host.outside("b", *frames)
    host.outside("b", b"y" * (2 * PIECE) + b"\n")
    delivered = []
    while (name := host.turn()) is not None:
        delivered.append(host.deliver(name))
    assert b"".join(delivered) == b"".join(frames) + b"y" * (2 * PIECE) + b"\n"
    assert all(len(piece) < PIECE + 10_000 for piece in delivered[:-1])
    assert len(delivered) == 4
    assert host.waiting() == {"a": 0, "b": 0, "c": 0, "": 0}


def test_others_have_their_turn_between_two_pieces_and_between_two_slices() -> None:
    host = Host()
    host.outside("a", b"x" * PIECE + b"\n", b"x" * PIECE + b"\n")
    host.deliver("a", *[b"line"] * (SLICE + 10))
    host.outside("b", b"1\n")
    assert host.turn() == "b"
    host.deliver("b")
    found = host.rounds.begun("a")
    assert (len(found.slice()), len(found.slice()), found.slice()) == (SLICE, 10, [])
    assert not found.over
    assert host.turn() == "a"


def test_what_comes_while_a_round_lasts_belongs_to_the_next() -> None:
    host = Host()
    host.outside("a", b"1" * PIECE + b"\n", b"2\n")
    host.deliver("a")
    host.outside("a", b"3\n")
    assert host.deliver("a") == b"2\n"
    assert host.deliver("a") == b"3\n"


def test_who_has_sent_more_than_others_take_is_given_no_more() -> None:
    host = Host(waiting_bytes=100)
    host.outside("a", b"1\n")
    host.outboxes.put("b", b"x" * 101, host.accounts["a"].caused[3])
    assert host.turn() == "b"
    host.deliver("b")
    assert host.turn() == "a"


def test_its_own_answers_it_may_always_take() -> None:
    host = Host(waiting_bytes=100)
    host.own("a", "a", b"x" * 101)
    assert host.turn() == "a"


def test_of_those_that_wait_for_each_other_the_one_with_most_is_named() -> None:
    host = Host(waiting_bytes=100)
    host.outboxes.put("b", b"x" * 101, host.accounts["a"].caused[3])
    host.outboxes.put("a", b"x" * 102, host.accounts["b"].caused[3])
    assert host.rounds.next(0) == (None, None)
    assert host.rounds.stuck() == "b"


def test_nobody_is_stuck_where_nothing_waits() -> None:
    host = Host()
    assert host.rounds.stuck() is None


def test_a_round_that_ends_early_leaves_nothing_on_an_account() -> None:
    host = Host()
    host.own("b", "a", b"x" * PIECE + b"\n", b"y\n")
    host.deliver("a")
    host.own("b", "a", b"z\n")
    host.rounds.end("a")
    host.outboxes.discard("a")
    assert host.waiting() == {"a": 0, "b": 0, "c": 0, "": 0}
    host.rounds.end("a")


def test_a_round_is_whole_unless_it_leaves_what_others_sent() -> None:
    host = Host()
    host.outside("a", b"1\n")
    host.own("a", "a", b"2\n")
    first: Round = host.rounds.begun("a")
    assert (first.whole, len(first.runs)) == (True, 1)
    host.rounds.end("a")
    assert host.rounds.begun("a").whole
    host.rounds.end("a")
    host.own("b", "a", b"3\n")
    host.outboxes.put("a", b"noon\n", host.accounts["a"].caused[4], answer=True)
    assert not host.rounds.begun("a").whole


def test_a_round_that_waits_for_its_account_holds_up_nothing_from_outside() -> None:
    """A guest has sent thousands of lines of its own, and owes for them: then a prompt comes."""
    host = Host()
    host.own("a", "b", b"x" * PIECE + b"\n", b"y\n")
    assert host.turn() == "b"
    host.deliver("b")
    host.accounts["a"].spend_messages(100_000, 0, 0)
    assert host.turn() is None
    host.outside("b", b"prompt\n")
    assert host.turn() == "b"
    assert host.deliver("b") == b"y\n"
    assert host.turn() == "b"
    assert host.deliver("b") == b"prompt\n"


def test_who_has_had_least_time_is_next() -> None:
    host = Host()
    host.outside("a", b"1" * PIECE + b"\n", b"2\n")
    host.outside("b", b"3" * PIECE + b"\n", b"4\n")
    host.deliver("a")
    host.rounds.used("a", 0.5)
    for _ in range(2):
        assert host.turn() == "b"
        host.deliver("b")
        host.rounds.used("b", 0.1)
    assert host.turn() == "a"


def test_who_had_nothing_to_do_has_saved_up_nothing() -> None:
    host = Host()
    host.outside("a", b"1\n")
    host.deliver("a")
    host.rounds.used("a", 10)
    host.outside("a", b"2\n")
    host.deliver("a")
    host.outside("a", b"3\n")
    host.outside("b", b"4" * PIECE + b"\n", b"5\n")
    host.deliver("b")
    host.rounds.used("b", 0.1)
    assert host.turn() == "a"


def test_what_comes_from_two_causes_is_not_delivered_at_once() -> None:
    """Else each message of the user's would keep alive what two guests send each other."""
    host = Host()
    host.outboxes.put("a", b"dying\n", host.accounts["b"].caused[1])
    host.outside("a", b"prompt\n")
    assert host.deliver("a") == b"dying\n"
    assert host.deliver("a") == b"prompt\n"


def test_what_a_guest_returned_when_it_was_started_is_its_own() -> None:
    host = Host()
    host.rounds.returned("a", [b"1", b"2"])
    host.outside("b", b"3\n")
    assert host.turn() == "b"
    host.deliver("b")
    assert host.turn() == "a"
    found = host.rounds.begun("a")
    assert found.slice() == [b"1", b"2"]
    assert found.payer is host.accounts["a"]
