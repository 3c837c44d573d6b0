"""A message that goes past a component is as if there were no component, whatever it does."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.world.ends import End, Item, Step
from tests.harness.world.policies import (
    ANY,
    KINDS,
    MISHAPS,
    SCRIPTS,
    SEALED,
    WATCHED,
    casts,
    may_originate,
    overtakes,
    untouched,
)
from tests.harness.world.world import (
    Cast,
    Mishap,
    World,
    check_all_is_over,
    check_answers,
    check_kinds_of_answers,
    check_nothing_is_held,
)

VERSIONS = st.sampled_from([1, 1, 2])
STOPPED = (b'{"stopReason":"cancelled"}', b'"code":-32800')


def by_session(items: Iterable[Item]) -> dict[str | None, list[Item]]:
    """The order of each session."""
    found: dict[str | None, list[Item]] = defaultdict(list)
    for item in items:
        found[item.session].append(item)
    return dict(found)


def is_among(items: Sequence[Item], others: Sequence[Item]) -> bool:
    """Whether all these are among others, in this order."""
    rest = iter(others)
    return all(item in rest for item in items)


def check_untouched(world: World, sender: End, receiver: End) -> None:
    """Messages that go past all components arrive as they were sent, in the order of their
    session."""
    held = [cast.policy for cast in world.casts.values()]

    def past(items: Iterable[Item]) -> list[Item]:
        return [item for item in items if all(untouched(p, item, sender.name) for p in held)]

    def only_theirs(items: Iterable[Item]) -> list[Item]:
        return [one for one in items if not any(may_originate(p, one, sender.name) for p in held)]

    sent, got = past(sender.sent), past(receiver.got)
    assert Counter(only_theirs(got)) == Counter(only_theirs(sent))
    in_order = [item for item in sent if not overtakes(item)]
    mixed = by_session(got)
    for session, items in by_session(in_order).items():
        assert is_among(items, mixed.get(session, []))
    check_not_late(sent, got)


def check_not_late(sent: Sequence[Item], got: Sequence[Item]) -> None:
    """Nothing that was said after the end of a turn came before it."""
    place = {item: at for at, item in reversed([*enumerate(sent)])}
    for at, item in enumerate(got):
        if overtakes(item) and item in place:
            before = [one for one in got[:at] if one.session == item.session and one in place]
            assert all(place[one] < place[item] for one in before)


def check(world: World) -> None:
    """All that holds for every play."""
    check_untouched(world, world.client, world.agent)
    check_untouched(world, world.agent, world.client)
    check_answers(world)
    check_kinds_of_answers(world)
    check_all_is_over(world)


@pytest.mark.proves("messages that a component does")
@settings(max_examples=500)
@given(casts(ANY, kinds=KINDS), SCRIPTS, st.booleans(), st.booleans(), VERSIONS)
def test_what_goes_past_a_component_is_as_without_it(
    cast: Cast, script: list[Step], rounds: bool, slow: bool, version: int
) -> None:
    world = World(cast, rounds=rounds, slow=slow, version=version)
    world.play_out(script)
    check_nothing_is_held(world)
    world.leave()
    check(world)


@pytest.mark.proves("messages that a component does")
@settings(max_examples=200)
@given(st.lists(casts(ANY), min_size=2, max_size=3), SCRIPTS, MISHAPS, st.booleans(), st.booleans())
def test_what_goes_past_several_is_as_without_them(
    several: list[Cast], script: list[Step], mishaps: list[Mishap], rounds: bool, slow: bool
) -> None:
    world = World(*several, rounds=rounds, slow=slow)
    world.play_out(script, mishaps)
    check_nothing_is_held(world)
    world.leave()
    check(world)


@pytest.mark.proves("client and agent cannot detect")
@settings(max_examples=400)
@given(
    st.lists(casts(SEALED, kinds=KINDS), min_size=1, max_size=2),
    SCRIPTS, MISHAPS, st.booleans(), st.booleans(), VERSIONS,
)  # fmt: skip
def test_who_only_looks_cannot_be_told_from_nobody(
    several: list[Cast],
    script: list[Step],
    mishaps: list[Mishap],
    rounds: bool,
    slow: bool,
    version: int,
) -> None:
    world = World(*several, rounds=rounds, slow=slow, version=version)
    alone = World(slow=slow, version=version)
    world.run(script, mishaps)
    alone.run(script, mishaps)
    for name, end in world.ends.items():
        without = alone.ends[name]
        assert end.got == without.got
        assert end.sent == without.sent
        assert sum(end.cancels.values()) == sum(without.cancels.values())
    check(world)


def check_as_without(world: World, alone: World) -> None:
    """All came as it does without the components, but for requests that were cancelled before they
    had read them: these did not begin."""
    for asker, answerer in (("client", "agent"), ("agent", "client")):
        came, comes = Counter(world.ends[answerer].got), Counter(alone.ends[answerer].got)
        asked = [one for one in (comes - came).elements() if one.kind != "answer"]
        told = Counter(world.ends[asker].got) - Counter(alone.ends[asker].got)
        stopped = [one for one in told.elements() if one.kind == "answer"]
        assert sorted(one.key for one in asked) == sorted(one.key for one in stopped)
        assert all(any(mark in one.body for mark in STOPPED) for one in stopped)
        assert not [one for one in (came - comes) if one.kind != "answer"]


@settings(max_examples=400)
@given(
    st.lists(casts(WATCHED, kinds=KINDS), min_size=1, max_size=2), SCRIPTS, st.booleans(),
    st.booleans(), VERSIONS,
)  # fmt: skip
def test_nothing_happens_of_what_watched_components_do(
    several: list[Cast], script: list[Step], rounds: bool, slow: bool, version: int
) -> None:
    world = World(*several, rounds=rounds, slow=slow, version=version)
    alone = World(slow=slow, version=version)
    world.play_out(script)
    check_nothing_is_held(world)
    world.leave()
    alone.run(script)
    check_as_without(world, alone)
    check_all_is_over(world)


HONEST: st.SearchStrategy[list[int]] = st.just([])


@pytest.mark.proves("an honest component breaks no")
@settings(max_examples=300)
@given(
    st.lists(casts(ANY, HONEST, KINDS), min_size=1, max_size=2), SCRIPTS, st.booleans(), VERSIONS
)
def test_honest_components_break_no_rule(
    several: list[Cast], script: list[Step], rounds: bool, version: int
) -> None:
    world = World(*several, rounds=rounds, version=version)
    alone = World(version=version)
    world.play_out(script)
    # A program that launches its successor answers `initialize` before it knows the answer.
    assert not [one for one in world.violations if one.method != "initialize"]
    assert world.open == (0, 0)
    check_nothing_is_held(world)
    world.leave()
    alone.run(script)
    check_as_without(world, alone)
    check(world)


@settings(max_examples=200)
@given(st.lists(casts(ANY, HONEST), min_size=1, max_size=3), SCRIPTS, st.booleans())
def test_honest_guests_change_no_order(several: list[Cast], script: list[Step], slow: bool) -> None:
    world = World(*several, slow=slow)
    world.run(script)
    for sender, receiver in ((world.client, world.agent), (world.agent, world.client)):
        got = by_session(receiver.got)
        arrived = Counter(receiver.got)
        # A message of no session does not wait for carried messages.
        sent = [one for one in sender.sent if not overtakes(one) and arrived[one] and one.session]
        for session, items in by_session(sent).items():
            assert is_among(items, got.get(session, []))
