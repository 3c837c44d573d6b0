"""How policies are written and compared."""

from __future__ import annotations

import pytest

from conductor.core.policy import rule_syntax, rules
from conductor.core.policy.key_table import Direction, Right
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import (
    GRANT_NAMES,
    NO_PROFILE,
    PROFILES,
    TRUSTED,
    Grants,
    Policy,
    Rule,
)


def policy(profile: str, *rules: str, **grants: object) -> Policy:
    return Policy(profile, tuple(map(rule_syntax.parse_rule, rules)), Grants(**grants))  # type: ignore[arg-type]


# -- rules and grants as texts -------------------------------------------------------------------


def test_a_rule_is_shown_as_it_is_read() -> None:
    for text in (
        "down:session/prompt:carry+answer",
        "up:session/update[tool_call]:copy",
        "up:session/update[*]:copy",
        "down:*:copy+carry+answer+amend+drop+originate",
    ):
        assert rule_syntax.shown(rule_syntax.parse_rule(text)) == text
    assert rule_syntax.parse_rule("up:x/*:drop") == Rule(Direction.UP, "x/*", Right.DROP)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("down:session/prompt", "write DIRECTION:METHOD:RIGHT"),
        ("down::carry", "write DIRECTION:METHOD:RIGHT"),
        ("left:x:carry", "direction `left` must be down or up"),
        ("up:a*b:carry", "`*` may only end a method"),
        ("up:x:modify", "right `modify` must be copy, carry, answer, amend, drop, originate"),
        ("up:x:", "right `` must be copy"),
    ],
)
def test_what_is_no_rule(text: str, said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("*", r"\*")):
        rule_syntax.parse_rule(text)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("down:session/prompt:carry+answer+amend", ""),
        ("down:session/cancel:copy+originate", ""),
        ("up:session/update:carry+answer", ""),
        ("up:*:answer", ""),
        ("up:fs/write_text_file:carry", "no more than `copy` is to be had: between agent and"),
        ("up:session/request_permission:answer", "no more than `copy` is to be had: with `perm"),
        ("up:mcp/message:copy", "not to be had: of its own servers"),
        ("down:other/method:copy", "not to be had: goes past"),
    ],
)
def test_why_a_rule_gives_less_than_it_says(rule: str, said: str) -> None:
    found = rule_syntax.surplus(rule_syntax.parse_rule(rule))
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("text", "grants"),
    [
        ("turns=within", Grants(turns="within")),
        ("turns=unprompted+within", Grants(turns="unprompted")),
        ("permission=narrow", Grants(permission="narrow")),
        ("mcp=others", Grants(mcp="others")),
        ("sessions=own", Grants(sessions="own")),
        ("options", Grants(options=True)),
        ("options=yes", Grants(options=True)),
        ("texts=true", Grants(texts=True)),
        ("commands=review+plan+review", Grants(commands=("review", "plan"))),
        ("commands=*", Grants(commands=("*",))),
        ("editor=panel+comment", Grants(editor=("panel", "comment"))),
        ("methods=_x/*+_y", Grants(methods=("_x/*", "_y"))),
        ("capabilities=/a+/b/c", Grants(capabilities=("/a", "/b/c"))),
    ],
)
def test_a_grant_by_name(text: str, grants: Grants) -> None:
    assert rule_syntax.parse_grant(text) == grants
    assert rule_syntax.parse_grant(grants.words()[0]) == grants


def test_a_grant_as_json_has_it() -> None:
    assert rule_syntax.read_grant("commands", ["a", "b"]) == Grants(commands=("a", "b"))
    assert rule_syntax.read_grant("texts", True) == Grants(texts=True)
    assert rule_syntax.read_grant("turns", "within") == Grants(turns="within")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("frob=1", "no grant `frob`; grants are: turns, commands"),
        ("turns", "`turns` is within or unprompted"),
        ("turns=often", "`turns` is within or unprompted, not `often`"),
        (
            "editor=panel+door",
            "or operation or log or read or terminal or widget or ask, not `door`",
        ),
        ("texts=no", "is given as `texts` alone, or as `texts=yes`"),
        ("commands", "commands are named without their slash"),
        ("commands=/a", "commands are named without their slash"),
        ("methods=a", "extension methods start with `_`"),
        ("methods=_*a", "extension methods start with `_`"),
        ("capabilities=a", "capabilities are pointers"),
    ],
)
def test_what_is_no_grant(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rule_syntax.parse_grant(text)


# -- compared ------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_lie_within_each_other(profile: str) -> None:
    narrower = {
        "none": {"none"},
        "observer": {"none", "observer"},
        "context": {"none", "tools", "context"},
        "tools": {"none", "tools"},
        "filter": {"none", "tools", "context", "filter"},
        "full": set(PROFILES),
    }
    held = policy(profile)
    found = {one for one in PROFILES if rules.within(policy(one), held)}
    assert found == narrower[profile]
    assert rules.within(held, None)


@pytest.mark.parametrize(
    ("held", "rule", "permitted"),
    [
        (policy("context"), "down:session/prompt:copy", True),
        (policy("context"), "down:session/prompt:answer", False),
        (policy("context"), "down:*:copy", False),
        (policy(NO_PROFILE, "up:session/update:carry"), "up:session/update:carry", True),
        (
            policy(NO_PROFILE, "up:session/update:carry"),
            "up:session/update[plan]:carry",
            True,
        ),
        (policy(NO_PROFILE, "up:session/update[plan]:carry"), "up:session/update:carry", False),
        (policy(NO_PROFILE, "up:fs/*:copy"), "up:fs/read_text_file:copy", True),
        (policy(NO_PROFILE, "up:fs/read_text_file:copy"), "up:fs/*:copy", False),
        (policy(NO_PROFILE), "up:fs/read_text_file:carry", True),  # which gives nothing
        (policy(NO_PROFILE, permission="narrow"), "up:session/request_permission:copy", True),
        (policy(NO_PROFILE, methods=("_x/*",)), "down:session/prompt:carry", False),
    ],
)
def test_what_a_policy_permits(held: Policy, rule: str, permitted: bool) -> None:
    assert rules.permits(held, rule_syntax.parse_rule(rule)) is permitted


@pytest.mark.parametrize(
    ("wanted", "held", "lacks"),
    [
        (Grants(), Grants(), Grants()),
        (Grants(turns="within"), Grants(), Grants(turns="within")),
        (Grants(turns="within"), Grants(turns="unprompted"), Grants()),
        (Grants(turns="unprompted"), Grants(turns="within"), Grants(turns="unprompted")),
        (Grants(options=True, texts=True), Grants(options=True), Grants(texts=True)),
        (Grants(mcp="others"), Grants(mcp="others"), Grants()),
        (Grants(commands=("a", "b")), Grants(commands=("b",)), Grants(commands=("a",))),
        (Grants(commands=("a",)), Grants(commands=("*",)), Grants()),
        (Grants(methods=("_x/a", "_y")), Grants(methods=("_x/*",)), Grants(methods=("_y",))),
        (Grants(methods=("_x/*",)), Grants(methods=("_x/a",)), Grants(methods=("_x/*",))),
    ],
)
def test_grants_that_are_lacking(wanted: Grants, held: Grants, lacks: Grants) -> None:
    assert rules.lacking(wanted, held) == lacks


def test_grants_together() -> None:
    one = Grants(turns="unprompted", commands=("a",), mcp="others")
    other = Grants(turns="within", commands=("b", "a"), texts=True)
    assert rules.merged(one, other) == Grants(
        turns="unprompted", commands=("a", "b"), mcp="others", texts=True
    )
    assert rules.merged(Grants(), one) == rules.merged(one, Grants()) == one


@pytest.mark.parametrize(
    ("held", "key"),
    [
        (policy("context"), ""),
        (policy("filter"), ""),
        (policy("full"), "session/prompt"),
        (policy("context", turns="within"), "session/prompt"),
        (policy(NO_PROFILE, turns="within"), ""),
        (policy(NO_PROFILE, "up:session/update:carry+originate"), ""),
        (policy(NO_PROFILE, methods=("_x/*",)), "_x/*"),
        (policy(NO_PROFILE, options=True), ""),
    ],
)
def test_where_ids_alone_tell_requests_apart(held: Policy, key: str) -> None:
    assert rules.ambiguous_key(held) == key


def test_a_policy_of_words() -> None:
    given = PolicyWords("context", ("up:session/update:copy",), Grants(texts=True), hold=3)
    made = given.policy()
    assert made == Policy(
        "context", (rule_syntax.parse_rule("up:session/update:copy"),), Grants(texts=True), hold=3
    )
    assert PolicyWords(TRUSTED).policy() is None
    assert PolicyWords().profile == "context"
    with pytest.raises(ValueError, match="profiles are: none"):
        PolicyWords("all").policy()
    with pytest.raises(ValueError, match="right `modify`"):
        PolicyWords("none", ("up:x:modify",)).policy()


def test_every_grant_can_be_read() -> None:
    said = {
        "turns": "within", "commands": "a", "permission": "narrow", "mcp": "others",
        "sessions": "own", "options": "yes", "editor": "panel", "methods": "_a", "texts": "yes",
        "capabilities": "/a",
    }  # fmt: skip
    assert set(said) == set(GRANT_NAMES)
    for name, value in said.items():
        assert rule_syntax.read_grant(name, value).names() == [name]
