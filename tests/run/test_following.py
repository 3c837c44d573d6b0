"""A trace is made by a router that follows the chain's: what that costs, and what it believes."""

from __future__ import annotations

import math
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import CHANNEL, UPSTREAM, Closure, Component, Router, Trace
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.run.following import Follower
from conductor.run.host_following import HostFollower
from conductor.run.host_journal import HostEntries, HostJournal
from conductor.run.idle_work import IdleWork
from conductor.run.journal import JournalRouter
from conductor.run.plan import Planned
from conductor.run.report_checks import Tracing
from conductor.run.segment_spec import GuestSpec, SegmentSpec

READS = {
    "addresses", "allows_prompt", "asker", "at_rest", "forget_lost", "has_role", "heard", "idle",
    "initialized", "knows_all_about", "loading", "may_retry", "mode", "neighbour", "observed",
    "observers", "paused", "pending", "prepared", "quiet", "received", "refuses_return", "sessions",
    "tracing", "turns", "version", "waiting_on",
}  # fmt: skip
"""What a router is asked without a change to it."""

ASKED = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
NUMBERS = range(1000, 2000)


class Events:
    """A trace that remembers what it is given."""

    def __init__(self) -> None:
        self.crossed: list[str] = []
        self.hops: list[str] = []
        self.logged: list[str] = []
        self.turns: list[tuple[float, Callable[[], None]]] = []

    def follower(self, components: list[Component]) -> Follower:
        """A follower of a chain whose trace this is."""
        made = Follower(_Trace(self), Router(components, tracing=True), self._log, self._later)
        planned = [
            Planned(one, None, guests=tuple(one.name.split("+")) if one.numbers else ())  # type: ignore[arg-type]
            for one in components
        ]
        made.begin(planned)
        return made

    def _log(self, level: str, name: str, text: str) -> None:
        self.logged.append(f"{level}: {name}: {text}")

    def _later(self, seconds: float, work: Callable[[], None]) -> None:
        self.turns.append((seconds, work))


class _Trace(Tracing):
    def __init__(self, events: Events) -> None:
        self._events = events

    def begin(self, chain: Any) -> None:
        pass

    def at(self, now: float) -> None:
        pass

    def recorder(self, name: str) -> None:
        return None

    def rearranged(self, chain: Any) -> None:
        pass

    def violated(self, violation: Any) -> None:
        pass

    def happened(self, event: str, component: str, text: str) -> None:
        pass

    def crossed(self, trace: Any, mode: str) -> None:
        self._events.crossed.append(f"{trace.source}>{trace.target} {trace.method}")

    def hop(self, host: str, trace: Any, at: float) -> None:
        self._events.hops.append(f"{trace.source}>{trace.target} {trace.method}")

    def delivered(self, *what: Any, at: float) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_journal_has_every_call_that_changes_a_router() -> None:
    names = {name for name in vars(Router) if not name.startswith("_")}
    kept = {name for name in names if name in vars(JournalRouter)}
    assert kept == names - READS - {"settle_mode"}


def test_work_takes_a_tenth_of_the_time_while_messages_pass() -> None:
    now, turns, left = [0.0], list[tuple[float, Callable[[], None]]](), [10_000]

    def step() -> bool:
        left[0] -= 1
        now[0] += 0.0005
        return left[0] > 0

    work = IdleWork(step, lambda *turn: turns.append(turn), lambda: now[0])
    worked = 0.0
    for _ in range(100):
        work.passed()
        wait, turn = turns.pop()
        now[0] += wait
        before = now[0]
        turn()
        worked += now[0] - before
    assert worked <= now[0] / 9
    while turns:  # nothing passes any more
        turns.pop()[1]()
    assert left[0] == 0


def test_a_trace_is_made_later() -> None:
    events, components = Events(), [Component("agent")]
    follower = events.follower(components)
    router = JournalRouter(components, journal=follower.journal)
    follower.journal.chunk(UPSTREAM, len(ASKED), 1)
    router.receive(UPSTREAM, ASKED)
    assert events.crossed == []
    follower.passed()
    assert events.crossed == []
    events.turns.pop()[1]()
    assert events.crossed == ["client>agent initialize"]
    follower.close()


def test_more_than_fits_into_memory_waits_for_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conductor.run.following._MOST", 1000)
    events, components = Events(), [Component("agent")]
    follower = events.follower(components)
    router = JournalRouter(components, journal=follower.journal)
    for _ in range(20):
        follower.journal.chunk(UPSTREAM, len(ASKED), 1)
        router.receive(UPSTREAM, ASKED)
        follower.passed()
        assert follower.journal.size <= 1000
    assert len(follower.journal.entries) > 2
    assert events.crossed == ["client>agent initialize"]


def host() -> tuple[Events, Follower, JournalRouter, Planned]:
    """A chain of one host and an agent."""
    one = Component("a+b", "", CHANNEL, numbers=NUMBERS)
    events, components = Events(), [one, Component("agent")]
    follower = events.follower(components)
    router = JournalRouter(components, journal=follower.journal)
    return events, follower, router, Planned(one, None, guests=("a", "b"))  # type: ignore[arg-type]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=80) | st.lists(st.lists(
    st.sampled_from(["begun", "fed", "called", "delivered", "x"]) | st.floats() | st.integers(-9, 9)
    | st.text(max_size=5) | st.binary(max_size=5) | st.lists(st.text(max_size=8), max_size=3)
    | st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**64 - 1), max_size=2),
    max_size=6), max_size=4),
    max_size=5))  # fmt: skip
def test_no_journal_of_a_host_hurts_the_chain(parts: list[Any]) -> None:
    events, follower, router, planned = host()
    router.receive(UPSTREAM, ASKED)
    lines = []
    for part in parts:
        batch = part if isinstance(part, bytes) else msgspec.msgpack.encode(part)
        lines.append(b"j" + b2a_base64(len(batch).to_bytes(8, "big") + batch).rstrip())
        lines.append(b"J" + (part if isinstance(part, bytes) else b"?").replace(b"\n", b""))
    said = b"s" + ASKED
    kept = follower.without_journal(planned, [*lines, said])
    assert kept == [said]
    router.receive("a+b", said)
    follower.close()
    assert len(events.logged) == 1
    assert events.logged[0].startswith("warning: a+b: the trace is incomplete: ")
    assert events.crossed == ["client>a+b initialize", "a+b>agent initialize"]
    assert events.hops == []


def test_a_host_that_reports_nothing_holds_its_trace_up_only_while_it_runs() -> None:
    events, follower, router, _ = host()
    router.receive(UPSTREAM, ASKED)
    router.receive("a+b", b"s" + ASKED)
    follower.catch_up()
    assert (events.crossed, events.logged) == (["client>a+b initialize"], [])
    router.closed("a+b", Closure("gone"))
    follower.catch_up()
    assert events.crossed[1] == "a+b>agent initialize"
    assert len(events.logged) == 1


def test_a_journal_in_pieces() -> None:
    sent: list[bytes] = []
    guest = GuestSpec(name="a", policy=PolicyWords("full"))
    spec = SegmentSpec([guest], numbers=1000, line_limit=200)
    journal = HostJournal(spec, {"a": "core"}, sent.append)
    journal.delivered("a", b"", b"p" + b"x" * 300 + b"\n")
    journal.received("a", b"")
    journal.received("a", b"")
    journal.called("woken", (7,), {})
    assert journal.waits
    journal.send()
    assert not journal.waits
    assert all(line.endswith(b"\n") and len(line) <= 200 for line in sent)
    stream, entries = HostEntries(), []
    for line in sent:
        entries += stream.read(line[:-1])
    assert [entry[0] for entry in entries] == ["begun", "delivered", "fed", "called"]
    assert entries[2][2:] == ["a", 2]


def test_a_batch_that_is_too_long_is_not_waited_for() -> None:
    follower = HostFollower(NUMBERS)
    follower.take(b"j" + b2a_base64((1 << 40).to_bytes(8, "big")))
    assert not follower.step()
    assert "too long" in str(follower.wrong)
    follower.take(b"j" + b2a_base64(b"x" * 1000))
    assert follower.size == 0


def test_the_numbers_of_another_host_are_refused() -> None:
    sent: list[bytes] = []
    guest = GuestSpec(name="a", policy=PolicyWords("full"))
    HostJournal(SegmentSpec([guest], numbers=5), {"a": "core"}, sent.append).send()
    follower = HostFollower(NUMBERS)
    follower.take(sent[0])
    assert not follower.step()
    assert "numbers of others" in str(follower.wrong)


def journal_of(*runs: int) -> list[bytes]:
    """What hosts of one guest write that pass `initialize` on, by the numbers of their runs."""
    sent: list[bytes] = []
    guest = GuestSpec(name="a", policy=PolicyWords("full"))
    for first in runs:
        journal = HostJournal(SegmentSpec([guest], numbers=first), {"a": "core"}, sent.append)
        journal.delivered("a", b"", b"")
        journal.received(UPSTREAM, b"")
        journal.delivered("a", b"p" + ASKED + b"\n", b"s" + ASKED + b"\n")
        journal.received("a", b"")
        journal.send()
    return sent


def test_the_next_run_of_a_host_begins_when_this_one_has_ended() -> None:
    """A swap starts it before."""
    follower = HostFollower(NUMBERS)
    for line in journal_of(1000, 1500):
        follower.take(line)
    follower.give(b"#7\np" + ASKED + b"\n")
    while follower.step():
        pass
    assert follower.is_behind
    (first,) = [one.what for one in follower.seen if isinstance(one.what, Trace)][1:]
    follower.end()
    follower.give(b"#8\np" + ASKED + b"\n")
    while follower.step():
        pass
    assert not follower.is_behind
    numbers = [one.what.number for one in follower.seen if isinstance(one.what, Trace)]
    assert numbers[1] == first.number
    assert numbers[2] == 8
    assert numbers[3] > 1500


def test_a_line_of_a_host_that_nobody_got_costs_no_other_its_number() -> None:
    follower = HostFollower(NUMBERS)
    (line,) = journal_of(1000)
    follower.take(line)
    follower.give(b"#7\np" + ASKED + b"\n")
    sent = follower.sends(b"s" + ASKED.replace(b'"id":1', b'"id":1'), math.inf)
    assert sent is not None
    assert sent[0].startswith(b"#")
    assert follower.sends(b"s{}", 0.0) == [b"s{}"], "it is no line of the host"
    assert follower.sends(b"s{}", math.inf) is None, "it may come"


def test_a_host_whose_journal_is_wrong_holds_nothing_up() -> None:
    events, follower, router, planned = host()
    router.receive(UPSTREAM, ASKED)
    follower.without_journal(planned, [b"j?"])
    router.receive("a+b", b"s" + ASKED)
    follower.catch_up()
    assert events.crossed == ["client>a+b initialize", "a+b>agent initialize"]
    assert not follower.is_behind
    assert len(events.logged) == 1


def test_what_a_former_instance_of_a_guest_left_is_nobodys() -> None:
    """It is ended for what it returned: none of that is routed any more, nor what waited for it."""
    sent: list[bytes] = []
    guest = GuestSpec(name="a", policy=PolicyWords("full"))
    journal = HostJournal(SegmentSpec([guest], numbers=1000), {"a": "core"}, sent.append)
    journal.delivered("a", b"", b"")
    journal.received(UPSTREAM, b"")
    journal.delivered("a", b"p" + ASKED + b"\n", b"s1\n" * 3)
    journal.delivered("a", b"", b"s" + ASKED + b"\n")
    journal.received("a", b"")
    journal.send()
    follower = HostFollower(NUMBERS)
    follower.take(sent[0])
    follower.give(b"#7\np" + ASKED + b"\n")
    found = follower.sends(b"s" + ASKED, math.inf)
    assert found is not None
    assert found[0].startswith(b"#")
    assert follower.wrong is None
