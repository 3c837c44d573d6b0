"""Policies cell by cell, for tests of the engine: users write words instead."""

from typing import Any, Final

from conductor.core.policy import words
from conductor.core.policy.key_table import KINDS, RIGHTS, UPDATE, Direction, update
from conductor.core.policy.rules import Grants, Policy, Rule, merged

PROFILES: Final = tuple(name for name in words.SETS if name != words.TRUSTED)
"""The sets that the engine enforces."""


def held(profile: str) -> Policy:
    """The policy of a set, or of one word."""
    return words.policy(profile) or Policy()


def parse_rule(text: str) -> Rule:
    """A rule from `down:session/prompt:carry+answer`."""
    direction, key, rights = text.split(":")
    given = 0
    for name in rights.split("+"):
        given |= RIGHTS[name]
    return Rule(Direction(direction), key, given)


def parse_rules(text: str) -> tuple[Rule, ...]:
    """The same; `session/update` stands for updates of every kind."""
    rule = parse_rule(text)
    if rule.key != UPDATE:
        return (rule,)
    keys = (UPDATE, *map(update, (*sorted(KINDS), "*")))
    return tuple(Rule(rule.direction, key, rule.rights) for key in keys)


def parse_grant(text: str) -> Grants:
    """A named grant from `turns=within`, `commands=a+b` or `texts`."""
    name, equals, value = text.partition("=")
    several = isinstance(getattr(Grants(), name), tuple)
    given: Any = tuple(value.split("+")) if several else value if equals else True
    if isinstance(getattr(Grants(), name), bool):
        given = True
    return Grants(**{name: given})


_NONE: Final = Grants()


def policy_of(profile: str, *allow: str, grants: Grants = _NONE, **more: Any) -> Policy:
    """A policy of a set, with rules and grants beside it."""
    base = held(profile)
    rules = tuple(rule for text in allow for rule in parse_rules(text))
    return Policy((*base.rules, *rules), merged(base.grants, grants), **more)
