"""What a guest holds no verb on is as if there were no guest, whatever the guest does."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.policy import NO_PROFILE, PROFILES, Direction, Policy, Rule, Verb
from tests.core.worlds import DOWN, NOTIFIED, UP, End, Item, Step, World, untouched

STOPPED: Final = b'{"stopReason":"cancelled"}'
SESSIONS: Final = st.sampled_from(["S", "S", "T", None])


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """Something an end of the chain says."""
    who = draw(st.sampled_from(["client", "agent"]))
    method = draw(st.sampled_from(DOWN if who == "client" else UP))
    asks = method not in NOTIFIED and (not method.startswith("_") or draw(st.booleans()))
    return Step(who, method, draw(SESSIONS), asks, draw(st.booleans()))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Any verbs on any of the methods."""
    verbs = st.sets(st.sampled_from(list(Verb)))
    rules = []
    for direction, methods in ((Direction.DOWN, DOWN), (Direction.UP, UP)):
        for method in (*methods, *(DOWN if direction is Direction.UP else UP), "$/cancel_request"):
            held = Verb.NONE
            for verb in draw(verbs):
                held |= verb
            rules.append(Rule(direction, method, held))
    return Policy(NO_PROFILE, tuple(rules))


SCRIPTS: Final = st.lists(steps(), max_size=12)
TAPES: Final = st.lists(st.integers(0, 59), max_size=40)
PROFILED: Final = st.sampled_from([Policy(profile) for profile in PROFILES])


def by_session(items: Sequence[Item]) -> dict[str | None, list[Item]]:
    """The order of each session."""
    found: dict[str | None, list[Item]] = defaultdict(list)
    for item in items:
        found[item.session].append(item)
    return dict(found)


def check_untouched(policy: Policy, sender: End, receiver: End) -> None:
    """What the guest may not touch arrives as it was sent, in the order of its session."""
    sent = [item for item in sender.sent if untouched(policy, item, sender.name)]
    got = [item for item in receiver.got if untouched(policy, item, sender.name)]
    direction = Direction.DOWN if sender.name == "client" else Direction.UP
    only_theirs = [item for item in got if not may_originate(policy, direction, item)]
    assert by_session(only_theirs) == by_session(
        [item for item in sent if not may_originate(policy, direction, item)]
    )
    mixed = by_session(got)
    for session, items in by_session(sent).items():
        assert is_among(items, mixed.get(session, []))


def may_originate(policy: Policy, direction: Direction, item: Item) -> bool:
    """Whether such an item may be the guest's own."""
    return item.kind != "answer" and Verb.ORIGINATE in policy.verbs(direction, item.method)


def is_among(items: Sequence[Item], others: Sequence[Item]) -> bool:
    """Whether all these are among others, in this order."""
    rest = iter(others)
    return all(item in rest for item in items)


def check_answers(world: World) -> None:
    """Each request has exactly one answer: those of both ends, and the guest's own."""
    for end in (world.client, world.agent):
        assert end.answers == dict.fromkeys(end.open, 1)
    assert world.guest is not None
    assert world.guest.answers <= world.guest.asked
    if world.open == (0, 0):  # else some may wait for what the guest itself holds up
        assert not world.unanswered


def check_as_without(world: World, alone: World) -> None:
    """All came as it does without the guest, but for prompts that were cancelled before it had
    read them: these did not begin."""
    stopped = [one for one in world.client.got if one.body == STOPPED]
    missing = Counter(alone.agent.got) - Counter(world.agent.got)
    assert [one.method for one in missing.elements()] == ["session/prompt"] * len(stopped)
    assert not Counter(world.agent.got) - Counter(alone.agent.got)
    assert Counter(world.client.got) - Counter(alone.client.got) == Counter(stopped)


@settings(max_examples=400, deadline=None)
@given(st.one_of(policies(), PROFILED), SCRIPTS, TAPES, st.booleans())
def test_what_a_guest_holds_no_verb_on_is_as_without_it(
    policy: Policy, script: list[Step], tape: list[int], rounds: bool
) -> None:
    world = World(policy, tape, rounds=rounds)
    world.run(script)
    check_untouched(policy, world.client, world.agent)
    check_untouched(policy, world.agent, world.client)
    check_answers(world)


@settings(max_examples=300, deadline=None)
@given(SCRIPTS, TAPES, st.booleans())
def test_an_observer_cannot_be_told_from_nobody(
    script: list[Step], tape: list[int], rounds: bool
) -> None:
    observed, alone = World(Policy("observer"), tape, rounds=rounds), World(None, None)
    observed.run(script)
    alone.run(script)
    for with_it, without in ((observed.client, alone.client), (observed.agent, alone.agent)):
        assert with_it.got == without.got
        assert with_it.sent == without.sent
        assert with_it.cancels == without.cancels
    check_answers(observed)


@settings(max_examples=150, deadline=None)
@given(st.one_of(policies(), PROFILED), SCRIPTS, st.booleans())
def test_an_honest_guest_breaks_no_rule(policy: Policy, script: list[Step], rounds: bool) -> None:
    world, alone = World(policy, [], rounds=rounds), World(None, None)
    world.run(script)
    alone.run(script)
    assert world.violations == []
    assert world.open == (0, 0)
    check_as_without(world, alone)
    check_untouched(policy, world.client, world.agent)
    check_untouched(policy, world.agent, world.client)
    check_answers(world)


@st.composite
def changing(draw: st.DrawFn) -> Policy:
    """May change requests and their answers, and little else."""
    policy = draw(policies())
    few = st.sampled_from([Verb.NONE, Verb.NONE, Verb.OBSERVE, Verb.MODIFY])
    asked = st.sampled_from([Verb.NONE, Verb.MODIFY, Verb.MODIFY | Verb.ANSWER])
    rules = [
        Rule(one.direction, one.pattern, draw(few if one.pattern in NOTIFIED else asked))
        for one in policy.rules
    ]
    return Policy(NO_PROFILE, tuple(rules))


def keeps_its_place(policy: Policy, item: Item, sender: str) -> bool:
    """Whether what `sender` says later may not overtake it while an honest guest still has it."""
    return item.kind == "answer" or untouched(policy, item, sender)


@settings(max_examples=200, deadline=None)
@given(st.one_of(policies(), PROFILED, changing()), SCRIPTS)
def test_nothing_overtakes_an_answer_that_an_honest_guest_still_has(
    policy: Policy, script: list[Step]
) -> None:
    world = World(policy, [])
    world.client.epilogue, world.agent.epilogue = "_x", "session/update"
    world.run(script)
    for sender, receiver in ((world.client, world.agent), (world.agent, world.client)):
        sent, got = (
            by_session([item for item in items if keeps_its_place(policy, item, sender.name)])
            for items in (sender.sent, receiver.got)
        )
        for session, items in sent.items():
            assert is_among(items, got.get(session, []))
