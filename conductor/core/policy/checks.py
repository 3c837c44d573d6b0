"""Whether a component may do what it does: its rights first, then the guards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from conductor.core import guards, jsonrpc
from conductor.core.effects import Closure, Effect, Violated
from conductor.core.guards import Violation
from conductor.core.guards.check import MOST_JUDGED
from conductor.core.json_text import too_many_values
from conductor.core.jsonrpc import INVALID_REQUEST, Params
from conductor.core.policy.headings import Heading
from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    NOTIFICATIONS,
    ORIGINATE,
    REQUESTS,
    Direction,
    Right,
    row_of,
)
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.rules import CHOICES

if TYPE_CHECKING:
    from conductor.core.exchange import Exchange
    from conductor.core.state import Carried, Peer, PendingRequest

_SAYS: Final = {
    ORIGINATE: "may not send `{}` of its own",
    CARRY: "may not change `{}`",
    AMEND: "may not change the answer to `{}`",
    ANSWER: "may not answer `{}`",
}

RIGHTS: Final = "rights"
"""The rule that is broken where a right is missing; all others are guards."""
IDENTITY: Final = "identity"
"""The rule that is broken by what is not the message it pretends to be."""
HOLD: Final = "hold"
"""The rule that is broken by holding a message for too long."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]{1,80}")

_decode = msgspec.json.Decoder().decode


def equal(one: Params | bytes, other: Params | bytes) -> bool:
    """Whether two payloads say the same, however they are spelled."""
    if one == other:
        return True
    if isinstance(one, msgspec.UnsetType) or isinstance(other, msgspec.UnsetType):
        return False
    if too_many_values(bytes(one), MOST_JUDGED) or too_many_values(bytes(other), MOST_JUDGED):
        return bytes(one) == bytes(other)
    try:
        return bool(_decode(one) == _decode(other))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return bytes(one) == bytes(other)


class Checks:
    """The checks, and how their outcome is told."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def originates(
        self,
        policy_state: PolicyState,
        direction: Direction,
        method: str,
        params: Params,
        rights: int,
        heading: Heading,
        *,
        asks: bool,
    ) -> Violation | None:
        """What is wrong with a message of the component's own; `asks`: it is a request."""
        if not policy_state.enforced:
            return None
        if not rights & ORIGINATE:
            return lacks(ORIGINATE, direction, heading.key)
        if method in (NOTIFICATIONS if asks else REQUESTS):
            form = "a request" if asks else "a notification"
            return Violation(RIGHTS, f"may not send `{method}` as {form}")
        context = self._context(policy_state, heading.session)
        return guards.originated(context, direction.value, method, params)

    def forwards(
        self,
        policy_state: PolicyState,
        direction: Direction,
        method: str,
        given: Params,
        sent: Params,
        rights: int,
        heading: Heading,
    ) -> Violation | None:
        """What is wrong with a message it was given going on as `sent`."""
        if given == sent or not policy_state.enforced:
            return None
        if not rights & CARRY:
            return None if equal(given, sent) else lacks(CARRY, direction, heading.key)
        context = self._context(policy_state, heading.session)
        return guards.forwarded(context, direction.value, method, given, sent)

    def answers(
        self,
        policy_state: PolicyState,
        carried: Carried,
        direction: Direction,
        member: bytes,
        body: bytes,
    ) -> Violation | None:
        """What is wrong with its answer to a request, of which `carried.upstream` came back."""
        upstream = carried.upstream
        if not policy_state.enforced or upstream == (member, body):
            return None
        needed = ANSWER if upstream is None else AMEND
        if not carried.rights & needed:
            if upstream is not None and upstream[0] == member and equal(body, upstream[1]):
                return None
            return lacks(needed, direction, carried.heading.key)
        return guards.answered(
            self._context(policy_state, carried.heading.session),
            direction.value,
            carried.method,
            carried.params,
            member,
            body,
            upstream,
        )

    # -- reports ---------------------------------------------------------------------------------

    def refuse(
        self,
        peer: Peer,
        direction: Direction,
        key: str,
        wrong: Violation,
        pending: PendingRequest,
        out: list[Effect],
    ) -> None:
        """Reports a violation, and tells the component which rule its request broke."""
        self.report(peer, direction, key, wrong, out)
        self._exchange.reply(pending, b"error", error(peer, wrong), out)

    @staticmethod
    def report(
        peer: Peer, direction: Direction, key: str, wrong: Violation, out: list[Effect]
    ) -> None:
        """Reports a violation."""
        owner, policy_state = peer.launched_by or peer, peer.policy_state
        assert policy_state is not None
        kind = (wrong.guard, direction.value, key)
        again = kind in policy_state.reported
        if not again and len(policy_state.reported) < 1024:
            policy_state.reported.add(kind)
        fatal = policy_state.policy.on_violation == "fail"
        text = sentence(owner, wrong)
        out.append(
            Violated(owner.name, wrong.guard, kind[1], key, wrong.pointer, text, fatal, again)
        )

    def _context(self, policy_state: PolicyState, session: str | None) -> guards.Context:
        known = self._exchange.sessions
        found = known.find(session)
        return guards.Context(
            version=self._exchange.version,
            grants=policy_state.policy.grants,
            servers=policy_state.servers,
            foreign=policy_state.foreign,
            answerable=policy_state.answerable,
            known=session is not None and session in known.ids,
            folders=known.folders if session is None else found.folders,
            commands=found.commands,
            modes=found.modes,
            options=found.options,
            added=found.added.get(policy_state.name, frozenset()),
            sessions=known.ids.keys(),
            own_sessions=known.own(policy_state.name)
            if policy_state.policy.grants.sessions
            else {},
            names=policy_state.names_of_others,
        )


def lacks(right: int, direction: Direction, key: str) -> Violation:
    """A missing right as a violation, with what to add for it."""
    return Violation(RIGHTS, f"{_SAYS[right].format(key)}\nhint: {_remedy(right, direction, key)}")


def _remedy(right: int, direction: Direction, key: str) -> str:
    row, wanted = row_of(direction, key), Right(right)
    word = wanted.words[0]
    if wanted & (row.full | row.more):
        return f"`,allow={direction.value}:{key}:{word}` lets it"
    for name, given in row.grants.items():
        if wanted & given:
            return f"`,{_written(name, key)}` lets it"
    return "only `,profile=trusted` lets it, which enforces nothing"


def _written(name: str, key: str) -> str:
    """A named grant that lets a component have to do with a key, as it is written behind one.

    A method is the component's own word: one that would read as more than a method is not shown.
    """
    match name:
        case "commands":
            return "commands=NAME"
        case "methods":
            return f"methods={key if _PLAIN.fullmatch(key) else 'NAME'}"
        case "editor":
            choices = (one for one in CHOICES[name] if one in key)
            return f"editor={next(choices, CHOICES[name][-1])}"
    return f"{name}={CHOICES[name][0]}" if name in CHOICES else name


def error(peer: Peer, wrong: Violation) -> bytes:
    """A violation as a JSON-RPC error object for who runs into it."""
    owner = peer.launched_by or peer
    data = {"rule": wrong.guard, "pointer": wrong.pointer, "component": owner.name}
    return jsonrpc.error_object(INVALID_REQUEST, sentence(owner, wrong), data)


def sentence(peer: Peer, wrong: Violation) -> str:
    """A violation as a sentence about a component."""
    joint = " " if wrong.guard in (RIGHTS, IDENTITY, HOLD) else ": "
    return f"{peer.label}{joint}{wrong.text}"


def closure(violation: Violated) -> Closure:
    """Why a component is ended whose violations are not tolerated."""
    return Closure(
        violation.text,
        f"it broke the rule `{violation.rule}`; `conductor inspect` shows its policy",
        {"component": violation.peer, "rule": violation.rule},
    )
