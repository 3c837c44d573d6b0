"""Verdicts on what policed components do, and what becomes of the copies observers are given."""

from __future__ import annotations

from typing import Final

import pytest
from conductor.core.copied import Copy
from conductor.core.copies import Copies, nobodys
from conductor.core.gate import ANSWER, MODIFY, OBSERVE, ORIGINATE, Gate
from conductor.core.tokens import Params, Token
from conductor.core.verdicts import VERBS, Verdicts, closure, lacks
from msgspec import UNSET, Raw

from conductor.core import CHANNEL, Closure, Component, Effect, Send, Violated
from conductor.core.detection import Handshake
from conductor.core.exchange import Exchange
from conductor.core.guards import Violation
from conductor.core.jsonrpc import INVALID_REQUEST, error_object
from conductor.core.link import Pending
from conductor.core.peer import Lane, Peer
from conductor.core.policy import NO_PROFILE, Direction, Policy, Rule, Verb
from conductor.core.topology import Role

DOWN, UP = Direction.DOWN, Direction.UP
FORM: Final = "elicitation/create"
PLAIN_ERROR: Final = (b"error", b'{"code":-1,"message":"no"}')
ANSWERED: Final = (b"result", b'{"protocolVersion":1,"agentCapabilities":{}}')
RESPELLED: Final = (b"result", b'{ "agentCapabilities": {}, "protocolVersion": 1 }')
RENAMED: Final = (
    b"result",
    b'{"protocolVersion":1,"agentCapabilities":{},"_meta":{"example.com/a":1}}',
)
CLAIMING: Final = (b"result", b'{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}')


def verdicts() -> Verdicts:
    found = Exchange([], None, tracing=False)
    found.version = 1
    return Verdicts(found)


def gate_of(*rules: tuple[Direction, str, Verb]) -> Gate:
    return Gate(Policy(NO_PROFILE, tuple(Rule(*rule) for rule in rules)))


def rule_of(violation: Violation | None) -> str | None:
    """The rule that is broken, if one is."""
    return None if violation is None else violation.guard


# -- verdicts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        (ORIGINATE, "may not send `_x` of its own"),
        (MODIFY, "may not change `_x`"),
        (ANSWER, "may not answer `_x`"),
    ],
)
def test_a_missing_verb_is_named(verb: int, text: str) -> None:
    assert lacks(verb, "_x") == Violation(VERBS, text, "")


@pytest.mark.parametrize(
    ("verbs", "method", "params", "rule"),
    [
        (Verb.MODIFY | Verb.ANSWER | Verb.OBSERVE, "_x", Raw(b"{}"), VERBS),
        (Verb.ORIGINATE, "_x", Raw(b"{}"), None),
        (Verb.ORIGINATE, "fs/read_text_file", Raw(b'{"path":"/x"}'), "files"),
    ],
)
def test_originating_takes_its_verb_and_keeps_to_the_guards(
    verbs: Verb, method: str, params: Params, rule: str | None
) -> None:
    gate = gate_of((UP, "*", verbs))
    assert rule_of(verdicts().originates(gate, UP, method, params)) == rule
    assert rule_of(verdicts().originates(gate, DOWN, method, params)) == VERBS


def test_a_lifted_guard_says_nothing() -> None:
    rules = (Rule(UP, "*", Verb.ORIGINATE),)
    gate = Gate(Policy(NO_PROFILE, rules, frozenset({"files"})))
    params = Raw(b'{"path":"/x"}')
    assert verdicts().originates(gate, UP, "fs/read_text_file", params) is None


@pytest.mark.parametrize(
    ("verbs", "sent", "rule"),
    [
        (Verb.NONE, b'{"sessionId":"S","a":1}', None),
        (Verb.NONE, b'{ "a": 1, "sessionId": "S" }', None),
        (Verb.OBSERVE | Verb.ANSWER | Verb.ORIGINATE, b'{"sessionId":"S","a":2}', VERBS),
        (Verb.MODIFY, b'{"sessionId":"S","a":2}', None),
        (Verb.MODIFY, b'{"sessionId":"T","a":1}', "session-target"),
    ],
)
def test_forwarding_something_else_takes_the_verb_to_change_it(
    verbs: Verb, sent: bytes, rule: str | None
) -> None:
    given = Raw(b'{"sessionId":"S","a":1}')
    gate = gate_of((DOWN, "_x", verbs))
    assert rule_of(verdicts().forwards(gate, DOWN, "_x", given, Raw(sent))) == rule


def asked(method: str, upstream: tuple[bytes, bytes] | None, *, cancelled: bool = False) -> Token:
    """A request of this method that was given to a component, and what came back for it."""
    peer = Peer(Component("p"), Role.PROXY, None)
    pending = Pending(None, b"1", b"1", method)
    pending.cancelled = cancelled
    token = Token(peer.p, method, Raw(b"{}"), pending, 1)
    token.upstream = upstream
    return token


@pytest.mark.parametrize(
    ("verbs", "cancelled", "answer", "rule"),
    [
        (Verb.MODIFY, False, PLAIN_ERROR, VERBS),
        (Verb.MODIFY, True, PLAIN_ERROR, None),
        (Verb.MODIFY, True, (b"result", b"{}"), VERBS),
        (Verb.ANSWER, False, PLAIN_ERROR, None),
        (Verb.ANSWER, False, (b"result", b"{}"), None),
    ],
)
def test_answering_in_the_place_of_others_takes_its_verb(
    verbs: Verb, cancelled: bool, answer: tuple[bytes, bytes], rule: str | None
) -> None:
    gate = gate_of((DOWN, "_x", verbs), (UP, "_x", Verb.MODIFY))
    token = asked("_x", None, cancelled=cancelled)
    assert rule_of(verdicts().answers(gate, token, DOWN, *answer)) == rule


@pytest.mark.parametrize(
    ("verbs", "answer", "rule"),
    [
        (Verb.NONE, (b"result", b'{"a":1}'), None),
        (Verb.NONE, (b"result", b'{ "a": 1 }'), None),
        (Verb.NONE, (b"error", b'{"a":1}'), VERBS),
        (Verb.NONE, (b"result", b'{"a":2}'), VERBS),
        (Verb.MODIFY, (b"result", b'{"a":2}'), None),
    ],
)
def test_changing_an_answer_takes_the_verb_of_its_direction(
    verbs: Verb, answer: tuple[bytes, bytes], rule: str | None
) -> None:
    gate = gate_of((DOWN, "_x", Verb.MODIFY | Verb.ANSWER), (UP, "_x", verbs))
    token = asked("_x", (b"result", b'{"a":1}'))
    assert rule_of(verdicts().answers(gate, token, DOWN, *answer)) == rule


def test_no_verb_lets_a_component_answer_what_a_guard_keeps() -> None:
    gate = gate_of((UP, FORM, Verb.ANSWER))
    token = asked(FORM, None)
    answer = (b"result", b'{"action":"accept","content":{}}')
    assert rule_of(verdicts().answers(gate, token, UP, *answer)) == "elicitation"


@pytest.mark.parametrize(
    ("down", "up", "upstream", "answer", "rule"),
    [
        (Verb.NONE, Verb.NONE, ANSWERED, ANSWERED, None),
        (Verb.NONE, Verb.NONE, ANSWERED, RESPELLED, None),
        (Verb.ANSWER, Verb.ANSWER, ANSWERED, RENAMED, VERBS),
        (Verb.ANSWER, Verb.ANSWER, ANSWERED, (b"error", ANSWERED[1]), VERBS),
        (Verb.NONE, Verb.MODIFY, ANSWERED, RENAMED, None),
        (Verb.NONE, Verb.MODIFY, ANSWERED, CLAIMING, "capability-claims"),
        (Verb.MODIFY, Verb.MODIFY, None, PLAIN_ERROR, VERBS),
        (Verb.ANSWER, Verb.NONE, None, PLAIN_ERROR, None),
    ],
)
def test_answers_to_initialize(
    down: Verb,
    up: Verb,
    upstream: tuple[bytes, bytes] | None,
    answer: tuple[bytes, bytes],
    rule: str | None,
) -> None:
    gate = gate_of((DOWN, "initialize", down), (UP, "initialize", up))
    params = Raw(b'{"protocolVersion":1}')
    assert rule_of(verdicts().initialized(gate, params, answer, upstream)) == rule


# -- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_violation", ["pass", "fail"])
def test_a_violation_is_reported_with_who_broke_what(on_violation: str) -> None:
    policy = Policy("filter", on_violation=on_violation)
    peer = Peer(Component("p", "proxy `p` (p.wasm)", policy=policy), Role.PROXY, CHANNEL)
    out: list[Effect] = []
    verdicts().report(peer, UP, "_x", lacks(ORIGINATE, "_x"), out)
    verdicts().report(peer, UP, "_x", Violation("meta", "it is odd", "/_meta"), out)
    fatal = on_violation == "fail"
    label = "proxy `p` (p.wasm)"
    odd = Violated("p", "meta", "up", "_x", "/_meta", f"{label}: it is odd", fatal)
    sent = Violated("p", VERBS, "up", "_x", "", f"{label} may not send `_x` of its own", fatal)
    assert out == [sent, odd]
    reason = closure(odd)
    assert reason == Closure(
        odd.text,
        "it broke the rule `meta`; `conductor inspect` shows its policy",
        {"component": "p", "rule": "meta"},
    )


def test_what_a_successor_connection_does_is_its_proxy_s() -> None:
    exchange = Exchange([], None, tracing=False)
    proxy = Peer(Component("p", policy=Policy("filter")), Role.PROXY, CHANNEL)
    launched = Peer(Component("p.successor"), Role.PROXY, CHANNEL)
    launched.launched_by = proxy
    pending = Pending(exchange.upstream.p, b'"a"', b'"a"', "_x")
    exchange.upstream.p.link.received[pending.key] = pending
    out: list[Effect] = []
    wrong = Violation("meta", "it is odd", "/_meta")
    Verdicts(exchange).refuse(launched, DOWN, "_x", wrong, pending, out)
    data = {"rule": "meta", "pointer": "/_meta", "component": "p"}
    body = error_object(INVALID_REQUEST, "`p`: it is odd", data)
    assert out == [
        Violated("p", "meta", "down", "_x", "/_meta", "`p`: it is odd", False),
        Send("client", b'{"jsonrpc":"2.0","id":"a","error":%b}\n' % body),
    ]
    assert pending.origin is None


# -- copies --------------------------------------------------------------------------------------


class Watched:
    """An observer `o` before an agent, and what its copies lead to."""

    def __init__(self, policy: Policy, *, ready: bool = True) -> None:
        dialect = CHANNEL if ready else None
        components = [Component("o", policy=policy, dialect=dialect), Component("agent")]
        self.exchange = Exchange(components, None, tracing=False)
        self.exchange.chain.settle_mode("agent")
        self.peer = self.exchange.peers["o"]
        self.copies = Copies(self.exchange)
        self.out: list[Effect] = []

    @property
    def gate(self) -> Gate:
        assert self.peer.gate is not None
        return self.peer.gate

    def initializing(self) -> None:
        """The observer is asked to initialize, and is not ready before it has."""
        self.peer.handshake = Handshake(nobodys("initialize"), UNSET, self.peer)

    def catch_up(self) -> None:
        """The observer is ready: it is given what has waited."""
        self.peer.ready = True
        backlog, self.peer.backlog = self.peer.backlog, []
        for resume in backlog:
            resume(self.out)

    def given(self) -> list[Effect]:
        """What was sent since it was last asked."""
        out, self.out[:] = list(self.out), []
        return out

    def copy(self, method: str, params: Params) -> Pending:
        """Gives it a copy of a request on its way down, which is what is returned."""
        original = Pending(None, b"7", b"7", method)
        self.copies.request(self.peer.p, method, params, original, self.out)
        return original

    def sends(self, id_: bytes, method: str) -> Pending:
        """A request it sends on."""
        pending = Pending(self.peer.s, id_, id_, method)
        self.peer.s.link.received[id_] = pending
        return pending

    def takes(self, verbs: int, method: str, params: Params, pending: Pending) -> bool:
        """Whether that request is but a copy coming back."""
        lane = self.peer.s
        return self.copies.take_request(lane, verbs, method, params, pending, self.out)


OBSERVER: Final = Policy("observer")
MAKER: Final = Policy("observer", (Rule(DOWN, "*", Verb.ORIGINATE),))


def note(method: bytes, params: bytes = b"") -> Send:
    """A copy of a notification, as the observer is given it."""
    rest = b',"params":%b' % params if params else b""
    return Send("o", b'p{"jsonrpc":"2.0","method":"%b"%b}\n' % (method, rest), True)


def ask(id_: bytes, method: bytes, params: bytes) -> Send:
    """A copy of a request, as the observer is given it."""
    frame = b'p{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}\n' % (id_, method, params)
    return Send("o", frame, True)


def reply(id_: bytes, body: bytes) -> Send:
    """The answer to what it has sent on, as the observer is given it."""
    return Send("o", b's{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id_, body), True)


def test_copies_of_notifications_are_counted() -> None:
    watched = Watched(OBSERVER)
    lane = watched.peer.p
    for params in (Raw(b"[1]"), UNSET):
        watched.copies.notification(lane, "_x", params, watched.out)
    assert watched.given() == [note(b"_x", b"[1]"), note(b"_x")]

    def takes(method: str, params: Params) -> bool:
        return watched.copies.take_notification(lane.other, OBSERVE, method, params)

    assert not takes("_y", UNSET)
    assert takes("_x", Raw(b'["whatever it says"]'))
    assert takes("_x", UNSET)
    assert not takes("_x", UNSET)


def test_copies_are_told_by_their_bytes_from_what_may_be_the_observer_s_own() -> None:
    watched = Watched(MAKER)
    lane = watched.peer.p
    watched.copies.notification(lane, "_x", Raw(b"[1]"), watched.out)
    assert watched.given() == [note(b"_x", b"[1]")]
    assert lane.other.way.copies == {}

    def takes(method: str, params: Params) -> bool:
        verbs = OBSERVE | ORIGINATE
        return watched.copies.take_notification(lane.other, verbs, method, params)

    assert not takes("_y", Raw(b"[1]"))
    assert not takes("_x", Raw(b"[2]"))
    assert takes("_x", Raw(b"[1]"))
    assert not takes("_x", Raw(b"[1]"))


def test_copies_wait_for_an_observer_that_is_being_initialized() -> None:
    watched = Watched(OBSERVER, ready=False)
    watched.initializing()
    watched.copies.notification(watched.peer.p, "_x", Raw(b"[1]"), watched.out)
    original = watched.copy("_y", Raw(b"[2]"))
    assert watched.given() == []
    watched.peer.speak(CHANNEL)
    watched.catch_up()
    assert watched.given() == [note(b"_x", b"[1]"), ask(b"1", b"_y", b"[2]")]
    assert len(original.followers) == 1


def test_only_so_many_copies_wait() -> None:
    watched = Watched(OBSERVER, ready=False)
    watched.initializing()
    for _ in range(4096):
        watched.copies.notification(watched.peer.p, "_x", UNSET, watched.out)
    assert watched.gate.lost == 0
    watched.copies.notification(watched.peer.p, "_x", UNSET, watched.out)
    watched.copy("_y", UNSET)
    assert watched.gate.lost == 2
    assert len(watched.peer.backlog) == 4096
    assert watched.given() == []


def test_only_so_many_bytes_of_copies_wait() -> None:
    watched = Watched(OBSERVER, ready=False)
    watched.initializing()
    large = Raw(b'["%b"]' % (b"x" * 10_000_000))
    for _ in range(2):
        for _ in range(3):
            watched.copies.notification(watched.peer.p, "_x", large, watched.out)
        watched.copy("_y", large)
        assert (watched.gate.lost, len(watched.peer.backlog)) == (1, 3)
        watched.gate.lost, watched.peer.backlog = 0, []  # it has been given them


@pytest.mark.parametrize("gone", [False, True])
def test_nobody_is_given_a_copy_who_will_not_be_there(gone: bool) -> None:
    watched = Watched(OBSERVER, ready=False)
    if gone:
        watched.initializing()
        watched.peer.closure = Closure("it is gone")
    watched.copies.notification(watched.peer.p, "_x", UNSET, watched.out)
    watched.copy("_y", UNSET)
    assert watched.peer.backlog == []
    assert watched.given() == []
    assert watched.gate.lost == 0


def test_what_an_observer_sends_on_is_answered_as_the_original_is() -> None:
    watched = Watched(OBSERVER)
    original = watched.copy("_x", Raw(b"[1]"))
    assert watched.given() == [ask(b"1", b"_x", b"[1]")]
    early = watched.sends(b"1", "_x")
    assert watched.takes(OBSERVE, "_x", Raw(b'["changed"]'), early)
    assert watched.given() == []
    watched.exchange.reply(original, b"result", b'"done"', watched.out)
    assert watched.given() == [reply(b"1", b'"done"')]
    assert not watched.takes(OBSERVE, "_x", Raw(b"[1]"), watched.sends(b"2", "_x"))


def test_what_an_observer_sends_on_late_is_answered_at_once() -> None:
    watched = Watched(OBSERVER)
    original = watched.copy("_x", Raw(b"[1]"))
    watched.exchange.reply(original, b"result", b'"done"', watched.out)
    assert watched.given() == [ask(b"1", b"_x", b"[1]")]
    assert watched.takes(OBSERVE, "_x", Raw(b"[1]"), watched.sends(b"1", "_x"))
    assert watched.given() == [reply(b"1", b'"done"')]


def test_of_several_copies_the_same_one_is_meant_else_the_oldest() -> None:
    watched = Watched(OBSERVER)
    for number in (1, 2, 3):
        original = watched.copy("_x", Raw(b"[%d]" % number))
        watched.exchange.reply(original, b"result", b"%d" % number, watched.out)
    watched.given()
    for id_, params in ((b"1", b"[3]"), (b"2", b"[9]"), (b"3", b"[9]")):
        assert watched.takes(OBSERVE, "_x", Raw(params), watched.sends(id_, "_x"))
    assert watched.given() == [reply(b"1", b"3"), reply(b"2", b"1"), reply(b"3", b"2")]


def test_a_request_that_may_be_the_observer_s_own_is_no_copy_unless_it_is_the_same() -> None:
    watched = Watched(MAKER)
    watched.copy("_x", Raw(b"[1]"))
    pending = watched.sends(b"1", "_x")
    assert not watched.takes(OBSERVE | ORIGINATE, "_x", Raw(b"[2]"), pending)
    assert not watched.takes(OBSERVE | ORIGINATE, "_y", Raw(b"[1]"), pending)
    assert watched.takes(OBSERVE | ORIGINATE, "_x", Raw(b"[1]"), pending)


def test_a_shadow_is_answered_as_its_original_is() -> None:
    watched = Watched(OBSERVER)
    original = Pending(None, b"7", b"7", "initialize")
    shadow = watched.copies.shadow(original, "initialize", UNSET)
    assert isinstance(shadow, Copy)
    for id_ in (b"1", b"2"):
        watched.copies.forwarded(shadow, watched.sends(id_, "initialize"), watched.out)
    assert watched.given() == []
    watched.exchange.reply(original, b"result", b"{}", watched.out)
    assert watched.given() == [reply(b"1", b"{}"), reply(b"2", b"{}")]
    assert shadow.forwarded == []


def cancelled(lane: Lane, id_: bytes) -> Send:
    return Send("o", lane.writer.cancel(id_))


def test_a_copy_is_cancelled_with_its_original() -> None:
    watched = Watched(OBSERVER)
    lane = watched.peer.p
    original = watched.copy("_x", Raw(b"[1]"))
    watched.exchange.cancel(original, watched.out)
    assert watched.given() == [ask(b"1", b"_x", b"[1]"), cancelled(lane, b"1")]
    late = Pending(None, b"8", b"8", "_x")
    late.cancelled = True
    watched.copies.request(lane, "_x", Raw(b"[2]"), late, watched.out)
    assert watched.given() == [ask(b"2", b"_x", b"[2]"), cancelled(lane, b"2")]
    assert late.followers == ()


def test_an_observer_s_answer_concerns_nobody() -> None:
    watched = Watched(OBSERVER)
    original = watched.copy("_x", Raw(b"[1]"))
    watched.given()
    shadow = watched.peer.p.link.sent.pop(b"1")
    watched.exchange.complete(shadow, b"result", b'"forged"', watched.out)
    assert watched.given() == []
    assert len(original.watchers) == 1  # it still has no answer


def test_an_observer_may_leave_copies_unanswered_for_ever() -> None:
    watched = Watched(OBSERVER)
    for _ in range(1030):
        watched.copy("_x", UNSET)
    waiting = list(watched.peer.p.link.sent)
    assert waiting == [b"%d" % number for number in range(7, 1031)]
