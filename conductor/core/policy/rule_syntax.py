"""How a policy is written: on a command line, in a manifest or a lock, and for a child process."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from conductor.core.policy.key_table import UPDATE, Direction, Right, row_of
from conductor.core.policy.rules import (
    CHOICES,
    GRANT_NAMES,
    PROFILE_NAMES,
    PROFILES,
    TRUSTED,
    Grants,
    Policy,
    Rule,
)
from conductor.errors import UnknownWordError

RIGHTS: Final = {right.name.lower(): right for right in Right if right.name and right.value}
"""The rights by the words that users write."""


def parse_rule(text: str) -> Rule:
    """A rule from `down:session/prompt:carry+answer`.

    Raises `ValueError` saying what is wrong with it.
    """
    parts = text.split(":")
    if len(parts) != 3 or not parts[1]:
        raise ValueError("write DIRECTION:METHOD:RIGHT, e.g. down:session/prompt:carry")
    direction, key, words = parts
    if direction not in ("down", "up"):
        raise ValueError(f"direction `{direction}` must be down or up")
    if "*" in key[:-1] and not key.endswith("[*]"):
        raise ValueError(f"`*` may only end a method: `{key}`")
    rights = Right.NONE
    for word in words.split("+"):
        if word not in RIGHTS:
            text = f"right `{word}` must be {', '.join(RIGHTS)}"
            raise UnknownWordError(text, word, RIGHTS)
        rights |= RIGHTS[word]
    return Rule(Direction(direction), key, rights)


def shown(rule: Rule) -> str:
    """A rule as it is written."""
    return f"{rule.direction.value}:{rule.key}:{'+'.join(rule.rights.words)}"


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
"""What may stand in the lists of grants, as a pattern and as a sentence."""


def read_grant(name: str, value: Any = True) -> Grants:
    """A named grant: `turns`, `within`. Raises `ValueError` saying what is wrong with it."""
    if name not in GRANT_NAMES:
        text = f"no grant `{name}`; grants are: {', '.join(GRANT_NAMES)}"
        raise UnknownWordError(text, name, GRANT_NAMES)
    if name in ("options", "texts"):
        if value not in (True, "yes", "true"):
            raise ValueError(f"is given as `{name}` alone, or as `{name}=yes`")
        return _grants(name, True)
    listed = value if isinstance(value, list) else str(value).split("+")
    words = tuple(dict.fromkeys(str(word) for word in listed if word)) if value is not True else ()
    choices = CHOICES.get(name)
    if choices is None:
        pattern, rule = _LISTS[name]
        if not words or not all(re.fullmatch(pattern, word) for word in words):
            raise ValueError(rule)
        return _grants(name, words)
    if not words or (unknown := [word for word in words if word not in choices]):
        wrong = f", not `{unknown[0]}`" if words else ""
        text = f"`{name}` is {' or '.join(choices)}{wrong}"
        raise UnknownWordError(text, unknown[0] if words else "", choices)
    return _grants(name, words if name == "editor" else max(words, key=choices.index))


def _grants(name: str, value: Any) -> Grants:
    given: dict[str, Any] = {name: value}
    return Grants(**given)


def parse_grant(text: str) -> Grants:
    """A named grant from `turns=within` or `texts`. Raises `ValueError`."""
    name, equals, value = text.partition("=")
    return read_grant(name, value if equals else True)


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
