"""How a policy is written: on a command line, in a manifest or a lock, and sent to a child process.

Older manifests, locks and command lines spoke of verbs and of guards to be lifted. `read_rule` and
`lifted` say what those come to now; whoever shows it to a person does so once (`Translated`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from conductor.core.policy.rights import (
    GRANT_NAMES,
    NO_PROFILE,
    PERMISSION,
    PROFILE_NAMES,
    PROFILES,
    PROMPT,
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
_WORDS: Final = {right.name.lower(): right for right in Right if right.name and right.value}


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
        return Translated((parse_rule(text),))
    if unknown := set(words) - _OLD_VERBS - set(_WORDS):
        raise ValueError(f"right `{min(unknown)}` must be {', '.join(_WORDS)}")
    rules: list[Rule] = []
    grants = Grants()
    lost = ""
    answers_back = (
        key.startswith(("session/", "initialize"))
        and not key.startswith((UPDATE, PERMISSION))
        and direction is Direction.UP
    )
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
                rules.append(Rule(direction, key, Right.CARRY | Right.DROP))
            case "answer" if key == PERMISSION:
                grants = merged(grants, Grants(permission="narrow"))
            case "originate" if key == PROMPT:
                grants = merged(grants, Grants(turns="within"))
            case "modify" | "answer" if key.startswith(("mcp/", "_mcp/", "_scp/mcp")):
                grants = merged(grants, Grants(mcp="others"))
            case "modify":
                rules.append(Rule(direction, key, Right.CARRY))
            case _:
                rules.append(Rule(direction, key, _WORDS[word]))
    if not key.endswith("*") and not key.startswith("mcp"):
        for rule in rules:
            bound = row_of(rule.direction, rule.key)
            if rule.key != UPDATE and rule.rights & ~bound.most:
                lost = f"`{text}` gives no more than `{'+'.join(bound.most.words) or 'past'}` now"
    return Translated(tuple(rules), grants, lost)


def _is_old_originate(direction: Direction, key: str, words: list[str]) -> bool:
    """Whether a rule says in words of both ages what a grant says now."""
    asks = {"originate"} & set(words) if key == PROMPT else set()
    if key == PERMISSION:
        asks = {"answer"} & set(words)
    return bool(asks)


_LIFTED: Final[dict[str, Grants]] = {
    "permission-widening": Grants(permission="narrow"),
    "permission-answers": Grants(permission="narrow"),
    "mcp-connections": Grants(mcp="others"),
    "own-sessions": Grants(sessions="own"),
    "session-mode": Grants(modes=True),
    "tool-calls": Grants(texts=True),
    "unknown-methods": Grants(methods=("_*",)),
    "capability-claims": Grants(capabilities=("*",)),
}
"""What a lifted guard comes to; of all others nothing short of `trusted` is left."""


def lifted(guard: str) -> Translated:
    """What `unguard=GUARD` of older versions comes to."""
    found = _LIFTED.get(guard)
    if found is not None:
        return Translated((), found)
    if guard == "session-lifecycle":
        return Translated((Rule(Direction.DOWN, "session/cancel", Right.ORIGINATE),))
    return Translated(lost=f"the guard `{guard}` is lifted by `profile=trusted` only")


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
    "is_old",
    "lifted",
    "merged",
    "parse_rule",
    "read_rule",
    "shown",
]
