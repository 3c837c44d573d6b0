"""Rules of older versions: verbs (`observe`, `modify`) and guards to be lifted (`unguard=`).

Manifests, locks and command lines may still have them (docs/cli.md). `read_rule` and `lifted`
translate them to rules and grants of today.
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.policy.key_table import (
    MCP_FAMILIES,
    PERMISSION,
    PROMPT,
    UPDATE,
    Direction,
    Right,
    row_of,
)
from conductor.core.policy.rule_syntax import RIGHTS, parse_rule, rule_parts, shown, surplus
from conductor.core.policy.rules import Grants, Rule, merged

_SEES: Final = Right.COPY | Right.CARRY
"""What `modify` means: where a row allows no `carry` any more, a copy remains of it."""
_VERBS: Final = {"observe": Right.COPY, "modify": _SEES}
_OF_BOTH_AGES: Final = frozenset({"answer", "originate"})
_OF_ITS_SERVERS: Final = (
    "it goes without saying: who may carry a session's set-up is the end of the MCP servers it "
    "adds there"
)


class Translated(msgspec.Struct, frozen=True):
    """An older rule, or a lifted guard, in rules and grants of today."""

    rules: tuple[Rule, ...] = ()
    grants: Grants = Grants()
    lost: str = ""
    """A sentence about what no policy gives any more."""


def is_old(text: str) -> bool:
    """Whether a rule is written in verbs of older versions."""
    return not _VERBS.keys().isdisjoint(text.rpartition(":")[2].split("+"))


def read_rule(text: str) -> Translated:
    """A rule in words of today or of older versions. Raises `ValueError`."""
    direction, key, words = rule_parts(text)
    # What grants give now, rules gave in words that rules have still.
    granted_now = {PROMPT: "originate", PERMISSION: "answer"}.get(key) in words
    if not is_old(text) and not granted_now:
        rule = parse_rule(text)
        if not (surplus(rule) and _OF_BOTH_AGES.issuperset(words)):
            return Translated((rule,))
    if unknown := set(words) - _VERBS.keys() - RIGHTS.keys():
        raise ValueError(f"right `{min(unknown)}` must be {', '.join(RIGHTS)}")
    if key.startswith(MCP_FAMILIES):
        return Translated(lost=_OF_ITS_SERVERS)
    if key.endswith("*"):
        rules, grants = _of_many(direction, key, words)
        return Translated(tuple(rules), grants)
    rules, grants = [], Grants()
    for word in words:
        meaning = _meaning(direction, key, word)
        if isinstance(meaning, Grants):
            grants = merged(grants, meaning)
        elif meaning is not None:
            rules.append(meaning)
    lost = next((why for rule in reversed(rules) if (why := surplus(rule))), "")
    return Translated(_bounded(rules), grants, lost)


def _meaning(direction: Direction, key: str, word: str) -> Rule | Grants | None:
    """What one word about one key means today; None if other words include it."""
    if key == PERMISSION and word in ("modify", "answer"):
        return Grants(permission="narrow")
    if key == PROMPT and word == "originate":
        return Grants(turns="within")
    if key == UPDATE and word == "modify":
        return Rule(direction, key, _SEES | Right.DROP)
    requests = key.startswith(("session/", "initialize"))
    if direction is Direction.UP and requests and not key.startswith((UPDATE, PERMISSION)):
        # These were rules about answers.
        if word == "observe":
            return None  # who gets a request, or a copy of it, gets a copy of its answer
        if word == "modify":
            return Rule(Direction.DOWN, key, Right.AMEND)
    return Rule(direction, key, _VERBS.get(word) or RIGHTS[word])


def _bounded(rules: list[Rule]) -> tuple[Rule, ...]:
    """Rules without what their rows do not allow, one for each key."""
    rights: dict[tuple[Direction, str], Right] = {}
    for rule in rules:
        row = row_of(rule.direction, rule.key)
        most = rule.rights if rule.key == UPDATE else rule.rights & (row.full | row.more)
        if Right.CARRY in most and rule.key != UPDATE:
            most &= ~Right.COPY  # goes without saying
        if most:
            place = rule.direction, rule.key
            rights[place] = rights.get(place, Right.NONE) | most
    return tuple(Rule(*place, most) for place, most in rights.items())


def _of_many(direction: Direction, key: str, words: list[str]) -> tuple[list[Rule], Grants]:
    """What verbs on many methods mean: `up:session/*:modify`."""

    def about(method: str) -> bool:
        return method.startswith(key[:-1])

    rights = Right.NONE
    rules = []
    grants = Grants()
    for word in words:
        rights |= _VERBS.get(word) or RIGHTS[word]
    if direction is Direction.DOWN:
        if "originate" in words and about(PROMPT):
            grants = Grants(turns="within")
    else:
        if "modify" in words and about(UPDATE):
            rights |= Right.DROP
        if "modify" in words and (about(PROMPT) or about("initialize")):
            rules.append(Rule(Direction.DOWN, key, Right.AMEND))
        if {"modify", "answer"} & set(words) and about(PERMISSION):
            grants = Grants(permission="narrow")
    return [Rule(direction, key, rights), *rules], grants


_LIFTED: Final[dict[str, tuple[Translated, str]]] = {
    "permission-widening": (
        Translated(grants=Grants(permission="narrow")),
        "changing a permission request otherwise than by taking options away",
    ),
    "permission-answers": (
        Translated(grants=Grants(permission="narrow")),
        "approving in the user's place",
    ),
    "mcp-connections": (
        Translated(grants=Grants(mcp="others")),
        "sending of its own on MCP connections of others",
    ),
    "own-sessions": (
        Translated(grants=Grants(sessions="own")),
        "opening sessions in folders that no session of the chain has",
    ),
    "session-mode": (
        Translated(grants=Grants(options=True)),
        "setting modes and options of the agent's, and changing how they are shown,",
    ),
    "session-lifecycle": (
        Translated((Rule(Direction.DOWN, "session/cancel", Right.ORIGINATE),)),
        "closing, deleting, archiving and naming sessions, and ending turns of others,",
    ),
    "tool-calls": (
        Translated(grants=Grants(texts=True)),
        "changing more of a tool call than its words, and making one up,",
    ),
    "unknown-methods": (
        Translated(grants=Grants(methods=("_*",))),
        "sending methods of ACP that no rule knows",
    ),
    "capability-claims": (Translated(grants=Grants(capabilities=("*",))), ""),
}
"""What lifting a guard means, and what it gave that the grant does not."""


def lifted(guard: str) -> Translated:
    """What `unguard=GUARD` of older versions means today."""
    if guard in _LIFTED:
        today, beyond = _LIFTED[guard]
        lost = f"{beyond} takes `profile=trusted`" if beyond else ""
        return msgspec.structs.replace(today, lost=lost)
    return Translated(lost=f"the guard `{guard}` is lifted by `profile=trusted` only")


def today(translated: Translated) -> list[str]:
    """An older rule, as it is written behind a component now."""
    return [*(f"allow={shown(rule)}" for rule in translated.rules), *translated.grants.words()]
