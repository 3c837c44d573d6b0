"""Entries of messages that take another way than straight on."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest

from conductor.core import CHANNEL, Closure, Component, Effect, Entry, LogLine, Propagate, Send
from conductor.core.policy.policy_words import PolicyWords
from conductor.core.router import Router, RouterOptions
from tests.harness.router.actors import FORMS, chain, conversation

KINDS: Final = (*FORMS, "scp", "channel")

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'


def traced(effects: list[Effect]) -> list[tuple[str, str, str, str | None]]:
    """Kind, source, target and method of the entries in effects."""
    traces = [one for one in effects if isinstance(one, Entry)]
    return [(one.kind, one.source, one.target, one.method) for one in traces]


def test_a_notification_that_nobody_is_there_for_is_reported_as_lost() -> None:
    router = Router([Component("agent")], options=RouterOptions(tracing=True))
    router.receive("client", INITIALIZE)
    router.receive("agent", ANSWER)
    router.closed("agent", Closure("gone"))
    (entry,) = [
        one
        for one in router.receive("client", b'{"jsonrpc":"2.0","method":"_n","params":{}}')
        if isinstance(one, Entry)
    ]
    assert (entry.source, entry.target, entry.method, entry.lost) == ("client", "agent", "_n", True)


def test_the_agent_alone_gets_a_context_and_only_in_the_params_of_requests() -> None:
    router = Router(
        [Component("p"), Component("agent")],
        options=RouterOptions(tracing=True, propagating=True),
    )
    assert not any(isinstance(one, Propagate) for one in router.receive("client", INITIALIZE))
    envelope = (
        b'{"jsonrpc":"2.0","id":%d,"method":"_proxy/successor",'
        b'"params":{"method":"%b","params":{"n":1}}}'
    )
    effects = router.receive("p", envelope % (7, b"initialize"))
    number = next(one.number for one in effects if isinstance(one, Entry))
    given = [one for one in effects if isinstance(one, Propagate | Send)]
    assert given == [Propagate("agent", b"1", "initialize", b'{"n":1}', number)]
    router = Router([Component("agent")], options=RouterOptions(tracing=True, propagating=True))
    router.receive("client", INITIALIZE)
    router.receive("agent", ANSWER)
    for plain in (b'{"jsonrpc":"2.0","id":2,"method":"x"}', b'{"jsonrpc":"2.0","method":"x"}'):
        assert {type(one) for one in router.receive("client", plain)} == {Entry, Send}


def test_nobody_is_told_another_byte_because_of_a_trace() -> None:
    """Nor because of an audit: over the conversations of the golden transcripts."""
    for kinds in (*((kind,) for kind in KINDS), KINDS, ("channel", "channel")):
        for told in (True, False):
            logs = [_log(kinds, told=told, **more) for more in ({}, *WATCHED)]
            assert logs[0] == logs[1] == logs[2], kinds


WATCHED: Final[tuple[dict[str, Any], ...]] = ({"tracing": True}, {"audited": True})


def _log(
    kinds: Sequence[str], *, told: bool, tracing: bool = False, audited: bool = False
) -> list[str]:
    stage = chain(kinds, told=told, tracing=tracing, audited=audited)
    conversation(stage)
    return stage.log


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told", [True, False])
def test_every_request_is_answered_by_whom_it_went_to(kind: str, told: bool) -> None:
    """Whatever dialect a proxy speaks, also while the router still finds the dialect out."""
    stage = chain([kind, "acp", kind], told=told, tracing=True)
    conversation(stage)
    found = [one for one in stage.effects if isinstance(one, Entry)]
    asked = Counter((one.number, one.source, one.target) for one in found if one.kind == "request")
    answered = Counter(
        (one.request, one.target, one.source) for one in found if one.kind == "response"
    )
    assert asked == answered
    assert all(one.source != one.target for one in found)
    for one in found:
        if one.passes:
            before = [other for other in found if other.number == one.passes]
            targets = {other.target.removesuffix("/successor") for other in before}
            assert one.source.removesuffix("/successor") in targets


def test_what_nobody_else_gets_is_answered_by_the_conductor() -> None:
    router = Router([Component("agent")], options=RouterOptions(tracing=True))
    effects = router.receive("client", b'{"jsonrpc":"2.0","id":7,"method":"session/new"}')
    request, response = (one for one in effects if isinstance(one, Entry))
    assert (request.source, request.target, request.id) == ("client", "", b"7")
    assert (response.source, response.target, response.own) == ("", "client", True)
    assert response.request == request.number < response.number


def guests(*names: str) -> Router:
    """Guests that carry prompts before an agent; `initialize` is done."""
    full = PolicyWords(("full",)).policy()
    components = [Component(name, "", CHANNEL, policy=full) for name in names]
    router = Router([*components, Component("agent")], options=RouterOptions(tracing=True))
    router.receive("client", INITIALIZE)
    for name in names:
        router.receive(name, b's{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    router.receive("agent", ANSWER)
    for name in reversed(names):
        router.receive(name, b'p{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    return router


ASKS: Final = b'"method":"session/prompt","params":{"sessionId":"S","prompt":[]}}'


def test_what_a_guest_that_is_gone_had_is_answered_there_before_it_goes_on() -> None:
    router = guests("a")
    router.receive("client", b'{"jsonrpc":"2.0","id":9,' + ASKS)
    effects = router.bypassed("a", Closure("it died"))
    back, on = (one for one in effects if isinstance(one, Entry))
    assert (back.kind, back.source, back.target) == ("response", "a", "client")
    assert (back.lost, back.own, back.payload) == (True, True, None)
    assert (on.kind, on.source, on.target, on.number) == (
        "request",
        "client",
        "agent",
        back.request,
    )


def test_a_guest_is_given_its_role_again() -> None:
    """The conductor gives the role, and also answers the request that the guest passes on."""
    router = guests("a")
    router.leaving("a", Closure("it died"))
    effects = router.returned("a")
    (frame,) = (one.frame for one in effects if isinstance(one, Send))
    id_ = re.findall(rb'"id":(\d+)', frame)[0]
    again = b'"id":%b,"method":"initialize","params":{}}' % id_
    effects += router.receive("a", b's{"jsonrpc":"2.0",' + again)
    effects += router.receive("a", b'p{"jsonrpc":"2.0","id":%b,"result":{}}' % id_)
    assert traced(effects) == [
        ("request", "", "a", "initialize"),
        ("request", "a", "", "initialize"),
        ("response", "", "a", "initialize"),
        ("response", "a", "", "initialize"),
    ]
    first, second, back, _ = (one for one in effects if isinstance(one, Entry))
    assert (second.passes, back.request) == (first.number, second.number)


def test_what_never_reached_anybody_is_not_reported() -> None:
    """`a` passes a prompt on to `b`, which is not there, and ends; the turn is cancelled."""
    router = guests("a", "b")
    router.leaving("b", Closure("it died"))
    given = router.receive("client", b'{"jsonrpc":"2.0","id":9,' + ASKS)
    (frame,) = (one.frame for one in given if isinstance(one, Send))
    id_ = re.findall(rb'"id":(\d+)', frame)[0]
    router.receive("a", b's{"jsonrpc":"2.0","id":%b,' % id_ + ASKS)
    router.bypassed("a", Closure("it died"))
    cancel = b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}'
    effects = router.receive("client", cancel)
    assert traced(effects) == [
        ("response", "a", "client", "session/prompt"),
        ("notification", "client", "agent", "session/cancel"),
    ]


def test_a_batch_is_of_so_many_messages() -> None:
    router = Router([Component("agent")], options=RouterOptions(tracing=True))
    router.receive("client", INITIALIZE)
    router.receive("agent", ANSWER)
    one, other = b'{"jsonrpc":"2.0","id":1,"method":"_a"}', b'{"jsonrpc":"2.0","method":"_b"}'
    effects = router.receive("client", b"[%b,%b]" % (one, other))
    first, second = (one for one in effects if isinstance(one, Entry))
    assert first.number < second.number


def test_a_turn_that_the_conductor_ends() -> None:
    """The cancellation of the turn, and that of its prompt, are the conductor's own."""
    router = Router([Component("agent")], options=RouterOptions(tracing=True))
    router.receive("client", INITIALIZE)
    router.receive("agent", ANSWER)
    prompt = b'{"sessionId":"S","prompt":[]}'
    asked = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":%b}' % prompt
    router.receive("client", asked)
    ((key, _),) = router.waiting_on("agent")
    effects = [e for e in router.end_turn("agent", key, Closure("quiet")) if isinstance(e, Entry)]
    assert [(one.method, one.source, one.own) for one in effects] == [
        ("session/cancel", "", True),
        ("$/cancel_request", "", True),
        ("session/prompt", "agent", True),
    ]
    assert effects[1].request == effects[2].request


def crossed(effects: list[Effect]) -> list[tuple[str, str, str, str, bytes]]:
    """Kind, source, target, method and payload of the entries in effects."""
    return [
        (one.kind, one.source, one.target, one.method, bytes(one.payload or b""))
        for one in effects
        if isinstance(one, Entry)
    ]


@pytest.mark.parametrize("hosts", [False, True])
def test_what_a_guest_asks_of_the_conductor_is_reported_and_no_report_of_a_host(
    hosts: bool,
) -> None:
    guest = Component("p", "", CHANNEL, configure=b'{"name":"p"}', hosts=hosts)
    router = Router([guest, Component("agent")], options=RouterOptions(logging=True))
    found = crossed(router.start())
    found += crossed(router.receive("p", b'c{"jsonrpc":"2.0","id":1,"method":"config"}'))
    found += crossed(router.receive("p", b'c{"jsonrpc":"2.0","method":"log","params":[]}'))
    found += crossed(router.receive("p", b'c{"jsonrpc":"2.0","id":2,"method":"what"}'))
    assert [one[:4] for one in found] == [] if hosts else [
        ("notification", "", "p", "configure"),
        ("request", "p", "", "config"),
        ("response", "", "p", "config"),
        ("notification", "p", "", "log"),
        ("request", "p", "", "what"),
        ("response", "", "p", "what"),
    ]  # fmt: skip
    if not hosts:
        assert (found[0][4], found[2][4], found[3][4]) == (b'{"name":"p"}', b'{"name":"p"}', b"[]")


def test_a_program_calls_services_by_other_names() -> None:
    router = Router([Component("p"), Component("agent")], options=RouterOptions(logging=True))
    router.receive("client", INITIALIZE)
    answer = router.receive("p", b'{"jsonrpc":"2.0","id":1,"method":"_conductor/config"}')
    note = router.receive("p", b'{"jsonrpc":"2.0","method":"_proxy/log","params":{}}')
    assert [one[:4] for one in crossed([*answer, *note])] == [
        ("request", "p", "", "config"), ("response", "", "p", "config"),
        ("notification", "p", "", "log"),
    ]  # fmt: skip


def test_a_trusted_guest_passes_on_what_has_its_id_though_nobody_watches() -> None:
    router = Router(
        [Component("p", "", CHANNEL), Component("agent")], options=RouterOptions(logging=True)
    )
    (given,) = (e for e in router.receive("client", INITIALIZE) if isinstance(e, Entry))
    line = b's{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"more":1}}'
    (onward,) = (e for e in router.receive("p", line) if isinstance(e, Entry))
    assert (onward.source, onward.target, onward.passes) == ("p", "agent", given.number)
    asked = b'{"jsonrpc":"2.0","id":%d,"method":"_m"}'
    router.receive("agent", ANSWER)
    router.receive("p", b'p{"jsonrpc":"2.0","id":1,"result":{}}')
    (given,) = (e for e in router.receive("client", asked % 5) if isinstance(e, Entry))
    passed = router.receive("p", b"s" + asked % 2)
    own = router.receive("p", b"s" + asked % 77)
    assert [e.passes for e in (*passed, *own) if isinstance(e, Entry)] == [given.number, 0]


HOST: Final = Component("a+b", "", CHANNEL, numbers=range(1000, 2000))


def host() -> Router:
    """A host of guests before an agent; `initialize` is done."""
    router = Router([HOST, Component("agent")], options=RouterOptions(tracing=True))
    router.receive("client", INITIALIZE)
    router.receive("a+b", b"#1001")
    router.receive("a+b", b's{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    router.receive("agent", ANSWER)
    router.receive("a+b", b"#1002")
    router.receive("a+b", b'p{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    return router


def numbers(effects: list[Effect]) -> list[int]:
    """The numbers of the entries in effects."""
    return [one.number for one in effects if isinstance(one, Entry)]


def test_a_host_is_told_the_number_of_each_message_and_says_those_of_its_own() -> None:
    router = host()
    effects = router.receive("client", b'{"jsonrpc":"2.0","method":"_n"}')
    (sent,) = (one for one in effects if isinstance(one, Send))
    (number,) = numbers(effects)
    assert sent.frame == b'#%d\np{"jsonrpc":"2.0","method":"_n"}\n' % number
    assert router.receive("a+b", b"#1003") == []
    assert numbers(router.receive("a+b", b's{"jsonrpc":"2.0","method":"_n"}')) == [1003]
    # A message that went past its guests keeps its number.
    router.receive("a+b", b"#%d" % number)
    assert numbers(router.receive("a+b", b's{"jsonrpc":"2.0","method":"_n"}')) == [number]


@pytest.mark.parametrize("said", [b"#2000", b"#7x", b"#-1", b"#", b"#" + b"1" * 40, b"#999999"])
def test_a_host_does_not_say_the_numbers_of_others(said: bytes) -> None:
    router = host()
    assert router.receive("a+b", said) == []
    (number,) = numbers(router.receive("a+b", b's{"jsonrpc":"2.0","method":"_n"}'))
    assert number not in (2000, 7, 999999)


def test_numbers_of_long_ago_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    router = host()
    line = b'{"jsonrpc":"2.0","method":"_n"}'
    (first,) = numbers(router.receive("client", line))
    monkeypatch.setattr("conductor.core.tracing._MOST_ANNOUNCED", 16)
    for _ in range(16):
        router.receive("client", line)
    router.receive("a+b", b"#%d" % first)
    assert numbers(router.receive("a+b", b"s" + line)) != [first]


def test_others_say_no_numbers() -> None:
    router = Router(
        [Component("p", "", CHANNEL), Component("agent")],
        options=RouterOptions(tracing=True),
    )
    (note,) = router.receive("p", b"#7")
    assert isinstance(note, LogLine)
    # Nor is one left behind by a line that was too long to be taken.
    router = host()
    router.receive("a+b", b"#1009")
    router.skipped("a+b", b's{"jsonrpc":"2.0","method":"_n"', "too long")
    assert numbers(router.receive("a+b", b's{"jsonrpc":"2.0","method":"_n"}')) != [1009]


def test_a_guest_that_only_watches_is_started_again_amid_the_handshake() -> None:
    """The guest's copy is answered when the original is, whichever instance waits for the
    answer."""
    guest = Component("p", "", CHANNEL, policy=PolicyWords(("context",)).policy())
    router = Router([guest, Component("agent")])
    first = router.receive("client", INITIALIZE)
    assert {one.peer for one in first if isinstance(one, Send)} == {"p", "agent"}
    router.leaving("p", Closure("it died"))
    again = router.returned("p")
    assert [one.peer for one in again if isinstance(one, Send)] == ["p"]
    router.receive("p", b's{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}')
    answered = [one for one in router.receive("agent", ANSWER) if isinstance(one, Send)]
    assert {one.peer for one in answered} == {"client", "p"}
