"""What `conductor inspect` says of a component's policy, for people and machines.

Drawn from the tables the policy is enforced by (`conductor.core.policy`, `conductor.core.guards`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from conductor.core.guards import GUARDS
from conductor.core.policy.key_table import PROMPT, ROWS, Direction, Right, Row
from conductor.core.policy.rule_syntax import PolicyWords, parse_grant, parse_rule
from conductor.core.policy.rules import (
    GRANT_NAMES,
    PROFILES,
    SAYS,
    Grants,
    Policy,
    lacking,
    permits,
    within,
)

_DOWN, _UP = Direction.DOWN, Direction.UP

NAMES: Final[dict[tuple[Direction, str], str]] = {
    (_DOWN, "initialize"): "the handshake",
    (_DOWN, "session/new"): "a session's set-up",
    (_DOWN, "session/prompt"): "prompts",
    (_DOWN, "session/cancel"): "cancellations",
    (_UP, "session/update[user_message_chunk]"): "what is said, thought and planned",
    (_UP, "session/update[tool_call]"): "tool calls and notices",
    (_UP, "session/update[current_mode_update]"): "modes and options as they are told",
    (_UP, "session/update[available_commands_update]"): "lists of commands",
    (_UP, "session/update[terminal_update]"): "other updates",
    (_UP, "session/request_permission"): "requests for permission",
    (_UP, "fs/*"): "files, terminals and forms",
    (_DOWN, "authenticate"): "logins and providers",
    (_UP, "auth/*"): "questions about logins",
    (_DOWN, "session/set_mode"): "changes of modes and options",
    (_DOWN, "session/close"): "the ends of sessions",
    (_DOWN, "session/list"): "lists of sessions",
    (_UP, "mcp/*"): "calls of others' MCP servers",
    (_DOWN, "mcp/*"): "what others' MCP servers say",
}
"""What rows are about, by their first key. Those that only named grants open are told as such."""

RIGHTS: Final = {
    Right.CARRY: "change",
    Right.AMEND: "change answers to",
    Right.ANSWER: "answer",
    Right.DROP: "drop",
    Right.ORIGINATE: "send of its own",
}

GRANTS: Final = {
    "turns": "send prompts of its own, {}",
    "commands": "list and send commands: {}",
    "permission": "take options of permission requests away, and reject these",
    "mcp": "read, change and answer the traffic of others' MCP servers",
    "sessions": "open sessions of its own, and answer set-ups",
    "modes": "have modes and options of its own, and switch them",
    "editor": "reach the user beside the session: {}",
    "methods": "send, change and answer extension methods: {}",
    "texts": "change words inside tool calls, plans and notices",
    "capabilities": "claim capabilities: {}",
}
_TURNS: Final = {"within": "within a turn of the user's", "unprompted": "at any time"}


class Held(msgspec.Struct, frozen=True):
    """Rights held on keys that go one way: `down` to the agent, `up` to the client."""

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
    """What a component may do to the conversation. `enforced` is false for trusted ones only."""

    profile: str
    says: str
    """What the profile is, in a sentence."""
    enforced: bool
    rights: list[Held] = []
    grants: list[str] = []
    """What is granted by name, that of its profile included: `turns=within`."""
    serves: bool = True
    """Whether it may have MCP servers of its own."""
    may: list[tuple[str, str]] = []
    """The same for people: `["change", "prompts"]`."""
    guards: list[GuardFact] = []
    on_violation: str
    fails: str
    ids: str = ""
    hold: float | None = None

    @property
    def speaks(self) -> bool:
        """Whether anything it says can reach anybody."""
        watches = all(held.rights == ["copy"] for held in self.rights)
        return not self.enforced or self.serves or bool(self.grants) or not watches


def facts(words: PolicyWords) -> PolicyFacts:
    """The policy a component is given."""
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
    return PolicyFacts(
        profile=policy.profile,
        says=SAYS[policy.profile],
        enforced=True,
        rights=_held(policy),
        grants=grants.words(),
        serves=policy.serves,
        may=[*_may(policy), *_named(grants)],
        guards=[
            GuardFact(
                one.name,
                one.protects,
                one.attack,
                one.lifted_by,
                widener(one.lifted_by) in grants.names(),
            )
            for one in GUARDS
        ],
        on_violation=policy.on_violation,
        fails=policy.fails,
        ids=policy.ids,
        hold=policy.hold,
    )


def widener(lifted_by: str) -> str:
    """The grant that widens a guard, out of `methods=NAME`; empty: none does."""
    name = lifted_by.partition("=")[0]
    return name if name in GRANT_NAMES else ""


def _held(policy: Policy) -> list[Held]:
    """The rights by key, those with the same rights together."""
    groups: dict[tuple[Direction, Right], list[str]] = {}
    keys = [(row.direction, key) for row in ROWS for key in row.keys]
    keys += [(way, method) for way in Direction for method in policy.grants.methods]
    for way, key in dict.fromkeys(keys):
        if rights := Right(policy.rights(way, key)):
            groups.setdefault((way, rights), []).append(key)
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is _UP)
    return [Held(way.value, rights.words, keys) for (way, rights), keys in ordered]


def _may(given: Policy) -> list[tuple[str, str]]:
    """What it may do to which messages, by right; without what named grants add."""
    policy = msgspec.structs.replace(given, grants=Grants())
    rows = [row for row in ROWS if (row.direction, row.keys[0]) in NAMES]
    found = [(label, _about(policy, rows, right)) for right, label in RIGHTS.items()]
    if policy.serves:
        found.append(("serve", "MCP servers of its own"))
    copied = [row for row in rows if row.full & Right.COPY]
    seen = Right.COPY | Right.CARRY
    if all(policy.rights(row.direction, key) & seen.value for row in copied for key in row.keys):
        found.append(("get copies of", "all else but the traffic of MCP servers and extensions"))
    else:
        found.append(("get copies of", _about(policy, rows, Right.COPY, Right.CARRY)))
    return [(label, what) for label, what in found if what]


def _about(policy: Policy, rows: Iterable[Row], right: Right, other: Right = Right.NONE) -> str:
    """What the keys that hold a right, and not the other, are about."""
    found = []
    for row in rows:
        held = []
        if right is Right.ORIGINATE and PROMPT in row.keys:
            continue  # by `turns`, as a grant
        for key in row.keys:
            rights = Right(policy.rights(row.direction, key))
            if right in rights and not (other and other in rights):
                held.append(key)
        if len(held) == len(row.keys):
            found.append(NAMES[row.direction, row.keys[0]])
        else:
            found += [key.removeprefix("session/update").strip("[]") for key in held]
    return ", ".join(dict.fromkeys(found))


def _named(grants: Grants) -> list[tuple[str, str]]:
    """What the named grants let it do."""
    found = []
    for name in grants.names():
        value = getattr(grants, name)
        listed = ", ".join(value) if isinstance(value, tuple) else _TURNS.get(value, "")
        found.append((name, GRANTS[name].format("any" if listed == "*" else listed)))
    return found


def covers(given: PolicyWords, wanted: str) -> bool:
    """Whether a component may do all that the profile `wanted` would allow."""
    return wanted not in PROFILES or within(Policy(wanted), given.policy())


def allows(given: PolicyWords, rule: str) -> bool:
    """Whether a component may do what a rule (`up:session/update:carry`) says."""
    return permits(given.policy(), parse_rule(rule))


def gives(given: PolicyWords, grant: str) -> bool:
    """Whether a component is granted this by name (`turns=within`)."""
    policy = given.policy()
    if policy is None:
        return True
    held = msgspec.structs.replace(policy.grants, turns=policy.turns)
    return not lacking(parse_grant(grant), held).names()
