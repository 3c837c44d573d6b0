"""The rules of policies: what verbs they hold on what, and how they are written."""

from __future__ import annotations

import msgspec
import pytest

from conductor.core.policy import (
    ACCOMPANIED,
    ALL,
    NO_PROFILE,
    PROFILE_NAMES,
    PROFILES,
    SETUP,
    TRUSTED,
    Direction,
    Policy,
    PolicyWords,
    Rule,
    Verb,
    parse_rule,
)

DOWN, UP = Direction.DOWN, Direction.UP
SEEN, CHANGED, ANSWERED, MADE = Verb.OBSERVE, Verb.MODIFY, Verb.ANSWER, Verb.ORIGINATE


def test_directions_are_each_other_s_opposite() -> None:
    assert DOWN.opposite is UP
    assert UP.opposite is DOWN


@pytest.mark.parametrize(
    ("verbs", "words"),
    [
        (Verb.NONE, []),
        (SEEN, ["observe"]),
        (MADE | CHANGED, ["modify", "originate"]),
        (ALL, ["observe", "modify", "answer", "originate"]),
    ],
)
def test_verbs_have_names_in_a_fixed_order(verbs: Verb, words: list[str]) -> None:
    assert verbs.words == words


@pytest.mark.parametrize(
    ("pattern", "method", "covered"),
    [
        ("session/prompt", "session/prompt", True),
        ("session/prompt", "session/prompts", False),
        ("session/prompt", "session", False),
        ("session/*", "session/", True),
        ("session/*", "session/new", True),
        ("session/*", "session", False),
        ("session/*", "Session/new", False),
        ("*", "", True),
        ("*", "anything at all", True),
    ],
)
def test_a_rule_covers_methods_of_its_direction_only(
    pattern: str, method: str, covered: bool
) -> None:
    rule = Rule(DOWN, pattern, ALL)
    assert rule.covers(DOWN, method) is covered
    assert not rule.covers(UP, method)


@pytest.mark.parametrize(
    ("profile", "direction", "method", "held"),
    [
        ("observer", DOWN, "session/prompt", SEEN),
        ("observer", UP, "_anything", SEEN),
        ("context", DOWN, "session/prompt", CHANGED),
        ("context", DOWN, "session/set_mode", Verb.NONE),
        ("context", UP, "session/update", Verb.NONE),
        ("filter", DOWN, "initialize", CHANGED),
        ("filter", UP, "session/update", CHANGED),
        ("tools", DOWN, "session/prompt", Verb.NONE),
        ("tools", UP, "mcp/message", ANSWERED | CHANGED),
        ("tools", DOWN, "mcp/message", CHANGED | MADE),
        ("tools", UP, "_mcp/connect", ANSWERED | CHANGED),
        ("tools", DOWN, "_scp/mcp", CHANGED | MADE),
        ("tools", DOWN, "_scp/mcp/more", Verb.NONE),
        ("full", UP, "fs/read_text_file", ALL),
        (NO_PROFILE, DOWN, "session/prompt", Verb.NONE),
        *[(profile, DOWN, method, CHANGED) for profile in ("context", "tools") for method in SETUP],
    ],
)
def test_what_the_profiles_hold(
    profile: str, direction: Direction, method: str, held: Verb
) -> None:
    assert Policy(profile).verbs(direction, method) == held


def test_verbs_of_all_rules_add_up() -> None:
    extra = (Rule(UP, "session/*", CHANGED), Rule(UP, "session/update", MADE))
    policy = Policy("observer", extra)
    assert policy.rules == (*PROFILES["observer"], *extra)
    assert policy.verbs(UP, "session/update") == SEEN | CHANGED | MADE
    assert policy.verbs(UP, "session/x") == SEEN | CHANGED
    assert policy.verbs(DOWN, "session/update") == SEEN


@pytest.mark.parametrize(("direction", "method"), sorted(ACCOMPANIED, key=str))
def test_who_may_change_updates_keeps_requests_among_them(
    direction: Direction, method: str
) -> None:
    changes = Policy(NO_PROFILE, (Rule(UP, "session/update", CHANGED),))
    assert changes.accompanies(direction, method)
    assert not changes.accompanies(direction.opposite, method)
    assert not changes.accompanies(direction, "session/set_mode")
    looks_on = Policy(NO_PROFILE, (Rule(UP, "session/update", SEEN | MADE | ANSWERED),))
    assert not looks_on.accompanies(direction, method)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("down:session/prompt:modify", Rule(DOWN, "session/prompt", CHANGED)),
        ("up:*:observe", Rule(UP, "*", SEEN)),
        ("up:mcp/*:answer+modify", Rule(UP, "mcp/*", ANSWERED | CHANGED)),
        ("down:_x:originate+originate", Rule(DOWN, "_x", MADE)),
        ("up:_x:observe+modify+answer+originate", Rule(UP, "_x", ALL)),
    ],
)
def test_rules_are_read(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "write DIRECTION:METHOD:VERB"),
        ("down:session/prompt", "write DIRECTION:METHOD:VERB"),
        ("down:a:modify:b", "write DIRECTION:METHOD:VERB"),
        ("down::modify", "write DIRECTION:METHOD:VERB"),
        ("sideways:a:modify", "direction `sideways` must be down or up"),
        ("DOWN:a:modify", "direction `DOWN` must be down or up"),
        ("down:*/new:modify", r"`\*` may only end a pattern: `\*/new`"),
        ("down:a**:modify", r"`\*` may only end a pattern: `a\*\*`"),
        ("down:a:", "verb `` must be observe, modify, answer or originate"),
        ("down:a:modify+", "verb `` must be"),
        ("down:a:modify+own", "verb `own` must be"),
        ("down:a:Modify", "verb `Modify` must be"),
        ("down:a:none", "verb `none` must be"),
    ],
)
def test_what_is_no_rule_is_refused_with_a_reason(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_rule(text)


def test_words_become_a_policy() -> None:
    words = PolicyWords(
        "observer", ("down:session/prompt:modify", "up:_x:originate"), ("meta",), "fail"
    )
    assert words.policy() == Policy(
        "observer",
        (Rule(DOWN, "session/prompt", CHANGED), Rule(UP, "_x", MADE)),
        frozenset({"meta"}),
        "fail",
    )
    assert msgspec.json.decode(msgspec.json.encode(words), type=PolicyWords) == words
    assert msgspec.json.encode(PolicyWords()) == b"{}"


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_each_profile_has_a_policy_but_the_trusted_one(profile: str) -> None:
    policy = PolicyWords(profile).policy()
    if profile == TRUSTED:
        assert policy is None
    else:
        assert policy == Policy(profile)
    assert PolicyWords(profile).unlimited is (profile in {"full", "trusted"})


def test_words_that_are_no_policy_are_refused() -> None:
    with pytest.raises(ValueError, match="profiles are: observer, context, filter, tools, full, t"):
        PolicyWords("root").policy()
    with pytest.raises(ValueError, match="profiles are"):
        PolicyWords(NO_PROFILE).policy()
    with pytest.raises(ValueError, match="verb `any` must be"):
        PolicyWords("observer", ("up:_x:any",)).policy()
