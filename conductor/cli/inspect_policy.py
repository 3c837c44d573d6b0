"""What `conductor inspect` says of a component's policy: verbs and guards, for people and machines.

Drawn from the tables the policy is enforced by (`conductor.core.policy`, `conductor.core.guards`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core.guards import GUARDS
from conductor.core.policy import PROFILES, Direction, Policy, PolicyWords, Rule, Verb, parse_rule
from conductor.lock.compare import includes


class Held(msgspec.Struct, frozen=True):
    """Verbs held on methods that go one way: `down` to the agent, `up` to the client."""

    direction: str
    verbs: list[str]
    methods: list[str]


class GuardFact(msgspec.Struct, frozen=True):
    """One guard, and whether it was lifted for this component."""

    name: str
    protects: str
    attack: str
    lifted_by: str
    lifted: bool


class PolicyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a component may do to the conversation. `enforced` is false for trusted ones only."""

    profile: str
    enforced: bool
    verbs: list[Held] = []
    guards: list[GuardFact] = []
    on_violation: str

    @property
    def speaks(self) -> bool:
        """Whether anything it says can reach anybody."""
        return not self.enforced or any(held.verbs != ["observe"] for held in self.verbs)


def facts(words: PolicyWords) -> PolicyFacts:
    """The policy a component is given."""
    policy = words.policy()
    if policy is None:
        return PolicyFacts(profile=words.profile, enforced=False, on_violation=words.on_violation)
    guards = [
        GuardFact(one.name, one.protects, one.attack, one.lifted_by, one.name in policy.lifted)
        for one in GUARDS
    ]
    return PolicyFacts(
        profile=policy.profile,
        enforced=True,
        verbs=_held(policy.rules),
        guards=guards,
        on_violation=policy.on_violation,
    )


def _held(rules: tuple[Rule, ...]) -> list[Held]:
    """The rules, those with the same verbs together."""
    patterns: dict[tuple[Direction, str], Verb] = {}
    for rule in rules:
        key = rule.direction, rule.pattern
        patterns[key] = patterns.get(key, Verb.NONE) | rule.verbs
    groups: dict[tuple[Direction, Verb], list[str]] = {}
    for (direction, pattern), verbs in patterns.items():
        groups.setdefault((direction, verbs), []).append(pattern)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is Direction.UP)
    return [Held(way.value, verbs.words, methods) for (way, verbs), methods in ordered]


def covers(given: PolicyWords, wanted: str) -> bool:
    """Whether a component may do all that the profile `wanted` would allow."""
    policy = given.policy()
    if policy is None:
        return True
    return all(_granted(policy, rule) for rule in PROFILES.get(wanted, ()))


def allows(given: PolicyWords, rule: str) -> bool:
    """Whether a component may do what a rule (`up:session/update:modify`) says."""
    policy = given.policy()
    return policy is None or _granted(policy, parse_rule(rule))


def _granted(policy: Policy, wanted: Rule) -> bool:
    held = Verb.NONE
    for rule in policy.rules:
        if rule.direction is wanted.direction and includes(rule.pattern, wanted.pattern):
            held |= rule.verbs
    return held & wanted.verbs == wanted.verbs


_SEES: Final = frozenset({"modify", "answer"})
_WORDS: Final = {"modify": "change", "answer": "answer", "originate": "send of its own"}
_WAYS: Final = {"down": "towards the agent", "up": "towards the client"}


def sentence(held: Held) -> tuple[str, str]:
    """`("towards the agent", "see and change: session/prompt")`."""
    words = []
    if _SEES & set(held.verbs):
        words.append("see")
    elif "observe" in held.verbs:
        words.append("see a copy of")
    words += [word for verb, word in _WORDS.items() if verb in held.verbs]
    said = " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    methods = "every message" if held.methods == ["*"] else ", ".join(held.methods)
    return _WAYS[held.direction], f"{said}: {methods}"
