"""What is reported of messages that take another way than straight on."""

from __future__ import annotations

from conductor.core import CHANNEL, Closure, Component, Effect, Router, Send, Trace
from conductor.core.policy.words import PolicyWords

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}'


def traced(effects: list[Effect]) -> list[tuple[str, str, str, str | None]]:
    """Kind, source, target and method of what effects report."""
    traces = [one for one in effects if isinstance(one, Trace)]
    return [(one.kind, one.source, one.target, one.method) for one in traces]


def test_a_refused_role_request_is_reported_although_nobody_else_gets_it() -> None:
    router = Router([Component("p"), Component("agent")], tracing=True)
    router.receive("client", INITIALIZE)
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"what?"}}'
    effects = router.receive("p", refusal)
    assert traced(effects) == [
        ("response", "p", "client", "initialize"),
        ("request", "client", "p", "_proxy/initialize"),
    ]
    assert any(isinstance(one, Send) and b"_proxy/initialize" in one.frame for one in effects)


def test_a_notification_that_passes_a_guest_by_is_reported_from_who_sent_it() -> None:
    guest = Component("p", "", CHANNEL, policy=PolicyWords("context").policy())
    router = Router([guest, Component("agent")], tracing=True)
    router.receive("client", INITIALIZE)
    router.receive("p", b's{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
    router.receive("agent", ANSWER)
    router.receive("p", b'p{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    effects = router.receive("agent", b'{"jsonrpc":"2.0","method":"session/update","params":{}}')
    assert traced(effects) == [("notification", "agent", "client", "session/update")]


def test_a_guest_that_only_watches_is_started_again_amid_the_handshake() -> None:
    """Its copy is answered when the original is, whichever of its instances waits for that."""
    guest = Component("p", "", CHANNEL, policy=PolicyWords("context").policy())
    router = Router([guest, Component("agent")])
    first = router.receive("client", INITIALIZE)
    assert {one.peer for one in first if isinstance(one, Send)} == {"p", "agent"}
    router.leaving("p", Closure("it died"))
    again = router.returned("p")
    assert [one.peer for one in again if isinstance(one, Send)] == ["p"]
    router.receive("p", b's{"jsonrpc":"2.0","id":5,"method":"initialize","params":{}}')
    answered = [one for one in router.receive("agent", ANSWER) if isinstance(one, Send)]
    assert {one.peer for one in answered} == {"client", "p"}
