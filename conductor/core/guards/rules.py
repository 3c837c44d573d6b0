"""The context, the attempts and the breaches of rules; and the rules that fit many methods."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET

from conductor.core.guards.reading import (
    ABSENT,
    Absent,
    Document,
    Json,
    Object,
    Params,
    as_object,
    changes,
    difference,
    token,
)
from conductor.core.policy.rules import Grants


class Violation(msgspec.Struct, frozen=True):
    """An act that breaks a rule: the guard it ran into, one sentence, and the place in the message.

    `pointer` is a JSON pointer into the params, result or error that the component sent; empty
    where the whole message is meant.
    """

    guard: str
    text: str
    pointer: str = ""


class Context(msgspec.Struct, frozen=True):
    """The engine's knowledge of a component, its session and the chain when the component acts."""

    version: int | None = None
    """The chain's ACP version; None before it is settled. No rule depends on it: the names of all
    versions are guarded at all times."""
    component: str = ""
    """The component's name in its chain."""
    grants: Grants = Grants()
    prompts: bool = False
    """Whether it may prompt the agent by itself, in sessions of the user's."""
    servers: AbstractSet[str] = frozenset()
    """Addresses (see `servers.declared`) of the MCP servers that this component declared."""
    foreign: AbstractSet[str] = frozenset()
    """Addresses of the MCP servers that anybody else declared."""
    answerable: frozenset[str] = frozenset()
    """The methods it may answer."""
    terminals: AbstractSet[str] = frozenset()
    """Ids of the editor's terminals that this component has opened in the message's session."""
    of_client: bool = False
    """Whether the component reaches the editor, and the client works in the message's session."""
    known: bool = False
    """Whether the message's session was set up through this conductor."""
    folders: tuple[str, ...] = ()
    """The session's absolute folders: `cwd` and `additionalDirectories`."""
    commands: AbstractSet[str] = frozenset()
    """The commands that the session's agent lists, as a user types them (see
    `commands.spelled`)."""
    modes: AbstractSet[str] = frozenset()
    """Ids of the modes, models and options that the session's agent lists."""
    words: AbstractSet[str] = frozenset()
    """The agent's names of these in all sessions, as people read them (see `modes.words`)."""
    options: tuple[str, ...] = ()
    """The session's options that the agent lists, as canonical text."""
    added: AbstractSet[str] = frozenset()
    """Ids of options that this component has added to those of the agent."""
    sessions: Container[object] = frozenset()
    """Ids of all sessions of the chain."""
    own: bool = False
    """Whether the message is of a session that the agent made for this component."""
    own_sessions: Mapping[str, tuple[str, ...]] = {}
    """The sessions that this component opened or answered, with their folders."""
    prompted: AbstractSet[str] = frozenset()
    """The sessions of which it holds a prompt of the user's."""
    names: AbstractSet[str] = frozenset()
    """Names that its MCP servers may not have: of other components and of bundled ones, and those
    that the session declares."""


class Attempt(msgspec.Struct, eq=False):
    """One act of a component: it passes on params, sends its own, or answers a request."""

    context: Context
    direction: str
    """`down` or `up`: of the request, where this is an answer."""
    method: str
    """The method that a lenient peer takes the message for (`names.recognised`)."""
    sent: Document
    """The params, result or error that the component sends."""
    received: Document | None = None
    """The params it was given, or the result or error that came back to it; None where it acts by
    itself."""
    spelled: str = ""
    """The method as the component writes it, where the message is its own."""
    request: Params = UNSET
    """Of an answer: the params of the request, as the component received them."""
    outcome: bytes = b""
    """Of an answer: `result` or `error`."""
    came_back: bytes = b""
    """Of the answer that came back: `result` or `error`; empty where none came back."""
    # Read once, since a dozen rules look at them.
    before: Json | Absent = ABSENT
    """The value it received; `ABSENT` where it acts by itself."""
    after: Json = None
    """The value it sends."""
    old: Object = {}
    """`before` as an object; empty where it is none."""
    new: Object = {}
    """`after` as an object; empty where it is none."""

    def __post_init__(self) -> None:
        # A result and an error have nothing to compare: `outcomes` alone judges whether a component
        # may turn one into the other.
        if self.received is not None and self.came_back == self.outcome:
            self.before, self.old = self.received.value, as_object(self.received.value)
        self.after, self.new = self.sent.value, as_object(self.sent.value)


Breaches: TypeAlias = Iterator[tuple[str, str]]
"""The breaches of a rule, the most telling first: a sentence, and a JSON pointer to the place."""
Rule: TypeAlias = Callable[[Attempt], Breaches]


class Rules(msgspec.Struct, frozen=True):
    """The rules of a guard for some methods, by the act of the component.

    A method may end in `*`; of `session/update` a method may name a kind: `session/update[plan]`.
    """

    methods: tuple[str, ...]
    forwarded: Rule | None = None
    """It passes on params that it was given."""
    originated: Rule | None = None
    """It sends a message of its own."""
    answered: Rule | None = None
    """It answers with a result."""
    denied: Rule | None = None
    """It answers with an error."""


EVERY: Final = ("*",)
"""The methods of a rule about all messages."""
OTHERS: Final = ("",)
"""The methods of a rule about all methods that no other guard has a rule for."""


def stays(what: str, before: Object, after: Object, but: Container[str] = ()) -> Breaches:
    """No member of an object changes, nor is any added, but for those of `but`. A component's own
    message had no members before."""
    for name, was, now in changes(before, after, but):
        at = difference(was, now, token(name)) or ""
        yield f"{name!a:.80} of {what} may not be changed or added", at


def unchanged(attempt: Attempt) -> Breaches:
    """The params are passed on as they came."""
    at = difference(attempt.old, attempt.new)
    if at is not None:
        yield f"the params of `{attempt.method:.80}` may not be changed on their way", at


def not_originated(attempt: Attempt) -> Breaches:
    """No such message is a component's own."""
    to = "agent" if attempt.direction == "down" else "client"
    yield f"`{attempt.method:.80}` may not be originated towards the {to}", ""


def relayed_only(attempt: Attempt) -> Breaches:
    """A result is the answer of the other side; only errors may be a component's own."""
    if attempt.before is ABSENT:
        yield f"`{attempt.method:.80}` may be denied with an error, not answered with a result", ""
        return
    at = difference(attempt.before, attempt.after)
    if at is not None:
        yield f"the result of `{attempt.method:.80}` may not be changed on its way", at


def not_checked(attempt: Attempt) -> Breaches:
    """The engine decides by itself, before any guard is consulted."""
    yield from ()
