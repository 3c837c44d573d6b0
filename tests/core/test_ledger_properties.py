"""What an audit misses: nothing, whatever a guest does; and that it disturbs nobody."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from conductor.core.policy import Policy
from tests.core.test_noninterference import PROFILED, SCRIPTS, TAPES, policies
from tests.core.worlds import End, Item, Step, World

HELD = st.one_of(st.none(), policies(), PROFILED)
OWN_ERROR = b'{"code":1,"message":"no"}'
"""The one error the guest answers with; all others are the conductor's."""

Messages = Counter[tuple[str, bytes]]


def messages(items: list[Item], kind: str) -> Messages:
    """Method and payload of what an end said or heard."""
    return Counter((one.method, one.body or b"null") for one in items if one.kind == kind)


def recorded(world: World, kind: str, way: str, end: str) -> Messages:
    """Method and payload, `before` or `after`, of what is on record."""
    found: Messages = Counter()
    for one in world.changes:
        if (end, one.change) == ("before", "delayed"):
            continue  # that is on record as dropped
        payload: bytes | None = getattr(one, end)
        if (one.kind, one.direction) == (kind, way) and payload is not None:
            found[one.method, payload] += 1
    return found


def check(world: World, sender: End, receiver: End) -> None:
    """What was heard is what was said, but for what is on record."""
    way = "down" if sender.name == "client" else "up"
    before = recorded(world, "notification", way, "before")
    after = recorded(world, "notification", way, "after")
    said, heard = messages(sender.sent, "notification"), messages(receiver.got, "notification")
    assert said + after == heard + before
    # A request that is not passed on is answered, or waits.
    before = recorded(world, "request", way, "before")
    after = recorded(world, "request", way, "after")
    said, heard = messages(sender.sent, "request"), messages(receiver.got, "request")
    assert heard + before <= said + after
    wrapped: Messages = Counter()
    for (method, body), count in messages(sender.sent, "answer").items():
        wrapped[method, b'{"result":%b}' % body] += count
    after = recorded(world, "response", way, "after")
    for one in receiver.got:
        ours = one.kind == "answer" and b'"code":' in one.body and one.body != OWN_ERROR
        if one.kind == "answer" and not ours:
            member = b"error" if one.body == OWN_ERROR else b"result"
            assert (one.method, b'{"%b":%b}' % (member, one.body)) in (wrapped | after)


@settings(max_examples=300, deadline=None)
@given(HELD, SCRIPTS, TAPES, st.booleans())
def test_whatever_is_not_as_it_was_is_on_record(
    policy: Policy | None, script: list[Step], tape: list[int], rounds: bool
) -> None:
    world = World(policy, tape, rounds=rounds, audited=True)
    world.run(script)
    check(world, world.client, world.agent)
    check(world, world.agent, world.client)


@settings(max_examples=100, deadline=None)
@given(HELD, SCRIPTS, TAPES, st.booleans())
def test_an_audit_disturbs_nobody(
    policy: Policy | None, script: list[Step], tape: list[int], rounds: bool
) -> None:
    audited = World(policy, tape, rounds=rounds, audited=True)
    alone = World(policy, tape, rounds=rounds)
    for world in (audited, alone):
        world.run(script)
    for one, other in ((audited.client, alone.client), (audited.agent, alone.agent)):
        assert (one.got, one.answers, one.cancels) == (other.got, other.answers, other.cancels)
    assert audited.violations == alone.violations
    assert not alone.changes


@given(SCRIPTS, st.booleans())
def test_nothing_is_on_record_of_who_passes_everything_on(script: list[Step], rounds: bool) -> None:
    world = World(None, [], rounds=rounds, audited=True)
    world.run(script)
    assert world.changes == []
