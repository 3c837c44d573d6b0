"""Lock files of version 1, whose entries speak of verbs and guards, read as what those come to."""

from __future__ import annotations

from typing import Any

import msgspec

from conductor.core.policy.key_table import Direction, Right
from conductor.core.policy.older_rules import Translated, lifted, read_rule
from conductor.core.policy.rule_syntax import shown
from conductor.core.policy.rules import Grants, Rule, merged
from conductor.spec.lock.values import VERSION


class Older(msgspec.Struct, frozen=True):
    """What a component's entry said, what it comes to today, and what of it is not to be had any
    more."""

    component: str
    said: str
    today: str
    lost: str = ""


class UnreadableError(Exception):
    """What is wrong with a key of the component at this place."""

    def __init__(self, text: str, at: int, key: str) -> None:
        super().__init__(text)
        self.at = at
        self.key = key


def translated(held: dict[str, Any]) -> tuple[dict[str, Any], list[Older]]:
    """A lock file in today's words, to be looked at by whoever reads those, and what is written
    otherwise now. Raises `UnreadableError`."""
    components = held.get("component")
    if not isinstance(components, list):
        return held | {"version": VERSION}, []
    otherwise: list[Older] = []
    found = [
        _component(one, at, otherwise) if isinstance(one, dict) else one
        for at, one in enumerate(components)
    ]
    return held | {"version": VERSION, "component": found}, otherwise


def _component(held: dict[str, Any], at: int, otherwise: list[Older]) -> dict[str, Any]:
    made = {key: value for key, value in held.items() if key not in ("verbs", "unguard", "grants")}
    if "grants" in held:
        made["services"] = held["grants"]
    rules: dict[tuple[Direction, str], Right] = {}
    named = Grants()
    for key, reader in (("verbs", read_rule), ("unguard", lifted)):
        for text in _texts(held.get(key, []), at, key):
            try:
                read_as = reader(text)
            except ValueError as error:
                raise UnreadableError(str(error), at, key) from None
            for rule in read_as.rules:
                place = rule.direction, rule.key
                rules[place] = rules.get(place, Right.NONE) | rule.rights
            named = merged(named, read_as.grants)
            today = _today(read_as)
            if today != text:
                said = f"{key}: {text}"
                otherwise.append(Older(str(held.get("name")), said, today, read_as.lost))
    if "profile" in held:
        rights = [shown(Rule(*place, right)) for place, right in rules.items()]
        made |= {"rights": rights, "grants": named.words(), "fails": "open"}
    return made


def _texts(value: Any, at: int, key: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UnreadableError(f"`{key}` is a list of texts", at, key)
    return value


def _today(read_as: Translated) -> str:
    return ", ".join([*map(shown, read_as.rules), *read_as.grants.words()])
