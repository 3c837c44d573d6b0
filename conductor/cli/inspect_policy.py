"""What `conductor inspect` shows of a component's policy.

Comes from the tables that enforce the policy (`conductor.core.policy`, `conductor.core.guards`), so
that the page cannot promise anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from conductor.core.guards import GUARDS
from conductor.core.policy.key_table import PROMPT, ROWS, Direction, Right, Row
from conductor.core.policy.rule_syntax import PolicyWords
from conductor.core.policy.rules import GRANT_NAMES, PROFILES, SAYS, Grants, Policy, within

_DOWN, _UP = Direction.DOWN, Direction.UP

NAMES: Final[dict[tuple[Direction, str], str]] = {
    (_DOWN, "initialize"): "the handshake",
    (_DOWN, "session/new"): "a session's set-up",
    (_DOWN, "session/prompt"): "prompts",
    (_DOWN, "session/cancel"): "cancellations",
    (_UP, "session/update[user_message_chunk]"): "messages, thoughts and plans",
    (_UP, "session/update[tool_call]"): "tool calls and notices",
    (_UP, "session/update[current_mode_update]"): "reports of modes and options",
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
    (_DOWN, "mcp/*"): "messages of others' MCP servers",
}
"""What the keys of a row are about, by the row's first key. `GRANTS` describes all other rows."""

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
    "permission": "remove options of permission requests, and reject the requests",
    "mcp": "read, change and answer the traffic of others' MCP servers",
    "sessions": "open sessions of its own, and answer set-ups",
    "modes": "have modes and options of its own, and switch them",
    "editor": "reach the user outside the session: {}",
    "methods": "send, change and answer extension methods: {}",
    "texts": "change words inside tool calls, plans and notices",
    "capabilities": "claim capabilities: {}",
}
_TURNS: Final = {"within": "during a turn of the user", "unprompted": "at any time"}


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
        only_copies = all(held.rights == ["copy"] for held in self.rights)
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
    ordered = sorted(groups.items(), key=lambda group: group[0][0] is _UP)
    return [HeldKeys(direction.value, rights.words, keys) for (direction, rights), keys in ordered]


def _may(whole: Policy) -> list[tuple[str, str]]:
    """What it may do to which messages, by right, without what named grants add."""
    policy = msgspec.structs.replace(whole, grants=Grants())
    rows = [row for row in ROWS if (row.direction, row.keys[0]) in NAMES]
    lines = [(label, _about(policy, rows, right)) for right, label in RIGHTS.items()]
    if policy.serves:
        lines.append(("serve", "MCP servers of its own"))
    copied = [row for row in rows if row.full & Right.COPY]
    seen = Right.COPY | Right.CARRY
    if all(policy.rights(row.direction, key) & seen.value for row in copied for key in row.keys):
        copies = "all else but the traffic of MCP servers and extensions"
    else:
        copies = _about(policy, rows, Right.COPY, without=Right.CARRY)
    return [(label, what) for label, what in [*lines, ("get copies of", copies)] if what]


def _about(policy: Policy, rows: Iterable[Row], right: Right, without: Right = Right.NONE) -> str:
    """What the keys are about on which it holds a right, and not the right `without`."""
    names: list[str] = []
    for row in rows:
        if right is Right.ORIGINATE and PROMPT in row.keys:
            continue  # the grant `turns` describes it
        held = []
        for key in row.keys:
            rights = Right(policy.rights(row.direction, key))
            if right in rights and not (without and without in rights):
                held.append(key)
        if len(held) == len(row.keys):
            names.append(NAMES[row.direction, row.keys[0]])
        else:
            names += [key.removeprefix("session/update").strip("[]") for key in held]
    return ", ".join(dict.fromkeys(names))


def _named(grants: Grants) -> list[tuple[str, str]]:
    """What the named grants let it do."""
    lines = []
    for name in grants.names():
        value = getattr(grants, name)
        listed = ", ".join(value) if isinstance(value, tuple) else _TURNS.get(value, "")
        lines.append((name, GRANTS[name].format("any" if listed == "*" else listed)))
    return lines


def covers(words: PolicyWords, wanted: str) -> bool:
    """Whether a policy allows all that the profile `wanted` would."""
    return wanted not in PROFILES or within(Policy(wanted), words.policy())
