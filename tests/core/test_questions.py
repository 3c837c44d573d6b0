"""Messages of the conductor itself to the client and the policies: notices, reserved names."""

import json
from typing import Any

import pytest

from conductor.core import UPSTREAM, Component
from conductor.core.effects import Entry, Send
from conductor.core.router import Router, RouterOptions
from tests.harness.router.rules import held

NOTICES: dict[str, Any] = {"clientCapabilities": {"session": {"notices": {}}}}
INFO = {"info": {"name": "editor", "version": "1"}}


def started(params: object, *, version: int = 1, mode: str = "agent", **more: Any) -> Router:
    """A chain of an agent whose client has sent `initialize`."""
    router = Router([Component("agent")], mode, options=RouterOptions(**more))
    sent = router.receive(UPSTREAM, request("initialize", params))
    for effect in sent:
        if isinstance(effect, Send) and effect.peer == "agent":
            answer = {"jsonrpc": "2.0", "id": json.loads(effect.frame)["id"]}
            result = {"protocolVersion": version}
            router.receive("agent", json.dumps({**answer, "result": result}).encode())
    return router


def request(method: str, params: object) -> bytes:
    """A request as its line."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def notice(router: Router) -> list[Any] | None:
    """The effects of the router for a notice."""
    return router.notice("S", "it stays narrow")


@pytest.mark.parametrize(
    ("params", "version"),
    [({"protocolVersion": 1, **NOTICES}, 1), ({"protocolVersion": 2, **INFO}, 2)],
)
def test_a_client_that_shows_notices_gets_them(params: object, version: int) -> None:
    (sent,) = notice(started(params, version=version)) or []
    assert sent.peer == UPSTREAM
    assert json.loads(sent.frame) == {
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": "S",
            "update": {
                "sessionUpdate": "notice",
                "severity": "warning",
                "title": "it stays narrow",
            },
        },
    }


def test_without_a_client_there_is_no_notice() -> None:
    assert notice(Router([Component("agent")], "agent")) is None
    assert notice(Router([Component("p")], "proxy")) is None


def test_a_notice_is_in_a_trace_as_the_conductors_own() -> None:
    effects = notice(started({"protocolVersion": 1, **NOTICES}, tracing=True)) or []
    (trace,) = (effect for effect in effects if isinstance(effect, Entry))
    assert (trace.source, trace.target, trace.method) == ("", UPSTREAM, "session/update")


def test_reserved_names_may_grow() -> None:
    chain = [Component("p", policy=held("context")), Component("agent")]
    router = Router(chain, "agent", options=RouterOptions(reserved=("datetime",)))
    router.reserve(["later"])
    state = router.peers["p"].policy_state
    assert state is not None
    assert state.names_of_others == {"datetime", "later", "agent"}
