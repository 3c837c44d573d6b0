"""Logins by terminal: the client starts its agent's command for them, which is this conductor."""

from typing import Any, Final

import pytest

from conductor.core import Component
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import Json, component, error, request, result

INFO: Final = {"name": "n", "version": "1"}
CAN: Final = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}}
CAN_2: Final = {"protocolVersion": 2, "info": INFO, "capabilities": {"auth": {"terminal": {}}}}
CAN_AS_EVER: Final = {
    "protocolVersion": 1,
    "clientCapabilities": {"_meta": {"terminal-auth": True}},
}
CANNOT: Final = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": False}}}
SAYS_NOTHING: Final = {"protocolVersion": 1}
CANNOT_2: Final = {"protocolVersion": 2, "info": INFO, "capabilities": {"auth": {"terminal": None}}}

PLAIN: Final = {"id": "plain", "name": "An agent's own"}
OLD: Final = {
    "id": "old",
    "name": "Old",
    "_meta": {"terminal-auth": {"command": "c", "label": "l"}},
}
TUI: Final = {"id": "tui", "name": "Log in", "type": "terminal", "env": {"A": "b"}}
AUTH: Final = {**TUI, "args": ["--cli", "auth", "--agent-login=x"], "_meta": OLD["_meta"]}
AUTH_2: Final = {
    "methodId": "tui", "name": "Half \ud83d", "type": "terminal", "args": ["login"],
    "env": [{"name": "A", "value": "b"}],
}  # fmt: skip
OURS: Final = "--agent-login=agent"


def _agent(**more: Any) -> Component:
    return Component("agent", "agent `agent`", **more)


def _begins(pb: Playbook, params: Json, given: object) -> None:
    pb >> ("client", request("i", "initialize", params))
    pb << ("agent", request(Hole("i"), "initialize", params))
    answer = {"protocolVersion": params["protocolVersion"], "authMethods": given}
    pb >> ("agent", result(Hole("i"), answer))


def _shown(params: Json, methods: object) -> Json:
    return result("i", {"protocolVersion": params["protocolVersion"], "authMethods": methods})


@pytest.mark.parametrize(
    ("params", "given", "shown"),
    [
        (CAN, [PLAIN, TUI], [PLAIN, {**TUI, "args": [OURS]}]),
        (CAN, [{**TUI, "args": None}, OLD], [{**TUI, "args": [OURS]}, OLD]),
        (CAN, [AUTH], [{**AUTH, "args": [OURS, *AUTH["args"]]}]),
        (CAN_2, [AUTH_2], [{**AUTH_2, "args": [OURS, "login"]}]),
        (CAN_AS_EVER, [AUTH], [{**AUTH, "args": [OURS, *AUTH["args"]]}]),
        (CAN, [PLAIN, OLD, 5], [PLAIN, OLD, 5]),
        (CAN, None, None),
    ],
)
def test_an_argument_of_ours_stands_before_the_agents(
    params: Json, given: object, shown: object
) -> None:
    with Playbook(Router([_agent()])) as pb:
        _begins(pb, params, given)
        pb << ("client", _shown(params, shown))


@pytest.mark.parametrize("params", [CANNOT, CANNOT_2, SAYS_NOTHING])
def test_a_client_without_terminals_is_shown_no_login_by_terminal(params: Json) -> None:
    with Playbook(Router([_agent()])) as pb:
        _begins(pb, params, [TUI, PLAIN, OLD])
        pb << Noted("warning", "agent", "the login `Log in` needs a client that can start it")
        pb << ("client", _shown(params, [PLAIN, OLD]))


def test_an_agent_elsewhere_has_no_login_by_terminal() -> None:
    """Nor does the client see a command that older agents name: it would run on the client's
    machine."""
    with Playbook(Router([_agent(logins=False)])) as pb:
        _begins(pb, CAN, [TUI, PLAIN, OLD])
        pb << Noted("warning", "agent", "the login `Log in` works only where the agent runs")
        pb << Noted("warning", "agent", "the login `Old` works only where the agent runs")
        pb << ("client", _shown(CAN, [PLAIN]))


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        (b'"authMethods":[{"type":"term\\u0069nal","args":["--","sh"]}]', True),
        (b'"auth\\u004dethods":[{"type":"terminal","args":["--","sh"]}]', True),
        (b'"authMethods":[{"type":"terminal","args":["--","sh"]}],"authMethods":[]', False),
        (b'"authMethods":[{"Type":"Terminal"}]', True),
        (b'"authMethods":[{"type":"later","Args":["--","sh"]}]', True),
        (b'"authMethods":[{"_Meta":{"terminal-auth":{"command":"sh"}}}]', True),
        (b'"authMethods":{"type":"terminal"}', False),
    ],
)
def test_an_agent_elsewhere_has_nothing_started(listed: bytes, seen: bool) -> None:
    """However the agent writes the login: words that a client appends would be components of this
    chain."""
    with Playbook(Router([_agent(logins=False)])) as pb:
        pb >> ("client", request("i", "initialize", CAN))
        pb << ("agent", request(Hole("i"), "initialize", CAN))
        pb >> ("agent", b'{"jsonrpc":"2.0","id":1,"result":{%b}}' % listed)
        if seen:
            pb << Noted("warning", "agent", "works only where the agent runs")
        pb << ("client", result("i", {"authMethods": []}))


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"authMethods": [TUI, PLAIN]}, {"authMethods": [{**TUI, "args": [OURS]}, PLAIN]}),
        ({"authMethods": [{**TUI, "id": "else"}]}, {"authMethods": []}),
        ({"authMethods": [PLAIN]}, {"authMethods": [PLAIN]}),
        ("no authMethods", "no authMethods"),
    ],
)
def test_an_error_lists_logins_as_initialize_does(data: object, shown: object) -> None:
    with Playbook(Router([_agent()])) as pb:
        _begins(pb, CAN, [TUI])
        pb << ("client", _shown(CAN, [{**TUI, "args": [OURS]}]))
        pb >> ("client", request(1, "_x")) << ("agent", request(Hole("x"), "_x"))
        pb >> ("agent", error(Hole("x"), -32000, "log in", data))
        pb << ("client", error(1, -32000, "log in", shown))


@pytest.mark.parametrize(
    "invented",
    [{**TUI, "id": "mine", "args": ["-x"]}, {"type": "terminal", "name": "Log in", "id": 5}],
)
def test_what_the_agent_does_not_offer_is_no_login(invented: Json) -> None:
    with Playbook(Router([component("p", "acp"), _agent()])) as pb:
        pb >> ("client", request("i", "initialize", CAN))
        pb << ("p", request(Hole("i1"), "proxy/initialize", CAN))
        forwarded = {"method": "initialize", "params": CAN}
        pb >> ("p", request("f", "proxy/successor", forwarded))
        pb << ("agent", request(Hole("i2"), "initialize", CAN))
        answer = {"protocolVersion": 1, "authMethods": [TUI]}
        pb >> ("agent", result(Hole("i2"), answer)) << ("p", result("f", answer))
        pb >> ("p", result(Hole("i1"), {"protocolVersion": 1, "authMethods": [invented, TUI]}))
        pb << Noted("warning", "agent", "the login `Log in` is none that the agent offers")
        pb << ("client", _shown(CAN, [{**TUI, "args": [OURS]}]))
