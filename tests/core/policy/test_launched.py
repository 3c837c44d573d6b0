"""A policed proxy of unknown dialect that answers `initialize` before it has passed it on."""

import pytest

from conductor.core import Component, Listen, Violated
from conductor.core.router import Router
from tests.harness.router.playbook import Hole, Noted, Playbook
from tests.harness.router.plays import error, request, result
from tests.harness.router.policed import policy

ASKED = {"protocolVersion": 1, "clientCapabilities": {}}
ANSWER = {"protocolVersion": 1, "agentCapabilities": {"loadSession": False}}
CLAIM = {
    "protocolVersion": 1,
    "agentCapabilities": {
        "loadSession": True,
        "_meta": {"symposium": {"version": "1.0", "proxy": True}},
    },
}


@pytest.mark.parametrize("silent", [True, False])
def test_it_may_not_answer_in_the_agents_place(*, silent: bool) -> None:
    held = Component("g", "proxy `g`", None, policy=policy(profile="full"))
    with Playbook(Router([held, Component("agent", "agent `agent`")])) as pb:
        pb >> ("client", request("i", "initialize", ASKED))
        pb << ("g", request(1, "proxy/initialize", ASKED))
        pb >> ("g", error(1, -32601, "")) << ("g", request(2, "_proxy/initialize", ASKED))
        pb >> ("g", error(2, -32601, "")) << ("g", request(3, "initialize", Hole("offer")))
        pb >> ("g", result(3, CLAIM)) << Listen("g")
        pb >> (lambda r: r.listening("g", b"{}"))
        pb << ("g", request(4, "_scp/proxy", {"servers": [{}]}))
        if silent:
            pb >> (lambda r: r.not_launching("g"))
            pb << Noted("warning", "g", "did not answer `_scp/proxy`")
        else:
            pb >> ("g", error(4, -32601, "what?"))
        broken = pb.effects.pop(0)
        assert isinstance(broken, Violated)
        assert "initialize" in broken.text
        pb << ("agent", request(1, "initialize", ASKED))
        pb >> ("agent", result(1, ANSWER)) << ("client", result("i", ANSWER))
