"""How a policy is written: on a command line, in a manifest or a lock, and sent to a child process.

Older manifests, locks and command lines spoke of verbs and of guards to be lifted. `read_rule` and
`lifted` say what those come to now; whoever shows it to a person does so once (`Translated`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from conductor.core.policy.rules import (
    CHOICES,
    GRANT_NAMES,
    MCP_FAMILIES,
    NO_PROFILE,
    PERMISSION,
    PROFILE_NAMES,
    PROFILES,
    PROMPT,
    ROWS,
    SETTINGS,
    SETUP,
    TRUSTED,
    UPDATE,
    Direction,
    Grants,
    Policy,
    Right,
    Rule,
    row_of,
)

_OLD_VERBS: Final = frozenset({"observe", "modify"})
_OF_BOTH_AGES: Final = frozenset({"answer", "originate"})
_SEES: Final = Right.COPY | Right.CARRY
"""What `modify` comes to: where a message cannot be carried any more, a copy is left of it."""
_WORDS: Final = {right.name.lower(): right for right in Right if right.name and right.value}


_OF_ITS_SERVERS: Final = (
    "it goes without saying: who may carry a session's set-up is the end of the MCP servers it "
    "adds there"
)


class Translated(msgspec.Struct, frozen=True):
    """What an older rule, or a lifted guard, comes to: rules, grants, and a sentence where
    something of it is not to be had any more."""

    rules: tuple[Rule, ...] = ()
    grants: Grants = Grants()
    lost: str = ""


def parse_rule(text: str) -> Rule:
    """A rule from `down:session/prompt:carry+answer`.

    Raises `ValueError` saying what is wrong with it; verbs of older versions are wrong here (see
    `read_rule`).
    """
    direction, key, words = _parts(text)
    rights = Right.NONE
    for word in words:
        if word not in _WORDS:
            raise ValueError(f"right `{word}` must be {', '.join(_WORDS)}")
        rights |= _WORDS[word]
    return Rule(direction, key, rights)


def _parts(text: str) -> tuple[Direction, str, list[str]]:
    parts = text.split(":")
    if len(parts) != 3 or not parts[1]:
        raise ValueError("write DIRECTION:METHOD:RIGHT, e.g. down:session/prompt:carry")
    direction, key, words = parts
    if direction not in ("down", "up"):
        raise ValueError(f"direction `{direction}` must be down or up")
    if "*" in key[:-1] and not key.endswith("[*]"):
        raise ValueError(f"`*` may only end a method: `{key}`")
    return Direction(direction), key, words.split("+")


def is_old(text: str) -> bool:
    """Whether a rule is written in verbs of older versions."""
    return not _OLD_VERBS.isdisjoint(text.rpartition(":")[2].split("+"))


def shown(rule: Rule) -> str:
    """A rule as it is written."""
    return f"{rule.direction.value}:{rule.key}:{'+'.join(rule.rights.words)}"


def read_rule(text: str) -> Translated:
    """A rule in today's words, or what one in verbs comes to. Raises `ValueError`."""
    direction, key, words = _parts(text)
    if not is_old(text) and not _is_old_originate(direction, key, words):
        rule = parse_rule(text)
        if not (surplus(rule) and _OF_BOTH_AGES.issuperset(words)):
            return Translated((rule,))
    if unknown := set(words) - _OLD_VERBS - set(_WORDS):
        raise ValueError(f"right `{min(unknown)}` must be {', '.join(_WORDS)}")
    rules: list[Rule] = []
    grants = Grants()
    lost = ""
    answers_back = (
        key.startswith(("session/", "initialize"))
        and not key.startswith((UPDATE, PERMISSION))
        and not key.endswith("*")
        and direction is Direction.UP
    )
    if key.startswith(MCP_FAMILIES):
        return Translated(lost=_OF_ITS_SERVERS)
    if key.endswith("*"):
        rules, grants = _of_many(direction, key, words)
        return Translated(tuple(rules), grants)
    for word in words:
        match word:
            case "observe" if answers_back:
                continue  # who carries, or gets a copy of, a request gets a copy of its answer
            case "observe" | "copy":
                rules.append(Rule(direction, key, Right.COPY))
            case "modify" if answers_back:
                rules.append(Rule(Direction.DOWN, key, Right.AMEND))
            case "modify" if key == PERMISSION:
                grants = merged(grants, Grants(permission="narrow"))
            case "modify" if key == UPDATE:
                rules.append(Rule(direction, key, _SEES | Right.DROP))
            case "answer" if key == PERMISSION:
                grants = merged(grants, Grants(permission="narrow"))
            case "originate" if key == PROMPT:
                grants = merged(grants, Grants(turns="within"))
            case "modify":
                rules.append(Rule(direction, key, _SEES))
            case _:
                rules.append(Rule(direction, key, _WORDS[word]))
    kept: dict[tuple[Direction, str], Right] = {}
    for rule in rules:
        lost = surplus(rule) or lost
        bound = row_of(rule.direction, rule.key)
        most = rule.rights if rule.key == UPDATE else rule.rights & (bound.full | bound.more)
        if Right.CARRY in most and rule.key != UPDATE:
            most &= ~Right.COPY  # goes without saying
        if most:
            place = rule.direction, rule.key
            kept[place] = kept.get(place, Right.NONE) | most
    return Translated(tuple(Rule(*place, most) for place, most in kept.items()), grants, lost)


def _of_many(direction: Direction, key: str, words: list[str]) -> tuple[list[Rule], Grants]:
    """What verbs on many methods come to: `up:session/*:modify`."""

    def about(method: str) -> bool:
        return method.startswith(key[:-1])

    rights = Right.NONE
    rules = []
    grants = Grants()
    for word in words:
        rights |= {"observe": Right.COPY, "modify": _SEES}.get(word) or _WORDS[word]
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


def _is_old_originate(direction: Direction, key: str, words: list[str]) -> bool:
    """Whether a rule says in words of both ages what a grant says now."""
    asks = {"originate"} & set(words) if key == PROMPT else set()
    if key == PERMISSION:
        asks = {"answer"} & set(words)
    return bool(asks)


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
        Translated(grants=Grants(modes=True)),
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
"""What a lifted guard comes to, and what it gave that the grant does not."""


def lifted(guard: str) -> Translated:
    """What `unguard=GUARD` of older versions comes to."""
    found, beyond = _LIFTED.get(guard, (Translated(), ""))
    if beyond:
        return msgspec.structs.replace(found, lost=f"{beyond} takes `profile=trusted`")
    if guard in _LIFTED:
        return found
    return Translated(lost=f"the guard `{guard}` is lifted by `profile=trusted` only")


def today(found: Translated) -> list[str]:
    """What an older rule comes to, as it is written behind a component now."""
    return [*(f"allow={shown(rule)}" for rule in found.rules), *found.grants.words()]


def surplus(rule: Rule) -> str:
    """Why a rule gives less than it says; empty where it gives it, or is about many keys."""
    if rule.key.endswith("*") or rule.key == UPDATE:
        return ""
    row = row_of(rule.direction, rule.key)
    most = row.full | row.more
    if not rule.rights & ~most:
        return ""
    given = "+".join(most.words)
    return f"{f'no more than `{given}` is' if given else 'not'} to be had: {row.rule}"


_LISTS: Final = {
    "commands": (r"\*|[^\s/+*]+", "commands are named without their slash: review+plan"),
    "methods": (r"_[^\s+*]*\*?", "extension methods start with `_`; one may end in `*`"),
    "capabilities": (r"\*|(/[^\s+*]+)+", "capabilities are pointers: /fs/readTextFile"),
}
"""What may stand in the lists of grants, and how that is told."""


def read_grant(name: str, value: Any = True) -> Grants:
    """A named grant: `turns`, `within`. Raises `ValueError` saying what is wrong with it."""
    if name not in GRANT_NAMES:
        raise ValueError(f"no grant `{name}`; grants are: {', '.join(GRANT_NAMES)}")
    if name in ("modes", "texts"):
        if value not in (True, "yes", "true"):
            raise ValueError(f"is given as `{name}` alone, or as `{name}=yes`")
        return merged(Grants(modes=name == "modes"), Grants(texts=name == "texts"))
    listed = value if isinstance(value, list) else str(value).split("+")
    words = tuple(dict.fromkeys(str(one) for one in listed if one)) if value is not True else ()
    choices = CHOICES.get(name)
    if choices is not None:
        if not words or (unknown := [word for word in words if word not in choices]):
            wrong = f", not `{unknown[0]}`" if words else ""
            raise ValueError(f"`{name}` is {' or '.join(choices)}{wrong}")
        found = Grants()
        for word in words:
            made: dict[str, Any] = {name: (word,) if name == "editor" else word}
            found = merged(found, Grants(**made))
        return found
    pattern, said = _LISTS[name]
    if not words or not all(re.fullmatch(pattern, word) for word in words):
        raise ValueError(said)
    listing: dict[str, Any] = {name: words}
    return Grants(**listing)


def parse_grant(text: str) -> Grants:
    """A named grant from `turns=within` or `texts`. Raises `ValueError`."""
    name, equals, value = text.partition("=")
    return read_grant(name, value if equals else True)


def permits(held: Policy | None, wanted: Rule) -> bool:
    """Whether all that a rule gives, where it is allowed, is held by a policy (None: trusted)."""
    return within(Policy(NO_PROFILE, (wanted,)), held)


def within(wanted: Policy, held: Policy | None) -> bool:
    """Whether all rights of a policy are held by another (None: trusted)."""
    return held is None or all(
        not wanted.rights(direction, key) & ~held.rights(direction, key)
        for direction, key in _keys(wanted, held)
    )


def _keys(*policies: Policy) -> Iterator[tuple[Direction, str]]:
    """All keys that make a difference to policies."""
    for row in ROWS:
        yield from ((row.direction, key) for key in row.keys)
    for policy in policies:
        yield from ((rule.direction, rule.key) for rule in policy.extra)
        for method in policy.grants.methods:
            yield from ((direction, method) for direction in Direction)


def alike(policy: Policy) -> str:
    """A key of requests that may be the component's own or passed on, so that ids alone tell one
    from the other; empty if there is none."""
    both = Right.CARRY.value | Right.ORIGINATE.value
    for direction, key in _keys(policy):
        told_apart = key.startswith((UPDATE, "session/cancel"))
        if not told_apart and policy.rights(direction, key) & both == both:
            return key
    return ""


def lacking(wanted: Grants, held: Grants) -> Grants:
    """Of the grants in `wanted` those that `held` does not give."""
    values: dict[str, Any] = {}
    for name in GRANT_NAMES:
        asked, given = getattr(wanted, name), getattr(held, name)
        if isinstance(asked, tuple):
            values[name] = tuple(one for one in asked if not _among(one, given))
        elif name == "turns":
            values[name] = asked if given not in (asked, "unprompted") else ""
        else:
            values[name] = asked if asked != given else type(asked)()
    return Grants(**values)


def _among(word: str, held: tuple[str, ...]) -> bool:
    """Whether a word is in a list, or covered by a pattern there."""
    return any(word == one or (one.endswith("*") and word.startswith(one[:-1])) for one in held)


def merged(one: Grants, other: Grants) -> Grants:
    """What both together give."""
    values: dict[str, Any] = {}
    for name in GRANT_NAMES:
        mine, its = getattr(one, name), getattr(other, name)
        if isinstance(mine, tuple):
            values[name] = tuple(dict.fromkeys((*mine, *its)))
        elif name == "turns":
            values[name] = max(mine, its, key=("", "within", "unprompted").index)
        else:
            values[name] = mine or its
    return Grants(**values)


class PolicyWords(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy as plain data."""

    profile: str = "context"
    allow: tuple[str, ...] = ()
    grants: Grants = Grants()
    on_violation: str = "pass"
    fails: str = "open"
    ids: str = ""
    hold: float | None = None

    def policy(self) -> Policy | None:
        """The policy, or None for `trusted`. Raises `ValueError` saying what is wrong."""
        if self.profile == TRUSTED:
            return None
        if self.profile not in PROFILES:
            raise ValueError(f"profiles are: {', '.join(PROFILE_NAMES)}")
        return Policy(
            self.profile,
            tuple(parse_rule(text) for text in self.allow),
            self.grants,
            self.on_violation,
            self.fails,
            self.ids,
            self.hold,
        )

    @property
    def unlimited(self) -> bool:
        """Whether nothing but what is sealed ever goes past the component."""
        return self.profile in ("full", TRUSTED)


__all__ = [
    "NO_PROFILE",
    "SETTINGS",
    "SETUP",
    "PolicyWords",
    "Translated",
    "alike",
    "is_old",
    "lacking",
    "lifted",
    "merged",
    "parse_grant",
    "parse_rule",
    "permits",
    "read_grant",
    "read_rule",
    "shown",
    "surplus",
    "today",
    "within",
]
