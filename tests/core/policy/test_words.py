"""The words for rights: each cell has one, and all that reads them."""

import re

import msgspec
import pytest

from conductor.core.policy import words
from conductor.core.policy.key_table import EDITOR, ORIGINATE, RIGHTS, ROWS, Direction, row_of
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.rules import GRANT_NAMES, Policy, ambiguous_key
from conductor.core.policy.words import (
    FAMILIES,
    FORBIDDING,
    GROUPS,
    SETS,
    TABLE,
    TRUSTED,
    flat,
    former,
    is_denied,
    lacking,
    meaning,
    read,
    read_denied,
    without,
    word,
    word_for,
)
from conductor.core.service_table import ALWAYS_GRANTED, SERVICES

CELLS = [
    (row.direction, key, right)
    for row in ROWS
    for key in row.keys
    for right in RIGHTS.values()
    if right & (row.full | row.more)
]


@pytest.mark.parametrize(("direction", "key", "right"), CELLS)
def test_each_cell_has_exactly_one_shortest_word(
    direction: Direction, key: str, right: int
) -> None:
    named = word_for(direction, key, right)
    cells = {(rule.direction, rule.key): rule.rights for rule in word(named).rules}
    assert cells[direction, key] & right
    alike = [
        one
        for one in TABLE.values()
        if any((r.direction, r.key) == (direction, key) and r.rights & right for r in one.own)
        and row_of(direction, key).full & right
        and len(one.own) == len(word(named).own)
        and one.grant is None
    ]
    assert len(alike) <= 1, alike
    held = words.policy(named)
    assert held is not None
    assert held.rights(direction, key) & right


def test_each_grant_service_and_peer_has_a_word() -> None:
    given = {one.grant[0] for one in TABLE.values() if one.grant is not None}
    given |= {family.grant for family in FAMILIES.values() if family.grant}
    assert given == set(GRANT_NAMES)
    editor = [one.grant[1][0] for one in TABLE.values() if one.grant and one.grant[0] == "editor"]
    assert sorted(editor) == sorted(EDITOR)
    plain = {name for name, one in TABLE.items() if one.is_service}
    scoped = {verb for verb, family in FAMILIES.items() if not family.pattern}
    assert plain | scoped == SERVICES - ALWAYS_GRANTED
    assert words.agents(["peer:b", "peer:a", "agent:c", "clock"], "peer") == ("a", "b")
    for row in ROWS:
        for name in row.grants:
            assert any(word_for(row.direction, key, row.grants[name]) for key in row.keys)


def test_what_a_word_says_of_itself() -> None:
    assert (words.word("web:a.org").verb, words.word("web:a.org").scope) == ("web", "a.org")
    for scope in ("unix:/run/a.sock", "POST@unix:/run/a.sock"):
        says = words.word(f"web:{scope}").says
        assert says == f"SEND all that it sees to the program at the socket {scope}"
    assert "over the network" in words.word("web:a.org").says
    beyond = [name for name in ("clock", "peer:a", "see:usage") if words.beyond(name)]
    assert beyond == ["clock", "peer:a"]


def test_what_is_only_watched_or_judged() -> None:
    held = PolicyWords(("see:usage",))
    assert (held.enforce, held.judge()) == ("all", None)
    assert msgspec.structs.replace(held, watched=True).enforce == "watch"
    judged = PolicyWords((TRUSTED,), judged=("see:usage",))
    assert (judged.enforce, judged.judge()) == ("watch-rights", words.policy("see:usage"))


@pytest.mark.parametrize("name", [*TABLE, *SETS, *(f"see:{group}" for group in GROUPS)])
def test_words_print_as_themselves(name: str) -> None:
    assert read(name) == read([name]) == (name,)
    assert read(f"{name}+{name}") == (name,)
    if name in TABLE:
        assert word(name).name == name
        assert word(name).says


@pytest.mark.parametrize("name", [*FORBIDDING, *words.ALL_VERBS, *SETS, *TABLE])
def test_what_may_be_denied(name: str) -> None:
    if name != "none":
        assert read_denied(name) == (name,)
    else:
        with pytest.raises(ValueError, match="no right to deny"):
            read_denied(name)


@pytest.mark.parametrize(
    "name",
    [
        *("web:api.example.com", "web:POST@a.org", "read:**/*.md", "write:notes", "peer:research"),
        *("command:review", "command:*", "claim:/fs/readTextFile", "claim:*", "extension:_x/*"),
        *("see:session/update[plan]", "change:session/update[plan]", "see:fs/read_text_file"),
    ],
)
def test_words_with_a_scope(name: str) -> None:
    assert read(name) == (name,)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("see", "alone is no right"),
        ("web", "alone is no right: web:browser, web:panel, web:HOST"),
        ("away", "a set for `deny` alone"),
        ("shell", "no right `shell`"),
        ("see:shell", "no `shell` to see"),
        ("change:permissions", "not to be had: with `refuse:permissions`"),
        ("add:prompts", "not to be had"),
        ("add:session-lists", "not to be had"),
        ("command:a b", "is written `command:NAME`"),
        ("extension:x", "is written `extension:_NAME`"),
        ("read:/etc", "no glob"),
        ("answer:updates", "not to be had"),
        ("clock:x", "no right"),
        ("kv", "is written `storage` now"),
        ("files:**", "is written `read:"),
        ("turns=within", "is written `prompt:within` now"),
        ("down:session/prompt:answer", "is written `answer:prompts` now"),
        ("up:session/update:copy", "is written `see:updates` now"),
        ("up:x:y", "no right"),
    ],
)
def test_what_is_no_right(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        read(name)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("profile=tools", "serve:tools"),
        ("profile=context", "context"),
        ("grant=clock+kv+fetch:a.org", "clock+storage+web:a.org"),
        ("editor=panel+terminal", "show:panel+run:commands"),
        ("commands=a+b", "command:a+command:b"),
        ("texts=yes", "change:tool-calls"),
        ("down:session/prompt:answer+amend", "answer:prompts+change:ends"),
        ("up:session/update:copy", "see:updates"),
        ("up:session/update:carry+drop", "change:words"),
        ("down:x:carry", ""),
        ("nothing", ""),
        ("kvx", ""),
    ],
)
def test_what_was_written_before_is_in_the_words_of_now(was: str, now: str) -> None:
    assert former(was) == now


def test_deny_wins_over_what_includes_the_word() -> None:
    assert without(["context", "clock"], ["clock"]) == ("context",)
    assert without(["context"], ["change:prompts"]) == ("serve:tools",)
    assert without(["change:prompts", "see:prompts"], ["change:prompts"]) == ("see:prompts",)
    assert without(["change:prompts"], ["see:prompts"]) == ()
    assert without(["prompt:anytime"], ["prompt:within"]) == ()
    assert without(["prompt:anytime", "clock"], ["away"]) == ("clock",)
    assert without(["see:usage", "add:replies"], ["see"]) == ("add:replies",)
    assert without(["see:usage"], ["observer"]) == ()
    assert without(["change:words"], ["see:session/update[plan]"]) == ("change:echoes",)
    assert without(["web:a.org", "web:panel", "clock"], ["web"]) == ("clock",)
    assert without(["prompt:anytime"], ["prompt"]) == ()
    assert without(["prompt:anytime"], ["run"]) == ("prompt:anytime",)
    assert without(["offer:modes"], ["see:setups"]) == ()
    assert "see:prompts" not in without([TRUSTED], ["yours"])
    assert without([TRUSTED], ["clock"]) == (TRUSTED,)


def test_a_part_of_a_scope_cannot_be_denied() -> None:
    assert without(["read:docs/**"], ["read:docs/**"]) == ()
    assert without(["read:docs/a.md"], ["read:docs/**"]) == ()
    assert without(["read:src/**"], ["read:docs/**"]) == ("read:src/**",)
    assert without(["command:a"], ["command:*"]) == ()
    assert without(["peer:a"], ["peer:b"]) == ("peer:a",)
    with pytest.raises(ValueError, match="a part of"):
        without(["command:*"], ["command:a"])
    with pytest.raises(ValueError, match="a part of"):
        without(["read:docs/**"], ["read:docs/a.md"])
    assert is_denied("command:*", ["command:a"])
    assert is_denied("clock", ["clock"])
    assert not is_denied("clock", ["random"])


def test_the_sets_for_forbidding_leave_nothing_of_theirs() -> None:
    for name, of in FORBIDDING.items():
        left = flat(without([TRUSTED, "web:a.org", "write:x", "peer:x"], [name]))
        for one in of:
            assert one not in left
            assert not any(each.partition(":")[0] == one for each in left)


@pytest.mark.parametrize(
    ("wanted", "held", "lacks"),
    [
        ("context", "filter", ()),
        ("filter", "context", ("filter",)),
        ("see:replies", "change:words", ()),
        ("see:session/update[plan]", "see:updates", ()),
        ("read:docs/a.md", "read:docs/**", ()),
        ("web:b.org", "web:a.org", ("web:b.org",)),
        ("prompt:within", "prompt:anytime", ()),
        ("prompt:within", "full", ()),
        ("command:a", "command:*", ()),
        ("stop:turns", "full", ("stop:turns",)),
        ("stop:turns", "trusted", ()),
        ("command:a", "trusted", ()),
        ("clock", "trusted", ("clock",)),
        ("peer:a", "trusted", ("peer:a",)),
        ("agent:a", "trusted", ()),
        ("peer:a", "peer:a", ()),
        ("none", "none", ()),
    ],
)
def test_what_one_lacks_of_another(wanted: str, held: str, lacks: tuple[str, ...]) -> None:
    assert lacking([wanted], [held]) == lacks


def test_rights_of_the_world_are_known_by_their_words() -> None:
    assert words.services(["context", "clock", "web:a.org"]) == {"clock", "web:a.org"}
    assert words.of_world(["context", "clock"]) == "clock"
    assert words.of_world(["outside"]) == "outside"
    assert words.of_world(["context", "run:commands", "peer:a", "command", "see"]) == ""


def test_scopes_come_from_settings() -> None:
    asked = read(["clock", "read:{config.folders}/**", "peer:{config.one}"])
    given = words.filled(asked, {"folders": ["skills", "/a/"], "one": "x"})
    assert given == ("clock", "read:skills/**", "read:a/**", "peer:x")
    assert words.filled(asked, {}) == ("clock",)


def test_a_word_with_other_cells_means_something_else() -> None:
    assert meaning("see:replies") == meaning("see:replies") != meaning("see:echoes")
    assert meaning("clock") != meaning("random")


def test_the_worst_comes_first() -> None:
    names = ["clock", "see:prompts", "web:a.org", "run:commands", "change:prompts"]
    found = [one.name for one in words.ordered(names)]
    assert found == ["run:commands", "web:a.org", "change:prompts", "see:prompts", "clock"]


def test_policies_are_made_of_words() -> None:
    made = PolicyWords(("context", "stop:turns"), hold=3).policy()
    assert isinstance(made, Policy)
    assert made.hold == 3
    assert made.rights(Direction.DOWN, "session/cancel") == ORIGINATE
    assert PolicyWords((TRUSTED, "clock")).policy() is None
    assert not PolicyWords((TRUSTED,)).enforced
    assert PolicyWords().rights == ("context",)


@pytest.mark.parametrize(
    ("names", "key"),
    [
        ("prompt:within", ""),
        ("context+prompt:within", "session/prompt"),
        ("change:words+add:words", ""),
        ("extension:_x/*", "_x/*"),
        ("offer:modes", ""),
    ],
)
def test_keys_of_which_only_ids_tell(names: str, key: str) -> None:
    held = words.policy(*read(names))
    assert held is not None
    assert ambiguous_key(held) == key
