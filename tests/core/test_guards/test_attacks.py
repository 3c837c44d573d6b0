"""Every guard against those who try to get past it, by every route.

Each attack is refused by the guard it is meant for.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from msgspec import UnsetType

from conductor.core.guards import GUARDS, Context, Guard, Violation, check
from conductor.core.policy import words
from tests.core.test_guards.attack import ALL, Attack, sources
from tests.core.test_guards.routes import may_answer, may_send, passes

ATTACKS: list[Attack] = [attack for source in sources() for attack in source()]
OF_EACH: dict[str, list[Attack]] = {
    guard.name: [attack for attack in ATTACKS if attack.guard == guard.name] for guard in GUARDS
}


@pytest.mark.proves(
    "between two proxies",
    "a component offers no modes",
    "error texts, last words",
    "capabilities",
    "no word in `_meta` is changed",
)
@pytest.mark.parametrize("guard", GUARDS, ids=lambda g: g.name)
def test_attacks_are_refused(guard: Guard) -> None:
    for attack in OF_EACH[guard.name]:
        found = attack.route(attack.context)
        assert found is not None, attack.what
        assert found.guard == attack.guard, attack.what
        assert found.text, attack.what
        place = found.pointer
        assert place == "" or (place.startswith("/") and len(place) <= 500), attack.what


@pytest.mark.proves("the guards hold in every version")
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
        known = {words.TRUSTED, *words.TABLE, *words.ALL_VERBS}
        assert known.issuperset(guard.lifted_by.split(", "))
        assert guard.protects.endswith(".")
        assert guard.attack.endswith(".")


def test_no_rule_stumbles_behind_the_first_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    first = check._violations

    def all_of(*attempt: Any) -> Iterator[Violation]:
        return iter(list(first(*attempt)))

    monkeypatch.setattr(check, "_violations", all_of)
    for attack in ATTACKS:
        assert attack.route(attack.context) is not None


@pytest.mark.parametrize("odd", [{"a": "b"}, [[]], 1, None], ids=repr)
def test_no_rule_stumbles_over_what_a_member_is(odd: object) -> None:
    tried = set[tuple[object, ...]]()
    for attack in ATTACKS:
        move = attack.move
        if move is None or move.way == "denied":
            continue
        for name, sent in _with(odd, move.sent):
            key = move.way, move.method, name, attack.grants
            if key not in tried:
                tried.add(key)
                WAYS[move.way](move.method, sent, attack.context)


WAYS: dict[str, Callable[[str, object, Context], bool]] = {
    "forwarded": lambda method, sent, context: passes(method, {}, sent, context),
    "originated": may_send,
    "answered": lambda method, sent, context: may_answer(method, sent, context=context),
}


def _with(odd: object, text: str | UnsetType) -> list[tuple[str, dict[str, object]]]:
    """An object's members, and the object with something odd in the place of each."""
    held = _members(text)
    return [(name, {**held, name: odd}) for name in held]


def _members(text: str | UnsetType) -> dict[str, object]:
    try:
        held = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}
