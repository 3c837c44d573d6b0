"""Whether a component may send a message: its rights first, then the guards."""

from __future__ import annotations

from typing import Final

import msgspec

from conductor.core import guards, json_text, jsonrpc
from conductor.core.aliases import named
from conductor.core.effects import Violated
from conductor.core.guards import Violation
from conductor.core.guards.reading import MOST_JUDGED
from conductor.core.json_text import too_many_values
from conductor.core.jsonrpc import INVALID_REQUEST, Malformed, Params
from conductor.core.parts import Part
from conductor.core.policy import words
from conductor.core.policy.entries import Notification
from conductor.core.policy.headings import Heading, Message
from conductor.core.policy.key_table import (
    AMEND,
    ANSWER,
    CARRY,
    DROP,
    NOTIFICATIONS,
    ORIGINATE,
    PROMPT,
    REQUESTS,
    Direction,
)
from conductor.core.policy.policy_state import PolicyState
from conductor.core.policy.states import IN_HAND
from conductor.core.state import Lane, Peer, Visit
from conductor.patterns import lazy_pattern

_MISSING: Final = {
    ORIGINATE: "may not send `{}` of its own",
    CARRY: "may not change `{}`",
    AMEND: "may not change the answer to `{}`",
    ANSWER: "may not answer `{}`",
}

RIGHTS: Final = "rights"
"""The rule that is broken where a right is missing; all others are guards."""
IDENTITY: Final = "identity"
"""The rule that is broken by a message under the id of another request."""
WATCH: Final = "watch"
"""The rule for a component that is only watched: none of its acts happens."""
HOLD: Final = "hold"
"""The rule that is broken by holding a message for too long."""

OWN_SESSIONS: Final = "own-sessions"
"""The guard whose rule is also broken by too many sessions of a component's own, and by messages in
the session that the user's was before it went on as one of the component's."""
_NAMES_NOTHING: Final = (
    "the id names nothing while the user's session goes on as this one\n"
    'hint: end that first: `rebind` with `"to"` equal to `"sessionId"`'
)

_PLAIN: Final = lazy_pattern(r"[A-Za-z0-9_./*\[\]-]{1,80}")

_decode = json_text.Decoder().decode


def equal(first: Params | bytes, second: Params | bytes) -> bool:
    """Whether two payloads are equal as JSON, however they are spelled."""
    if first == second:
        return True
    if isinstance(first, msgspec.UnsetType) or isinstance(second, msgspec.UnsetType):
        return False
    payloads = bytes(first), bytes(second)
    # Decoding a payload with too many values takes too long; equal bytes have been seen above.
    if any(too_many_values(payload, MOST_JUDGED) for payload in payloads):
        return payloads[0] == payloads[1]
    try:
        return bool(_decode(payloads[0]) == _decode(payloads[1]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return payloads[0] == payloads[1]


def same_answer(upstream: tuple[bytes, bytes] | None, member: bytes, body: bytes) -> bool:
    """Whether an answer is the one that came back, however it is spelled."""
    return upstream is not None and upstream[0] == member and equal(body, upstream[1])


class Checks(Part):
    """The checks, and the reports of violations."""

    def originates(
        self, lane: Lane, message: Message, rights: int, *, is_request: bool
    ) -> Violation | None:
        """The violation in a component's own message by `lane`; None: there is none."""
        policy_state, direction, method = lane.peer.policed, lane.direction, message.method
        judge = policy_state.judge
        if judge is None:
            return None
        violation = None
        if direction is Direction.DOWN and self._in_set_aside(policy_state, message):
            violation = Violation(OWN_SESSIONS, _NAMES_NOTHING)
        elif not policy_state.judged(direction, message.key, rights) & ORIGINATE:
            violation = lacks(policy_state, ORIGINATE, direction, message.key)
        elif method in (NOTIFICATIONS if is_request else REQUESTS):
            form = "a request" if is_request else "a notification"
            violation = Violation(RIGHTS, f"may not send `{method}` as {form}")
        else:
            context = self._context(policy_state, message.session)
            violation = guards.originated(context, direction.value, method, message.params)
        if violation is None and judge.watched:
            violation = Violation(WATCH, f"would send `{message.key}` of its own")
        return self._stands(lane, message.heading, violation)

    def _stands(
        self, lane: Lane, heading: Heading, violation: Violation | None
    ) -> Violation | None:
        """The violation, where the rule is enforced; else it is reported, and stops nothing."""
        if violation is not None and not lane.peer.policed.enforced:
            self.report(lane, heading, violation)
            return None
        return violation

    def _in_set_aside(self, policy_state: PolicyState, message: Message) -> bool:
        """Whether a message names the session that one of the user's was before it went on as one
        of the component's. There the component may only repeat a request of the client itself."""
        peer = self._exchange.peers[policy_state.name]
        lane = peer.p.other
        if lane.aliases is None or isinstance(message.params, msgspec.UnsetType):
            return False
        aside = [
            id_ for id_ in named(bytes(message.params)) if self._parts.names.is_set_aside(lane, id_)
        ]
        if aside != [message.session]:
            return bool(aside)
        was = self._parts.names.outermost(peer.p, lane.aliases.down[aside[0]])
        return not self._exchange.sessions.repeats(was, message.method, message.params)

    def forwards(
        self, lane: Lane, received: Notification | Visit | Message, sent: Params, rights: int
    ) -> Violation | None:
        """The violation in a message that a component was given, and sends on by `lane` with the
        params `sent`; None: there is none."""
        # The record itself, not its `message`: most messages leave unchanged, and need none.
        policy_state, direction = lane.peer.policed, lane.direction
        params, heading, judge = received.params, received.heading, policy_state.judge
        if params == sent or judge is None:
            return None
        if not policy_state.judged(direction, heading.key, rights) & CARRY:
            same = equal(params, sent)
            violation = None if same else lacks(policy_state, CARRY, direction, heading.key)
        elif heading.key == PROMPT and self._is_plain(heading.session, params, sent):
            violation = None
        else:
            context = self._context(policy_state, heading.session)
            violation = guards.forwarded(context, direction.value, received.method, params, sent)
        if violation is None and judge.watched and not equal(params, sent):
            violation = Violation(WATCH, f"would change `{heading.key}`")
        return self._stands(lane, heading, violation)

    def _is_plain(self, session: str | None, given: Params, sent: Params) -> bool:
        """Whether a changed prompt may go on, whoever has changed it: most may."""
        commands = self._exchange.sessions.find(session).commands
        return guards.changed_plainly(commands, given, sent)

    def answers(self, carried: Visit, member: bytes, body: bytes) -> Violation | None:
        """The violation in a component's answer to a request; None: there is none."""
        policy_state, upstream, lane = carried.policy_state, carried.upstream, carried.lane.other
        judge, heading, direction = policy_state.judge, carried.heading, lane.direction
        if judge is None or upstream == (member, body):
            return None
        needed = ANSWER if upstream is None else AMEND
        if not policy_state.judged(direction, heading.key, carried.rights) & needed:
            same = same_answer(upstream, member, body)
            violation = None if same else lacks(policy_state, needed, direction, heading.key)
        else:
            context = self._context(policy_state, heading.session)
            violation = guards.answered(
                context, direction.value, carried.method, carried.params, member, body, upstream
            )
        if violation is None and judge.watched and not same_answer(upstream, member, body):
            did = "would answer" if upstream is None else "would change the answer to"
            violation = Violation(WATCH, f"{did} `{heading.key}`")
        return self._stands(lane, heading, violation)

    def swallowed(self, lane: Lane, notification: Notification) -> None:
        """Reports a notification that its component, which is only watched, would drop."""
        policy, heading = lane.peer.policed.policy, notification.heading
        if policy.watched and lane.peer.policed.held(lane.direction, heading.key) & DROP:
            violation = Violation(WATCH, f"would drop `{heading.key}`")
            self.report(lane, heading, violation)

    # -- reports ---------------------------------------------------------------------------------

    def refuse(self, lane: Lane, heading: Heading, violation: Violation, pending: Visit) -> None:
        """Reports a violation, and answers the request that broke a rule with it."""
        self.report(lane, heading, violation)
        self._exchange.reply(pending, b"error", error(lane.peer, violation))

    def report(self, lane: Lane, heading: Heading, violation: Violation) -> None:
        """Reports a violation of the component that sends by `lane`, in the lane's direction.
        `heading`: the heading of the message."""
        peer, key = lane.peer, heading.key
        owner, policy_state = peer.launched_by or peer, peer.policed
        kind = (violation.guard, lane.direction.value, key)
        again = kind in policy_state.reported
        if not again and len(policy_state.reported) < 1024:
            policy_state.reported.add(kind)
        would = violation.guard == WATCH or not policy_state.enforced
        fatal = policy_state.policy.on_violation == "fail" and not would
        text = sentence(owner, violation)
        self._exchange.emit(
            Violated(
                owner.name,
                violation.guard,
                kind[1],
                key,
                violation.pointer,
                text,
                fatal,
                again,
                heading.session,
                would,
            )
        )

    def _context(self, policy_state: PolicyState, session: str | None) -> guards.Context:
        known = self._exchange.sessions
        held = known.find(session)
        judge = policy_state.judge or policy_state.policy
        return guards.Context(
            version=self._exchange.version,
            component=policy_state.name,
            grants=judge.grants,
            prompts=bool(judge.grants.turns),
            servers=policy_state.servers,
            foreign=policy_state.foreign,
            answerable=policy_state.answerable,
            terminals=self._terminals(policy_state, session),
            of_client=bool(judge.grants.editor) and known.is_of_client(session),
            known=session in known,
            folders=known.folders if session is None else held.folders,
            commands=held.commands,
            modes=held.modes,
            words=known.words,
            options=held.options,
            added=held.added.get(policy_state.name, frozenset()),
            sessions=known,
            own=bool(judge.grants.sessions) and known.is_client(policy_state.name, session),
            own_sessions=known.own(policy_state.name) if judge.grants.sessions else {},
            prompted=self._prompted(policy_state) if judge.grants.sessions else frozenset(),
            names=policy_state.names_of_others,
        )

    def _terminals(self, policy_state: PolicyState, session: str | None) -> frozenset[str]:
        """The terminals that a component has opened in a session."""
        if session is None or not policy_state.policy.grants.editor:
            return frozenset()
        peer = self._exchange.peers[policy_state.name]
        known = self._exchange.sessions.get(self._parts.names.outermost(peer.p, session))
        return frozenset(one for one, owner in known.terminals.items() if owner is peer)

    def _prompted(self, policy_state: PolicyState) -> frozenset[str]:
        """The sessions of which a component holds a prompt."""
        carried = self._exchange.peers[policy_state.name].s.in_flight.requests.values()
        return frozenset(
            one.heading.session
            for one in carried
            if one.method == PROMPT and one.state in IN_HAND and one.heading.session is not None
        )


def passes(policy_state: PolicyState, given: Params, sent: Params, rights: int) -> Params:
    """The params that go on of a message that broke no rule: if the component may not change it, it
    goes on as it came. In another spelling a name could stand twice, and the next reader could take
    the other value."""
    changes = rights & CARRY and not policy_state.policy.watched
    return sent if changes or not policy_state.enforced else given


def paused(peer: Peer, method: str) -> Malformed:
    """The error for a paused component's own message."""
    text = f"`{method}` of its own does not go on: {peer.label} is paused"
    return Malformed(INVALID_REQUEST, text)


def lacks(policy_state: PolicyState, right: int, direction: Direction, key: str) -> Violation:
    """The violation of a component that lacks a right, with the words that give it the right."""
    # The component chose the method: a text that would read as more than a method is not shown.
    word = words.word_for(direction, key if _PLAIN.fullmatch(key) else "_NAME", right)
    cure = words.cure(word or words.TRUSTED, policy_state.denied)
    return Violation(RIGHTS, f"{_MISSING[right].format(key)}\nhint: {cure}")


def error(peer: Peer, violation: Violation) -> bytes:
    """A violation as a JSON-RPC error object, for the peer that gets it as its answer."""
    wrong = refusal(peer, violation)
    return jsonrpc.error_object(wrong.code, wrong.text, wrong.data)


def refusal(peer: Peer, violation: Violation) -> Malformed:
    """A violation as the error for the request that broke a rule."""
    owner = peer.launched_by or peer
    data = {"rule": violation.guard, "pointer": violation.pointer, "component": owner.name}
    return Malformed(INVALID_REQUEST, sentence(owner, violation), data=data)


def sentence(peer: Peer, violation: Violation) -> str:
    """A violation as a sentence about a component."""
    joint = " " if violation.guard in (RIGHTS, IDENTITY, HOLD, WATCH) else ": "
    return f"{peer.label}{joint}{violation.text}"
