"""An audit misses nothing, whatever a component does; and its looking disturbs nobody."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core import Changed
from tests.harness.world.ends import STOP, End, Step, key_of, messages
from tests.harness.world.policies import ANY, KINDS, MISHAPS, SCRIPTS, casts
from tests.harness.world.world import Cast, Mishap, World

HELD = st.one_of(st.none(), ANY)

Messages = Counter[tuple[str, bytes]]


def payload(changed: Changed, end: str) -> tuple[str, bytes] | None:
    """Key and payload, `before` or `after`, of a change."""
    found: bytes | None = getattr(changed, end)
    if found is None:
        return None
    if changed.kind == "response":
        return changed.method, found
    held = json.loads(found)
    return key_of(changed.method, held if type(held) is dict else {}), found


def recorded(world: World, kind: str, way: str, end: str) -> Messages:
    """The payloads that are on record of a kind and direction, with their counts."""
    found = [payload(one, end) for one in world.changes if (one.kind, one.direction) == (kind, way)]
    return Counter(one for one in found if one is not None)


def check_notifications(world: World, sender: End, receiver: End, *, turns: bool) -> None:
    """The receiver heard what the sender said, but for changes on record. `turns`: updates in turns
    of a component's own are for the component alone."""
    way = "down" if sender.name == "client" else "up"
    before = recorded(world, "notification", way, "before")
    after = recorded(world, "notification", way, "after")
    said, heard = messages(sender.sent, "notification"), messages(receiver.got, "notification")
    if turns:
        assert heard + before <= said + after
    else:
        assert said + after == heard + before


def check_requests(world: World, sender: End, receiver: End) -> None:
    """A request that was heard was said, or is on record; one that was not is answered all the
    same, by whom is on record unless it was the conductor."""
    way = "down" if sender.name == "client" else "up"
    after = recorded(world, "request", way, "after")
    heard = messages(receiver.got, "request")
    assert after <= heard
    assert set(heard - after) <= set(messages(sender.sent, "request"))
    changed = {
        one.source_id: one
        for one in world.changes
        if (one.kind, one.direction, one.source) == ("request", way, sender.name)
    }
    answers = {
        one.target_id: one
        for one in world.changes
        if (one.kind, one.direction, one.target) == ("response", back(way), sender.name)
    }
    for id_, item in sender.open.items():
        change, answer = changed.get(str(id_)), answers.get(str(id_))
        went = (item.key, item.body) if change is None else payload(change, "after")
        told = sender.told[id_]
        wrapped = b'{"%b":%b}' % told
        if answer is not None:
            assert answer.after == wrapped
            assert (answer.before is None) == (answer.change == "answered")
        theirs = {
            b'{"%b":%b}' % receiver.answered[at]
            for at, one in receiver.asked.items()
            if (one.key, one.body) == went and at in receiver.answered
        }
        if answer is not None and answer.before is not None:
            assert answer.before in theirs
        elif answer is None and wrapped not in theirs:
            assert told == STOPPED or b'"code":-32' in told[1]


STOPPED = (b"result", b'{"stopReason":"cancelled"}')


def back(way: str) -> str:
    """The other direction."""
    return "up" if way == "down" else "down"


@pytest.mark.proves("whatever a guest does, the other")
@settings(max_examples=500)
@given(casts(HELD, kinds=KINDS), SCRIPTS, st.booleans(), st.booleans())
def test_whatever_is_not_as_it_was_is_on_record(
    cast: Cast, script: list[Step], rounds: bool, slow: bool
) -> None:
    world = World(cast, rounds=rounds, slow=slow, audited=True)
    world.play_out(script)
    world.apply(world.router.settled("g0"))
    world.settle()
    turns = cast.policy is not None and bool(cast.policy.grants.turns)
    lanes = [lane for peer in world.router.peers.values() for lane in (peer.p, peer.s)]
    if not any(lane.in_flight.waiting for lane in lanes):  # behind a prompt that is still held
        check_notifications(world, world.client, world.agent, turns=False)
        check_notifications(world, world.agent, world.client, turns=turns)
    if world.open == (0, 0):
        check_requests(world, world.client, world.agent)
        check_requests(world, world.agent, world.client)


def check_order(world: World, sender: End, receiver: End) -> None:
    """A message that came out after a later one of its session is on record. A message that cancels
    turns overtakes all others by right."""
    way = "down" if sender.name == "client" else "up"
    counts = Counter(sender.sent)
    place = {item: at for at, item in enumerate(sender.sent) if counts[item] == 1}
    late: set[tuple[str, bytes]] = set()
    latest: dict[str, int] = {}
    for item in receiver.got:
        if item not in place or item.session is None or item.key == STOP:
            continue
        if place[item] < latest.get(item.session, 0):
            late.add((item.key, item.body))
        latest[item.session] = max(place[item], latest.get(item.session, 0))
    words = ("reordered", "originated")  # dropped as it seemed, and then its own
    found = [one for one in world.changes if one.change in words and one.direction == way]
    assert late <= {payload(one, "after") for one in found}


@settings(max_examples=200)
@given(casts(HELD), SCRIPTS, st.booleans())
def test_what_is_not_in_its_order_is_on_record(
    cast: Cast, script: list[Step], rounds: bool
) -> None:
    world = World(cast, rounds=rounds, audited=True)
    world.play_out([step for step in script if not step.asks])
    check_order(world, world.client, world.agent)
    check_order(world, world.agent, world.client)


@pytest.mark.proves("an audit changes nothing that")
@settings(max_examples=300)
@given(
    st.lists(casts(HELD, kinds=KINDS), min_size=1, max_size=2),
    SCRIPTS, MISHAPS, st.booleans(), st.booleans(),
)  # fmt: skip
def test_looking_disturbs_nobody(
    several: list[Cast], script: list[Step], mishaps: list[Mishap], rounds: bool, slow: bool
) -> None:
    plain, audited, traced = (
        World(*several, rounds=rounds, slow=slow, **looking)
        for looking in ({}, {"audited": True}, {"tracing": True})
    )
    for world in (plain, audited, traced):
        world.run(script, mishaps)
    assert audited.lines == plain.lines
    assert traced.lines == plain.lines
    assert audited.violations == traced.violations == plain.violations
    assert not plain.changes
    assert not plain.traced


@settings(max_examples=100)
@given(casts(HELD, st.just([]), KINDS), SCRIPTS, st.booleans())
def test_nothing_is_on_record_of_who_passes_everything_on(
    cast: Cast, script: list[Step], rounds: bool
) -> None:
    world = World(cast, rounds=rounds, audited=True)
    world.run(script)
    # A program that launches its successor answers `initialize` before it knows the answer.
    assert [one for one in world.changes if one.method != "initialize"] == []
