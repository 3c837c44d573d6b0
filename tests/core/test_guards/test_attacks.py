"""Every guard against those who try to get past it, by every route.

Each attack is refused by the guard it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from conductor.core.guards import GUARDS, Guard, Violation, check
from conductor.core.policy.rules import GRANT_NAMES
from tests.core.test_guards import (
    attacks_on_extensions,
    attacks_on_initialize,
    attacks_on_lists,
    attacks_on_messages,
    attacks_on_permissions,
    attacks_on_prompts,
    attacks_on_requests,
    attacks_on_setup,
    attacks_on_updates,
)
from tests.core.test_guards.attack import ALL, Attack

ATTACKS: list[Attack] = [
    attack
    for source in (
        attacks_on_messages.ambiguous_json,
        attacks_on_messages.spellings,
        attacks_on_messages.methods_of_others,
        attacks_on_messages.sessions,
        attacks_on_messages.metadata,
        attacks_on_permissions.widened,
        attacks_on_permissions.given,
        attacks_on_permissions.made_up,
        attacks_on_setup.bad_servers,
        attacks_on_setup.servers_of_others,
        attacks_on_setup.surroundings,
        attacks_on_setup.answers_of_its_own,
        attacks_on_setup.results,
        attacks_on_lists.lists,
        attacks_on_prompts.beside,
        attacks_on_prompts.commands,
        attacks_on_prompts.commands_of_users,
        attacks_on_prompts.commands_listed,
        attacks_on_prompts.links,
        attacks_on_prompts.mentions,
        attacks_on_prompts.blocks,
        attacks_on_extensions.extensions,
        attacks_on_extensions.editor,
        attacks_on_requests.outcomes,
        attacks_on_requests.choices,
        attacks_on_requests.ends,
        attacks_on_updates.words,
        attacks_on_updates.states,
        attacks_on_setup.names,
        attacks_on_updates.tool_calls,
        attacks_on_updates.modes_and_inventions,
        attacks_on_updates.more_than_words,
        attacks_on_updates.unknown_kinds,
        attacks_on_updates.reported,
        attacks_on_requests.sealed,
        attacks_on_requests.connections,
        attacks_on_initialize.offered,
        attacks_on_initialize.promised,
    )
    for attack in source()
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda a: f"{a.guard}: {a.what}")
def test_attacks_are_refused(attack: Attack) -> None:
    found = attack.route(attack.context)
    assert found is not None
    assert found.guard == attack.guard
    assert found.text
    assert found.pointer == "" or (found.pointer.startswith("/") and len(found.pointer) <= 500)


@pytest.mark.parametrize("version", [None, 0, 1, 2, 3, 65535])
def test_no_version_opens_a_door(version: int | None) -> None:
    passed = [
        attack.what
        for attack in ATTACKS
        if attack.route(msgspec.structs.replace(attack.context, version=version)) is None
    ]
    assert passed == []


@pytest.mark.parametrize("guard", GUARDS, ids=lambda g: g.name)
def test_every_guard_is_attacked(guard: Guard) -> None:
    assert any(attack.guard == guard.name for attack in ATTACKS)


def test_attacks_name_guards_that_exist() -> None:
    assert {attack.guard for attack in ATTACKS} == ALL


def test_the_table_is_fit_to_be_shown() -> None:
    assert len(ALL) == len(GUARDS)
    for guard in GUARDS:
        assert guard.lifted_by.partition("=")[0] in ("profile", *GRANT_NAMES)
        assert guard.protects.endswith(".")
        assert guard.attack.endswith(".")


def test_no_rule_stumbles_behind_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of(found: Iterator[Violation]) -> Violation | None:
        return next(iter(list(found)), None)

    monkeypatch.setattr(check, "_first", all_of)
    for attack in ATTACKS:
        assert attack.route(attack.context) is not None
