"""What `conductor inspect` shows of a component's policy.

Comes from the tables that enforce the policy (`conductor.core.policy`, `conductor.core.guards`), so
that the page cannot promise anything else.
"""

from __future__ import annotations

import msgspec

from conductor.core.guards import GUARDS
from conductor.core.policy.key_table import COPIES, ROWS, Direction, Right
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import GRANT_NAMES, SAYS, Policy
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
    """What a component may do to the conversation. A trusted one has no rules to enforce."""

    profile: str
    says: str
    """The profile in a sentence."""
    enforced: bool
    rights: list[HeldKeys] = []
    grants: list[str] = []
    """The named grants, those of its profile included: `turns=within`."""
    serves: bool = True
    """Whether it may have MCP servers of its own."""
    sees: list[str] = []
    """What the messages are about that it sees, in short."""
    unseen: list[str] = []
    """What some messages are about that it does not see."""
    changes: list[str] = []
    """What it may change or do besides, in short."""
    may: list[tuple[str, str]] = []
    """The rights for people: `["change", "prompts"]`."""
    guards: list[GuardFact] = []
    on_violation: str
    fails: str
    ids: str = ""
    hold: float | None = None

    @property
    def speaks(self) -> bool:
        """Whether any of its messages can reach anybody."""
        only_copies = all({*COPIES.words}.issuperset(held.rights) for held in self.rights)
        return not self.enforced or self.serves or bool(self.grants) or not only_copies


def facts(words: PolicyWords) -> PolicyFacts:
    """The facts of a component's policy."""
    policy = words.policy()
    if policy is None:
        return PolicyFacts(
            profile=words.profile,
            says=SAYS[words.profile],
            enforced=False,
            on_violation=words.on_violation,
            fails=words.fails,
        )
    grants = msgspec.structs.replace(policy.grants, turns=policy.turns)
    seen, unseen = policy_text.sees(policy, named)
    return PolicyFacts(
        profile=policy.profile,
        says=SAYS[policy.profile],
        enforced=True,
        rights=_held(policy),
        grants=grants.words(),
        serves=policy.serves,
        sees=seen,
        unseen=unseen,
        changes=policy_text.changes(policy, named),
        may=policy_text.may(policy),
        guards=[
            GuardFact(
                guard.name,
                guard.protects,
                guard.attack,
                guard.lifted_by,
                widener(guard.lifted_by) in grants.names(),
            )
            for guard in GUARDS
        ],
        on_violation=policy.on_violation,
        fails=policy.fails,
        ids=policy.ids,
        hold=policy.hold,
    )


def widener(lifted_by: str) -> str:
    """The grant in `methods=NAME` that widens a guard; empty if none does."""
    name = lifted_by.partition("=")[0]
    return name if name in GRANT_NAMES else ""


def _held(policy: Policy) -> list[HeldKeys]:
    """The rights on each key; keys with the same rights together."""
    groups: dict[tuple[Direction, Right], list[str]] = {}
    keys = [(row.direction, key) for row in ROWS for key in row.keys]
    keys += [(direction, method) for direction in Direction for method in policy.grants.methods]
    for direction, key in dict.fromkeys(keys):
        if rights := Right(policy.rights(direction, key)):
            groups.setdefault((direction, rights), []).append(key)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is Direction.UP)
    return [HeldKeys(direction.value, rights.words, keys) for (direction, rights), keys in ordered]
