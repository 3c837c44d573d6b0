"""What a gate remembers of what its component was given, and where that ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conductor.core.copied import Copied, Copy
from conductor.core.gate import ANSWER, MODIFY, ORIGINATE, RELAY, Gate
from conductor.core.tokens import Params, Token, Told, equal, session_of
from conductor.core.way import Held, Way, count
from msgspec import UNSET, Raw, UnsetType

from conductor.core.effects import Effect
from conductor.core.link import Link, Pending
from conductor.core.peer import Component, Lane, Peer
from conductor.core.policy import NO_PROFILE, Direction, Policy, Rule, Verb
from conductor.core.topology import Role

DOWN, UP = Direction.DOWN, Direction.UP


def said(number: int, session: str | None = "S") -> Raw:
    """Params of a session."""
    if session is None:
        return Raw(b'{"n":%d}' % number)
    return Raw(b'{"sessionId":"%b","n":%d}' % (session.encode(), number))


def told(*given: Params) -> Told:
    found = Told()
    found.extend(given)
    return found


# -- payloads ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "session"),
    [
        (UNSET, None),
        (Raw(b'{"sessionId":"S"}'), "S"),
        (Raw(b'{"x":[{}],"sessionId":"\\u0053"}'), "S"),
        (Raw(b'{"sessionId":"S","sessionId":"T"}'), "T"),
        (Raw(b'{"sessionId":null}'), None),
        (Raw(b'{"sessionId":7}'), None),
        (Raw(b'{"sessionId":"\xff"}'), None),
        (Raw(b'{"session_id":"S"}'), None),
        (Raw(b'["sessionId","S"]'), None),
        (Raw(b'{"sessionId":'), None),
    ],
)
def test_the_session_of_a_message(params: Params, session: str | None) -> None:
    assert session_of(params) == session


DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":2}', b'{ "b": 2, "a": 1 }', True),
        (Raw(b'"\\u0041"'), Raw(b'"A"'), True),
        (Raw(b"[1]"), b"[1]", True),
        (b"[1,2]", b"[2,1]", False),
        (b"{}", b"[]", False),
        (UNSET, UNSET, True),
        (UNSET, Raw(b"{}"), False),
        (Raw(b"{}"), UNSET, False),
        (b'"\xff"', b'"\xff" ', False),
        (Raw(b'"\xff"'), b'"\xff"', True),
        (b"1]", b"1] ", False),
        (DEEP, DEEP + b" ", False),
        (Raw(DEEP), DEEP, True),
    ],
    ids=map(str, range(13)),
)
def test_payloads_that_say_the_same(one: Params | bytes, other: Params | bytes, same: bool) -> None:
    assert equal(one, other) is same
    assert equal(other, one) is same


# -- notifications -------------------------------------------------------------------------------


def test_a_notification_is_spent_once() -> None:
    given = told(said(1), said(2))
    assert given.take(said(1))
    assert not given.take(said(1))
    assert given.take(said(2))
    assert not given


def test_what_comes_out_of_order_is_understood_for_a_while() -> None:
    given = told(said(1), said(2, "T"), said(3), UNSET, said(4))
    assert given.take(said(4))
    assert list(given) == [said(2, "T"), UNSET]  # other sessions keep what they have, in order
    assert list(given.skipped) == [said(1), said(3)]
    assert given.take(said(3))
    assert not given.take(said(3))
    assert given.take(said(2, "T"))
    assert given.take(UNSET)
    assert not given.take(UNSET)
    assert list(given.skipped) == [said(1)]


def test_only_so_much_is_kept_of_what_was_skipped() -> None:
    large = Raw(b'{"sessionId":"S","text":"%b"}' % (b"x" * 4096))
    given = told(*[said(n) for n in range(299)], large, said(299))
    given.spend(300)
    assert not given
    assert list(given.skipped) == [said(n) for n in range(43, 299)]
    assert not given.take(large)


def test_a_changed_notification_may_be_one_of_the_first_of_its_session() -> None:
    others: list[Params] = [said(n, "T") for n in range(3)]
    given = told(*others, *[said(n) for n in range(20)])
    found = list(given.candidates("S"))
    assert found == [(3 + n, said(n)) for n in range(8)]
    assert list(given.candidates(None)) == []
    far = told(*[said(n, "T") for n in range(256)], said(0))
    assert list(far.candidates("S")) == []
    for place, _ in found:  # the table may be spent from while it is looked through
        given.spend(place)
        break
    assert list(given)[:4] == [*others, said(1)]


def test_a_component_may_swallow_as_many_notifications_as_it_likes() -> None:
    given = told(*[said(n) for n in range(3)])
    given.extend([UNSET] * 32_765)
    given.weigh(10)
    assert len(given) == 32_768
    given.append(UNSET)
    given.weigh(10)
    assert len(given) == 32_768
    assert given[0] == said(1)


def test_a_component_may_swallow_as_much_as_it_likes() -> None:
    size = 20 * 1024 * 1024
    large = Raw(b'"' + b"x" * (size - 2) + b'"')
    given = told(UNSET, said(1))
    for kept in (1, 2, 3, 1, 2):  # beyond the limit, half of it is made free
        given.append(large)
        given.weigh(size)
        assert list(given).count(large) == kept
    assert list(given) == [large] * 2  # the oldest have gone
    given.take(large)
    given.append(large)
    given.weigh(size)
    assert len(given) == 2  # what was passed on meanwhile does not count


def test_what_a_component_had_its_say_about_is_forgotten() -> None:
    given = told(said(1), said(2), said(3))
    assert given.take(said(2))
    given.forget()
    assert not given.take(said(1))
    assert not given.take(said(3))


# -- requests ------------------------------------------------------------------------------------


def policed() -> Peer:
    return Peer(Component("p", policy=Policy("full")), Role.PROXY, None)


def asked(number: int, params: Params, lane: Lane | None = None, *, sent: bool = True) -> Token:
    pending = Pending(None, b"1", b"1", "_x")
    token = Token(lane or policed().p, "_x", params, pending, number)
    token.round = 0 if sent else -1
    return token


def test_a_token_reads_its_session_once() -> None:
    token = asked(1, said(1))
    assert token.session == "S"
    token.params = said(1, "T")
    assert token.session == "S"
    assert asked(1, UNSET).session is None


@pytest.mark.parametrize(
    ("forwarded", "straight", "apart", "goes_on"),
    [
        (False, True, True, False),
        (True, False, False, False),
        (True, True, False, True),
        (True, False, True, True),
    ],
)
def test_a_token_goes_on_once_the_component_has_no_say(
    forwarded: bool, straight: bool, apart: bool, goes_on: bool
) -> None:
    token = asked(1, UNSET)
    token.forwarded = token.pending if forwarded else None
    token.straight, token.apart = straight, apart
    assert token.goes_on is goes_on


def test_the_same_bytes_find_their_token() -> None:
    way = Way()
    way.asked = {n: asked(n, said(n)) for n in (1, 2)}
    assert way.find("_x", said(2)) == (way.asked[2], [])
    assert way.find("_y", said(2)) == (None, [])


def test_a_changed_request_finds_the_likeliest_of_its_session() -> None:
    way = Way()
    alike = Raw(b'{"sessionId":"S","a":1,"b":2}')
    way.asked = {
        1: asked(1, said(1)),
        2: asked(2, said(1, "T")),
        3: asked(3, alike),
        4: asked(4, alike, sent=False),
    }
    changed = Raw(b'{"sessionId":"S","a":1,"b":2,"c":3}')
    assert way.find("_x", changed) == (None, [way.asked[3], way.asked[1]])
    assert way.find("_x", said(9, "T")) == (None, [way.asked[2]])
    assert way.find("_x", said(9, "U")) == (None, [])
    way.asked[4].round = 0
    assert way.find("_x", changed) == (None, [way.asked[3], way.asked[4], way.asked[1]])


def test_what_is_no_object_is_like_nothing() -> None:
    way = Way()
    way.asked = {n: asked(n, Raw(b"[%d]" % n)) for n in range(10)}
    assert way.find("_x", UNSET) == (None, [way.asked[n] for n in range(8)])
    assert way.find("_x", Raw(b"{")) == (None, [way.asked[n] for n in range(8)])


# -- order ---------------------------------------------------------------------------------------


def nothing(out: list[Effect]) -> None:
    """Resumes nothing."""


def test_a_message_waits_for_what_is_before_it_in_its_session() -> None:
    way = Way()
    assert not way.busy
    assert not way.waits("S")
    way.asked[1] = asked(1, said(1))
    assert way.busy
    assert way.waits("S")
    assert not way.waits("T")
    way.owed[2] = asked(2, said(2, "T"))
    assert way.waits("T")
    way.asked.clear()
    way.owed.clear()
    way.held.append(Held(3, "S", nothing))
    assert way.busy
    assert way.waits("S")
    assert not way.waits("T")


def test_held_messages_are_freed_in_the_order_of_their_session() -> None:
    way = Way()
    way.asked[2] = asked(2, said(1))
    way.held = [
        Held(3, "S", nothing),
        Held(4, "S", nothing),
        Held(5, "T", nothing),
        Held(6, None, nothing),
    ]
    early = Held(1, "U", nothing)
    assert [way.freed(), way.freed(), way.freed()] == [
        Held(5, "T", nothing),
        Held(6, None, nothing),
        None,
    ]
    way.held.append(early)
    assert way.freed() == early
    way.owed[2] = way.asked.pop(2)
    assert way.freed() is None
    way.owed.clear()
    assert [way.freed(), way.freed(), way.freed()] == [
        Held(3, "S", nothing),
        Held(4, "S", nothing),
        None,
    ]


def test_what_is_asked_after_a_held_message_does_not_hold_it_up() -> None:
    way = Way()
    way.held.append(Held(1, "S", nothing))
    way.asked[2] = asked(2, said(1))
    assert way.freed() == Held(1, "S", nothing)


def test_what_is_shown_for_its_place_is_listed_oldest_first() -> None:
    way = Way()
    way.asked = {n: asked(n, said(n)) for n in (2, 4, 5)}
    way.asked[2].relay = way.asked[5].relay = True
    way.owed = {n: asked(n, said(n)) for n in (3, 6, 1)}
    way.owed[1].ordered = way.owed[3].ordered = True
    assert [number for number, _ in way.shown()] == [1, 2, 3, 5]


# -- copies --------------------------------------------------------------------------------------


def test_a_copy_is_known_again_however_large_it_is() -> None:
    copied = Copied()
    large = Raw(b'"%b"' % (b"x" * 1_000_000))
    for method, params in (("_x", Raw(b"[1]")), ("_x", large), ("_y", UNSET)):
        copied.add(Copy(method, params))
    assert copied.take("_x", UNSET, exact=True) is None
    assert copied.take("_y", Raw(b"[1]"), exact=True) is None
    again = copied.take("_x", Raw(bytes(large)), exact=True)
    assert again is not None
    assert again.params == large
    assert copied.take("_x", large, exact=True) is None
    first = copied.take("_x", Raw(b"[2]"), exact=False)
    assert first is not None
    assert first.params == Raw(b"[1]")
    assert copied.take("_x", Raw(b"[1]"), exact=False) is None
    assert len(copied) == 1


def test_copies_that_are_never_passed_on_are_forgotten() -> None:
    copied = Copied()
    for number in range(1030):
        copied.add(Copy("_x", Raw(b"%d" % number)))
    assert len(copied) == 1024
    large = Raw(b'"%b"' % (b"x" * 10_000_000))
    for _ in range(5):
        copied.add(Copy("_y", large))
    assert len(copied) == 3


def test_copies_are_counted_for_so_many_methods() -> None:
    copies: dict[str, int] = {}
    for number in range(256):
        count(copies, f"_{number}")
    count(copies, "_0")
    assert len(copies) == 256
    assert copies["_0"] == 2
    count(copies, "_new")
    assert len(copies) == 256
    assert "_0" not in copies
    assert copies["_new"] == 1


# -- gates ---------------------------------------------------------------------------------------


def gate_of(*rules: tuple[Direction, str, Verb]) -> Gate:
    return Gate(Policy(NO_PROFILE, tuple(Rule(*rule) for rule in rules)))


def test_verbs_as_numbers_tell_what_is_shown_for_its_place_only() -> None:
    gate = gate_of(
        (UP, "session/update", Verb.MODIFY),
        (DOWN, "session/load", Verb.ANSWER),
        (DOWN, "session/resume", Verb.ORIGINATE),
    )
    assert gate.verbs(UP, "session/update") == MODIFY
    assert gate.verbs(DOWN, "session/prompt") == RELAY
    assert gate.verbs(DOWN, "session/load") == ANSWER
    assert gate.verbs(DOWN, "session/resume") == ORIGINATE | RELAY
    assert gate.verbs(UP, "session/request_permission") == RELAY
    assert gate.verbs(DOWN, "session/set_mode") == 0
    assert gate.sees(DOWN, "session/prompt")
    assert not gate.sees(DOWN, "session/set_mode")


def test_answers_go_through_for_their_place_unless_they_may_be_changed() -> None:
    gate = gate_of((UP, "session/*", Verb.MODIFY))
    assert not gate.orders(DOWN, "session/prompt")  # its answer may be changed
    assert gate.orders(UP, "session/request_permission")
    assert not gate.orders(DOWN, "session/set_mode")
    assert gate_of((UP, "session/update", Verb.MODIFY)).orders(DOWN, "session/prompt")
    assert not gate_of((UP, "session/update", Verb.OBSERVE)).orders(DOWN, "session/prompt")


ONE: dict[str, Callable[[], Gate]] = {
    "blind": gate_of,
    "observer": lambda: Gate(Policy("observer")),
    "context": lambda: Gate(Policy("context")),
    "filter": lambda: Gate(Policy("filter")),
    "full": lambda: Gate(Policy("full")),
    "updates": lambda: gate_of((UP, "session/update", Verb.MODIFY)),
}


@pytest.mark.parametrize(
    ("name", "relays", "simple", "holds"),
    [
        ("blind", False, True, set()),
        ("observer", False, False, set()),
        ("context", False, True, {DOWN}),
        ("filter", False, True, {DOWN, UP}),
        ("full", False, True, {DOWN, UP}),
        ("updates", True, False, {UP}),
    ],
)
def test_what_a_policy_makes_of_a_gate(
    name: str, relays: bool, simple: bool, holds: set[Direction]
) -> None:
    gate = ONE[name]()
    assert (gate.relays, gate.simple) == (relays, simple)
    assert gate.holds == frozenset(holds)


def test_a_gate_numbers_what_its_component_is_given() -> None:
    gate = gate_of()
    assert [gate.next(), gate.next(), gate.next()] == [1, 2, 3]


def test_answers_that_concern_nobody_are_waited_for_up_to_a_number() -> None:
    gate, link = gate_of(), Link()
    sent = [Pending(None, b"null", b"null", "_x") for _ in range(1026)]
    for pending in sent:
        pending.target_id = link.fresh_id()
        link.sent[pending.target_id] = pending
    later = Pending(None, b"null", b"null", "_y")
    link.sent[sent[0].target_id] = later  # the id stands for another request by now
    for pending in sent:
        gate.loosen(link, pending.target_id, pending)
    assert link.sent[sent[0].target_id] is later
    assert sent[1].target_id not in link.sent
    assert link.sent[sent[2].target_id] is sent[2]
    assert len(link.sent) == 1025


def test_a_gate_remembers_notifications_of_so_many_methods() -> None:
    gate = gate_of()
    table: dict[str, Told] = {}
    for number in range(256):
        gate.told_of(table, f"_{number}").append(said(number))
    first, last = table["_0"], table["_255"]
    assert gate.told_of(table, "_0") is first
    assert len(table) == len(gate.told) == 256
    new = gate.told_of(table, "_new")  # nothing is empty: the oldest has to go
    assert list(table)[:1] == ["_1"]
    assert list(table)[-1] == "_new"
    assert len(table) == len(gate.told) == 256
    assert not any(one is first for one in gate.told)
    new.append(UNSET)
    for number in range(1, 255):
        table[f"_{number}"].clear()
    gate.told_of(table, "_newer")  # those without anything to remember go, and only they
    assert list(table) == ["_255", "_new", "_newer"]
    assert [id(one) for one in gate.told] == [id(last), id(new), id(table["_newer"])]


def test_sizes_of_nothing() -> None:
    given = told(UNSET)
    given.weigh(65 * 1024 * 1024)  # counted again, it is nothing after all
    assert list(given) == [UNSET]
    assert isinstance(given[0], UnsetType)
