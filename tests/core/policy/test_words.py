"""How policies are written, and how older words are read."""

from __future__ import annotations

import msgspec
import pytest

from conductor.core.policy.rights import (
    NO_PROFILE,
    PROFILE_NAMES,
    TRUSTED,
    Direction,
    Grants,
    Policy,
    Right,
    Rule,
)
from conductor.core.policy.words import (
    PolicyWords,
    Translated,
    alike,
    is_old,
    lacking,
    lifted,
    merged,
    parse_grant,
    parse_rule,
    permits,
    read_grant,
    read_rule,
    shown,
    surplus,
    today,
)

DOWN, UP = Direction.DOWN, Direction.UP
CARRY, COPY, ANSWER, AMEND = Right.CARRY, Right.COPY, Right.ANSWER, Right.AMEND
DROP, ORIGINATE = Right.DROP, Right.ORIGINATE


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("down:session/prompt:carry", Rule(DOWN, "session/prompt", CARRY)),
        ("up:mcp/*:answer+carry", Rule(UP, "mcp/*", ANSWER | CARRY)),
        ("up:session/update[plan]:drop", Rule(UP, "session/update[plan]", DROP)),
        ("up:session/update[*]:copy", Rule(UP, "session/update[*]", COPY)),
        ("down:_x:originate+originate", Rule(DOWN, "_x", ORIGINATE)),
    ],
)
def test_a_rule_is_read_and_shown(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule
    assert parse_rule(shown(rule)) == rule


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "write DIRECTION:METHOD:RIGHT"),
        ("down:session/prompt", "write DIRECTION:METHOD:RIGHT"),
        ("down::carry", "write DIRECTION:METHOD:RIGHT"),
        ("down:a:b:carry", "write DIRECTION:METHOD:RIGHT"),
        ("sideways:x:carry", "direction `sideways` must be down or up"),
        ("up:*/x:carry", r"`\*` may only end a method"),
        ("up:x:", "right `` must be copy, carry, answer, amend, drop, originate"),
        ("up:x:modify", "right `modify` must be"),
        ("up:x:Carry", "right `Carry` must be"),
    ],
)
def test_a_wrong_rule_says_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_rule(text)


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("down:session/prompt:carry", ["allow=down:session/prompt:carry"]),
        ("down:session/prompt:modify", ["allow=down:session/prompt:carry"]),
        ("down:session/prompt:modify+answer", ["allow=down:session/prompt:carry+answer"]),
        ("down:session/prompt:observe", ["allow=down:session/prompt:copy"]),
        ("down:session/prompt:originate", ["turns=within"]),
        ("up:session/prompt:modify", ["allow=down:session/prompt:amend"]),
        ("up:session/prompt:observe", []),
        ("up:session/update:modify", ["allow=up:session/update:copy+carry+drop"]),
        ("up:session/request_permission:modify", ["permission=narrow"]),
        ("up:session/request_permission:answer", ["permission=narrow"]),
        ("up:mcp/message:modify+answer", ["mcp=others"]),
        ("up:session/*:modify", None),
        ("down:session/*:originate+observe", None),
        ("up:mcp/*:answer+observe", None),
        ("down:fs/*:observe", None),
    ],
)
def test_what_an_older_rule_comes_to(text: str, now: list[str] | None) -> None:
    found = read_rule(text)
    if now is not None:
        assert today(found) == now
    else:
        assert found.rules
        assert not found.lost


def test_many_methods_at_once() -> None:
    assert read_rule("up:session/*:modify").grants == Grants(permission="narrow")
    assert read_rule("down:session/*:originate").grants == Grants()
    assert read_rule("down:session/*:modify+originate").grants == Grants(turns="within")
    assert read_rule("up:mcp/*:modify").grants == Grants(mcp="others")
    kept = read_rule("up:session/*:modify").rules
    assert Rule(DOWN, "session/*", AMEND) in kept


def test_what_is_not_to_be_had_any_more_is_said() -> None:
    found = read_rule("up:fs/read_text_file:modify")
    assert "no more than `copy` is to be had" in found.lost
    assert "not to be had" in read_rule("down:unheard:modify").lost
    with pytest.raises(ValueError, match="right `odd` must be"):
        read_rule("down:session/prompt:modify+odd")
    assert is_old("down:x:modify")
    assert not is_old("down:x:carry")


def test_what_a_rule_gives_less_than_it_says() -> None:
    assert surplus(parse_rule("down:session/prompt:carry")) == ""
    assert surplus(parse_rule("down:*:drop")) == surplus(parse_rule("up:session/update:drop")) == ""
    assert "no more than `copy` is" in surplus(parse_rule("up:fs/x:carry"))


def test_lifted_guards() -> None:
    assert lifted("mcp-connections") == Translated((), Grants(mcp="others"))
    rule = Rule(DOWN, "session/cancel", ORIGINATE)
    assert lifted("session-lifecycle") == Translated((rule,))
    assert "`profile=trusted` only" in lifted("files").lost


@pytest.mark.parametrize(
    ("text", "grants"),
    [
        ("turns=within", Grants(turns="within")),
        ("commands=review+plan", Grants(commands=("review", "plan"))),
        ("commands=*", Grants(commands=("*",))),
        ("permission=narrow", Grants(permission="narrow")),
        ("editor=panel+comment+panel", Grants(editor=("panel", "comment"))),
        ("methods=_x/*+_y", Grants(methods=("_x/*", "_y"))),
        ("capabilities=/fs/readTextFile", Grants(capabilities=("/fs/readTextFile",))),
        ("modes", Grants(modes=True)),
        ("texts=yes", Grants(texts=True)),
    ],
)
def test_a_grant_is_read_and_shown(text: str, grants: Grants) -> None:
    assert parse_grant(text) == grants
    assert merged(Grants(), grants) == merged(grants, grants) == grants
    (word,) = grants.words()
    assert parse_grant(word) == grants
    name, _, value = text.partition("=")
    listed = [one for one in value.split("+") if one]
    assert read_grant(name, listed if len(listed) > 1 else value or True) == grants


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("odd", "no grant `odd`; grants are: turns, commands"),
        ("modes=no", "is given as `modes` alone"),
        ("turns", "`turns` is within or unprompted"),
        ("turns=always", "not `always`"),
        ("commands=/x", "without their slash"),
        ("methods=x", "extension methods start with `_`"),
        ("capabilities=fs", "capabilities are pointers"),
        ("commands", "without their slash"),
    ],
)
def test_a_wrong_grant_says_what_is_wrong(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_grant(text)


def test_grants_add_up() -> None:
    one = Grants(turns="unprompted", commands=("a",), modes=True)
    other = Grants(turns="within", commands=("b", "a"), permission="narrow")
    both = Grants(turns="unprompted", commands=("a", "b"), modes=True, permission="narrow")
    assert merged(one, other) == both


def test_what_is_lacking() -> None:
    wanted = Grants(
        turns="within", commands=("a", "b"), methods=("_x/y",), modes=True, mcp="others"
    )
    held = Grants(turns="unprompted", commands=("a",), methods=("_x/*",), mcp="others")
    assert lacking(wanted, held) == Grants(commands=("b",), modes=True)
    assert lacking(Grants(turns="unprompted"), Grants(turns="within")) == Grants(turns="unprompted")
    assert lacking(wanted, wanted) == Grants()


def test_what_is_permitted() -> None:
    wanted = parse_rule("down:session/prompt:carry")
    assert permits(None, wanted)
    assert permits(Policy("context"), wanted)
    assert not permits(Policy("tools"), wanted)
    assert not permits(Policy("context", grants=Grants(methods=("_x",))), parse_rule("up:*:copy"))


def test_which_requests_ids_alone_tell_apart() -> None:
    assert alike(Policy("full")) == "session/prompt"
    assert alike(Policy("filter")) == ""
    assert alike(Policy("none", grants=Grants(methods=("_x",)))) == "_x"
    assert alike(Policy("none", (parse_rule("down:session/cancel:originate"),))) == ""


def test_words_become_a_policy() -> None:
    words = PolicyWords(
        "context", ("up:session/update:copy",), Grants(modes=True), "fail", "closed", "kept", 2.0
    )
    rule = Rule(UP, "session/update", COPY)
    assert words.policy() == Policy(
        "context", (rule,), Grants(modes=True), "fail", "closed", "kept", 2.0
    )
    assert msgspec.json.decode(msgspec.json.encode(words), type=PolicyWords) == words
    assert msgspec.json.encode(PolicyWords()) == b"{}"


@pytest.mark.parametrize("profile", PROFILE_NAMES)
def test_each_profile_has_a_policy_but_the_trusted_one(profile: str) -> None:
    found = PolicyWords(profile).policy()
    assert found == (None if profile == TRUSTED else Policy(profile))
    assert PolicyWords(profile).unlimited is (profile in ("full", TRUSTED))


def test_words_that_are_no_policy_are_refused() -> None:
    with pytest.raises(ValueError, match="profiles are: none, observer, context"):
        PolicyWords("root").policy()
    with pytest.raises(ValueError, match="write DIRECTION"):
        PolicyWords("full", ("x",)).policy()
    assert PolicyWords(NO_PROFILE).policy() == Policy(NO_PROFILE)
