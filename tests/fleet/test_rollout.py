"""A rollout as tables of moves: playbooks, and rules that hold whatever happens in whatever
order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conductor.errors import UsageError
from conductor.fleet import rollout
from conductor.fleet.rollout import (
    MOVES,
    Effect,
    Event,
    Forget,
    Holding,
    Phase,
    Prepare,
    Record,
    Use,
    Verdict,
)

A, B, C = (f"oci://h/pool@sha256:{letter * 64}" for letter in "abc")


def test_a_rollout_from_the_offer_to_the_way_back() -> None:
    worker = Holding()
    record = rollout.offered(Record(), A)
    assert worker.follow(record) == [Prepare(A)]
    assert worker.happened(A, Event.PREPARED) == []
    assert worker.report() == {A: "ready"}

    record = rollout.switched(record, A)
    assert worker.follow(record) == [Use(A)]
    assert worker.happened(A, Event.USED) == []
    assert worker.in_use == A

    record = rollout.offered(record, B)
    assert worker.follow(record) == [Prepare(B)]
    worker.happened(B, Event.PREPARED)
    record = rollout.switched(record, B)
    assert worker.follow(record) == [Use(B)]
    assert worker.happened(B, Event.USED) == []
    assert worker.report() == {A: "ready", B: "in use"}

    record = rollout.back(record)
    assert (record.active, record.previous, record.revision) == (A, B, 5)
    assert worker.follow(record) == [Use(A)]  # nothing is fetched again
    worker.happened(A, Event.USED)
    assert worker.report() == {A: "in use", B: "ready"}


def test_a_bad_bundle_changes_nothing_and_says_why() -> None:
    worker = _using(A)
    record = rollout.offered(worker.record, B)
    assert worker.follow(record) == [Prepare(B)]
    assert worker.happened(B, Event.REFUSED, "its signature is of somebody else") == []
    assert worker.report() == {A: "in use", B: "failed: its signature is of somebody else"}
    assert worker.follow(record) == []  # not tried again for the same record

    forced = rollout.switched(record, B)  # somebody switches nevertheless
    assert worker.follow(forced) == [Prepare(B)]
    assert worker.happened(B, Event.REFUSED, "again") == []
    assert worker.in_use == A


def test_a_bundle_that_cannot_be_used_at_the_last_moment_leaves_the_old_one() -> None:
    worker = _using(A)
    record = rollout.offered(worker.record, B)
    worker.follow(record)
    worker.happened(B, Event.PREPARED)
    assert worker.follow(rollout.switched(record, B)) == [Use(B)]
    assert worker.happened(B, Event.REFUSED, "no room") == []
    assert worker.report() == {A: "in use", B: "failed: no room"}
    assert worker.in_use == A


def test_a_worker_that_starts_later_takes_the_active_one_first() -> None:
    worker = Holding()
    assert worker.follow(Record(active=A, previous=B, candidate=C, revision=7)) == [
        Prepare(A),
        Prepare(C),
        Prepare(B),
    ]
    assert worker.happened(A, Event.PREPARED) == [Use(A)]


def test_a_worker_that_is_late_switches_when_it_is_ready() -> None:
    worker = _using(A)
    record = rollout.offered(worker.record, B)
    worker.follow(record)
    assert worker.follow(rollout.switched(record, B)) == []
    assert worker.happened(B, Event.PREPARED) == [Use(B)]


def test_what_nobody_names_is_forgotten_at_once() -> None:
    worker = _using(A)
    record = rollout.offered(worker.record, B)
    worker.follow(record)
    record = rollout.offered(record, C)
    assert worker.follow(record) == [Prepare(C), Forget(B)]
    assert worker.happened(B, Event.REFUSED, "too late") == []
    assert worker.happened(B, Event.PREPARED) == []
    assert [*worker.report()] == [A, C]


def test_a_record_that_is_lost_leaves_what_runs() -> None:
    """NATS may lose what it keeps, and somebody may put an old record back: the next rollout has a
    higher revision all the same."""
    worker = _using(A)
    seen = worker.record
    assert worker.follow(Record()) == []
    assert worker.report() == {A: "in use"}
    assert worker.follow(Record(active=B, revision=seen.revision - 1)) == []
    assert worker.record == seen
    anew = rollout.dated(rollout.offered(Record(), B), 1_700_000_000_000)
    assert worker.follow(anew) == [Prepare(B)]
    assert rollout.dated(anew, 1).revision == anew.revision


def test_a_second_switch_waits_for_the_first() -> None:
    worker = _using(A)
    record = rollout.offered(worker.record, B)
    worker.follow(record)
    worker.happened(B, Event.PREPARED)
    record = rollout.switched(record, B)
    assert worker.follow(record) == [Use(B)]
    record = rollout.back(record)
    assert worker.follow(record) == []
    assert worker.happened(B, Event.USED) == [Use(A)]
    worker.happened(A, Event.USED)
    assert worker.in_use == A


def test_the_same_bundle_again_keeps_the_way_back() -> None:
    record = Record(active=A, previous=B, revision=4)
    again = rollout.switched(rollout.offered(record, A), A)
    assert again == Record(active=A, previous=B, revision=6)


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="nothing to go back to"):
        rollout.back(Record(active=A))
    with pytest.raises(UsageError, match="another candidate"):
        rollout.switched(Record(candidate=B), A)


@pytest.mark.parametrize(
    ("phases", "percent", "verdict"),
    [
        (["ready", "ready"], 100, Verdict.SWITCH),
        (["ready", "preparing"], 100, Verdict.WAIT),
        (["ready", "preparing"], 50, Verdict.SWITCH),
        (["ready", "preparing", "preparing"], 34, Verdict.WAIT),
        (["ready", "failed: x"], 100, Verdict.GIVE_UP),
        (["ready", "failed: x"], 50, Verdict.SWITCH),
        (["failed: x", "preparing"], 50, Verdict.WAIT),
        (["in use"], 100, Verdict.SWITCH),
        ([], 100, Verdict.WAIT),
        ([""], 100, Verdict.WAIT),
        ([], 0, Verdict.SWITCH),
    ],
)
def test_a_controller_counts(phases: list[str], percent: int, verdict: Verdict) -> None:
    reports = [{A: phase} if phase else {} for phase in phases]
    assert rollout.counted(A, reports, percent).verdict is verdict


@given(st.data())
def test_a_worker_uses_only_what_it_has_prepared(data: st.DataObject) -> None:
    """Whatever a controller does and whatever fails, in whatever order: what is in use has been
    prepared, nothing is prepared twice at once, nothing is left behind."""
    worker, record = Holding(), Record()
    waiting: list[Effect] = []
    prepared: set[str] = set()
    for _ in range(data.draw(st.integers(1, 40))):
        happens: bool = data.draw(st.booleans())
        if waiting and happens:
            effect = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            good: bool = data.draw(st.booleans())
            done = {Prepare: Event.PREPARED, Use: Event.USED}[type(effect)]
            if good and isinstance(effect, Prepare):
                prepared.add(effect.name)
            if isinstance(effect, Use):
                assert effect.name in prepared
            more = worker.happened(effect.name, done if good else Event.REFUSED, "bad")
        else:
            record = _step(record, data.draw(st.sampled_from(["a", "b", "c", "switch", "back"])))
            more = worker.follow(record)
        for effect in more:
            if isinstance(effect, Forget):
                prepared.discard(effect.name)
                waiting = [each for each in waiting if each.name != effect.name]  # it ends
            else:
                assert effect not in waiting
                waiting.append(effect)
        assert worker.in_use in {"", *prepared}
        held = [each for each in worker.bundles.values() if each.phase is Phase.IN_USE]
        assert len(held) == bool(worker.in_use)

    while waiting:  # all that is asked for succeeds in the end
        effect = waiting.pop(0)
        if not isinstance(effect, Forget):
            done = {Prepare: Event.PREPARED, Use: Event.USED}[type(effect)]
            waiting += worker.happened(effect.name, done)
    active = worker.bundles.get(worker.record.active)
    if active is not None and active.phase is not Phase.FAILED:
        assert worker.in_use == worker.record.active
    named = {record.active, record.previous, record.candidate, worker.in_use}
    assert {*worker.bundles} <= named


def test_every_phase_has_a_way_on() -> None:
    assert {phase for phase, _ in MOVES} == {*Phase}
    assert {event for _, event in MOVES} == {*Event}


def _step(record: Record, what: str) -> Record:
    try:
        if what == "switch":
            return rollout.switched(record, record.candidate) if record.candidate else record
        return (
            rollout.back(record)
            if what == "back"
            else rollout.offered(record, f"oci://h/pool@sha256:{what * 64}")
        )
    except UsageError:
        return record


def _using(digest: str) -> Holding:
    """A worker that uses a bundle."""
    worker = Holding()
    record = rollout.offered(Record(), digest)
    worker.follow(record)
    worker.happened(digest, Event.PREPARED)
    worker.follow(rollout.switched(record, digest))
    worker.happened(digest, Event.USED)
    return worker
