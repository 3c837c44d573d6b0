"""Every guard against those who try to get past it, by every route.

Each attack is refused; by the guard it is meant for even if all others are lifted; and no longer
by that guard once it is lifted itself.
"""

from __future__ import annotations

import msgspec
import pytest

from conductor.core.guards import GUARDS, Guard
from tests.core.test_guards import (
    attacks_on_initialize,
    attacks_on_messages,
    attacks_on_permissions,
    attacks_on_requests,
    attacks_on_setup,
    attacks_on_updates,
)
from tests.core.test_guards.attack import ALL, CONTEXT, Attack

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
        attacks_on_permissions.given_by_confusion,
        attacks_on_permissions.made_up,
        attacks_on_setup.bad_servers,
        attacks_on_setup.servers_of_others,
        attacks_on_setup.surroundings,
        attacks_on_setup.prompts,
        attacks_on_updates.tool_calls,
        attacks_on_updates.modes_and_inventions,
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
    assert attack.route(CONTEXT) is not None
    alone = attack.route(msgspec.structs.replace(CONTEXT, lifted=ALL - {attack.guard}))
    assert alone is not None
    assert alone.guard == attack.guard
    assert alone.text
    assert alone.pointer == "" or (alone.pointer.startswith("/") and len(alone.pointer) <= 500)
    without = attack.route(msgspec.structs.replace(CONTEXT, lifted=frozenset({attack.guard})))
    assert without is None or without.guard != attack.guard
    assert attack.route(msgspec.structs.replace(CONTEXT, lifted=ALL)) is None


@pytest.mark.parametrize("version", [None, 0, 1, 2, 3, 65535])
def test_no_version_opens_a_door(version: int | None) -> None:
    context = msgspec.structs.replace(CONTEXT, version=version)
    passed = [a.what for a in ATTACKS if a.route(context) is None]
    assert passed == []


@pytest.mark.parametrize("guard", GUARDS, ids=lambda g: g.name)
def test_every_guard_is_attacked(guard: Guard) -> None:
    assert any(attack.guard == guard.name for attack in ATTACKS)


def test_attacks_name_guards_that_exist() -> None:
    assert {attack.guard for attack in ATTACKS} == ALL


def test_the_table_is_fit_to_be_shown() -> None:
    assert len(ALL) == len(GUARDS)
    for guard in GUARDS:
        assert guard.lifted_by == f"unguard={guard.name}"
        assert guard.protects.endswith(".")
        assert guard.attack.endswith(".")
