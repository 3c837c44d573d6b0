"""Every guard against those who try to get past it, by every route.

Each attack is refused by the guard it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from conductor.core.guards import GUARDS, Guard, Violation, check
from conductor.core.policy.rules import GRANT_NAMES
from tests.core.test_guards.attack import ALL, Attack, sources

ATTACKS: list[Attack] = [attack for source in sources() for attack in source()]
OF_EACH: dict[str, list[Attack]] = {
    guard.name: [attack for attack in ATTACKS if attack.guard == guard.name] for guard in GUARDS
}


@pytest.mark.parametrize("guard", GUARDS, ids=lambda g: g.name)
def test_attacks_are_refused(guard: Guard) -> None:
    for attack in OF_EACH[guard.name]:
        found = attack.route(attack.context)
        assert found is not None, attack.what
        assert found.guard == attack.guard, attack.what
        assert found.text, attack.what
        place = found.pointer
        assert place == "" or (place.startswith("/") and len(place) <= 500), attack.what


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
    assert OF_EACH[guard.name]


def test_attacks_name_guards_that_exist() -> None:
    assert {attack.guard for attack in ATTACKS} == ALL


def test_the_table_is_fit_to_be_shown() -> None:
    assert len(ALL) == len(GUARDS)
    for guard in GUARDS:
        assert guard.lifted_by.partition("=")[0] in ("profile", *GRANT_NAMES)
        assert guard.protects.endswith(".")
        assert guard.attack.endswith(".")


def test_no_rule_stumbles_behind_the_first_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    first = check._violations

    def all_of(*attempt: Any) -> Iterator[Violation]:
        return iter(list(first(*attempt)))

    monkeypatch.setattr(check, "_violations", all_of)
    for attack in ATTACKS:
        assert attack.route(attack.context) is not None
