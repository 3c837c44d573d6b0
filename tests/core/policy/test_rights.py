"""The table of keys: the rights that profiles, rules and grants give on each key."""

from typing import Final

import pytest

from conductor.core.policy import words
from conductor.core.policy.checks import lacks
from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    COPIES,
    COPY,
    DROP,
    KINDS,
    ORIGINATE,
    PERMISSION,
    PLACE,
    PROMPT,
    ROWS,
    SETUP,
    UNKNOWN_KIND,
    Direction,
    Row,
    names_of,
    row_of,
    update,
)
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.rules import GRANT_NAMES, Policy, Rule
from tests.harness.router.policed import CARRY_TEXT, policy
from tests.harness.router.rules import PROFILES, held

DOWN, UP = Direction.DOWN, Direction.UP
C, X, A, M, D, O = COPY, CARRY, ANSWER, AMEND, DROP, ORIGINATE  # noqa: E741
TEXT, CALL = update("agent_message_chunk"), update("tool_call")
ASKED = [
    (DOWN, PROMPT),
    (DOWN, "session/new"),
    (DOWN, "session/set_mode"),
    (UP, TEXT),
    (UP, CALL),
    (UP, PERMISSION),
    (UP, "mcp/message"),
    (DOWN, "initialize"),
    (DOWN, "session/cancel"),
    (UP, "_x"),
]
NO = 0
HELD = {
    "none": [NO] * 10,
    "observer": [C, C, C, C, C, C, NO, C, C, NO],
    "context": [C | X, C | X, NO, NO, NO, NO, NO, NO, NO, NO],
    "filter": [C | X | M, C | X, NO, C | X | D, C, C, NO, NO, NO, NO],
    "full": [C | X | A | M | O, C | X, C, C | X | D | O, C, C, NO, C | X | M, C, NO],
}


@pytest.mark.parametrize("profile", PROFILES)
def test_what_each_profile_comes_to(profile: str) -> None:
    assert [held(profile).rights(*one) for one in ASKED] == HELD[profile]


def test_rights_have_names_in_a_fixed_order() -> None:
    assert names_of(NO) == []
    assert names_of(O | C | A) == ["copy", "answer", "originate"]


def test_every_key_has_one_row() -> None:
    for direction in Direction:
        keys = [key for row in ROWS if row.direction is direction for key in row.keys]
        assert len(keys) == len(set(keys))
    for kind in KINDS:
        assert row_of(UP, update(kind)).keys
    assert update("not known") == update(UNKNOWN_KIND)
    assert row_of(UP, "whatever") == Row(DOWN, (), NO, "goes past")
    assert row_of(DOWN, TEXT).most is NO


@pytest.mark.parametrize(
    ("key", "covered"),
    [
        ("mcp/*", True),
        ("mcp/message", True),
        ("mcp", False),
        ("_scp/mcp", True),
        ("_scp/mcp/x", False),
    ],
)
def test_a_row_covers_its_keys(key: str, covered: bool) -> None:
    row = row_of(UP, "mcp/message")
    assert row.covers(key) is covered
    assert row.most == COPIES | X | A | M | D


@pytest.mark.parametrize(
    ("key", "asked", "covered"),
    [
        (PROMPT, PROMPT, True),
        (PROMPT, "session/prompts", False),
        ("session/*", PROMPT, True),
        ("session/*", "session", False),
        ("*", "", True),
        ("session/update", TEXT, False),
        ("session/update", "session/update", True),
        (TEXT, TEXT, True),
        (TEXT, CALL, False),
    ],
)
def test_what_a_rule_covers(key: str, asked: str, covered: bool) -> None:
    assert Rule(UP, key, C).covers(UP, asked) is covered
    assert not Rule(UP, key, C).covers(DOWN, asked)


GIVES = {
    "turns=within": [(DOWN, PROMPT, O)],
    "turns=unprompted": [(DOWN, PROMPT, O)],
    "commands=review": [(UP, update("available_commands_update"), C | X | O)],
    "permission=narrow": [(UP, PERMISSION, C | X | A)],
    "mcp=others": [(way, "mcp/message", C | X | A | M | D) for way in Direction],
    "sessions=own": [(DOWN, method, A | M | O) for method in SETUP] + [(DOWN, PROMPT, O)],
    "options": [
        (DOWN, "session/set_mode", NO),
        (DOWN, "session/set_model", NO),
        (DOWN, "session/set_config_option", C | X | A | M),
        (UP, update("current_mode_update"), NO),
        (UP, update("config_option_update"), C | X | O),
        (DOWN, "session/new", C | X | M),
    ],
    "editor=panel": [
        (UP, "_scp/html_panel", O),
        (UP, "_scp/file_comment", NO),
        (UP, "_zed/open_url", NO),
    ],
    "editor=comment+operation+log": [
        (UP, "_scp/ide_operation", O),
        (UP, "_scp/log", O),
        (UP, "_scp/panel", NO),
        (DOWN, "_scp/html_panel/event", NO),
    ],
    "editor=read+terminal+widget": [
        (UP, "fs/read_text_file", O),
        (UP, "terminal/create", O),
        (UP, "fs/write_text_file", NO),
        (UP, "_scp/html_panel", NO),
    ],
    "methods=_x/*+_y": [
        (way, key, C | X | A | M | D | O) for way in Direction for key in ("_x/a", "_y")
    ]
    + [(DOWN, "_y/a", NO), (DOWN, "_x", NO)],
    "texts": [(UP, CALL, C | X), (UP, update("notice"), C | X), (UP, update("usage_update"), NO)],
    "capabilities=/fs": [],
}


@pytest.mark.parametrize("grant", GIVES)
def test_what_each_grant_gives(grant: str) -> None:
    held = policy(grants=grant)
    for direction, key, rights in GIVES[grant]:
        assert held.rights(direction, key) == rights, key
    assert held.grants.names() == [grant.partition("=")[0]]


FREE: Final = PolicyState(None)
"""The policy of a component to which nothing is denied."""


@pytest.mark.parametrize("row", [row for row in ROWS if row.grants])
def test_what_would_let_it_is_told_as_it_is_written(row: Row) -> None:
    for key in (one.replace("*", "a") for one in row.keys):
        for right in (X, A, M, O):
            if not right & row.most & ~(row.full | row.more):
                continue
            hint = lacks(FREE, right, row.direction, key).text.partition("`,")[2]
            word = hint.partition("`")[0].removeprefix("allow=")
            given = words.policy(word.replace("NAME", "review"))
            assert given is not None
            assert given.rights(row.direction, key) & right, (key, hint)


def test_a_method_that_reads_as_more_is_not_told() -> None:
    assert "`,allow=extension:_NAME` lets it" in lacks(FREE, ORIGINATE, UP, "_x,only=trusted").text


def test_all_grants_are_looked_at() -> None:
    assert {grant.partition("=")[0] for grant in GIVES} == set(GRANT_NAMES)


@pytest.mark.parametrize(
    ("held", "serves", "hears", "watches"),
    [
        (held("none"), False, False, True),
        (held("observer"), False, True, True),
        (held("context"), True, False, False),
        (held("serve:tools"), True, False, False),
        (held("filter"), True, True, False),
        (held("full"), True, True, False),
        (policy(grants="turns=within"), False, True, False),
        (policy(grants="mcp=others"), False, False, False),
        (policy(CARRY_TEXT), False, True, False),
    ],
)
def test_what_it_has_to_do_with(held: Policy, serves: bool, hears: bool, watches: bool) -> None:
    assert (held.serves, held.hears, held.watches_only) == (serves, hears, watches)


@pytest.mark.parametrize(
    ("rules", "direction", "key", "held"),
    [
        ([CARRY_TEXT], DOWN, PROMPT, PLACE | COPY),
        ([CARRY_TEXT], DOWN, "session/load", PLACE | COPY),
        ([CARRY_TEXT], UP, PERMISSION, PLACE | COPY),
        ([CARRY_TEXT], UP, update("state_update"), PLACE | COPY),
        ([CARRY_TEXT], DOWN, "session/new", 0),
        ([CARRY_TEXT, "down:session/prompt:carry"], DOWN, PROMPT, PLACE | COPY | CARRY),
        ([CARRY_TEXT, "down:session/prompt:answer"], DOWN, PROMPT, PLACE | COPY | ANSWER),
        (["up:session/update:copy"], DOWN, PROMPT, 0),
    ],
)
def test_who_carries_text_has_a_copy_of_what_has_a_place_among_it(
    rules: list[str], direction: Direction, key: str, held: int
) -> None:
    assert PolicyState(policy(*rules)).rights(direction, key) == held
