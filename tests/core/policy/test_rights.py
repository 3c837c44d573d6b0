"""What the words of a policy mean: rules, profiles, verbs."""

from __future__ import annotations

import pytest
from conductor.core.gate import ANSWER, MODIFY, OBSERVE, ORIGINATE, RELAY, Gate

from conductor.core.policy import (
    ALL,
    NO_PROFILE,
    PROFILE_NAMES,
    PROFILES,
    Direction,
    Policy,
    PolicyWords,
    Rule,
    Verb,
    parse_rule,
)

DOWN, UP = Direction.DOWN, Direction.UP


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("down:session/prompt:modify", Rule(DOWN, "session/prompt", Verb.MODIFY)),
        ("up:mcp/*:answer+modify", Rule(UP, "mcp/*", Verb.ANSWER | Verb.MODIFY)),
        ("up:*:observe", Rule(UP, "*", Verb.OBSERVE)),
        ("down:_x:originate+originate", Rule(DOWN, "_x", Verb.ORIGINATE)),
        ("up:*:observe+modify+answer+originate", Rule(UP, "*", ALL)),
    ],
)
def test_a_rule_is_read(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write DIRECTION:METHOD:VERB"),
        ("down:session/prompt", "write DIRECTION:METHOD:VERB"),
        ("down::modify", "write DIRECTION:METHOD:VERB"),
        ("down:a:b:modify", "write DIRECTION:METHOD:VERB"),
        ("sideways:x:modify", "direction `sideways` must be down or up"),
        ("Down:x:modify", "direction `Down` must be down or up"),
        ("up:*/x:modify", "`*` may only end a pattern"),
        ("up:a*b*:modify", "`*` may only end a pattern"),
        ("up:x:", "verb `` must be observe, modify, answer or originate"),
        ("up:x:none", "verb `none` must be"),
        ("up:x:Modify", "verb `Modify` must be"),
        ("up:x:modify+", "verb `` must be"),
        ("up:x:modify,answer", "verb `modify,answer` must be"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("*", r"\*")):
        parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "direction", "method", "covered"),
    [
        ("down:session/prompt:modify", DOWN, "session/prompt", True),
        ("down:session/prompt:modify", UP, "session/prompt", False),
        ("down:session/prompt:modify", DOWN, "session/prompts", False),
        ("down:session/*:modify", DOWN, "session/prompt", True),
        ("down:session/*:modify", DOWN, "session", False),
        ("down:*:modify", DOWN, "", True),
    ],
)
def test_what_a_rule_covers(rule: str, direction: Direction, method: str, covered: bool) -> None:
    assert parse_rule(rule).covers(direction, method) is covered


NONE = Verb.NONE
OBSERVES, MODIFIES = Verb.OBSERVE, Verb.MODIFY
SERVES = Verb.ANSWER | Verb.MODIFY
CALLS = Verb.MODIFY | Verb.ORIGINATE

HELD = {
    # profile: verbs on (down prompt, down session/new, down mcp/message, up mcp/message,
    #                    up session/update, up session/request_permission)
    "observer": (OBSERVES,) * 6,
    "context": (MODIFIES, MODIFIES, NONE, NONE, NONE, NONE),
    "filter": (MODIFIES,) * 6,
    "tools": (NONE, MODIFIES, CALLS, SERVES, NONE, NONE),
    "full": (ALL,) * 6,
    NO_PROFILE: (NONE,) * 6,
}


@pytest.mark.parametrize("profile", [*PROFILES, NO_PROFILE])
def test_the_verbs_of_each_profile(profile: str) -> None:
    held = Policy(profile)
    asked = (
        (DOWN, "session/prompt"),
        (DOWN, "session/new"),
        (DOWN, "mcp/message"),
        (UP, "mcp/message"),
        (UP, "session/update"),
        (UP, "session/request_permission"),
    )
    assert tuple(held.verbs(*one) for one in asked) == HELD[profile]


def test_rules_add_to_a_profile() -> None:
    held = Policy("context", (parse_rule("down:session/prompt:answer"),))
    assert held.verbs(DOWN, "session/prompt") == Verb.MODIFY | Verb.ANSWER
    assert (Verb.ANSWER | Verb.MODIFY).words == ["modify", "answer"]
    assert NONE.words == []
    assert (DOWN.opposite, UP.opposite) == (UP, DOWN)


def test_words_become_a_policy() -> None:
    words = PolicyWords("context", ("up:_x:observe",), ("files",), "fail")
    assert words.policy() == Policy(
        "context", (Rule(UP, "_x", Verb.OBSERVE),), frozenset({"files"}), "fail"
    )
    assert PolicyWords("trusted").policy() is None
    assert [PolicyWords(name).unlimited for name in PROFILE_NAMES] == [
        name in ("full", "trusted") for name in PROFILE_NAMES
    ]
    with pytest.raises(ValueError, match="profiles are: observer"):
        PolicyWords("none").policy()
    with pytest.raises(ValueError, match="write DIRECTION"):
        PolicyWords("full", ("x",)).policy()


@pytest.mark.parametrize(
    ("rules", "direction", "method", "held"),
    [
        (["up:session/update:modify"], DOWN, "session/prompt", RELAY),
        (["up:session/update:modify"], DOWN, "session/load", RELAY),
        (["up:session/update:modify"], DOWN, "session/resume", RELAY),
        (["up:session/update:modify"], UP, "session/request_permission", RELAY),
        (["up:session/update:modify"], UP, "session/prompt", 0),
        (["up:session/update:modify"], DOWN, "session/new", 0),
        (["up:session/update:modify"], UP, "session/update", MODIFY),
        (["up:session/update:observe"], DOWN, "session/prompt", 0),
        (["up:session/*:modify"], DOWN, "session/prompt", RELAY),
        (
            ["up:session/update:modify", "down:session/prompt:observe"],
            DOWN,
            "session/prompt",
            RELAY | OBSERVE,
        ),
        (
            ["up:session/update:modify", "down:session/prompt:answer+originate"],
            DOWN,
            "session/prompt",
            ANSWER | ORIGINATE,
        ),
    ],
)
def test_who_may_change_updates_is_shown_what_has_a_place_among_them(
    rules: list[str], direction: Direction, method: str, held: int
) -> None:
    gate = Gate(Policy(NO_PROFILE, tuple(parse_rule(rule) for rule in rules)))
    assert gate.verbs(direction, method) == held
    assert gate.sees(direction, method) is bool(held & (MODIFY | ANSWER | RELAY))


def test_verbs_are_remembered_of_so_many_methods_of_so_many_characters_only() -> None:
    policy = Policy("context")
    gate = Gate(policy)
    methods = [*(f"_x/{number}" for number in range(400)), "_" + "x" * 4096, "session/prompt"]
    for method in methods * 2:
        assert gate.verbs(DOWN, method) == policy.verbs(DOWN, method).value
        assert gate.verbs(UP, method) == policy.verbs(UP, method).value
    for known in (gate._down, gate._up):
        assert len(known) <= 256
        assert max(map(len, known)) < 256
