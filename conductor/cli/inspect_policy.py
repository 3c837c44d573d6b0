"""The policy of a component, as `conductor inspect` shows it.

The facts come from the tables that enforce the policy (`conductor.core.policy`,
`conductor.core.guards`), so that the page cannot promise anything else.
"""

from __future__ import annotations

import msgspec

from conductor.core.guards import GUARDS
from conductor.core.policy import words
from conductor.core.policy.key_table import COPIES, ROWS, Direction, names_of
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.policy.rules import Policy
from conductor.spec import policy_text
from conductor.spec.consent.question import named


class HeldKeys(msgspec.Struct, frozen=True):
    """Rights on keys that go one direction: `down` to the agent, `up` to the client."""

    direction: str
    rights: list[str]
    keys: list[str]


class GuardFact(msgspec.Struct, frozen=True):
    """One guard, and whether a grant widens it for this component."""

    name: str
    protects: str
    attack: str
    lifted_by: str
    lifted: bool


class PolicyFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A component's rights in the conversation. A trusted one has no rules to enforce."""

    rights: list[str]
    """The words for its rights."""
    enforced: bool
    cells: list[HeldKeys] = []
    """The same rights by keys."""
    serves: bool = True
    """Whether it may have MCP servers of its own."""
    sees: list[str] = []
    """The subjects of the messages that it sees."""
    may: list[str] = []
    """Its other rights, the worst first."""
    guards: list[GuardFact] = []
    on_violation: str
    enforce: str = "all"
    """`watch`: it is only watched; `watch-rights`: its rights are."""
    fails: str
    ids: str = ""
    hold: float | None = None

    @property
    def speaks(self) -> bool:
        """Whether any of its messages can reach anybody."""
        only_copies = all({*names_of(COPIES)}.issuperset(held.rights) for held in self.cells)
        return not self.enforced or self.serves or not only_copies


def facts(held: PolicyWords) -> PolicyFacts:
    """The facts of a component's policy."""
    policy = held.policy()
    found = PolicyFacts(
        rights=list(held.rights),
        enforced=held.enforced,
        sees=policy_text.sees(held.rights),
        may=policy_text.may(words.services(held.rights) if policy is None else held.rights, named),
        on_violation=held.on_violation,
        enforce=held.enforce,
        fails=held.fails,
        ids=held.ids,
        hold=held.hold,
    )
    if policy is None:
        return found
    names = words.flat(held.rights)
    return msgspec.structs.replace(
        found,
        cells=_held(policy),
        serves=policy.serves,
        guards=[
            GuardFact(
                guard.name,
                guard.protects,
                guard.attack,
                guard.lifted_by,
                any(is_lifted(guard.lifted_by, name) for name in names),
            )
            for guard in GUARDS
        ],
    )


def is_lifted(lifted_by: str, name: str) -> bool:
    """Whether a word, or its verb, is among the words that widen a guard (`show, do`)."""
    widening = lifted_by.split(", ")
    return name in widening or name.partition(":")[0] in widening


def _held(policy: Policy) -> list[HeldKeys]:
    """The rights on each key; keys with the same rights together."""
    groups: dict[tuple[Direction, int], list[str]] = {}
    keys = [(row.direction, key) for row in ROWS for key in row.keys]
    keys += [(direction, method) for direction in Direction for method in policy.grants.methods]
    for direction, key in dict.fromkeys(keys):
        if rights := policy.rights(direction, key):
            groups.setdefault((direction, rights), []).append(key)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is Direction.UP)
    return [
        HeldKeys(direction.value, names_of(rights), keys) for (direction, rights), keys in ordered
    ]
